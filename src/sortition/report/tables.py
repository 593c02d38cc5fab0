"""The main table: how good, how soon, better than uniform or not, how fair, at what cost; and the same for LaTeX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sortition.report.digest import Digest
from sortition.report.gather import Setting
from sortition.results.comparisons import against_baseline, difference_text, verdict_text
from sortition.results.statistics import BETTER, EQUAL, UNDECIDED, WORSE, Comparison, centre
from sortition.results.table import Table, mean_and_sd

OTHER = {"last 10": "last", "best": "best", "final": "final"}
COLOURS = {BETTER: "good", WORSE: "bad", EQUAL: "even", UNDECIDED: "open"}


@dataclass
class Row:
    """One method in one setting."""

    label: str
    seeds: int
    finished: int
    comparison: Comparison | None
    verdict: str
    cells: dict[str, str]


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
    of = setting.metric
    found = against_baseline(setting.figures, setting.baseline, of)
    other = "loss" if of == "accuracy" else "accuracy"
    made = []
    for label, runs in setting.methods.items():
        one = found.get(label)
        words = verdict_text(one) if one else ("the baseline" if label == setting.baseline else "")
        cells = {
            f"last 10 {of}": _text(runs, f"last-{of}"),
            f"− {setting.baseline}": difference_text(one, of) if one else "",
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
    return table(setting).latex()


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
