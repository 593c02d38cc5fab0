"""A checkpoint belongs to one server and one federation, and a damaged one is refused in words."""

import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")

from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAdam, FedAvg
from tests.flower.loopback import MODEL, Loopback, node, told

from sortition.core import InputError, StorageError
from sortition.core.storage import snapshot
from sortition.federation.server_checkpoint import HISTORY, beside, reserved
from sortition.flower import SelectorStrategy, codec
from sortition.selectors import load
from sortition.studies.audit.audit_run import examine_log


def federation():
    return Loopback({n: node(f"c{n}", w=(n, 1.0)) for n in range(5)})


def played(path, rounds=2, grid=None, **options):
    stock = options.pop("strategy", None) or FedAvg(fraction_evaluate=0.0)
    options = {"cohort": 2, "checkpoint": path, **options}
    made = SelectorStrategy(load("uniform", weights="uniform"), strategy=stock, **options)
    made.start(grid or federation(), codec.to_record(MODEL), rounds)
    return made


def test_a_fresh_run_does_not_destroy_an_old_one(tmp_path):
    path, log = tmp_path / "c.npz", tmp_path / "audit.jsonl"
    played(path, audit=log)
    before = path.read_bytes(), log.read_bytes()
    with pytest.raises(StorageError, match=r"is the checkpoint of an earlier run. Go on with resume=True, or choose"):
        played(path, audit=log)
    with pytest.raises(StorageError, match=r"audit.jsonl is the audit log of an earlier run"):
        played(tmp_path / "other.npz", audit=log)
    assert before == (path.read_bytes(), log.read_bytes())
    assert len(played(path, 4, resume=True, audit=log).history) == 4
    assert len(played(path, 5, resume=path, audit=log).history) == 5


def test_a_resumed_federation_is_the_one_that_never_stopped(tmp_path):
    adam = {"eta": 0.05, "fraction_evaluate": 0.0}
    whole = played(tmp_path / "whole.npz", 5, strategy=FedAdam(**adam))
    played(tmp_path / "c.npz", 2, strategy=FedAdam(**adam), horizon=5)
    again = played(tmp_path / "c.npz", 5, strategy=FedAdam(**adam), resume=True)
    assert told(again.history) == told(whole.history)
    np.testing.assert_array_equal(again.engine.model["w"], whole.engine.model["w"])


@pytest.mark.parametrize("every", [1, 3])
def test_a_strategy_that_is_started_once_more_goes_on_from_its_checkpoint(tmp_path, every):
    stops = [4]

    def stop(record):
        if record["round"] in stops:
            stops.clear()
            raise KeyboardInterrupt

    def made(name):
        files = {"checkpoint": tmp_path / f"{name}.npz", "audit": tmp_path / f"{name}.jsonl", "resume": True}
        options = {"cohort": 2, "checkpoint_every": every, "combine": "fedvarp", **files}
        return SelectorStrategy("uniform", strategy=FedAdam(eta=0.05, fraction_evaluate=0.0), on_round=stop, **options)

    def start(strategy, grid):
        return codec.to_arrays(strategy.start(grid, codec.to_record(MODEL), 6).arrays)["w"]

    nodes = {n: node(f"c{n}", {"sizes": n + 1}, w=(n, 1.0)) for n in range(5)}
    again = made("again")
    with pytest.raises(KeyboardInterrupt):
        start(again, Loopback(nodes))
    found = start(again, Loopback({100 + n: nodes[n] for n in range(5)}))  # nodes have other ids now
    whole = made("whole")
    np.testing.assert_array_equal(found, start(whole, Loopback(nodes)))
    assert told(again.history) == told(whole.history)
    assert examine_log(tmp_path / "again.jsonl").verdict == "holds"


def test_a_server_with_an_audit_log_that_died_before_its_first_round_was_over_goes_on(tmp_path):
    files = {"resume": True, "checkpoint_every": 3, "horizon": 4}

    def stop(record):
        raise KeyboardInterrupt

    path, log = tmp_path / "c.npz", tmp_path / "audit.jsonl"
    with pytest.raises(KeyboardInterrupt):
        played(path, 4, audit=log, on_round=stop, **files)
    again = played(path, 4, audit=log, **files)
    whole = played(tmp_path / "whole.npz", 4, audit=tmp_path / "whole.jsonl", **files)
    assert told(again.history) == told(whole.history)
    assert examine_log(log).verdict == "holds"


def test_a_second_start_without_files_is_a_run_of_its_own():
    made = SelectorStrategy(load("uniform", weights="uniform"), cohort=2, strategy=FedAvg(fraction_evaluate=0.0))
    made.start(federation(), codec.to_record(MODEL), 2)
    first = told(made.history)
    made.start(federation(), codec.to_record(MODEL), 2)
    assert told(made.history) == first
    assert made.registrar.index == 2


