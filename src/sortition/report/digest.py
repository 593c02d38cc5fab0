"""One run folder, condensed: what the page needs of a run, and nothing that grows with its records afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sortition.core.arrays import Array, Floats
from sortition.core.cost import Currency, cumulative_costs
from sortition.core.mixtures import cohort_mixture, label_mixtures, population_mixture, total_variation
from sortition.report.guard_section import count_guard_actions
from sortition.report.policy_section import count_exclusions
from sortition.report.speed_section import SlowestFifth, measure_slowest_fifth
from sortition.results import fairness, metrics
from sortition.results.attrition import count_attrition, counts_per_client
from sortition.results.copies import fingerprint
from sortition.results.run_folder import Run
from sortition.results.task_metric import tested_metrics

# notes that are pictures of what a method saw; see docs/report.md
PICTURES = ("embedding", "graph", "coverage", "grouping")
TIMELINE = 80  # rounds whose cohorts are kept one by one
SIMILAR = 0.2  # the nearest fifth of all pairs of clients are similar
PAIRS_UP_TO = 500  # clients
Record = dict[str, Any]  # of a round, as rounds.jsonl has it


@dataclass
class Digest:
    """What is known of one run.

    Attributes:
        setting, method: names; ``method`` is the label.
        name: the name of the method, or its import path.
        seed: the seed of the run.
        done: whether it is finished.
        config, manifest: as the run folder has them.
        played: rounds so far.
        rounds: (E,) the evaluated rounds, 1-based.
        test: (E,) the test figures there by metric, such as accuracy and loss; NaN where they are not finite.
        costs: (E,) by currency, what the run had cost there.
        skew: (played,) distance of each cohort's label mixture from the population's (total variation, 0 … 1).
        figures: those of a finished run, by name; none of one that is not finished.
        bytes: total traffic by kind.
        questions: signal → how many clients were asked, in all rounds together.
        counts: (N,) times ``selected`` and ``available``, and more of a finished run.
        cohorts: those of the first rounds.
        skipped: rounds without a cohort.
        rejected: answers that guards refused.
        pictures: the latest picture of each kind among the notes, with its round.
        guarded: how often each guard acted.
        excluded: client-rounds that each rule of a policy left out.
        attrition: places by what became of them, and how often each fault occurred.
        slowest: what the slowest fifth of the clients got; None where devices are alike.
        diverged: whether the loss is not finite, or ends above that of guessing.
        fingerprint: a digest of what was measured, which no two seeds of a method share.
    """

    setting: str
    method: str
    name: str
    seed: int
    done: bool
    config: dict[str, Any]
    manifest: dict[str, Any]
    played: int
    rounds: Array
    test: dict[str, Floats]
    costs: dict[Currency, Floats]
    skew: Floats
    figures: dict[str, float | None]
    bytes: dict[str, float]
    questions: dict[str, int]
    counts: dict[str, Array]
    cohorts: list[list[int]]
    skipped: int
    rejected: int
    pictures: dict[str, tuple[int, Any]] = field(default_factory=dict)
    guarded: dict[str, int] = field(default_factory=dict)
    excluded: dict[str, int] = field(default_factory=dict)
    attrition: dict[str, int] = field(default_factory=dict)
    slowest: SlowestFifth | None = None
    diverged: bool = False
    fingerprint: str = ""


def condense(run: Run) -> Digest:
    """Read a run folder once, and return what the page needs of it."""
    records = run.records
    federation = run.federation()
    label_counts = federation.get("label_counts")
    counts = _selection_counts(records, federation, run.clients())
    figures: dict[str, float | None] = {}
    if run.done:
        figures = {
            **metrics.figures_of(run),
            "ms": metrics.selection_ms(run),
            "wall-clock": metrics.wall_clock(run),
            "sigma": _spread_among_similar(counts, label_counts),
        }
    return Digest(
        setting=run.setting,
        method=run.method,
        name=str(run.config.get("method", {}).get("name", "")),
        seed=run.seed,
        done=run.done,
        config=run.config,
        manifest=run.manifest,
        played=len(records),
        **_evaluations(records, tested_metrics(run.config)),
        skew=_cohort_skew(records, label_counts),
        figures=figures,
        bytes=_bytes_by_kind(records),
        questions=_asked_by_signal(records),
        counts=counts,
        cohorts=[list(record.get("cohort") or ()) for record in records[:TIMELINE]],
        skipped=sum(bool(record.get("skipped")) for record in records),
        rejected=sum(len(record.get("rejected") or ()) for record in records),
        pictures=pictures_in(records),
        guarded=count_guard_actions(records),
        excluded=count_exclusions(records),
        attrition=count_attrition(records),
        slowest=measure_slowest_fifth(records, federation, counts),
        diverged=metrics.diverged(run),
        fingerprint=fingerprint(run),
    )


def _evaluations(records: Sequence[Record], test_metrics: Sequence[str]) -> dict[str, Any]:
    """Return the columns of the rounds in which the model was tested."""
    is_tested = np.array([bool(record.get("test")) for record in records], bool)
    tested = [record for record in records if record.get("test")]
    return {
        "rounds": np.array([record["round"] + 1 for record in tested], np.int64),
        "test": {
            metric: np.array([record["test"].get(metric) for record in tested], np.float64)  # None becomes NaN
            for metric in test_metrics
        },
        "costs": {currency: costs[is_tested] for currency, costs in cumulative_costs(records).items()},
    }


def pictures_in(records: Sequence[Mapping[str, Any]], first: int = 1) -> dict[str, tuple[int, Any]]:
    """Return the latest picture of each kind, with its round, of which the first has this number."""
    pictures: dict[str, tuple[int, Any]] = {}
    for record in records:
        notes = record.get("notes") or {}
        for kind in PICTURES:
            if isinstance(notes.get(kind), dict):
                pictures[kind] = (record["round"] + first, notes[kind])
    return pictures


def _bytes_by_kind(records: Sequence[Record]) -> dict[str, float]:
    """Return the traffic of all rounds by kind."""
    totals: dict[str, float] = {}
    for record in records:
        for kind, value in (record.get("bytes") or {}).items():
            totals[kind] = totals.get(kind, 0.0) + float(value)
    return totals


def _asked_by_signal(records: Sequence[Record]) -> dict[str, int]:
    """Return how many clients were asked for each signal, in all rounds together."""
    asked_by_signal: dict[str, int] = {}
    for record in records:
        for question in record.get("questions") or ():
            signal = question["signal"]
            asked_by_signal[signal] = asked_by_signal.get(signal, 0) + int(question["asked"])
    return asked_by_signal


def _cohort_skew(records: Sequence[Record], label_counts: Array | None) -> Floats:
    """Return the distance between the labels behind each round's update and the population's; NaN without a cohort."""
    if label_counts is None:
        return np.empty(0)
    population = population_mixture(label_counts)
    mixtures = label_mixtures(label_counts)
    skew = np.full(len(records), np.nan)
    for row, record in enumerate(records):
        weights = np.asarray(record.get("weights") or (), np.float64)
        if weights.size and weights.sum() > 0:
            members = np.asarray(record["cohort"])
            skew[row] = total_variation(cohort_mixture(weights, mixtures[members]), population)
    return skew


def _selection_counts(
    records: Sequence[Record], federation: Mapping[str, Array], stored: Mapping[str, Array]
) -> dict[str, Array]:
    """Return times chosen and available (N,); recounted where the run is not finished and has stored none."""
    if "selected" in stored and "available" in stored:
        return {key: stored[key] for key in ("selected", "available", "completed", "accuracy") if key in stored}
    if "sizes" not in federation:
        return {}
    n_clients = federation["sizes"].size
    availability = federation.get("availability")
    available = np.full(n_clients, len(records))
    if availability is not None:
        available = availability[: len(records)].sum(axis=0)
    return {"selected": counts_per_client(records, n_clients)["selected"], "available": available}


def _spread_among_similar(counts: Mapping[str, Array], label_counts: Array | None) -> float | None:
    """Return LongFed's σ (eqs. 33, 34) with label mixtures in place of updates: spread of counts among similar clients.

    None where labels or counts are not known, and for federations too large for a table of pairs.
    """
    if label_counts is None or "selected" not in counts or not 1 < len(label_counts) <= PAIRS_UP_TO:
        return None
    mixtures = label_mixtures(label_counts)
    distance = total_variation(mixtures[:, None], mixtures[None])
    off_diagonal = ~np.eye(len(distance), dtype=bool)
    epsilon = float(np.quantile(distance[off_diagonal], SIMILAR))
    return fairness.sigma(counts["selected"], distance, np.nextafter(epsilon, np.inf))
