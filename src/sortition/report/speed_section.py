"""Show what the slowest fifth of the clients got, beside their share of the data, and how much time was saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sortition.core.arrays import Array, Ids
from sortition.core.choice_counts import ChoiceCounts
from sortition.report.markup import table_html
from sortition.results.table import Table

if TYPE_CHECKING:
    from sortition.report.gather import Gathered, Setting

SLOWEST_SHARE = 0.2  # the share of the clients that are the slowest
MEANING = (
    "The slowest fifth of the clients, by the seconds in which they train and send. Due: their share of all data. "
    "Weight: their share of the weights that were used. Chances: how often they were chosen, as a multiple of an even "
    "draw among the available. Never chosen: how many of those that were ever available. Time saved: how much shorter "
    "a round is, in the mean, than one of the baseline; below 0 it is longer. All are means over seeds."
)


@dataclass(frozen=True)
class SlowestFifth:
    """What the slowest fifth of the clients of one run got.

    Attributes:
        due: their share of all data.
        weight: their share of the weights that were used; NaN where no round was aggregated.
        chances: places that they had, over those of an even draw among the available; NaN where they never were.
        never_chosen: how many of those that were ever available were never chosen.
        seconds: simulated seconds of a round, in the mean.
    """

    due: float
    weight: float
    chances: float
    never_chosen: int
    seconds: float


def measure_slowest_fifth(
    records: Sequence[Mapping[str, Any]], federation: Mapping[str, Array], counts: Mapping[str, Array]
) -> SlowestFifth | None:
    """Return what the slowest got; None where devices are alike, or nothing says how fast they are."""
    seconds = federation.get("seconds")
    clock = records[-1].get("clock") if records else None
    if seconds is None or clock is None or "selected" not in counts:
        return None
    slowest = _slowest_ids(seconds)
    sizes = federation["sizes"]
    weight, n_steps = _weights_used(records, slowest)
    selected = counts["selected"]
    available = counts["available"]
    places_per_available_round = selected.sum() / max(available.sum(), 1)
    even_places = float((available * places_per_available_round)[slowest].sum())
    return SlowestFifth(
        due=float(sizes[slowest].sum() / max(sizes.sum(), 1)),
        weight=weight / n_steps if n_steps else float("nan"),
        chances=float(selected[slowest].sum()) / even_places if even_places > 0 else float("nan"),
        never_chosen=ChoiceCounts(selected[slowest], available[slowest]).never_chosen,
        seconds=float(clock) / len(records),
    )


def _slowest_ids(seconds: Array) -> Ids:
    """Return the ids of the slowest fifth, at least one; of clients that are equally slow, those with larger ids."""
    n_slowest = max(1, round(SLOWEST_SHARE * seconds.size))
    return np.argsort(seconds, kind="stable")[seconds.size - n_slowest :]


def _weights_used(records: Sequence[Mapping[str, Any]], clients: Ids) -> tuple[float, int]:
    """Return the weights of these clients, summed over steps in which all weights sum to 1, and how many steps."""
    weight = 0.0
    n_steps = 0
    for record in records:
        members = np.asarray(record.get("cohort") or (), np.int64)
        weights = np.asarray(record.get("weights") or (), np.float64)
        if "used" in record:
            members = np.asarray(record.get("answered") or (), np.int64)
            weights = np.asarray(record["used"], np.float64)
        elif record.get("answered") is not None:
            weights = weights * np.isin(members, record["answered"])
        if weights.sum() > 0:
            weight += float(weights[np.isin(members, clients)].sum() / weights.sum())
            n_steps += 1
    return weight, n_steps


def speed_html(gathered: Gathered) -> str:
    """Return one table a setting whose devices differ, a row a method; nothing where all devices are alike."""
    tables = [_speed_table(setting, several=len(gathered.settings) > 1) for setting in gathered.settings]
    return "".join(table_html(table) for table in tables if table is not None)


def _speed_table(setting: Setting, *, several: bool) -> Table | None:
    """Return the table of one setting; None where its devices are alike."""
    measured_by_method: dict[str, list[SlowestFifth]] = {}
    for label, runs in setting.methods.items():
        measured = [run.slowest for run in runs if run.slowest is not None]
        if measured:
            measured_by_method[label] = measured
    if not measured_by_method:
        return None
    baseline = measured_by_method.get(setting.baseline or "")
    columns = ["method", "weight of the slowest fifth", "due", "chances", "never chosen", "seconds a round"]
    if baseline is not None:
        columns.append(f"time saved against {setting.baseline}")
    title = f"What speed cost whom · {setting.name}" if several else "What speed cost whom"
    table = Table(title, columns, notes=[MEANING])
    for label, measured in measured_by_method.items():
        row = [
            label,
            _percent(_mean_of_runs(measured, "weight")),
            _percent(_mean_of_runs(measured, "due")),
            f"{_mean_of_runs(measured, 'chances'):.2f} ×",
            f"{_mean_of_runs(measured, 'never_chosen'):.1f}",
            f"{_mean_of_runs(measured, 'seconds'):.3g}",
        ]
        if baseline is not None:
            saved = 1 - _mean_of_runs(measured, "seconds") / _mean_of_runs(baseline, "seconds")
            row.append("–" if label == setting.baseline else _percent(saved))
        table.rows.append(row)
    return table


def _mean_of_runs(measured: Sequence[SlowestFifth], figure: str) -> float:
    """Return the mean of a figure over runs."""
    return float(np.mean([getattr(run, figure) for run in measured]))


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %".replace("-", "−")
