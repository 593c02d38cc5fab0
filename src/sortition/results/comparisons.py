"""A study's methods against its baseline, setting by setting: which figures are compared, and the result in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sortition.core.errors import InputError, bad
from sortition.results.metrics import HIGHER
from sortition.results.reference_lines import REFERENCES
from sortition.results.run_folder import INDEX, document
from sortition.results.statistics import EQUAL, UNDECIDED, Comparison, centre, compare

BASELINE = "uniform"
MARGIN = 0.5  # points of accuracy, or % of the baseline's loss, that are practically no difference
AROUND = 3  # a study's folder lies at most so far above a part of it: setting, method, seed
COMPARED = {"last": "last 10", "mean": "all rounds"}  # the end of the curve, and the area under it
Figures = Mapping[str, float | None]  # of one run, by name
Methods = Mapping[str, Mapping[int, Figures]]  # label → seed → figures


def metric_of(config: Mapping[str, Any]) -> str:
    """What a study is judged by: the metric of its target, else accuracy."""
    return "loss" if "loss" in config.get("target", {}) else "accuracy"


def margin_of(folders: Sequence[str | Path], given: float | None = None) -> float:
    """The region of practical equivalence: the one that is given, else that of the studies in these folders."""
    if given is not None:
        if not 0 < given < math.inf:
            raise bad("--margin", "> 0 points", given)
        return given
    found = {float(document(index).get("margin") or MARGIN) for one in folders for index in _indices(Path(one))}
    if len(found) > 1:
        listed = ", ".join(f"{one:g}" for one in sorted(found))
        raise InputError(f"The studies must have the same margin; got {listed}. Give one with --margin.")
    return next(iter(found), MARGIN)


def _indices(folder: Path) -> list[Path]:
    """The indices of the studies in a folder; of a part of a study, that of the study."""
    inside = sorted(folder.rglob(INDEX))
    around = [place / INDEX for place in folder.resolve().parents[:AROUND]]
    return inside or [path for path in around if path.exists()][:1] or [folder / INDEX]


def baseline_of(names: Mapping[str, str]) -> str | None:
    """The label that others are compared with, from label → method: ``uniform``, or else the first that is it."""
    return BASELINE if BASELINE in names else next((label for label, name in names.items() if name == BASELINE), None)


def against_baseline(
    methods: Methods, baseline: str | None, of: str, figure: str = "last", margin: float = MARGIN
) -> dict[str, Comparison]:
    """Every method's ``last`` or ``mean`` accuracy (or loss) against the baseline's; all of them are one family.

    Runs that ended at different rounds, as where they stop at a target, are not compared: the sooner one of them gets
    there, the more of its early rounds are in its means.
    """
    if baseline is None:
        return {}
    values = {
        label: {seed: found.get(f"{figure}-{of}") for seed, found in runs.items()}
        for label, runs in methods.items()
        if label not in REFERENCES
    }
    theirs = values.pop(baseline)
    middle = centre(list(theirs.values()))
    size = 0.0 if of == "accuracy" or middle is None else abs(middle.mean)
    scale = size if 0 < size < math.inf else 1.0
    region = margin / 100 * scale
    found = compare(theirs, values, higher=HIGHER[of], margin=region)
    for label, one in found.items():
        if _ended_apart(methods[label], methods[baseline]):
            found[label] = Comparison(one.seeds, math.nan, region, apart=True)
    return found


def _ended_apart(ours: Mapping[int, Figures], theirs: Mapping[int, Figures]) -> bool:
    """Whether runs of one seed played different numbers of rounds, where both are known."""
    pairs = [{one[seed].get("rounds") for one in (ours, theirs)} - {None} for seed in ours if seed in theirs]
    return any(len(pair) > 1 for pair in pairs)


def signed(value: float, digits: int) -> str:
    """A number with its sign, and a true minus."""
    return f"{value:+.{digits}f}".replace("-", "−")


def unit_of(of: str) -> tuple[float, int, str]:
    """Factor, digits and name of the unit in which differences are shown."""
    return (100.0, 2, "points") if of == "accuracy" else (1.0, 3, "")


def difference_text(one: Comparison | None, of: str) -> str:
    """``+1.25 [+0.80, +1.70]``, accuracy in points."""
    if one is None or math.isnan(one.difference):
        return "–"
    scale, digits, _ = unit_of(of)
    return signed(one.difference * scale, digits) + interval_text(one.low, one.high, of)


def interval_text(low: float, high: float, of: str) -> str:
    """`` [+0.80, +1.70]``; nothing where there is none."""
    scale, digits, _ = unit_of(of)
    return "" if math.isnan(low) else f" [{signed(low * scale, digits)}, {signed(high * scale, digits)}]"


def p_text(one: Comparison | None) -> str:
    """Three digits, as papers print it."""
    if one is None or math.isnan(one.low):
        return ""
    return "< 0.001" if one.p < 0.001 else f"{one.p:.3f}"


def verdict_text(one: Comparison | None) -> str:
    """The verdict, and how many seeds would decide where there is none."""
    if one is None:
        return ""
    needed = f" ({one.seeds_needed} seeds)" if one.verdict == UNDECIDED and one.seeds_needed else ""
    return one.verdict + needed


def role_text(label: str, baseline: str | None) -> str:
    """What a row is that is not compared."""
    if label in REFERENCES:
        return "reference"
    return "baseline" if label == baseline else "–"


def conclusions(
    methods: Methods, baseline: str | None, of: str, margin: float = MARGIN
) -> list[tuple[Comparison, str]]:
    """A sentence a method, the best first: by how much it differs from the baseline, at which traffic.

    Those without a difference come last.
    """
    found = against_baseline(methods, baseline, of, margin=margin)
    sizes = {label: one.difference * (-1 if HIGHER[of] else 1) for label, one in found.items()}
    order = sorted(found, key=lambda label: math.inf if math.isnan(sizes[label]) else sizes[label])
    return [(found[label], _sentence(label, str(baseline), found[label], of, methods)) for label in order]


def heading(of: str, baseline: str) -> str:
    """What stands above the sentences of :func:`conclusions`: which figure they compare."""
    unit = unit_of(of)[2]
    return f"Test {of} over the last 10 rounds against {baseline}{f', in {unit}' if unit else ''}:"


def _sentence(label: str, baseline: str, one: Comparison, of: str, methods: Methods) -> str:
    scale, digits, unit = unit_of(of)
    unit = f" {unit}" if unit else f" in {of}"
    size = f"{abs(one.difference) * scale:.{digits}f}"
    ends = sorted((abs(one.low) * scale, abs(one.high) * scale))
    cost = _traffic(methods, label, baseline)
    if one.verdict == EQUAL:
        inner = interval_text(one.inner_low, one.inner_high, of)
        size = f"{signed(one.difference * scale, digits)}{unit}, within ±{one.margin * scale:.3g}"
        return f"{label} and {baseline} are practically equal: {size}, 90 % interval{inner}{cost}."
    if one.verdict != UNDECIDED:
        verb = "beats" if one.verdict == "better" else "falls short of"
        return f"{label} {verb} {baseline} by {size}{unit} [{ends[0]:.{digits}f}, {ends[1]:.{digits}f}]{cost}."
    observed = "" if math.isnan(one.difference) else f"{signed(one.difference * scale, digits)}{unit}"
    observed += interval_text(one.low, one.high, of)
    return f"{label} against {baseline} is undecided: {observed}{'; ' if observed else ''}{_advice(one)}."


def _advice(one: Comparison) -> str:
    if one.apart:
        return "their runs ended at different rounds, so means over rounds cannot be compared"
    if math.isnan(one.difference):
        return "a run diverged"
    if one.seeds < 2:
        return "one seed shows no spread; run at least 5"
    needed = "more than 1,000" if one.seeds_needed is None else f"about {one.seeds_needed:,}"
    return f"{needed} seeds would decide ({one.seeds} were run)"


def _traffic(methods: Methods, label: str, baseline: str) -> str:
    """`` at the same traffic``, or how many times as much."""
    ours, theirs = (_bytes_a_round(methods[name]) for name in (label, baseline))
    if not ours or not theirs:
        return ""
    ratio = ours / theirs
    return " at the same traffic" if 0.95 < ratio < 1.05 else f" at {ratio:.2g}× the traffic"


def _bytes_a_round(runs: Mapping[int, Figures]) -> float | None:
    found = centre([_ratio(figures.get("megabytes"), figures.get("rounds")) for figures in runs.values()])
    return None if found is None else found.mean


def _ratio(whole: float | None, parts: float | None) -> float | None:
    return whole / parts if whole and parts else None