def test_a_history_without_its_checkpoint_is_not_taken_over(tmp_path):
    first, second = tmp_path / "a.npz", tmp_path / "b.npz"
    mine = played(first, 2, horizon=3).history
    beside(second, HISTORY).write_text('{"round":"foreign"}\n' * 3)  # of a run that died before its first checkpoint
    again = played(second, 3, resume=first)
    kept = [json.loads(line) for line in beside(second, HISTORY).read_text().splitlines()]
    assert kept == json.loads(json.dumps(again.history))
    assert kept[:2] == json.loads(json.dumps(mine))
    assert len(played(second, 4, resume=True, horizon=3).history) == 4


class Keyed(Loopback):
    """Nodes with the keys that authentication gives them."""

    def __init__(self, nodes, keys):
        super().__init__(nodes)
        self.public = keys

    def get_nodes(self):
        return [SimpleNamespace(node_id=node, public_key=self.public[node]) for node in self.get_node_ids()]


def test_after_a_restart_a_name_still_belongs_to_its_key(tmp_path):
    path, keys = tmp_path / "c.npz", {0: b"key of c0", 1: b"key of c1", 2: b"key of c2"}
    clients = {k: node(f"c{k}") for k in range(3)}
    played(path, 2, Keyed(clients, keys), bind_names=True)
    clients, keys = {**clients, 9: node("c0")}, {**keys, 9: b"another key"}
    grid = Keyed(clients, keys)
    grid.offline = {0}
    again = played(path, 4, grid, bind_names=True, resume=True)
    assert [record["present"] for record in again.history[2:]] == [[1, 2], [1, 2]]
    assert again.members.names == ["c0", "c1", "c2"]
    grid = Keyed({**clients, 7: node("c0")}, {**keys, 7: b"key of c0"})
    grid.offline = {0}
    last = played(path, 6, grid, bind_names=True, resume=True)
    assert last.history[-1]["present"] == [0, 1, 2]
    assert last.members.session_of(0) == "7"


def test_resume_needs_to_know_the_file():
    with pytest.raises(InputError, match="resume must be a path where no checkpoint is given"):
        played(None, resume=True)


def test_a_second_server_is_refused(tmp_path):
    path, seen = tmp_path / "c.npz", []

    def second(record):
        with pytest.raises(StorageError, match=r"c.npz is in use by another server"):
            played(path, resume=True)
        seen.append(record)

    played(path, on_round=second)
    assert len(seen) == 2


def test_the_lock_dies_with_its_holder(tmp_path):
    path = tmp_path / "c.npz"
    code = (
        "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.flock(file, fcntl.LOCK_EX); "
        "print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-I", "-c", code, tmp_path / ".c.npz.lock"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StorageError, match="is in use"), reserved(path, None):
            pass
        holder.kill()
    with reserved(path, None):
        pass


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"cohort": 3}, "cohort was 2, is 3"),
        ({"overselect": 1.5}, r"overselect was 1.0, is 1.5"),
        ({"strategy": FedAdam(fraction_evaluate=0.0)}, "strategy was 'FedAvg', is 'FedAdam'"),
    ],
)
def test_another_configuration_is_refused_with_the_difference(options, told, tmp_path):
    played(tmp_path / "c.npz")
    with pytest.raises(StorageError, match=told):
        played(tmp_path / "c.npz", resume=True, **options)


def test_another_strategy_inside_a_wrapper_is_refused(tmp_path):
    def private(inner):
        strategy = DifferentialPrivacyServerSideFixedClipping(inner(fraction_evaluate=0.0), 0.0, 1.0, 2)
        options = {"cohort": 2, "strategy": strategy, "checkpoint": tmp_path / "c.npz", "resume": True}
        made = SelectorStrategy("uniform", **options)
        facts = {"sizes": np.array(10)}
        grid = Loopback({k: node(f"c{k}", facts=facts, metrics={"num-examples": 1}) for k in range(3)})
        made.start(grid, codec.to_record(MODEL), 1)

    private(FedAdam)
    private(FedAdam)
    with pytest.raises(StorageError, match=r"strategy.inside was 'FedAdam', is 'FedAvg'"):
        private(FedAvg)


