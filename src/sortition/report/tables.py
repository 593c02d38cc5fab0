"""The main table: how good, how soon, better than uniform or not, how fair, at what cost; and the same for LaTeX."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from sortition.report.digest import Digest
from sortition.report.gather import Setting
from sortition.results.statistics import Paired, centre, holm, paired, verdict
from sortition.results.table import Table, mean_and_sd

OTHER = {"last 10": "last", "best": "best", "final": "final"}
WORDS = {"better": "good", "worse": "bad", "no difference shown": "even", "too few seeds to tell": "open"}


@dataclass
class Row:
    """One method in one setting."""

    label: str
    seeds: int
    finished: int
    difference: Paired | None
    verdict: str
    cells: dict[str, str]


def comparisons(setting: Setting, key: str | None = None) -> dict[str, Paired]:
    """Each method's last-10 mean (or another figure) against the baseline's, in pairs, Holm-corrected."""
    base, key = setting.baseline, key or f"last-{setting.metric}"
    if base is None:
        return {}
    theirs = {run.seed: run.figures.get(key) for run in setting.methods[base]}
    found = {
        label: one
        for label, runs in setting.methods.items()
        if label != base and (one := paired({run.seed: run.figures.get(key) for run in runs}, theirs))
    }
    return holm(found)


def speed_up(setting: Setting, label: str) -> str:
    """Geometric mean over seeds of the baseline's rounds to target over ours, where both reached it."""
    base, key = setting.baseline, "rounds-to-target-smoothed"
    if base is None or label == base:
        return ""
    theirs = {run.seed: run.figures.get(key) for run in setting.methods[base]}
    ratios: list[float | None] = []
    for run in setting.methods[label]:
        ours, other = run.figures.get(key), theirs.get(run.seed)
        ratios.append(other / ours if ours and other else None)
    found = centre(ratios, geometric=True)
    if found is None:
        return f"– (0/{len(ratios)})"
    return f"{found.mean:.2f}×" + ("" if found.known == found.total else f" ({found.known}/{found.total})")


MAIN = ("last 10", "− ", "rounds to target", "speed-up", "worst tenth", "Jain", "MB", "client passes", "ms/selection")


def rows(setting: Setting, whole: bool = True) -> list[Row]:
    """The table of one setting: all figures, or those that decide."""
    found, of = comparisons(setting), setting.metric
    other = "loss" if of == "accuracy" else "accuracy"
    made = []
    for label, runs in setting.methods.items():
        one = found.get(label)
        words = verdict(one, higher=setting.higher) if one else ("the baseline" if label == setting.baseline else "")
        cells = {
            f"last 10 {of}": _text(runs, f"last-{of}"),
            f"− {setting.baseline}": difference(one, of),
            f"best {of}": _text(runs, f"best-{of}"),
            f"final {of}": _text(runs, f"final-{of}"),
            "peak − final": _text(runs, f"peak-minus-final-{of}"),
            **{f"{name} {other}": _text(runs, f"{key}-{other}") for name, key in OTHER.items()},
            "first crossing": _reached(runs, "rounds-to-target"),
            "rounds to target": _reached(runs, "rounds-to-target-smoothed"),
            "speed-up": speed_up(setting, label),
            "worst tenth": _text(runs, "worst-tenth"),
            "Jain": _mean(runs, "jain", 3),
            "Gini": _mean(runs, "gini", 3),
            "count variance": _mean(runs, "count-variance", 2),
            "σ of similar": _mean(runs, "sigma", 2),
            "never chosen": _mean(runs, "never-selected", 1, 100, " %"),
            "MB": _mean(runs, "megabytes", 1),
            "client passes": thousands(_average(runs, lambda run: sum(run.passes.values()))),
            "ms/selection": _mean(runs, "ms", 2),
        }
        finished = sum(run.done for run in runs)
        shown = {k: v for k, v in cells.items() if k != "− None" and (whole or (k.startswith(MAIN) and other not in k))}
        made.append(Row(label, len(runs), finished, one, words, shown))
    return _useful(made)


def _useful(made: list[Row]) -> list[Row]:
    """Leave out columns that are empty in every row (no target, no hold-outs, no timings)."""
    empty = [key for key in made[0].cells if not any(row.cells[key].strip("– ") for row in made)] if made else []
    for row in made:
        for key in empty:
            row.cells.pop(key)
    return made


def table(setting: Setting) -> Table:
    """The same as texts, for Markdown and LaTeX."""
    made = rows(setting)
    columns = ["method", "seeds", *made[0].cells, "verdict"]
    return Table(setting.name, columns, [[row.label, str(row.seeds), *row.cells.values(), row.verdict] for row in made])


def latex(setting: Setting) -> str:
    """A booktabs table."""
    made = table(setting)
    escape = str.maketrans({"&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "±": r"$\pm$", "×": r"$\times$", "−": "--"})
    lines = [" & ".join(cell.translate(escape) for cell in row) + r" \\" for row in [made.columns, *made.rows]]
    head = [r"\begin{tabular}{l" + "r" * (len(made.columns) - 1) + "}", r"\toprule", lines[0], r"\midrule"]
    return "\n".join([*head, *lines[1:], r"\bottomrule", r"\end{tabular}", ""])


def difference(one: Paired | None, of: str) -> str:
    """``+1.25 [+0.80, +1.70]``, accuracy in points."""
    if one is None:
        return ""
    scale, digits = (100.0, 2) if of == "accuracy" else (1.0, 3)
    interval = "" if math.isnan(one.low) else f" [{one.low * scale:+.{digits}f}, {one.high * scale:+.{digits}f}]"
    return f"{one.mean * scale:+.{digits}f}{interval}"


def thousands(value: float | None) -> str:
    """``1.2 M``."""
    if value is None:
        return ""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def _text(runs: list[Digest], key: str) -> str:
    return mean_and_sd(centre([run.figures.get(key) for run in runs]), 3)


def _reached(runs: list[Digest], key: str) -> str:
    if not runs[0].config.get("target"):
        return ""
    return mean_and_sd(centre([run.figures.get(key) for run in runs]), 1, total=len(runs))


def _mean(runs: list[Digest], key: str, digits: int, scale: float = 1.0, unit: str = "") -> str:
    found = centre([run.figures.get(key) for run in runs])
    return "" if found is None else f"{found.mean * scale:.{digits}f}{unit}"


def _average(runs: list[Digest], of: Callable[[Digest], float]) -> float | None:
    return sum(of(run) for run in runs) / len(runs) if runs else None
