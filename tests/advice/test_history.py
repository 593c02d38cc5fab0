"""A federation's history as a source of advise and replay; real ones are read in tests/flower/test_history.py."""

import numpy as np
import pytest
from tests.results.histories import COUNTS, ROUNDS, record, written

from sortition.advice.read_description import known_federation
from sortition.advice.replay import replay, replay_table


@pytest.mark.parametrize("backend", ["flower", "nvflare", "server"])
def test_rounds_facts_and_the_method_are_read(backend, tmp_path):
    source = known_federation(written(tmp_path, about={"backend": backend}))
    assert (source.cohort, source.rounds, source.played_by) == (2, 4, "PowerOfChoice")
    assert source.masks.tolist()[2] == [True, True, True, False, True]
    assert source.counts.tolist() == COUNTS.tolist()
    found, _ = replay(source)
    played = found["as played: PowerOfChoice"]
    assert played.coverage == 1.0
    assert played.mixture is not None
    assert {"uniform", "fedgs"} <= found.keys()


def test_who_was_not_needed_did_not_drop_out(tmp_path):
    assert known_federation(written(tmp_path)).dropout == pytest.approx(
        3 / 6
    )  # silent, failed and left out, of six that counted
    none_answered = [record(0, [0, 1], [0, 1], [], silent=[0, 1])]
    assert known_federation(written(tmp_path, none_answered)).dropout == pytest.approx(
        1 / 2
    )  # below 1: somebody may answer
    assert known_federation(written(tmp_path, ROUNDS[3:])).dropout == 0.0


def test_who_was_withdrawn_did_not_drop_out(tmp_path):
    records = [record(0, [0, 1, 2], [0, 1, 2], [0], withdrawn=[1], silent=[2])]
    assert known_federation(written(tmp_path, records)).dropout == pytest.approx(1 / 2)


def test_it_is_said_that_replayed_methods_do_not_keep_the_policy(tmp_path):
    def notes(records):
        source = known_federation(written(tmp_path, records))
        return replay_table(replay(source)[0], source).notes

    said = "A policy left clients out of the rounds as they were played"
    assert not any(said in note for note in notes(ROUNDS))
    assert said in notes([record(0, [0, 1, 2], [0], [0], excluded={"lifetime=1": 2})])[0]


def test_checkpoint_history_and_folder_mean_the_same(tmp_path):
    path = written(tmp_path)
    for source in (tmp_path, tmp_path / "run.npz", path):
        assert known_federation(source).rounds == 4
    assert known_federation(path, cohort=3).cohort == 3


def test_a_history_without_facts_says_nothing_of_mixtures(tmp_path):
    source = known_federation(written(tmp_path, facts={}))
    assert source.counts.shape == (5, 1)
    assert "nothing is said of mixtures" in replay_table(replay(source)[0], source).notes[0]
    assert known_federation(written(tmp_path, facts={"sizes": np.arange(1, 6)})).counts.tolist() == [
        [1],
        [2],
        [3],
        [4],
        [5],
    ]


def test_a_history_that_does_not_say_who_was_there_is_read_with_a_note(tmp_path):
    records = [{key: value for key, value in one.items() if key != "present"} for one in ROUNDS]
    source = known_federation(written(tmp_path, records))
    assert source.masks is None
    assert source.notes == ("The history does not say who was there, so everybody is taken to have been.",)
