"""A client that never answers must not keep a place: a method that tries newcomers counts tries, not answers."""

import numpy as np
import pytest
from tests.simulation import small

from sortition.federation.pace import Pace
from sortition.selectors import discover, load
from sortition.simulation import Devices, Setup, start

SILENT = (2, 6)
ROUNDS = 40
COHORT = 2
FAIR_PICKS = ROUNDS * COHORT / len(small.SIZES)
KEEP_CHOOSING = {  # for reasons of their own, none of which is that the client is new
    "active",  # a loss is remembered until its client trains
    "ca-fed",  # everybody is chosen whom availability allows
    "divfl",  # gradients are renewed by the cohort's updates alone, so that a silent cohort is chosen again
    "full",  # everybody is chosen
    "ocs",  # an update that is never made stays large
    "power-of-choice",  # a loss that is never trained stays large
    "greedyfed",  # a value of 0 that was never measured is above negative ones
}


def picks_of_silent(name, pace, **parameters):
    devices = Devices(speed=50.0, table=[{"client": k, "examples_per_second": 0.01} for k in SILENT])
    small_world = small.world(devices=devices, validation=None)
    selector = load(name, **parameters)
    if selector.needs.of_server:
        parts = [part[1:] for part in small.parts()]
        held = np.array([part[0] for part in small.parts()])
        small_world = small.world(clients=parts, validation=held, devices=devices)
    setup = Setup(world=small_world, selector=selector, cohort=COHORT, horizon=ROUNDS, pace=pace, evaluate_every=0)
    simulation = start(setup)
    picks = np.zeros(len(small.SIZES), int)
    for _ in range(ROUNDS):
        picks[simulation.play_round()["cohort"]] += 1
    return picks[list(SILENT)].max()


@pytest.mark.parametrize("name", [name for name in discover() if name not in KEEP_CHOOSING])
def test_who_never_answers_is_not_chosen_again_and_again(name):
    assert picks_of_silent(name, Pace(deadline=20.0)) <= 2 * FAIR_PICKS


@pytest.mark.parametrize("pace", [Pace(deadline=20.0), Pace(overselect=1.5)], ids=["deadline", "overselect"])
def test_oort_tries_a_silent_client_once_or_twice(pace):
    assert picks_of_silent("oort", pace) <= 2


def test_rpow_d_does_not_prefer_who_never_answered():
    assert picks_of_silent("power-of-choice", Pace(deadline=20.0), variant="rpow-d", d=6) <= 2 * FAIR_PICKS
