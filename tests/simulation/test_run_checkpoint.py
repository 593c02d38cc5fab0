"""Stopping anywhere and going on is bit-identical to never having stopped; so is any number of processes."""

import copy
import dataclasses
import json
import os
import signal as posix
import subprocess
import sys

import numpy as np
import pytest
from tests.simulation.small import Scripted, world

from sortition.aggregation import StepRule
from sortition.core import signals
from sortition.core.errors import StorageError
from sortition.core.storage import snapshot
from sortition.learning import LocalRule
from sortition.selectors import load
from sortition.simulation import Devices, FaultDraws, Faults, Setup, run, run_checkpoint, start

ROUNDS = 9


class Killer(FaultDraws):
    """Kills its own process, without any chance to tidy up, in the middle of round ``t``."""

    def __init__(self, t):
        super().__init__(Faults(), 10, 3)
        self.t = t

    def updates(self, t, outcome):
        if t == self.t:
            os.kill(os.getpid(), posix.SIGKILL)
        return outcome.deltas


def setup(faults=None, name="active"):
    small_world = world(seed=3, devices=Devices(jitter=0.2, dropout=0.2, speed_spread=0.5))
    return Setup(small_world, load(name), 4, ROUNDS, step=StepRule("adam", lr=0.05), seed=3, faults=faults)


def play(folder, faults=None, stop=ROUNDS):
    """Append records, checkpoint every third round, resume from what is there: what a runner does."""
    lines, saved = folder / "rounds.jsonl", folder / "checkpoint.npz"
    simulation = run_checkpoint.load(saved, setup(faults)) if saved.exists() else None
    kept = lines.read_text().splitlines()[: simulation.registrar.index] if simulation else []
    lines.write_text("".join(line + "\n" for line in kept))

    def keep(simulation, record):
        with lines.open("a") as file:
            file.write(json.dumps(record) + "\n")
        if simulation.registrar.index % 3 == 0:
            run_checkpoint.save(saved, simulation)

    return run(setup(faults), stop, keep, simulation), lines.read_bytes()


def spawn(folder, kill=-1):
    code = "import sys, pathlib; from tests.simulation.test_run_checkpoint import play, Killer; "
    code += "play(pathlib.Path(sys.argv[1]), Killer(int(sys.argv[2])))"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f".{os.pathsep}src"}
    return subprocess.Popen([sys.executable, "-c", code, str(folder), str(kill)], env=environment)


@pytest.fixture(autouse=True)
def one_thread():
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_resuming_is_bit_identical(tmp_path):
    whole, part = tmp_path / "whole", tmp_path / "part"
    whole.mkdir()
    part.mkdir()
    simulation, lines = play(whole)
    play(part, stop=5)  # two rounds after the checkpoint
    again, resumed = play(part)
    assert resumed == lines
    np.testing.assert_array_equal(again.params, simulation.params)
    assert again.totals == simulation.totals
    assert again.clock == simulation.clock


def test_kill_and_several_processes_give_the_same_bytes(tmp_path):
    folders = [tmp_path / name for name in ("here", "a", "b")]
    for folder in folders:
        folder.mkdir()
    _, lines = play(folders[0])
    running = [spawn(folders[1], kill=4), spawn(folders[2])]
    codes = [process.wait(timeout=120) for process in running]
    assert codes == [-posix.SIGKILL, 0]
    assert 3 <= len((folders[1] / "rounds.jsonl").read_text().splitlines()) < ROUNDS
    assert play(folders[1])[1] == lines
    assert (folders[2] / "rounds.jsonl").read_bytes() == lines


def test_a_foreign_checkpoint_is_refused(tmp_path):
    path = tmp_path / "checkpoint.npz"
    simulation, _ = play(tmp_path)
    with pytest.raises(StorageError, match="another selection"):
        run_checkpoint.load(path, setup(name="uniform"))
    other = Setup(world(), load("active"), 4, ROUNDS, seed=3)
    with pytest.raises(StorageError, match="server state"):
        run_checkpoint.load(path, other)
    simulation.registrar.save(path)
    with pytest.raises(StorageError, match="not a run's checkpoint"):
        run_checkpoint.load(path, setup())


