"""Whom each method would have chosen in recorded rounds, side by side with who was chosen; nothing is trained.

Methods that hear from clients (losses, updates) cannot be replayed: what clients would have said is not known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sortition.advice.candidates import allowed, replayable, usable
from sortition.advice.profile import Known
from sortition.core.arrays import Array, Ids
from sortition.core.registrar import Registrar
from sortition.results.metrics import jain_index
from sortition.results.mixtures import cohort_mixture, label_mixtures, population_mixture, total_variation
from sortition.results.table import Table

CHOSEN = "as played"
Rounds = Iterable[tuple[Ids, Array]]


@dataclass(frozen=True)
class Selection:
    """What a sequence of cohorts does to a federation.

    Attributes:
        coverage: share of the clients ever there that were chosen at least once.
        jain: evenness of chosen over available counts; 1 is even.
        bias: how far the mean weights lie from the clients' shares of data (total variation).
        mixture: mean distance of a round's weighted label mixture from the population's (total variation); None where
            labels are unknown.
        trainings: local trainings a round; traffic is proportional to it.
    """

    coverage: float
    jain: float
    bias: float
    mixture: float | None
    trainings: float


def replay(source: Known, rounds: int | None = None, seed: int = 0) -> tuple[dict[str, Selection], dict[str, str]]:
    """Label → what its cohorts do, the recorded ones first; and label → why it was not replayed."""
    candidates, ruled_out = allowed(source.limits)
    if not source.has_labels:
        ruled_out |= {
            label: "reads label counts" for label, one in candidates.items() if "label_counts" in one.needs.reads
        }
    silent, left = replayable((label, one) for label, one in candidates.items() if label not in ruled_out)
    kept, unusable = usable(silent, source)
    played = len(source.chosen) or rounds or source.rounds
    there = source.present(seed)
    present = [np.flatnonzero(there.at(t)) for t in range(played)]
    found = {f"{CHOSEN}: {source.played_by}": measured(source, source.chosen, present)} if source.chosen else {}
    for label, selector in kept.items():
        registrar = Registrar(selector, source.population, horizon=played, seed=seed)
        found[label] = measured(source, _cohorts(registrar, present, source.cohort), present)
    return found, ruled_out | left | unusable


def _cohorts(registrar: Registrar, present: list[Ids], budget: int) -> Rounds:
    for ids in present:
        turn = registrar.begin(ids, budget)
        cohort = turn.cohort
        if cohort is not None:
            yield cohort.ids, cohort.weights
        registrar.finish(turn)


def measured(source: Known, cohorts: Rounds, present: list[Ids]) -> Selection:
    """Coverage, fairness, bias and mixtures of these cohorts."""
    n, sizes = source.clients, source.counts.sum(axis=1)
    counts, weights, distances, rounds, members = np.zeros(n), np.zeros(n), list[float](), 0, 0
    population = population_mixture(source.counts)
    mixtures = label_mixtures(source.counts)
    for ids, a in cohorts:
        rounds, members = rounds + 1, members + ids.size
        if ids.size and a.sum() > 0:
            counts[ids] += 1
            weights[ids] += a / a.sum()
            distances.append(float(total_variation(cohort_mixture(a, mixtures[ids]), population)))
    there = np.bincount(np.concatenate(present or [np.empty(0, np.int64)]), minlength=n)
    met = there > 0
    p = sizes / max(sizes.sum(), 1)
    mean = weights / max(len(distances), 1)
    return Selection(
        coverage=float((counts[met] > 0).mean()) if met.any() else 0.0,
        jain=jain_index(counts[met] / there[met]) or 0.0,
        bias=float(total_variation(mean, p)),
        mixture=float(np.mean(distances)) if source.has_labels and distances else None,
        trainings=members / max(rounds, 1),
    )


def replay_table(found: dict[str, Selection], source: Known, rounds: int | None = None) -> Table:
    """One row a method; ``rounds`` as they were given to :func:`replay`."""
    played = len(source.chosen) or rounds or source.rounds
    table = Table(
        f"{source.clients} clients, {source.cohort} a round, {played} rounds, no training",
        ["method", "coverage", "Jain", "bias of weights", "label distance", "trainings"],
        notes=[
            *source.notes,
            *([] if source.has_labels else ["Label counts are unknown, so nothing is said of mixtures."]),
            "Bias and label distance are total variation: 0 is the clients' shares, the population's mixture. "
            "trainings: clients that train in a round.",
        ],
    )
    for label, one in found.items():
        mixture = "–" if one.mixture is None else f"{one.mixture:.3f}"
        table.rows.append(
            [label, f"{one.coverage:.2f}", f"{one.jain:.2f}", f"{one.bias:.3f}", mixture, f"{one.trainings:.1f}"]
        )
    return table
