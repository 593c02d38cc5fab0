"""One run folder, condensed: what the page needs of a run, and nothing that grows with its records afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sortition.core.arrays import Array, Floats
from sortition.report.guard_section import actions
from sortition.results import fairness, metrics
from sortition.results.attrition import attrition
from sortition.results.copies import fingerprint
from sortition.results.run_folder import Run

# notes that are pictures of what a method saw; see docs/report.md
PICTURES = ("embedding", "graph", "coverage", "grouping")
TIMELINE = 80  # rounds whose cohorts are kept one by one
SIMILAR = 0.2  # the nearest fifth of all pairs of clients are similar
PAIRS_UP_TO = 500  # clients


@dataclass
class Digest:
    """What is known of one run.

    Attributes:
        rounds, accuracy, loss, clock, megabytes: the evaluated rounds (1-based) and, there, the test figures, the
            simulated seconds and the traffic so far.
        skew: per round, distance of the cohort's label mixture from the population's (total variation, 0 … 1).
        bytes: total traffic by kind; ``passes`` the clients' computing by kind.
        pictures: the latest picture of each kind among the notes, with its round.
        guarded: how often each guard acted.
        attrition: places by what became of them, and how often each fault occurred.
        figures: those of a finished run; none of one that stands at another round than the others.
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
    accuracy: Floats
    loss: Floats
    clock: Floats
    megabytes: Floats
    skew: Floats
    figures: dict[str, float | None]
    bytes: dict[str, float]
    passes: dict[str, float]
    questions: dict[str, int]
    counts: dict[str, Array]
    cohorts: list[list[int]]
    skipped: int
    rejected: int
    pictures: dict[str, tuple[int, Any]] = field(default_factory=dict)
    guarded: dict[str, int] = field(default_factory=dict)
    attrition: dict[str, int] = field(default_factory=dict)
    diverged: bool = False
    fingerprint: str = ""


def condense(run: Run) -> Digest:
    """Read a run once."""
    records, federation = run.records, run.federation()
    counts = _selection_counts(records, federation, run.clients())
    figures = {"ms": metrics.selection_ms(run), "seconds": metrics.seconds(run), "rounds": float(len(records))}
    return Digest(
        setting=run.setting,
        method=run.method,
        name=str(run.config.get("method", {}).get("name", "")),
        seed=run.seed,
        done=run.done,
        config=run.config,
        manifest=run.manifest,
        played=len(records),
        **_evaluations(records),
        skew=_skew(records, federation.get("label_counts")),
        figures={**metrics.summarise(run), **figures, "sigma": _sigma(counts, federation.get("label_counts"))}
        if run.done
        else {},
        bytes=_totals(records, "bytes"),
        passes=_totals(records, "passes"),
        questions=_questions(records),
        counts=counts,
        cohorts=[list(r.get("cohort") or ()) for r in records[:TIMELINE]],
        skipped=sum(bool(r.get("skipped")) for r in records),
        rejected=sum(len(r.get("rejected") or ()) for r in records),
        pictures=pictures_in(records),
        guarded=actions(records),
        attrition=attrition(records),
        diverged=metrics.diverged(run),
        fingerprint=fingerprint(run),
    )


def _evaluations(records: list[dict[str, Any]]) -> dict[str, Array]:
    """The columns of the rounds in which the model was tested."""
    sent = np.cumsum([sum(_flat(r.get("bytes"))) for r in records]) / 1e6 if records else np.empty(0)
    tested = [at for at, r in enumerate(records) if r.get("test")]
    return {
        "rounds": np.array([records[at]["round"] + 1 for at in tested], np.int64),
        "accuracy": _tested(records, tested, "accuracy"),
        "loss": _tested(records, tested, "loss"),
        "clock": np.array([records[at].get("clock") or 0.0 for at in tested], np.float64),
        "megabytes": sent[tested] if tested else np.empty(0),
    }


def pictures_in(records: Sequence[Mapping[str, Any]], first: int = 1) -> dict[str, tuple[int, Any]]:
    """The latest picture of each kind, with its round, of which the first has this number."""
    found = {}
    for record in records:
        notes = record.get("notes") or {}
        pictures = {kind: notes[kind] for kind in PICTURES if isinstance(notes.get(kind), dict)}
        found.update({kind: (record["round"] + first, picture) for kind, picture in pictures.items()})
    return found


def _tested(records: list[dict[str, Any]], tested: list[int], key: str) -> Floats:
    values = [records[at]["test"].get(key) for at in tested]
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _flat(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [number for part in value.values() for number in _flat(part)]
    return [float(value or 0)]


def _totals(records: list[dict[str, Any]], key: str) -> dict[str, float]:
    totals: dict[str, float] = {}
    for record in records:
        for kind, value in (record.get(key) or {}).items():
            totals[kind] = totals.get(kind, 0.0) + sum(_flat(value))
    return totals


def _questions(records: list[dict[str, Any]]) -> dict[str, int]:
    asked: dict[str, int] = {}
    for record in records:
        for question in record.get("questions") or ():
            asked[question["signal"]] = asked.get(question["signal"], 0) + int(question["asked"])
    return asked


def _skew(records: list[dict[str, Any]], label_counts: Array | None) -> Floats:
    """Total variation between the labels that a round's model learns from and the population's."""
    if label_counts is None:
        return np.empty(0)
    population = label_counts.sum(axis=0) / label_counts.sum()
    mixtures = label_counts / np.maximum(label_counts.sum(axis=1, keepdims=True), 1)
    found = np.full(len(records), np.nan)
    for at, record in enumerate(records):
        weights = np.asarray(record.get("weights") or (), np.float64)
        if weights.size and weights.sum() > 0:
            mixture = weights @ mixtures[np.asarray(record["cohort"])] / weights.sum()
            found[at] = 0.5 * np.abs(mixture - population).sum()
    return found


def _selection_counts(
    records: list[dict[str, Any]], federation: dict[str, Array], stored: dict[str, Array]
) -> dict[str, Array]:
    """Times selected and available (N,); recounted where the run is not finished and holds none."""
    if "selected" in stored and "available" in stored:
        return {key: stored[key] for key in ("selected", "available", "completed", "accuracy") if key in stored}
    if "sizes" not in federation:
        return {}
    selected = np.zeros(federation["sizes"].size, np.int64)
    for record in records:
        selected[np.asarray(record.get("cohort") or (), np.int64)] += 1
    here = federation.get("availability")
    available = np.full(selected.size, len(records)) if here is None else here[: len(records)].sum(axis=0)
    return {"selected": selected, "available": available}


def _sigma(counts: dict[str, Array], label_counts: Array | None) -> float | None:
    """LongFed's σ (eqs. 33, 34) with label mixtures in place of updates: spread of counts among similar clients."""
    if label_counts is None or "selected" not in counts or not 1 < len(label_counts) <= PAIRS_UP_TO:
        return None
    mixtures = label_counts / np.maximum(label_counts.sum(axis=1, keepdims=True), 1)
    distance = 0.5 * np.abs(mixtures[:, None] - mixtures[None]).sum(axis=2)
    epsilon = float(np.quantile(distance[~np.eye(len(distance), dtype=bool)], SIMILAR))
    return fairness.sigma(counts["selected"], distance, np.nextafter(epsilon, np.inf))
