import numpy as np
import pytest

from sortition.core.errors import InputError
from sortition.results.attrition import count_attrition, counts_per_client, has_losses, ids_by_place
from sortition.studies import study
from sortition.studies.plan import plan

ROUND = {"cohort": [4, 1, 7], "weights": [0.5, 0.25, 0.25], "answered": None, "notes": {}}
BAD = ROUND | {
    "started": [1, 7],
    "answered": [7],
    "faults": {"before": [4], "during": [1], "late": 3},
    "rejected": {"7": "loss: not finite"},
}
STUDY = {
    "rounds": 4,
    "cohort": 4,
    "seeds": 1,
    "data": {"name": "digits", "clients": 12, "partition": "iid"},
    "model": "softmax",
    "local": {"steps": 2, "batch": 8, "lr": 0.1},
    "method": [{"name": "uniform"}, {"name": "active"}],
}
FAULTS = {"before": 0.2, "during": 0.2, "after": 0.2, "newcomers": 0.3, "leaving": 0.2, "reused": 0.2, "crash": 0.5}


def test_places_are_told_apart():
    assert ids_by_place(ROUND) == {"selected": [4, 1, 7], "started": [4, 1, 7], "completed": [4, 1, 7]}
    assert ids_by_place(BAD) == {"selected": [4, 1, 7], "started": [1, 7], "completed": [7]}
    totals = count_attrition([ROUND, BAD])
    assert [totals[key] for key in ("selected", "started", "completed", "wasted")] == [6, 5, 4, 1]
    assert [totals[key] for key in ("before", "during", "late", "rejected")] == [1, 1, 3, 1]
    assert has_losses(totals)
    assert not has_losses(count_attrition([ROUND]))
    assert counts_per_client([ROUND, BAD], 8)["wasted"].tolist() == [0, 1, 0, 0, 0, 0, 0, 0]
    assert set(counts_per_client([ROUND], 8)) == {"selected", "completed"}  # nothing lost: as ever


@pytest.mark.parametrize(
    ("pace", "wastes"),
    [
        ({"kind": "buffered", "concurrency": 6, "buffer": 2}, False),
        ({"quorum": 0.5, "late": "use"}, False),
        ({"quorum": 0.5, "late": "use", "max_staleness": 0}, True),
    ],
)
def test_work_that_outlives_a_step_is_not_wasted(pace, wastes, tmp_path):
    """Only what ended without an update is; whoever is at work at the end is neither wasted nor completed."""
    (run,) = study(
        STUDY | {"rounds": 9, "pace": pace, "devices": {"speed_spread": 1.0}, "method": [{"name": "uniform"}]},
        out=tmp_path,
    ).runs
    totals = count_attrition(run.records)
    ended = [client for record in run.records for client in record.get("too_stale", {})]
    assert bool(ended) == wastes
    assert totals["wasted"] == len(ended)
    at_work = run.records[-1].get("in_flight", 0)
    assert totals["started"] == totals["completed"] + totals["wasted"] + at_work
    assert at_work > 0
    clients = run.clients()
    assert clients["wasted"].sum() == totals["wasted"]
    assert clients["wasted"].min() >= 0


def test_a_study_with_faults_and_adversaries(tmp_path):
    table = STUDY | {"faults": FAULTS, "attacks": {"kind": "size", "share": 0.25, "strength": 100.0}}
    result = study(table, out=tmp_path)
    assert "main: lost on the way" in [table.title for table in result.tables]
    assert [table.title for table in result.tables][-2].startswith("Captured by adversaries")
    for run in result.runs:
        clients, figures = run.clients(), run.summary["figures"]
        assert (clients["completed"] + clients["wasted"] == clients["started"]).all()
        assert (clients["started"] <= clients["selected"]).all()
        assert (clients["selected"] <= clients["available"]).all()
        assert figures["completed"] == clients["completed"].sum() / clients["selected"].sum()
        adversaries = run.federation()["adversaries"]
        assert adversaries.size == 3
        assert figures["captured"] == clients["selected"][adversaries].sum() / clients["selected"].sum()
        assert 0 <= figures["captured-weight"] <= 1
        present = run.federation()["availability"].sum(axis=0)
        np.testing.assert_array_equal(present, clients["available"])
    again = study(table | {"faults": FAULTS | {"crash": 0.0}}, out=tmp_path / "again")
    assert [run.records for run in again.runs] == [run.records for run in result.runs]


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("faults", {"before": 2.0}, r"Faults.before must be a probability in \[0, 1\]; got 2.0"),
        ("faults", {"befor": 0.1}, "Unknown key 'befor'; study.faults has before.* Did you mean 'before'"),
        ("faults", {"before": "often"}, "study.faults.before must be a number; got 'often'"),
        ("faults", 3, "study.faults must be a table; got 3"),
        ("attacks", {"kind": "sibyl"}, "Unknown kind 'sibyl'.*Did you mean 'sybil'"),
        ("attacks", {"shar": 0.1}, "Unknown key 'shar'; study.attacks has kind, share, strength"),
    ],
)
def test_bad_tables_are_told_in_a_sentence(key, value, told):
    with pytest.raises(InputError, match=told):
        plan(STUDY | {key: value})


def test_a_study_without_faults_is_written_as_ever():
    (run, *_) = plan(STUDY).runs
    assert not {"faults", "attacks"} & run.table().keys()
