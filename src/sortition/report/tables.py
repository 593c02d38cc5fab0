"""The main table: how good, how soon, better than the baseline or not, how fair, at what cost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from sortition.report.digest import Digest
from sortition.report.gather import Setting
from sortition.results.reference_lines import REFERENCES
from sortition.results.statistics import BETTER, Centre, Comparison, centre
from sortition.results.table import Table, mean_and_sd
from sortition.results.verdict_words import cell_text, difference_text, p_text

BOLD = "Bold: shown better than the baseline, or least cost."


@dataclass(frozen=True)
class Column:
    """A heading, and what it says of a method.

    Attributes:
        title: the heading.
        text: of a method's cell.
        value: what the cell sorts by.
        main: whether it is among the few columns that decide.
        better: the methods that this figure shows to be better than the baseline.
        cost: whether it is counted, and less is better.
    """

    title: str
    text: Callable[[str], str]
    value: Callable[[str], float | None]
    main: bool = False
    better: Collection[str] = ()
    cost: bool = False


@dataclass
class Row:
    """One method in one setting."""

    label: str
    seeds: int
    finished: int
    diverged: int
    comparison: Comparison | None
    verdict: str
    cells: dict[str, str]
    values: dict[str, float | None]


def rows(setting: Setting, whole: bool = True) -> list[Row]:
    """The table of one setting: all figures, or those that decide. Columns that are empty everywhere are left out."""
    found = setting.compared()
    shown = [column for column in columns(setting) if whole or column.main]
    shown = [column for column in shown if any(column.text(label).strip("– ") for label in setting.methods)]
    return [
        Row(
            label=label,
            seeds=len(runs),
            finished=sum(run.done for run in runs),
            diverged=sum(run.diverged for run in runs),
            comparison=found.get(label),
            verdict=cell_text(label, found.get(label), setting.baseline),
            cells={column.title: column.text(label) for column in shown},
            values={column.title: column.value(label) for column in shown},
        )
        for label, runs in setting.methods.items()
    ]


def bold_cells(setting: Setting, made: Sequence[Row]) -> set[tuple[str, str]]:
    """(method, column) of what is shown better than the baseline, and of the least cost with all that look the same.

    Nothing is bold in other columns: their differences are not tested, and bold type would claim a winner.
    """
    found: set[tuple[str, str]] = set()
    for column in columns(setting):
        found |= {(label, column.title) for label in column.better}
        known = {row.label: v for row in made if (v := row.values.get(column.title)) is not None}
        known = {label: v for label, v in known.items() if label not in REFERENCES}
        if column.cost and known:
            texts = {label: column.text(label) for label in known}
            least = texts[min(known, key=lambda label: known[label])]
            if set(texts.values()) != {least}:
                found |= {(label, column.title) for label, text in texts.items() if text == least}
    return found


def columns(setting: Setting) -> list[Column]:
    """All that is known of a setting's methods."""
    of, other = setting.metric, "loss" if setting.metric == "accuracy" else "accuracy"
    unit = ", %" if of == "accuracy" else ""
    return [
        _compared(setting, "last", f"last 10{unit}", main=True),
        _difference(setting, "last", f"− {setting.baseline}", main=True),
        _p(setting),
        _compared(setting, "mean", f"all rounds{unit}"),
        _difference(setting, "mean", f"all rounds − {setting.baseline}"),
        _spread(setting, f"best{unit}", f"best-{of}", of),
        _spread(setting, f"final{unit}", f"final-{of}", of),
        _spread(setting, f"peak − final{unit}", f"peak-minus-final-{of}", of),
        _spread(setting, f"last 10 {other}", f"last-{other}", other),
        _spread(setting, f"final {other}", f"final-{other}", other),
        _rounds(setting, "first crossing", "rounds-to-target"),
        _rounds(setting, "rounds to target", "rounds-to-target-smoothed", main=True),
        Column("speed-up", lambda label: speed_up(setting, label), lambda label: _speed(setting, label), main=True),
        _spread(setting, "worst tenth, %", "worst-tenth", "accuracy", main=True),
        _mean(setting, "Jain", "jain", 3, main=True),
        _mean(setting, "Gini", "gini", 3),
        _mean(setting, "count variance", "count-variance", 2),
        _mean(setting, "spread among similar", "sigma", 2),
        _mean(setting, "never chosen, %", "never-selected", 1, scale=100),
        _mean(setting, "MB", "megabytes", 1, main=True, cost=True),
        Column(
            "client passes",
            lambda label: thousands(passes(setting.methods[label])),
            lambda label: passes(setting.methods[label]),
            main=True,
            cost=True,
        ),
        _mean(setting, "trainings", "trainings", 0),
        _mean(setting, "uploads", "uploads", 0),
        _mean(setting, "ms/selection", "ms", 2),
    ]


