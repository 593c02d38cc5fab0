"""The setting and the answer in words, so that 'not better than uniform here' is as easy to see as a win."""

from __future__ import annotations

from sortition.report import tables
from sortition.report.gather import Setting
from sortition.results.comparisons import conclusions


def description(setting: Setting) -> str:
    """What was run, in a sentence."""
    config = setting.first.config
    data, model, local = (config.get(key) or {} for key in ("data", "model", "local"))
    sizes = setting.federation.get("sizes")
    n = "?" if sizes is None else f"{sizes.size:,}"
    partition = (data.get("partition") or {}).get("name", "as given") if isinstance(data, dict) else "as given"
    mask = setting.federation.get("availability")
    there = (
        "all of them always there"
        if mask is None or mask.all()
        else f"{100 * mask.mean():.0f} % of them there on average"
    )
    work = f"{local['steps']} steps" if "steps" in local else f"{local.get('epochs', 1)} epochs"
    named = [part.get("name", "?") if isinstance(part, dict) else str(part) for part in (data, model)]
    target = config.get("target") or {}
    aim = f" Target: {setting.metric} {target[setting.metric]:g}." if setting.metric in target else ""
    return (
        f"{named[0]} over {n} clients ({partition}), {there}; {config.get('cohort', '?')} train in each of "
        f"{config.get('rounds', '?')} rounds, {work} of {local.get('batch', '?')} at rate {local.get('lr', '?')}, "
        f"model {named[1]}; {len(setting.seeds)} seeds.{aim}"
    )


def verdict_lines(setting: Setting) -> list[tuple[str, str]]:
    """One line a method: kind for its colour, and the verdict with size and cost."""
    if setting.baseline is None:
        return [("even", "Uniform is not among the methods, so there is nothing to compare with.")]
    found = conclusions(setting.figures, setting.baseline, setting.metric)
    if not found:
        return [("even", "Only one method was run: there is nothing to compare.")]
    return [(tables.COLOURS[one.verdict], sentence) for one, sentence in found]
