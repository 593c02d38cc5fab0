"""Whom each method would have chosen in recorded rounds, side by side with who was chosen; nothing is trained.

Methods that hear from clients (losses, updates) cannot be replayed: what clients would have said is not known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from sortition.advice.candidates import Reasons, allowed, replayable, usable
from sortition.advice.profile import KnownFederation
from sortition.core.arrays import Array, Ids
from sortition.core.choice_counts import ChoiceCounts
from sortition.core.mixtures import cohort_mixture, label_mixtures, population_mixture, total_variation
from sortition.core.registrar import Registrar
from sortition.results.table import Table
from sortition.selectors.microcosm import Microcosm

CHOSEN = "as played"
MICROCOSM = "microcosm"
Cohorts = Iterable[tuple[Ids, Array]]  # ids and weights, one a round


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


def replay(
    federation: KnownFederation, rounds: int | None = None, seed: int = 0
) -> tuple[dict[str, Selection], Reasons]:
    """Return what the cohorts of each method do, the recorded ones first, and why others were not replayed.

    Both are by label. ``rounds`` holds where none were recorded; default: as the source says.
    """
    candidates, ruled_out = allowed(federation.limits)
    if not federation.has_labels:
        for label, selector in candidates.items():
            if "label_counts" in selector.needs.reads:
                ruled_out[label] = "reads label counts"
    candidates = {label: selector for label, selector in candidates.items() if label not in ruled_out}
    default = candidates.get(MICROCOSM)
    if isinstance(default, Microcosm) and default.by == "labels":  # logs hold no sketches: as under secure aggregation
        candidates[MICROCOSM] = replace(default, estimate=False, secure_aggregation=True)
    hear_nothing, hearing = replayable(candidates)
    can_begin, unusable = usable(hear_nothing, federation)
    n_rounds = _count_rounds(federation, rounds)
    availability = federation.present(seed)
    present = [np.flatnonzero(availability.at(t)) for t in range(n_rounds)]
    selections: dict[str, Selection] = {}
    if federation.chosen:
        selections[f"{CHOSEN}: {federation.played_by}"] = measured(federation, federation.chosen, present)
    for label, selector in can_begin.items():
        registrar = Registrar(selector, federation.population, horizon=n_rounds, seed=seed)
        selections[label] = measured(federation, _cohorts(registrar, present, federation.cohort), present)
    return selections, ruled_out | hearing | unusable


def _count_rounds(federation: KnownFederation, rounds: int | None) -> int:
    """Return how many rounds are replayed: all that were recorded, else those asked for, else those planned."""
    return len(federation.chosen) or rounds or federation.rounds


def _cohorts(registrar: Registrar, present: list[Ids], budget: int) -> Cohorts:
    """Choose in each round from those who were present."""
    for ids in present:
        turn = registrar.begin(ids, budget)
        cohort = turn.cohort
        if cohort is not None:
            yield cohort.ids, cohort.weights
        registrar.finish(turn)


def measured(federation: KnownFederation, cohorts: Cohorts, present: list[Ids]) -> Selection:
    """Measure coverage, fairness, bias and mixtures of these cohorts; ``present`` are those who were there."""
    n = federation.clients
    sizes = federation.counts.sum(axis=1)
    mixture_of_all = population_mixture(federation.counts)
    mixture_of_clients = label_mixtures(federation.counts)
    times_chosen = np.zeros(n)
    total_weights = np.zeros(n)
    distances: list[float] = []
    n_rounds = 0
    n_trainings = 0
    for ids, weights in cohorts:
        n_rounds += 1
        n_trainings += ids.size
        if ids.size and weights.sum() > 0:
            times_chosen[ids] += 1
            total_weights[ids] += weights / weights.sum()
            mixture_of_cohort = cohort_mixture(weights, mixture_of_clients[ids])
            distances.append(float(total_variation(mixture_of_cohort, mixture_of_all)))
    times_present = np.bincount(np.concatenate(present or [np.empty(0, np.int64)]), minlength=n)
    choice_counts = ChoiceCounts(times_chosen, times_present)
    candidates = int(choice_counts.candidates.sum())
    coverage = 0.0
    if candidates:
        coverage = 1 - choice_counts.never_chosen / candidates
    mean_weights = total_weights / max(len(distances), 1)
    data_shares = sizes / max(sizes.sum(), 1)
    mixture = None
    if federation.has_labels and distances:
        mixture = float(np.mean(distances))
    return Selection(
        coverage=coverage,
        jain=choice_counts.jain or 0.0,
        bias=float(total_variation(mean_weights, data_shares)),
        mixture=mixture,
        trainings=n_trainings / max(n_rounds, 1),
    )


def replay_table(selections: dict[str, Selection], federation: KnownFederation, rounds: int | None = None) -> Table:
    """Make a table with one row a method; ``rounds`` as they were given to :func:`replay`."""
    notes = list(federation.notes)
    if not federation.has_labels:
        notes.append("Label counts are unknown, so nothing is said of mixtures.")
    notes.append(
        "Bias and label distance are total variation: 0 is the clients' shares, the population's mixture. "
        "trainings: clients that train in a round."
    )
    n_rounds = _count_rounds(federation, rounds)
    table = Table(
        f"{federation.clients} clients, {federation.cohort} a round, {n_rounds} rounds, no training",
        ["method", "coverage", "Jain", "bias of weights", "label distance", "trainings"],
        notes=notes,
    )
    for label, selection in selections.items():
        table.rows.append(
            [
                label,
                f"{selection.coverage:.2f}",
                f"{selection.jain:.2f}",
                f"{selection.bias:.3f}",
                "–" if selection.mixture is None else f"{selection.mixture:.3f}",
                f"{selection.trainings:.1f}",
            ]
        )
    return table
