"""What shadows did in recorded rounds: the remarks of all rounds, summed up per shadow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from sortition.core.round_record import RoundRecord, ShadowRecord
from sortition.results.table import Table


@dataclass
class ShadowSummary:
    """One shadow over all rounds.

    Attributes:
        rounds: in which it chose.
        failures: rounds in which it raised, or could not choose.
        reason: of the last failure.
        overlap: mean share of its cohort that the live method chose, too.
        mixture: mean distance of its label mixture from the population's; None where labels are unknown.
        evenness: Jain's index over all its rounds.
        never_chosen: clients that it could have chosen, and never would have.
        trainings: mean trainings a round that it would have cost.
        known: share of the answers that it wanted which clients had given anyway; None where it asked for none.
        unknown: signal → rows that it wanted, and nobody had sent.
    """

    rounds: int = 0
    failures: int = 0
    reason: str = ""
    overlap: float | None = None
    mixture: float | None = None
    evenness: float | None = None
    never_chosen: int | None = None
    trainings: float | None = None
    known: float | None = None
    unknown: dict[str, int] = field(default_factory=dict)


def shadow_summaries(records: Sequence[RoundRecord]) -> dict[str, ShadowSummary]:
    """Return what each shadow of these rounds did, by label."""
    remarks_by_label: dict[str, list[ShadowRecord]] = {}
    for record in records:
        for label, remark in (record.get("shadows") or {}).items():
            remarks_by_label.setdefault(label, []).append(remark)
    return {label: _summary(remarks) for label, remarks in remarks_by_label.items()}


def _summary(remarks: Sequence[ShadowRecord]) -> ShadowSummary:
    choices = [remark for remark in remarks if "cohort" in remark]
    failures = [remark for remark in remarks if "cohort" not in remark]
    summary = ShadowSummary(rounds=len(choices), failures=len(failures))
    if failures:
        summary.reason = failures[-1].get("error") or failures[-1].get("cannot") or ""
    if not choices:
        return summary
    last_choice = choices[-1]
    summary.overlap = _mean_of("overlap", choices)
    summary.mixture = _mean_of("mixture", choices)
    summary.trainings = _mean_of("trainings", choices)
    summary.evenness = last_choice.get("evenness")
    summary.never_chosen = last_choice.get("never_chosen")
    n_asked = sum(remark.get("asked", 0) for remark in choices)
    if n_asked:
        summary.known = sum(remark.get("known", 0) for remark in choices) / n_asked
    summary.unknown = _rows_unknown(choices)
    return summary


def _rows_unknown(choices: Sequence[ShadowRecord]) -> dict[str, int]:
    unknown: dict[str, int] = {}
    for remark in choices:
        for signal, rows in (remark.get("unknown") or {}).items():
            unknown[signal] = unknown.get(signal, 0) + rows
    return unknown


def _mean_of(figure: Literal["overlap", "mixture", "trainings"], choices: Sequence[ShadowRecord]) -> float | None:
    values = [float(remark[figure]) for remark in choices if figure in remark]
    return float(np.mean(values)) if values else None


def shadow_table(summaries: dict[str, ShadowSummary]) -> Table:
    """Make a table with one row a shadow."""
    notes = ["overlap: share of the shadow's cohort that was also chosen live. known: answers that it wanted and got."]
    for label, summary in summaries.items():
        if summary.unknown:
            rows = ", ".join(f"{count:,} of {signal}" for signal, count in summary.unknown.items())
            notes.append(f"{label} wanted rows that nobody had sent: {rows}.")
        if summary.failures:
            notes.append(f"{label} did not choose in {summary.failures} rounds: {summary.reason}.")
    table = Table(
        "Shadows: whom other methods chose beside the live one, from what it learnt",
        ["shadow", "rounds", "overlap", "Jain", "never chosen", "label distance", "trainings", "known"],
        notes=notes,
    )
    for label, summary in summaries.items():
        never_chosen = "–" if summary.never_chosen is None else f"{summary.never_chosen:,}"
        table.rows.append(
            [
                label,
                str(summary.rounds),
                _shown(summary.overlap, 2),
                _shown(summary.evenness, 2),
                never_chosen,
                _shown(summary.mixture, 3),
                _shown(summary.trainings, 1),
                _shown(summary.known, 2),
            ]
        )
    return table


def _shown(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