NO_MEMORY = {"kind": "dict", "keys": []}
TAMPERED = {
    "federation": lambda a, h: h.update(federation=5),
    "names": lambda a, h: h["federation"]["members"].update(names=5),
    "more names": lambda a, h: h["federation"]["members"].update(names=list("abcdefghi")),
    "names twice": lambda a, h: h["federation"]["members"].update(names=["a"] * 5),
    "keys of nobody": lambda a, h: h["federation"]["members"].update(keys={"nobody": "k"}),
    "keys that are numbers": lambda a, h: h["federation"]["members"].update(keys={"c0": 3}),
    "names of tables": lambda a, h: h["federation"]["members"].update(names=[{}] * 5),
    "salt": lambda a, h: h["federation"].update(salt="zz"),
    "salt of another kind": lambda a, h: h["federation"].update(salt=5),
    "registrar": lambda a, h: h.update(registrar=5),
    "index": lambda a, h: h["registrar"].update(index="x"),
    "negative index": lambda a, h: h["registrar"].update(index=-3),
    "no index": lambda a, h: h["registrar"].pop("index"),
    "rounds": lambda a, h: h.update(rounds="x"),
    "no rounds": lambda a, h: h.pop("rounds"),
    "model": lambda a, h: h["federation"].update(model=5),
    "facts": lambda a, h: a.update({"facts.sizes": np.array(3)}),
    "fewer facts": lambda a, h: a.update({"facts.sizes": np.ones(3)}),
    "facts of nan": lambda a, h: a.update({"facts.sizes": np.full(5, np.nan)}),
    "server": lambda a, h: h["federation"]["engine"].update(server=5),
    "another attribute": lambda a, h: h["federation"]["engine"].update(server={"fraction_train": NO_MEMORY}),
    "a method": lambda a, h: h["federation"]["engine"].update(server={"configure_train": NO_MEMORY}),
    "options": lambda a, h: h["federation"].update(options=5),
}


@pytest.mark.parametrize("edit", TAMPERED.values(), ids=TAMPERED)
def test_a_damaged_checkpoint_is_a_sentence(edit, tmp_path):
    path = tmp_path / "c.npz"
    grid = Loopback({n: node(f"c{n}", {"sizes": np.array(100)}) for n in range(5)})

    def resumed(rounds):
        quiet = FedAvg(fraction_evaluate=0.0)
        options = {"cohort": 2, "checkpoint": path, "resume": True, "audit": tmp_path / "audit.jsonl"}
        SelectorStrategy("by-size", strategy=quiet, **options).start(grid, codec.to_record(MODEL), rounds)

    resumed(1)
    resumed(2)
    arrays, header = snapshot.load(path)
    edit(arrays, header)
    snapshot.save(path, arrays, header)
    with pytest.raises(StorageError, match=r"c\.npz is (not a checkpoint of this federation|of another)"):
        resumed(3)


@pytest.mark.parametrize("spoilt", [np.full(2, np.nan, np.float32), np.zeros(3, np.float32)])
def test_a_model_that_cannot_be_trained_on_is_refused(spoilt, tmp_path):
    path = tmp_path / "c.npz"
    played(path)
    arrays, header = snapshot.load(path)
    snapshot.save(path, {**arrays, "model.0": spoilt}, header)
    with pytest.raises(StorageError, match="holds another model than the one that is to be trained: w "):
        played(path, 3, resume=True)


def test_a_model_whose_names_are_no_texts_is_refused(tmp_path):
    path = tmp_path / "c.npz"
    played(path)
    arrays, header = snapshot.load(path)
    header["federation"]["model"][0] = 7
    snapshot.save(path, arrays, header)
    with pytest.raises(StorageError, match="holds another model than the one that is to be trained"):
        played(path, 3, resume=True)


def test_the_history_is_appended_and_not_rewritten(tmp_path):
    path = tmp_path / "c.npz"
    made = played(path, 3)
    lines = beside(path, HISTORY).read_text().splitlines()
    assert [json.loads(line) for line in lines] == made.history
    assert "history" not in snapshot.load(path)[1]
    sizes = []
    played(tmp_path / "long.npz", 40, on_round=lambda r: sizes.append(size(tmp_path / "long.npz")))
    assert max(sizes[5:]) - min(sizes[5:]) < 64  # a checkpoint does not grow with the rounds


def size(path):
    return path.stat().st_size if path.exists() else 0


def test_rounds_after_the_last_checkpoint_are_cut_from_the_history(tmp_path):
    path = tmp_path / "c.npz"
    whole = played(tmp_path / "whole.npz", 5)

    def dies(record):
        if record["round"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        played(path, 5, checkpoint_every=2, on_round=dies)
    assert len(beside(path, HISTORY).read_text().splitlines()) == 4
    resumed = played(path, 5, checkpoint_every=2, resume=True)
    assert told(resumed.history) == told(whole.history)
    assert len(beside(path, HISTORY).read_text().splitlines()) == 5


@pytest.mark.parametrize("left", [0, 1])
def test_a_history_that_is_missing_or_too_short_is_refused(left, tmp_path):
    path = tmp_path / "c.npz"
    played(path)
    lines = beside(path, HISTORY).read_text().splitlines(keepends=True)
    beside(path, HISTORY).write_text("".join(lines[:left]))
    with pytest.raises(StorageError, match="fewer whole lines than the 2 rounds"):
        played(path, 3, resume=True)
    beside(path, HISTORY).unlink()
    with pytest.raises(StorageError, match=r"c.npz.history.jsonl must be beside c.npz"):
        played(path, 3, resume=True)
