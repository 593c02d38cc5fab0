"""Shadows choose beside the live method: it never notices, they send nothing, and one can take its place."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pytest
from tests.federation import tiny
from tests.federation.fake import MODEL, Device, Network
from tests.federation.fleet import serving

from sortition.core import (
    LOSS,
    TRAINING_LOSS,
    Cohort,
    Guards,
    Measure,
    Needs,
    Population,
    Registrar,
    Selector,
    State,
    method,
    per_client,
)
from sortition.core.errors import InputError, StorageError
from sortition.core.round_record import answered_ids
from sortition.federation import Federation, Mailbox
from sortition.federation.arrangement import arranged
from sortition.federation.live import LiveFederation
from sortition.federation.model_engine import ModelEngine
from sortition.federation.options import Options
from sortition.federation.shadow import MOST_IDS, Shadows
from sortition.selectors import load


@dataclass
class Memory(State):
    trained: np.ndarray = per_client(0, dtype=int)


@method
class LeastTrained(Selector[Memory]):
    """Takes those that it saw training least, by id; asks nobody."""

    memory = Memory

    def select(self, state, round):
        order = np.lexsort((round.available, state.trained[round.available]))
        return Cohort.uniform(round.available[order[: round.budget]])

    def observe(self, state, feedback):
        state.trained[feedback.ids] += 1


@method
class WantsMuch(Selector[State]):
    """Asks everybody for the loss, and wants losses of training reported."""

    @property
    def needs(self):
        return Needs(asks=(LOSS,), reports=(TRAINING_LOSS,))

    def select(self, state, round):
        loss = yield Measure(LOSS, round.available)
        if not len(loss):
            return Cohort.uniform(round.available[: round.budget])
        return Cohort.uniform(loss.largest(round.budget))


def raising(where):
    """A method that raises in one of its methods, and spoils what it is given before."""

    class Broken(Selector[Memory]):
        memory = Memory

        @property
        def needs(self):
            if where == "needs":
                raise RuntimeError("needs")
            return Needs(asks=(LOSS,))

        def init(self, n_clients, rng):
            if where == "init":
                raise RuntimeError("init")
            return super().init(n_clients, rng)

        def resolve(self, facts):
            if where == "resolved":
                raise RuntimeError("resolved")
            return super().resolve(facts)

        def select(self, state, round):
            if where == "select":
                raise SystemExit("select")
            answer = yield Measure(LOSS, round.available)
            if where == "question":
                raise RuntimeError("question")
            if where == "cohort":
                return "nobody"
            if where == "endless":
                while True:
                    yield Measure(LOSS, round.available)
            state.trained[:] = 99
            return Cohort.uniform(answer.largest(round.budget) if len(answer) else round.available[:1])

        def observe(self, state, feedback):
            if where == "observe":
                raise RuntimeError("observe")

        def parameters(self):
            if where == "parameters":
                raise RuntimeError("parameters")
            return super().parameters()

    return Broken.__new__(Broken)


PLACES = ("needs", "init", "resolved", "select", "question", "cohort", "endless", "observe", "parameters")


def played(rounds=5, selector="power-of-choice", count=8, **options):
    mailbox = Mailbox()
    devices = {name: device.handle for name, device in tiny.devices(count).items()}
    federation = Federation(mailbox, tiny.model(), selector, **{"cohort": 3, "wait_for": count, "seed": 4, **options})
    with serving(mailbox, devices):
        federation.run(rounds)
    return federation


def live_part(history):
    """What the live method did: everything but the shadows, and the clock of the machine."""
    return [{key: value for key, value in record.items() if key not in ("shadows", "clock")} for record in history]


# -- the live method does not notice -----------------------------------------------------------------------------------


def test_live_records_are_the_same_with_shadows():
    plain = played()
    shadowed = played(shadow={"least": LeastTrained(), "wants": WantsMuch(), "uniform": "uniform"})
    assert all("shadows" not in record for record in plain.history)
    assert live_part(shadowed.history) == live_part(plain.history)
    np.testing.assert_array_equal(shadowed.model["w"], plain.model["w"])


@pytest.mark.parametrize("where", PLACES)
def test_whatever_a_shadow_raises_the_live_cohorts_are_the_same(where, tmp_path):
    plain = played(3)
    broken = played(3, shadow={"broken": raising(where), "least": LeastTrained()}, checkpoint=tmp_path / "run.npz")
    assert live_part(broken.history) == live_part(plain.history)
    remarks = [record["shadows"] for record in broken.history]
    if where != "parameters":  # which is asked for when a checkpoint is written
        assert all(remark["broken"].keys() <= {"error", "cannot"} for remark in remarks)
    assert all(remark["least"]["chosen"] == 3 for remark in remarks)
    np.testing.assert_array_equal(broken.model["w"], plain.model["w"])


def test_shadows_send_nothing():
    def asks(*shadow):
        network = Network([Device(f"d{number}", facts={"sizes": 5}) for number in range(6)])
        settings = Options(arrangement=arranged("Test", load("uniform"), *shadow), cohort=2)
        live = LiveFederation(network, ModelEngine(MODEL), settings, "server")
        for _ in range(4):
            live.driver.play_round()
        return [(ask.kind, ask.client, ask.round, ask.signals, ask.facts) for ask in network.asks]

    assert asks({"wants": WantsMuch(), "fedgs": "fedgs", "oort": "oort"}) == asks()


# -- what a shadow knows -----------------------------------------------------------------------------------------------


def test_a_shadow_of_the_same_method_chooses_the_same():
    """It gets the same answers, so that it makes the same choices: under the same seed nothing is left to chance."""
    federation = played(6, selector=load("power-of-choice", d=5), shadow={"twin": load("power-of-choice", d=5)})
    for record in federation.history:
        remark = record["shadows"]["twin"]
        assert remark["cohort"] == record["cohort"]
        assert remark["overlap"] == 1.0
        assert remark["known"] == remark["asked"] == 5
        assert remark["trained"] == 3
        assert "unknown" not in remark


def test_what_a_shadow_could_not_know_is_said():
    federation = played(4, selector=load("power-of-choice", d=5), shadow={"wants": WantsMuch(), "fedgs": "fedgs"})
    for record in federation.history:
        remark = record["shadows"]["wants"]
        assert (remark["asked"], remark["known"]) == (8, 5)
        assert remark["unknown"]["loss"] == 3
        assert remark["unknown"][TRAINING_LOSS.name] == 3
        assert record["shadows"]["fedgs"] == {"cannot": "it reads label_counts, which the live method does not"}


def test_mixture_fairness_and_cost_are_recorded_where_labels_are_known():
    federation = played(5, selector="fedgs", shadow={"least": LeastTrained()})
    for index, record in enumerate(federation.history):
        remark = record["shadows"]["least"]
        assert 0 <= remark["mixture"] <= 1
        assert 0 < remark["evenness"] <= 1
        assert (remark["asked"], remark["trainings"]) == (0, 3)
        if index == 0:
            assert remark["never_chosen"] == 5


def test_records_are_bounded():
    shadows = Shadows({"full": load("full")}, "uniform")
    registrar = Registrar(load("uniform"), Population(np.ones(500, int)))
    shadows.watch(registrar)
    turn = registrar.begin(np.arange(500), 10)
    registrar.finish(turn)
    remark = shadows.play()["full"]
    assert remark["chosen"] == 500
    assert len(remark["cohort"]) == MOST_IDS


def test_quarantine_is_the_live_one():
    registrar = Registrar(load("uniform"), Population(np.ones(4, int)), guards=Guards(quarantine=9, strikes=1))
    shadows = Shadows({"full": load("full")}, "uniform")
    shadows.watch(registrar)
    for expected in ([0, 1, 2, 3], [0, 1, 2]):
        turn = registrar.begin([0, 1, 2, 3], 4)
        if 3 in turn.cohort.ids:
            turn.blame({3: "not finite"})
        registrar.finish(turn, [0, 1, 2])
        assert sorted(shadows.play()["full"]["cohort"]) == expected


def test_whom_a_policy_leaves_out_no_shadow_chooses():
    registrar = Registrar(load("uniform"), Population(np.ones(6, int)))
    shadows = Shadows({"full": load("full")}, "uniform")
    shadows.watch(registrar)
    turn = registrar.begin(np.arange(6), 2, excluded={"separation": [1, 4]})
    registrar.finish(turn)
    remark = shadows.play()["full"]
    assert sorted(remark["cohort"]) == [0, 2, 3, 5]
    assert remark["never_chosen"] == 0


# -- where work outlives a step ----------------------------------------------------------------------------------------


LATE = {"quorum": 0.6, "late": "use"}
BUFFERED = {"kind": "buffered", "buffer": 2}
ARRIVAL = {"kind": "buffered", "concurrency": 4, "buffer": 3, "refill": "arrival"}
PACES = [LATE, BUFFERED, ARRIVAL]
TRAINED = (1.0, 2.5, 4.0, 1.0, 7.0, 1.5, 3.0, 1.0)  # seconds of the devices


def overlapping(rounds, rule, selector="uniform", *, checkpoint=None, resume=None, shadow=None, promote=None):
    """A federation on a network whose clock is a number, so that two runs can be compared to the byte."""
    facts = {"sizes": 5.0, "label_counts": np.array([3.0, 2.0])}
    network = Network([Device(f"d{row}", train=seconds, facts=facts) for row, seconds in enumerate(TRAINED)])
    settings = Options(
        cohort=3,
        pace_option=rule,
        seed=2,
        deadline=60.0,
        arrangement=arranged("Test", selector, shadow, promote),
        checkpoint=checkpoint,
        resume=resume,
    )
    live = LiveFederation(network, ModelEngine(MODEL), settings, "server")
    live.messenger.clock = network.clock
    with ExitStack() as stack:
        for _ in range(live.open_and_restore(stack), rounds):
            live.driver.open_round()
            live.driver.dispatch()
            live.close_round()
        live.asks = [(ask.kind, ask.client, ask.round, ask.signals) for ask in network.asks]
    return live


@pytest.mark.parametrize("rule", PACES)
def test_overlapping_live_records_are_the_same_with_shadows(rule):
    plain = overlapping(12, rule, "power-of-choice")
    shadow = {"least": LeastTrained(), "wants": WantsMuch(), "uniform": "uniform"}
    shadowed = overlapping(12, rule, "power-of-choice", shadow=shadow)
    assert live_part(shadowed.history) == live_part(plain.history)
    assert shadowed.asks == plain.asks
    np.testing.assert_array_equal(shadowed.engine.model["w"], plain.engine.model["w"])
    remarks = [record["shadows"] for record in shadowed.history]
    assert all(list(remark) == ["least", "wants", "uniform"] for remark in remarks)
    assert sum(remark["least"]["trained"] for remark in remarks) > 0


@pytest.mark.parametrize("rule", PACES)
@pytest.mark.parametrize("where", PLACES)
def test_whatever_a_shadow_raises_overlapping_live_cohorts_are_the_same(where, rule, tmp_path):
    plain = overlapping(8, rule)
    shadow = {"broken": raising(where), "least": LeastTrained()}
    broken = overlapping(8, rule, shadow=shadow, checkpoint=tmp_path / "run.npz")
    assert live_part(broken.history) == live_part(plain.history)
    remarks = [record["shadows"] for record in broken.history]
    assert sum(remark["least"]["chosen"] for remark in remarks) > 0
    if where in ("needs", "init", "resolved"):
        assert all(remark["broken"].keys() == {"cannot"} for remark in remarks)
    elif where == "observe":
        assert any("error" in remark["broken"] for remark in remarks)
        registrar = broken.driver.shadows.shadows[0].registrar
        assert registrar.version == broken.registrar.version
        assert not np.setdiff1d(registrar.in_flight, broken.registrar.in_flight).size
    elif where != "parameters":
        assert any("error" in remark["broken"] for remark in remarks)


@pytest.mark.parametrize("rule", PACES)
def test_an_overlapping_shadow_of_the_same_method_chooses_the_same(rule):
    live = overlapping(12, rule, load("power-of-choice", d=5), shadow={"twin": load("power-of-choice", d=5)})
    for record in live.history:
        remark = record["shadows"]["twin"]
        assert remark["cohort"] == record["cohort"]
        assert remark["trained"] == len(answered_ids(record))
        assert remark.get("overlap", 1.0) == 1.0
        assert remark["known"] == remark["asked"]
    twin = live.driver.shadows.shadows[0].registrar
    assert twin.in_flight.tolist() == live.registrar.in_flight.tolist()
    assert twin.version == live.registrar.version


def test_members_that_nobody_trains_end_at_once_and_return_after_the_step():
    live = overlapping(12, BUFFERED, shadow={"least": LeastTrained()})
    shadow = live.driver.shadows.shadows[0]
    chosen = [client for record in live.history for client in record["shadows"]["least"]["cohort"]]
    assert len(chosen) > len(set(chosen))
    assert not np.setdiff1d(shadow.registrar.in_flight, live.registrar.in_flight).size
    assert shadow.registrar.state.trained.sum() == sum(record["shadows"]["least"]["trained"] for record in live.history)


def test_a_shadow_that_counts_rounds_says_that_it_cannot_follow_more_selections_than_steps():
    live = overlapping(3, ARRIVAL, shadow=["oort"])
    assert all("'step' for Oort" in record["shadows"]["oort"]["cannot"] for record in live.history)
    live = overlapping(3, BUFFERED, shadow=["oort"])
    assert all("cannot" not in record["shadows"]["oort"] for record in live.history)


def buffered_federation(tmp_path, rounds, **options):
    """A federation with real devices, whose steps are buffered."""
    options = {"pace": BUFFERED, "checkpoint": tmp_path / "run.npz", "horizon": 12, **options}
    return played(rounds, selector="uniform", shadow={"least": LeastTrained()}, **options)


def test_overlapping_shadows_go_on_warm_after_a_restart(tmp_path):
    first = buffered_federation(tmp_path, 4)
    before = first.driver.shadows.shadows[0]
    made = Federation(
        Mailbox(), tiny.model(), "uniform", cohort=3, seed=4, pace=BUFFERED, horizon=12,
        shadow={"least": LeastTrained()}, checkpoint=tmp_path / "run.npz", resume=True,
    )  # fmt: skip
    with ExitStack() as stack:
        assert made.open_and_restore(stack) == 4
        saved = made.files.saved.selection.shadows
    arrays, _ = saved
    assert arrays["0.registrar.state.trained"].tolist() == before.registrar.state.trained.tolist()
    second = buffered_federation(tmp_path, 8, resume=True)
    after = second.driver.shadows.shadows[0]
    assert after.registrar.state.trained.sum() >= before.registrar.state.trained.sum() > 0
    assert [record["round"] for record in second.history] == list(range(8))
    assert all("cohort" in record["shadows"]["least"] for record in second.history)


def test_a_shadow_is_promoted_while_clients_are_at_work(tmp_path):
    first = buffered_federation(tmp_path, 4)
    at_work = first.registrar.in_flight.tolist()
    assert at_work
    second = buffered_federation(tmp_path, 8, resume=True, promote="least")
    assert type(second.registrar.selector).__name__ == "LeastTrained"
    assert [record["round"] for record in second.history] == list(range(8))
    assert all("cohort" in record["shadows"]["uniform"] for record in second.history[4:])
    ended = {client for record in second.history[4:] for client in answered_ids(record)}
    assert set(at_work) <= ended | set(second.registrar.in_flight.tolist())


# -- a restart, and a promotion ----------------------------------------------------------------------------------------


def test_shadows_go_on_warm_after_a_restart(tmp_path):
    shadow = {"least": LeastTrained(), "wants": WantsMuch()}
    whole = played(6, shadow=shadow)
    played(3, shadow=shadow, checkpoint=tmp_path / "run.npz", horizon=6)
    resumed = played(6, shadow=shadow, checkpoint=tmp_path / "run.npz", resume=True)
    assert [record["shadows"] for record in resumed.history] == [record["shadows"] for record in whole.history]


def test_a_shadow_is_promoted_with_its_state(tmp_path):
    options = {"selector": "uniform", "shadow": {"least": LeastTrained()}, "checkpoint": tmp_path / "run.npz"}
    first = played(4, horizon=8, **options)
    state = first.driver.shadows.shadows[0].registrar.state.trained
    expected = np.argsort(state, kind="stable")[:3]
    second = played(8, resume=True, promote="least", **options)
    assert type(second.registrar.selector).__name__ == "LeastTrained"
    assert state.any()
    assert second.history[4]["cohort"] == expected.tolist()
    assert list(second.history[4]["shadows"]) == ["uniform"]
    assert second.history[4]["shadows"]["uniform"]["chosen"] == 3
    again = played(9, resume=True, promote="least", **options)
    assert len(again.history) == 9
    back = played(10, resume=True, promote="uniform", **options)
    assert type(back.registrar.selector).__name__ == "Uniform"
    assert list(back.history[9]["shadows"]) == ["least"]


def test_another_live_method_without_a_promotion_is_refused(tmp_path):
    options = {"shadow": {"least": LeastTrained()}, "checkpoint": tmp_path / "run.npz"}
    played(2, selector="uniform", **options)
    played(3, selector="uniform", resume=True, promote="least", **options)
    with pytest.raises(StorageError, match=r"its live method is 'least'.*promote='least' to go on"):
        played(4, selector="uniform", resume=True, **options)


def test_a_shadow_without_a_state_cannot_be_promoted(tmp_path):
    options = {"selector": "uniform", "checkpoint": tmp_path / "run.npz"}
    played(2, shadow={"wants": WantsMuch()}, **options)
    with pytest.raises(StorageError, match="shadow 'least' has no state in the checkpoint"):
        played(3, shadow={"least": LeastTrained()}, resume=True, promote="least", **options)


def test_a_method_that_reads_more_can_be_promoted_away_and_back(tmp_path):
    """FedGS reads label counts, which its successor does not: they are kept."""
    options = {"selector": "fedgs", "shadow": ["uniform"], "checkpoint": tmp_path / "run.npz"}
    played(2, **options)
    played(4, resume=True, promote="uniform", **options)
    back = played(6, resume=True, promote="fedgs", **options)
    assert type(back.registrar.selector).__name__ == "FedGS"
    assert all(record["cohort"] for record in back.history)
    assert all("cohort" in record["shadows"]["fedgs"] for record in back.history[2:4])


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shadow": "oort"}, r"shadow must be a list of methods, or a table from labels to methods; got 'oort'"),
        ({"shadow": ["orot"]}, r"Unknown method 'orot'"),
        ({"shadow": ["uniform", "uniform"]}, r"labels of their own; got 'uniform' twice"),
        ({"shadow": ["power-of-choice"]}, r"other methods than the live one"),
        ({"shadow": [3]}, r"names of methods, or Selectors"),
        ({"shadow": ["oort"], "promote": "ort"}, r"Unknown shadow 'ort'.*Did you mean 'oort'"),
        ({"shadow": ["oort"], "promote": "oort", "audit": "a.jsonl"}, r"left out where an audit log is kept"),
        ({"shadow": {str(n): "uniform" for n in range(11)}}, r"at most 10 methods"),
    ],
)
def test_bad_shadows_are_refused_before_anything_runs(options, message):
    with pytest.raises(InputError, match=message):
        Federation(Mailbox(), tiny.model(), "power-of-choice", cohort=3, **options)


def test_replay_shows_what_shadows_did(tmp_path):
    from typer.testing import CliRunner

    from sortition.cli import app

    shadow = {"least": LeastTrained(), "fedgs": "fedgs", "wants": WantsMuch()}
    played(4, selector="uniform", shadow=shadow, checkpoint=tmp_path / "run.npz")
    result = CliRunner().invoke(app, ["replay", str(tmp_path / "run.npz.history.jsonl")], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert "Shadows" in result.output
    assert "fedgs did not choose in 4 rounds: it reads label_counts" in result.output
    assert "wants wanted rows that nobody had sent: 32 of loss" in result.output
