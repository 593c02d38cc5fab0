"""What becomes of Microcosm's guaranteed payments where chosen clients do not answer in time.

The proof in docs/methods/microcosm.md is about what chosen clients are given. Here sixty clients, of whom each is
available in 70 % of the rounds, differ in speed, and some of the chosen are lost: they drop out, or others answer
sooner. Nothing is trained. ``python -m campaign microcosm payments`` prints the table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortition.core import Registrar
from sortition.core.arrays import Array, Floats
from sortition.core.cohort import count_with_standby
from sortition.selectors import load
from sortition.selectors.microcosm.payments import Payments, make_payments
from sortition.testing import ScriptedWorld

CLIENTS = 60
COHORT = 6
ROUNDS = 160
REACHABLE = 0.7  # the probability that a client is available in a round
SPREAD = 1.2  # of the logs of durations
JITTER = 0.2
SLOWEST = CLIENTS // 5


@dataclass(frozen=True)
class Losses:
    """How chosen clients are lost.

    Attributes:
        title: of the row of the table.
        dropout: the probability that a chosen client falls silent.
        overselect: the factor on the cohort; the round closes when as many answered as the cohort has places.
        quorum: the share of the cohort whose answers close the round.
    """

    title: str
    dropout: float = 0.0
    overselect: float = 1.0
    quorum: float = 1.0


CASES = [
    Losses("everybody answers"),
    Losses("dropout 0.1", dropout=0.1),
    Losses("dropout 0.3", dropout=0.3),
    Losses("over-selection 1.3", overselect=1.3),
    Losses("quorum 0.7", quorum=0.7),
]


@dataclass(frozen=True)
class Paid:
    """What clients got in one run.

    Attributes:
        below: the share of the clients that got less than the bound in some stretch.
        never: how many clients' updates were never used.
        slowest: the weight that the slowest fifth got, over what was due to it.
    """

    below: float
    never: int
    slowest: float


def play(case: Losses, seed: int) -> Paid:
    """Let Microcosm choose, lose some of the chosen, and compare the weights in the model with the bound."""
    rng = np.random.default_rng(seed)
    world = ScriptedWorld(CLIENTS)
    seconds = np.exp(rng.normal(0, SPREAD, CLIENTS))
    places = count_with_standby(COHORT, case.overselect)
    enough = int(np.ceil(case.quorum * COHORT))
    registrar = Registrar(load("microcosm", by="labels", estimate=False, seconds="observed"), world.population)
    weights = np.zeros((ROUNDS, CLIENTS))
    was_available = np.zeros((ROUNDS, CLIENTS), bool)
    for t in range(ROUNDS):
        available = np.flatnonzero(rng.random(CLIENTS) < REACHABLE)
        turn = registrar.begin(available, places, clock=float(t))
        cohort = turn.cohort
        if cohort is None:
            continue
        ids = cohort.ids
        durations = seconds[ids] * np.exp(rng.normal(0, JITTER, ids.size))
        durations[rng.random(ids.size) < case.dropout] = np.inf
        first = np.argsort(durations)[:enough]
        in_time = np.sort(first[np.isfinite(durations[first])])
        weights[t, ids[in_time]] = cohort.weights_of(ids[in_time])[0]
        was_available[t, available] = True
        registrar.finish(turn, ids[in_time], durations=durations[in_time])
    p = world.population.sizes / world.population.sizes.sum()
    ratios = least_shares_of_due(weights, was_available, make_payments(p, places))
    slowest = np.argsort(seconds)[-SLOWEST:]
    return Paid(
        below=float((ratios < 1 - 1e-9).mean()),
        never=int((weights.sum(axis=0) == 0).sum()),
        slowest=float(weights[:, slowest].sum() / weights.sum() / p[slowest].sum()),
    )


def least_shares_of_due(weights: Floats, was_available: Array, owing: Payments) -> Floats:
    """Return the least weight in D rounds of availability over the bound, of each client that was available so often.

    Args:
        weights: (T, N) what clients weighed in each round.
        was_available: (T, N) whether they were available.
        owing: what they must be paid.
    """
    due = owing.units * owing.value
    ratios = []
    for client in np.flatnonzero(due):
        paid = np.cumsum(np.append(0.0, weights[was_available[:, client], client]))
        if paid.size > owing.patience:
            ratios.append((paid[owing.patience :] - paid[: -owing.patience]).min() / due[client])
    return np.array(ratios)


def report(seeds: range) -> int:
    """Print the table, the mean over seeds."""
    print("| | below the bound in some stretch | updates never used | weight of the slowest fifth, of its due |")
    print("|---|---|---|---|")
    for case in CASES:
        paid = [play(case, seed) for seed in seeds]
        below = np.mean([run.below for run in paid])
        never = np.mean([run.never for run in paid])
        slowest = np.mean([run.slowest for run in paid])
        print(f"| {case.title} | {100 * below:.0f} % | {never:.1f} | {100 * slowest:.0f} % |")
    return 0