def _compared(setting: Setting, figure: str, title: str, main: bool = False) -> Column:
    found, of = setting.compared(figure), setting.metric
    better = [label for label, one in found.items() if one.verdict == BETTER]
    return replace(_spread(setting, title, f"{figure}-{of}", of, main), better=better)


def _spread(setting: Setting, title: str, key: str, of: str, main: bool = False) -> Column:
    scale, digits = (100.0, 1) if of == "accuracy" else (1.0, 3)
    return Column(
        title,
        lambda label: mean_and_sd(_centre(setting, label, key), digits, scale=scale),
        lambda label: setting.mean(label, key),
        main,
    )


def _mean(
    setting: Setting,
    title: str,
    key: str,
    digits: int,
    *,
    scale: float = 1.0,
    main: bool = False,
    cost: bool = False,
) -> Column:
    def text(label: str) -> str:
        value = setting.mean(label, key)
        return "" if value is None else f"{value * scale:.{digits}f}"

    return Column(title, text, lambda label: setting.mean(label, key), main, cost=cost)


def _rounds(setting: Setting, title: str, key: str, main: bool = False) -> Column:
    def text(label: str) -> str:
        total = sum(run.done for run in setting.methods[label])
        return "" if setting.target is None else mean_and_sd(_centre(setting, label, key), 1, total=total)

    return Column(title, text, lambda label: setting.mean(label, key), main)


def _difference(setting: Setting, figure: str, title: str, main: bool = False) -> Column:
    found = setting.compared(figure)
    return Column(
        title,
        lambda label: difference_text(found.get(label)),
        lambda label: found[label].difference if label in found else None,
        main,
    )


def _p(setting: Setting) -> Column:
    found = setting.compared()
    return Column(
        "p", lambda label: p_text(found.get(label)), lambda label: found[label].p if label in found else None, True
    )


def _centre(setting: Setting, label: str, key: str) -> Centre | None:
    return centre([run.figures.get(key) for run in setting.methods[label] if run.done])


def speed_up(setting: Setting, label: str) -> str:
    """Geometric mean over the finished pairs of the baseline's rounds to target over ours, where both reached it."""
    found = _ratios(setting, label)
    known = [ratio for ratio in found if ratio is not None]
    if not known:
        return f"– (0/{len(found)})" if found and setting.target is not None else ""
    return f"{_speed(setting, label):.2f}×" + ("" if len(known) == len(found) else f" ({len(known)}/{len(found)})")


def _speed(setting: Setting, label: str) -> float | None:
    found = centre(_ratios(setting, label), geometric=True)
    return None if found is None else found.mean


def _ratios(setting: Setting, label: str) -> list[float | None]:
    base, key = setting.baseline, "rounds-to-target-smoothed"
    if base is None or label in (base, *REFERENCES):
        return []
    theirs = {run.seed: run.figures.get(key) for run in setting.methods[base] if run.done}
    ours = [run for run in setting.methods[label] if run.done and run.seed in theirs]
    pairs = [(run.figures.get(key), theirs[run.seed]) for run in ours]
    return [other / ours if ours and other else None for ours, other in pairs]


def traffic_ratio(setting: Setting, label: str) -> str:
    """``1.50×`` the baseline's bytes in a round."""
    if setting.baseline is None or label == setting.baseline:
        return ""
    ours, theirs = (_traffic(setting.methods[name]) for name in (label, setting.baseline))
    return f"{ours / theirs:.2f}×" if ours and theirs else ""


def _traffic(runs: list[Digest]) -> float:
    done = [sum(run.bytes.values()) / max(run.played, 1) for run in runs if run.done]
    return sum(done) / max(len(done), 1)


def passes(runs: list[Digest]) -> float | None:
    """Examples that clients passed through the model, mean over seeds."""
    done = [sum(run.passes.values()) for run in runs if run.done]
    return sum(done) / len(done) if done else None


def table(setting: Setting, whole: bool = True) -> Table:
    """The same as texts, for export."""
    made = rows(setting, whole)
    heads = ["method", "seeds", *made[0].cells, "verdict"]
    return Table(setting.name, heads, [[row.label, str(row.seeds), *row.cells.values(), row.verdict] for row in made])


def thousands(value: float | None) -> str:
    """``1.2 M``."""
    if value is None:
        return ""
    value = float(f"{value:.3g}")
    for size, unit in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"
