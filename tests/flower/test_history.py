"""What a real Flower federation leaves is read by report, advise, replay, why and audit."""

import json
import shutil

import numpy as np
import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")

from flwr.serverapp.strategy import FedAvg
from tests.flower.loopback import MODEL, Loopback, node
from tests.test_cli import call

from sortition.advice.read_description import known_federation
from sortition.advice.replay import replay
from sortition.flower import SelectorStrategy, codec
from sortition.results.history import History
from sortition.selectors import load

ROUNDS = 6
FAILS, SPOILT = 2, 5  # hospitals whose program fails, and whose model is not finite


def hospital(number):
    """A client that trains, but for two of them."""
    facts = {"sizes": 10 + number, "label_counts": np.array([number, 10])}
    sound = node(f"hospital-{number}", facts, w=(number, 1.0))

    def answer(message):
        if message.metadata.message_type != "train":
            return sound(message)
        if number == FAILS:
            raise RuntimeError("CUDA out of memory")
        reply = sound(message)
        if number == SPOILT:
            reply["arrays"] = codec.to_record({"w": np.array([np.nan, 1.0], np.float32)})
        return reply

    return answer


@pytest.fixture
def federation(tmp_path):
    grid = Loopback({100 + number: hospital(number) for number in range(8)})
    grid.offline = {107}
    files = {"checkpoint": tmp_path / "run.npz", "audit": tmp_path / "audit.jsonl"}

    def someone_comes(record):
        grid.offline.clear()

    made = SelectorStrategy(
        load("fedgs"),
        strategy=FedAvg(fraction_evaluate=0.0),
        cohort=3,
        overselect=1.4,
        on_round=someone_comes,
        **files,
    )
    made.start(grid, codec.to_record(MODEL), ROUNDS)
    return tmp_path, made.history


def test_the_records_are_the_strategys_own(federation):
    folder, records = federation
    history = History(folder / "run.npz.history.jsonl")
    assert history.records == json.loads(json.dumps(records))
    assert (history.method, history.backend, history.cohort, history.clients) == ("FedGS", "Flower", 3, 8)
    assert history.names.name_with_id(7) == "hospital-7 (id 7)"
    assert history.facts()["sizes"].tolist() == list(range(10, 18))
    assert history.audit_log() == folder / "audit.jsonl"
    assert 7 not in next(history.present())
    met = {outcome.fate for chosen in history.outcomes.values() for outcome in chosen.values()}
    assert {"used", "standby", "failed", "left out"} <= met


def test_audit_and_why_name_the_hospitals(federation):
    folder, records = federation
    assert "1 log holds" in call("audit", folder)
    t = next(record["round"] for record in records if str(FAILS) in record["failed"])
    said = call("why", folder / "run.npz", "--round", t, "--client", f"hospital-{FAILS}")
    assert said.startswith(f"hospital-{FAILS} (id {FAILS}) was one of")
    assert "Its program failed: CUDA out of memory." in said
    assert "hospital" not in (folder / "audit.jsonl").read_text()
    assert "hospital" not in (folder / "audit.jsonl.reveal.json").read_text()
    (folder / "audit.jsonl").unlink()
    said = call("why", folder, "--round", t, "--client", f"hospital-{FAILS}")
    assert "Its program failed: CUDA out of memory." in said
    assert "Only an audit log could tell" in said


def test_advise_replay_and_report_read_it(federation):
    folder, records = federation
    source = known_federation(folder)
    assert (source.cohort, source.rounds, source.clients, source.played_by) == (3, ROUNDS, 8, "FedGS")
    assert [ids.tolist() for ids, _ in source.chosen] == [record["cohort"] for record in records]
    assert "as played: FedGS" in replay(source)[0]
    page = call("report", folder).removeprefix("open: ").strip()
    text = (folder / "run.html").read_text()
    assert page == str(folder / "run.html")
    assert f"FedGS chose among 8 clients in {ROUNDS} rounds of a federation run by Flower" in text
    assert "CUDA out of memory" in text


def test_a_copy_without_its_checkpoint_is_read_as_far_as_it_goes(federation, tmp_path):
    folder, _ = federation
    shutil.copy(folder / "run.npz.history.jsonl", tmp_path / "alone.jsonl")
    source = known_federation(tmp_path / "alone.jsonl")
    assert source.played_by == "the method"
    assert not source.has_labels
    assert source.masks is not None
