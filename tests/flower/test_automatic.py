"""The default selector, end to end in Flower's simulation, and its history as a source of advice."""

import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")

from flwr.serverapp.strategy import FedAvg
from tests.flower.loopback import MODEL, Loopback, node
from tests.flower.processes import LONGEST, simulate
from tests.simulation.small import data, parts

from sortition.advice.read_description import known_federation
from sortition.advice.replay import replay
from sortition.federation.server_checkpoint import HISTORY, beside
from sortition.flower import SelectorStrategy, codec


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("automatic")


@pytest.fixture(scope="module")
def played(folder):
    found, log = simulate("tests.flower.automatic", folder)
    assert found is not None, log[-4000:]
    return found


@pytest.mark.flower
def test_auto_takes_labels_where_all_clients_give_them_and_sketches_where_one_does_not(played):
    labels, sketches = played["labels"], played["sketches"]
    assert (labels["by"], labels["reads"]) == ("labels", ["sizes", "label_counts"])
    assert (sketches["by"], sketches["reads"]) == ("updates", ["sizes"])
    assert labels["reports"] == sketches["reports"] == ["update-sketch32"]
    for run in (labels, sketches):
        assert [len(record["answered"]) for record in run["history"]] == [3, 3]
        assert all(record["present"] == list(range(10)) for record in run["history"])
        assert not any(record["left_out"] or record["failed"] or "rejected" in record for record in run["history"])


@pytest.mark.flower
def test_advice_and_replay_read_what_the_simulation_left(played, folder):
    source = known_federation(beside(folder / "labels.npz", HISTORY))
    assert (source.cohort, source.rounds, source.played_by) == (3, 2, "Microcosm")
    expected = [np.bincount(data().y_train[own], minlength=4).tolist() for own in parts()]
    assert source.counts.tolist() == expected
    command = [sys.executable, "-m", "sortition", "replay", beside(folder / "sketches.npz", HISTORY)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "as played: Microcosm" in done.stdout


def counted(name, counts):
    return node(name, facts={"sizes": np.asarray(sum(counts)), "label_counts": np.asarray(counts)}, signals=["update"])


def test_the_history_of_a_federation_is_replayed(tmp_path):
    clients = {k: counted(f"c{k}", [k + 1, 8 - k]) for k in range(6)}
    made = SelectorStrategy(cohort=2, strategy=FedAvg(fraction_evaluate=0.0), checkpoint=tmp_path / "run.npz")
    made.start(Loopback(clients), codec.to_record(MODEL), 4)
    source = known_federation(beside(tmp_path / "run.npz", HISTORY))
    assert source.counts.tolist() == [[k + 1, 8 - k] for k in range(6)]
    found, _ = replay(source)
    played, again = found["as played: Microcosm"], found["microcosm"]
    assert (played.coverage, played.mixture) == (again.coverage, pytest.approx(again.mixture))  # the same choices
