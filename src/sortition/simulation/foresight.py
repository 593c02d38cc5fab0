"""Says, before the first round, what a run's limit of cost and its pace come to on its data and devices."""

from __future__ import annotations

import math

import numpy as np

from sortition.core.arrays import Floats
from sortition.core.cost import BYTES_PER_MEGABYTE, BYTES_PER_NUMBER, MOST_ROUNDS, Currency
from sortition.core.errors import bad
from sortition.simulation.faults import FATES
from sortition.simulation.setup import Setup

MANY_ROUNDS = 1_000  # a limit that takes more is noted
UNFORESEEN = 10.0  # so many times costlier may questions and idle time, which are not foreseen, make a round


def usual_round(setup: Setup) -> dict[Currency, float]:
    """Estimate what a round costs, by currency, where the cohort is drawn evenly and everybody answers.

    Questions, idle time, busy hours and jitter are left out.
    """
    costs = setup.world.costs
    n_updates = float(min(setup.cohort_pace.least_updates, setup.world.n_clients))
    n_sent = float(min(setup.cohort_pace.places, setup.world.n_clients))
    if setup.pace.kind == "buffered":
        n_sent = n_updates
    everybody = np.arange(setup.world.n_clients)
    return {
        "rounds": 1.0,
        "seconds": _usual_seconds(setup, costs.quiet_seconds),
        "megabytes": (n_sent + n_updates) * BYTES_PER_NUMBER * costs.n_parameters / BYTES_PER_MEGABYTE,
        "passes": n_sent * float(costs.examples(everybody).mean()),
    }


def _usual_seconds(setup: Setup, seconds: Floats) -> float:
    """Estimate the seconds of a round, of the seconds (N,) in which each client trains and sends."""
    pace = setup.cohort_pace
    in_time = np.minimum(seconds, pace.deadline)
    if setup.pace.kind == "buffered":
        return pace.buffer_size * float(in_time.mean()) / pace.concurrency
    places = min(pace.places, seconds.size)
    share = min(pace.least_updates, places) / (places + 1)  # the mean rank of the answer that ends the round
    return float(np.quantile(in_time, share))


def foreseen_rounds(setup: Setup) -> float:
    """Estimate how many rounds the limit of cost takes; infinite where they cost nothing of it, 0 without a limit."""
    if setup.until is None:
        return 0.0
    cost = usual_round(setup)[setup.until.currency]
    if cost > 0:
        return setup.until.limit / cost
    return math.inf


def check_limit(setup: Setup) -> None:
    """Refuse a limit of cost that is out of reach, where nothing else was to end the run."""
    n_rounds = foreseen_rounds(setup)
    if setup.horizon is None and n_rounds > UNFORESEEN * MOST_ROUNDS:
        rule = f"within reach in {MOST_ROUNDS:,} rounds, the most that a run has"
        hint = f"It takes {_rounds_in_words(n_rounds)}. Lower it, or give rounds beside it."
        raise bad("until", rule, str(setup.until), hint)


def remarks(setup: Setup) -> list[str]:
    """Return what a person should know before the first round: a limit out of reach, a pace without an effect."""
    return [*_limit_remarks(setup), *_pace_remarks(setup)]


def _limit_remarks(setup: Setup) -> list[str]:
    """Remark on a limit of cost that takes very many rounds, or more than a run has."""
    n_rounds = foreseen_rounds(setup)
    most_rounds = setup.most_rounds
    sentence = f"until: {setup.until} take {_rounds_in_words(n_rounds)}, by data and devices"
    if n_rounds > most_rounds:
        return [f"{sentence}; a run ends after {most_rounds:,} rounds, and may not reach them."]
    if setup.horizon is None and n_rounds > MANY_ROUNDS:
        return [f"{sentence}."]
    return []


def _rounds_in_words(n_rounds: float) -> str:
    if n_rounds == math.inf:
        return "more rounds than can be counted, since they cost nothing of it"
    return f"about {float(f'{n_rounds:.2g}'):,.0f} rounds"


def _pace_remarks(setup: Setup) -> list[str]:
    """Remark on a pace for devices that differ where all trainings take the same time, and everybody answers."""
    fleet = setup.world.fleet
    pace = setup.pace
    seconds = setup.world.costs.quiet_seconds
    varies = fleet.devices_differ or fleet.devices.busy is not None or np.ptp(seconds) > 1e-9 * seconds.max()
    if varies or fleet.devices.dropout or any(getattr(setup.faults.faults, fate) for fate in FATES):
        return []
    keys = []
    if pace.kind == "buffered":
        keys.append("kind = 'buffered'")
    if pace.deadline is not None:
        keys.append("deadline")
    if isinstance(pace.quorum, int) or pace.quorum < 1:
        keys.append("quorum")
    if not keys:
        return []
    return [
        f"pace: {' and '.join(keys)} are for clients that take different times, and here every training takes "
        f"{seconds.max():.3g} s. Give devices a speed_spread, a table or a trace."
    ]