def test_a_torn_checkpoint_is_refused(tmp_path):
    play(tmp_path)
    path = tmp_path / "checkpoint.npz"
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(StorageError, match="not a Sortition snapshot"):
        run_checkpoint.load(path, setup())


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound")
    play(folder, stop=3)
    return snapshot.load(folder / "checkpoint.npz")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda arrays, header: header.pop("clock"), "clock must be a number ≥ 0; got None"),
        (lambda arrays, header: header.update(clock="x"), "clock must be a number ≥ 0; got 'x'"),
        (lambda arrays, header: header.update(clock=float("nan")), "clock must be a number ≥ 0"),
        (lambda arrays, header: header.update(clock=10**400), "clock must be a number ≥ 0"),
        (lambda arrays, header: header["totals"].update(steps="x"), "totals.steps must be a whole number ≥ 0"),
        (lambda arrays, header: header["totals"].update(steps=-1), "totals.steps must be a whole number ≥ 0"),
        (lambda arrays, header: header["totals"].update(steps=[]), "totals.steps must be a whole number ≥ 0"),
        (lambda arrays, header: header.update(registrar=[1]), "Snapshot is incomplete"),
        (lambda arrays, header: header["registrar"].update(index=-3), "Snapshot is incomplete"),
        (
            lambda arrays, header: arrays.update(params=arrays["params"] * np.nan),
            "params holds numbers that are not",
        ),
        (lambda arrays, header: arrays.update(params=arrays["params"].astype(str)), "params has shape .* and type <U"),
        (lambda arrays, header: arrays.update(params=arrays["params"].astype(int)), "params has shape .* and type int"),
        (lambda arrays, header: arrays.update({"server.first": np.ones(3, np.float32)}), r"first has shape \(3,\)"),
        (lambda arrays, header: arrays["server.second"].fill(np.inf), "second holds numbers that are not finite"),
        (
            lambda arrays, header: arrays.update({"registrar.quarantined_until": np.zeros((2, 5), int)}),
            "Snapshot is incomplete",
        ),
        (
            lambda arrays, header: arrays.update({"registrar.quarantined_until": np.zeros((), int)}),
            "Snapshot is incomplete",
        ),
    ],
)
def test_a_damaged_checkpoint_is_a_sentence(tmp_path, sound, change, told):
    arrays, header = copy.deepcopy(sound)
    change(arrays, header)
    snapshot.save(tmp_path / "checkpoint.npz", arrays, header)
    with pytest.raises(StorageError, match=told):
        run_checkpoint.load(tmp_path / "checkpoint.npz", setup())


def test_a_rehearsing_selector_resumes_too(tmp_path):
    from sortition.core.cohort import Cohort

    asked = ((signals.LOSS, tuple(range(10)), Cohort.uniform([1, 2])),)
    played_setup = Setup(world(), Scripted(questions=asked), 3, 6)
    whole = run(played_setup)
    run_checkpoint.save(tmp_path / "c.npz", run(played_setup, 4))
    np.testing.assert_array_equal(
        run(played_setup, simulation=run_checkpoint.load(tmp_path / "c.npz", played_setup)).params, whole.params
    )


KEPT = {
    "momentum": LocalRule(lr=0.1, epochs=2, batch=8, momentum=0.9, keep_state=True),
    "adam": LocalRule(lr=0.01, epochs=2, batch=8, optimizer="adam", keep_state=True),
}


def keeping(rule, name="active", **options):
    return Setup(world(rule, seed=3, devices=Devices(dropout=0.2)), load(name), 4, ROUNDS, seed=3, **options)


@pytest.mark.parametrize("rule", KEPT)
@pytest.mark.parametrize("stop", [1, 5])
def test_kept_states_of_optimisers_are_in_the_checkpoint(tmp_path, rule, stop):
    played_setup, records, resumed = keeping(KEPT[rule]), [], []
    whole = run(played_setup, on_record=lambda _, record: records.append(record))
    run_checkpoint.save(tmp_path / "c.npz", run(played_setup, stop, lambda _, record: resumed.append(record)))
    simulation = run_checkpoint.load(tmp_path / "c.npz", keeping(KEPT[rule]))
    again = run(played_setup, on_record=lambda _, record: resumed.append(record), simulation=simulation)
    np.testing.assert_array_equal(again.params, whole.params)
    assert json.dumps(resumed) == json.dumps(records)
    assert again.optimiser_states.rows.keys() == whole.optimiser_states.rows.keys()
    anew = run(keeping(dataclasses.replace(KEPT[rule], keep_state=False)))
    assert np.abs(anew.params - whole.params).max() > 1e-4


def test_a_client_that_never_trained_has_no_state_and_who_takes_an_id_none():
    played_setup = keeping(
        KEPT["momentum"], "uniform", faults=FaultDraws(Faults(leaving=0.3, returning=0.0, reused=0.5), 10, 3)
    )
    simulation = start(played_setup)
    trained = set()
    all_taken = set()
    for _ in range(ROUNDS):
        record = simulation.play_round()
        taken = set(record.get("faults", {}).get("taken", []))
        completed = record["cohort"] if record["answered"] is None else record["answered"]
        all_taken |= taken & trained
        trained = (trained - taken) | set(completed)
        assert simulation.optimiser_states.rows.keys() == trained
    assert all_taken, "nobody whose state was kept lost an id, so that nothing was forgotten"


def test_the_states_of_another_rule_are_refused(tmp_path):
    path = tmp_path / "c.npz"
    run_checkpoint.save(path, run(keeping(KEPT["momentum"]), 2))
    with pytest.raises(StorageError, match=r"this set-up has another local rule \(optimiser\)\.$"):
        run_checkpoint.load(path, keeping(KEPT["adam"]))
    with pytest.raises(StorageError, match="holds states of clients' optimisers; this set-up has another local rule"):
        run_checkpoint.load(path, keeping(LocalRule(lr=0.1, epochs=2, batch=8)))
