"""The ledger against a wire that counts what really crosses the seam."""

import numpy as np
import pytest
from tests.simulation.small import RULE, Scripted, build, data, parts, world

from sortition.core import signals
from sortition.core.cohort import Cohort
from sortition.selectors import load
from sortition.simulation import Devices, Setup, World, run
from sortition.simulation.current_round import TRAFFIC_PURPOSES

PROBE = signals.make_probe(np.zeros(6), np.ones(6), samples=4)


class Wire(World):
    """Counts bytes at the two verbs: every array that goes in or out, once per client that needs it."""

    down, up, holding, at = 0, 0, set(), None

    def _send(self, t, ids):
        if t != self.at:
            self.at, self.holding = t, set()
        self.down += 4 * self.initial.size * len(set(ids.tolist()) - self.holding)
        self.holding = self.holding | set(ids.tolist())

    def measure(self, params, question, t):
        reading = super().measure(params, question, t)
        if question.after is not None:
            self._send(t, question.after.ids)
            self.up += question.after.ids.size * params.nbytes
            self.down += question.ids.size * params.nbytes
        elif question.signal.of != "pairs":
            self._send(t, question.ids)
        self.down += sum(4 * a.size for a in question.signal.payload.values()) * question.ids.size
        self.up += 4 * reading.values.size
        return reading

    def train(self, params, ids, wanted, t):
        outcome = super().train(params, ids, wanted, t)
        self._send(t, ids)
        self.up += outcome.deltas.nbytes
        self.up += sum(4 * outcome.reports[s.name].values.size for s in wanted if not (s.exact and s.of == "training"))
        return outcome


@pytest.mark.parametrize(
    "questions",
    [
        (),
        ((signals.LOSS, (0, 1, 4), None),),
        ((signals.LOSS, (0, 1, 4), Cohort.uniform([2, 4, 9])), (signals.LOSS, tuple(range(10)), None)),
        ((PROBE, (4, 5), None), (signals.PRODUCTS, (1, 2), None), (signals.UPDATE, (7,), None)),
    ],
    ids=["none", "loss", "rehearsal", "payload"],
)
def test_bytes_are_the_sum_of_what_crossed_the_seam(questions):
    wire = Wire(data(), parts(), build("mlp", (6,), 4, hidden=(5,)), RULE)
    selector = Scripted(questions=questions, reported=(signals.LOSS, signals.UPDATE, signals.GRADIENT))
    records = []
    simulation = run(Setup(wire, selector, 3, 3), on_record=lambda _, r: records.append(r))
    facts = 4 * (10 + 40)  # sizes and label counts of ten clients, once
    counted = {lane: sum(r["bytes"][lane] for r in records) for lane in TRAFFIC_PURPOSES}
    assert {lane: simulation.totals[lane] for lane in TRAFFIC_PURPOSES} == counted
    assert sum(v for lane, v in counted.items() if lane.endswith("_down")) == wire.down
    assert sum(v for lane, v in counted.items() if lane.endswith("_up")) + counted["metadata"] - facts == wire.up


def test_power_of_choice_sends_the_model_to_its_candidates_once():
    small_world = world()
    records = []
    run(Setup(small_world, load("power-of-choice", d=6), 3, 1), on_record=lambda _, r: records.append(r))
    model, count = 4 * small_world.initial.size, records[0]["bytes"]
    assert (count["questions_down"], count["questions_up"]) == (6 * model, 6 * 4)
    assert (count["model_down"], count["model_up"]) == (0, 3 * model)


def test_computing_is_counted_once_per_training_and_waste_apart():
    small_world = world(devices=Devices(dropout=1.0))
    asked = ((signals.UPDATE, (4, 5), None), (signals.LOSS, (6,), Cohort.uniform([4])))
    records = []
    run(Setup(small_world, Scripted(questions=asked), 3, 1), on_record=lambda _, r: records.append(r))
    work, steps = small_world.costs.examples(np.arange(10)), small_world.costs.steps(np.arange(10))
    # 4 and 5 train for the question, 4 again in the rehearsal, then 1 and 7 of the cohort; the cohort's work is lost
    assert records[0]["passes"]["training"] == work[[4, 5, 4, 1, 7]].sum()
    assert records[0]["passes"]["wasted"] == work[[4, 1, 7]].sum()
    assert records[0]["passes"]["forward"] == 25
    assert records[0]["steps"] == steps[[4, 5, 4, 1, 7]].sum()


def test_trainings_and_uploads_are_counted_apart():
    records = []
    run(Setup(world(), load("ocs", pool=8), 3, 4), on_record=lambda _, r: records.append(r))
    assert [r["trainings"] for r in records] == [8] * 4
    assert [r["uploads"] for r in records] == [len(r["cohort"]) for r in records]
    assert all(r["expected_size"] == pytest.approx(3) for r in records)
    assert {len(r["cohort"]) for r in records} != {3}  # as many as the coins say
    plain = []
    run(Setup(world(), load("uniform"), 3, 1), on_record=lambda _, r: plain.append(r))
    assert not {"trainings", "uploads", "expected_size"} & plain[0].keys()


@pytest.mark.parametrize("signal", [signals.GRADIENT, signals.GRADIENT.sketch(3)])
def test_a_gradient_costs_what_training_costs(signal):
    """Forward and backward: three times the seconds of a loss on as many examples."""

    def first_round(asked):
        records = []
        devices = Devices(speed=10.0)
        run(Setup(world(devices=devices), Scripted(questions=asked), 3, 1), on_record=lambda _, r: records.append(r))
        return records[0]

    nothing, loss, gradient = (
        first_round(asked) for asked in ((), ((signals.LOSS, (4, 5), None),), ((signal, (4, 5), None),))
    )
    assert gradient["passes"]["forward"] == 0
    assert gradient["passes"]["training"] - nothing["passes"]["training"] == loss["passes"]["forward"]
    assert gradient["clock"] - nothing["clock"] == pytest.approx(3 * (loss["clock"] - nothing["clock"]))
