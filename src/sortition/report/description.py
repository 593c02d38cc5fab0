"""What was run: data, clients, availability, cohort, local work, model and seeds of a setting."""

from __future__ import annotations

from sortition.report.gather import Setting
from sortition.results.summary import inputs_of


def description(setting: Setting) -> str:
    """One sentence."""
    config = setting.first.config
    data, model, local = (config.get(key) or {} for key in ("data", "model", "local"))
    sizes = setting.federation.get("sizes")
    n = "?" if sizes is None else f"{sizes.size:,}"
    partition = (data.get("partition") or {}).get("name", "as given") if isinstance(data, dict) else "as given"
    mask = setting.availability
    reachable = "all of them always reachable"
    if mask is not None and not mask.all():
        reachable = f"{100 * mask.mean():.0f} % of them reachable on average"
    work = _counted(local["steps"], "step") if "steps" in local else _counted(local.get("epochs", 1), "epoch")
    named = [part.get("name", "?") if isinstance(part, dict) else str(part) for part in (data, model)]
    words = inputs_of(setting.first.manifest)
    inputs = f" Inputs: {words}" if words else ""
    aim = "" if setting.target is None else f" Target: {setting.metric} {setting.target:g}."
    return (
        f"{named[0]} over {n} clients ({partition}), {reachable}; {config.get('cohort', '?')} train in each of "
        f"{config.get('rounds', '?')} rounds, {work} of {local.get('batch', '?')} at rate {local.get('lr', '?')}, "
        f"model {named[1]}; {_counted(len(setting.seeds), 'seed')}.{inputs}{aim}"
    )


def _counted(number: float, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"
