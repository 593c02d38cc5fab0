from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortition.availability import Availability, _tables, make
from sortition.availability._events import from_intervals, from_transitions
from sortition.core.errors import DataError, InputError


def trace(tmp_path: Path, text: str, clients: int = 3, **parameters: object) -> Availability:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    return make("trace", clients=clients, seed=0, path=str(path), **parameters)  # type: ignore[arg-type]


def rows(availability: Availability, rounds: int) -> list[str]:
    return ["".join(str(int(on)) for on in availability.at(t)) for t in range(rounds)]


def test_intervals(tmp_path: Path) -> None:
    availability = trace(tmp_path, "client_id,start,end\n0,0,2\n1,1,4\n2,3,4\n0,3,4\n")
    assert rows(availability, 4) == ["100", "110", "010", "111"]
    assert availability.notes == ()


@pytest.mark.parametrize(("after", "later"), [("loop", "100"), ("hold", "111"), ("end", "000")])
def test_after_the_end(tmp_path: Path, after: str, later: str) -> None:
    availability = trace(tmp_path, "client_id,start,end\n0,0,2\n1,1,4\n2,3,4\n0,3,4\n", after=after)
    assert rows(availability, 5)[4] == later


@pytest.mark.parametrize(("after", "later"), [("loop", "100"), ("hold", "011"), ("end", "000")])
def test_after_the_end_of_transitions_the_last_one_of_each_client_holds(tmp_path: Path, after: str, later: str) -> None:
    availability = trace(tmp_path, "client_id,time,state\n0,0,1\n1,1,1\n2,2,1\n0,4,0\n", after=after)
    assert rows(availability, 5) == ["100", "110", "111", "111", later]


def test_overlaps_are_merged_reversed_and_unknown_reported(tmp_path: Path) -> None:
    text = "client_id,start,end\n0,0,5\n0,1,2\n0,4,8\n1,6,3\n1,0,8\n2,2,2\n9,0,1\nsomebody,0,1\n"
    availability = trace(tmp_path, text)
    assert rows(availability, 8) == ["110"] * 8  # the short interval inside must not end the long one
    notes = " ".join(availability.notes)
    assert "2 overlapping intervals were merged" in notes
    assert "1 intervals end before they start" in notes
    assert "1 intervals of no length" in notes
    assert "2 unknown clients (9, somebody) were left out" in notes


def test_clients_that_the_trace_does_not_know(tmp_path: Path) -> None:
    availability = trace(tmp_path, "client_id,start,end\n1,0,2\n")
    assert rows(availability, 2) == ["010", "010"]
    assert availability.notes == ("2 of 3 clients are not in the trace and are never reachable.",)


def test_transitions(tmp_path: Path) -> None:
    # client 1's first word is off, so it was on before
    availability = trace(tmp_path, "client_id,time,state\n0,0,on\n1,2,off\n0,3,off\n2,1,true\n2,2,1\n2,4,0\n")
    assert rows(availability, 4) == ["110", "111", "101", "001"]
    assert "1 transitions repeat the state" in availability.notes[0]


def test_dates_of_all_time_zones_meet_in_utc(tmp_path: Path) -> None:
    text = (
        "client_id,start,end\n"
        "0,2024-03-31T00:00:00Z,2024-03-31T02:00:00Z\n"
        "1,2024-03-31T02:00:00+02:00,2024-03-31T03:00:00+02:00\n"  # 0:00 to 1:00 UTC
        "2,2024-03-30T20:00:00-05:00,2024-03-30T21:00:00-05:00\n"  # 1:00 to 2:00 UTC
    )
    availability = trace(tmp_path, text, step=3600.0)
    assert rows(availability, 2) == ["110", "101"]
    assert availability.notes == ()
    naive = trace(tmp_path, text.replace("Z,", ",").replace("Z\n", "\n"), step=3600.0)
    assert rows(naive, 2) == ["110", "101"]
    assert "1 dates have no time zone and were read as UTC" in naive.notes[0]


def test_step_and_start(tmp_path: Path) -> None:
    text = "client_id,start,end\n0,10,30\n1,20,40\n2,0,40\n"
    assert rows(trace(tmp_path, text, step=10.0), 4) == ["001", "101", "111", "011"]
    assert rows(trace(tmp_path, text, step=10.0, start=20.0), 3) == ["111", "011", "111"]


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet"
    pl.DataFrame({"client_id": [0, 1], "start": [0, 1], "end": [1, 2]}).write_parquet(path)
    assert rows(make("trace", clients=2, seed=0, path=str(path)), 2) == ["10", "01"]


def test_matrix(tmp_path: Path) -> None:
    matrix = [[1, 0, 1], [0, 1, 1]]
    assert rows(make("trace", clients=3, seed=0, matrix=matrix), 3) == ["101", "011", "101"]
    np.save(tmp_path / "m.npy", np.array(matrix))
    assert rows(make("trace", clients=3, seed=0, path=str(tmp_path / "m.npy")), 2) == ["101", "011"]
    assert rows(trace(tmp_path, "1,0,1\n0,1,1\n"), 2) == ["101", "011"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("client,begin,end\n0,1,2\n", "must be client_id, start, end"),
        ("client_id,begin,end\n0,1,2\n", "must be client_id, start, end or client_id, time, state; got"),
        ("client_id,start,end\n7,1,2\n", "no known client"),
        ("client_id,start,end\n0,soon,2\n", "a number or a date in every row"),
        ("client_id,start,end\n0,,2\n", "a number or a date"),
        ("client_id,time,state\n0,1,maybe\n", "0 or 1, true or false, on or off; got 'maybe'"),
        ("", "cannot be read"),
    ],
)
def test_traces_that_are_none(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises((InputError, DataError), match=message):
        trace(tmp_path, text)


def test_mistakes(tmp_path: Path) -> None:
    for parameters, message in (
        ({}, "given either path or matrix"),
        ({"matrix": [[1, 0]], "path": "x"}, "got path and matrix"),
        ({"path": str(tmp_path / "none.csv")}, "must be a file"),
        ({"matrix": [[1, 0, 1]]}, "of shape"),
        ({"matrix": [[1, 2]]}, "made of 0 and 1"),
        ({"matrix": [[1, 0]], "after": "stop"}, "one of 'loop', 'hold' or 'end'"),
        ({"matrix": [[1, 0]], "step": 0.0}, "> 0"),
    ):
        with pytest.raises(InputError, match=message):
            make("trace", clients=2, seed=0, **parameters)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="before the trace's end, 2"):
        trace(tmp_path, "client_id,start,end\n0,1,2\n", start=5.0)
    for text in ("a,b\n1,0\n", "1;0\n0;1\n", "1,0\n0\n"):
        with pytest.raises(InputError, match=r"A matrix of 0 and 1 has no header, commas .* rows of one length"):
            trace(tmp_path, text)
    (tmp_path / "torn.npz").write_bytes(b"PK\x03\x04torn")
    with pytest.raises(DataError, match="cannot be read as a trace"):
        make("trace", clients=2, seed=0, path=str(tmp_path / "torn.npz"))


INTERVALS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=40)


@given(INTERVALS, st.integers(-2, 32))
def test_no_interval_is_skipped(intervals: list[tuple[int, int, int]], moment: int) -> None:
    """A known defect elsewhere: look-ups that miss intervals. The slow truth is any(start ≤ t < end)."""
    ids, starts, ends = (np.array(column) for column in zip(*intervals, strict=True))
    events = from_intervals(ids, starts.astype(float), ends.astype(float), 5, [])
    truth = [any(k == i and s <= moment < e for i, s, e in intervals) for k in range(5)]
    assert events.at(moment).tolist() == truth


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20), st.booleans()), min_size=1, max_size=40),
    st.integers(-1, 21),
)
def test_transitions_keep_the_last_word(changes: list[tuple[int, int, bool]], moment: int) -> None:
    ids, times, states = (np.array(column) for column in zip(*changes, strict=True))
    events = from_transitions(ids, times.astype(float), states, 4, [])
    for k in range(4):
        mine = sorted((c for c in changes if c[0] == k), key=lambda change: change[1])  # stable: later rows win
        past = [state for _, t, state in mine if t <= moment]
        truth = past[-1] if past else bool(mine) and not mine[0][2]
        assert events.at(moment)[k] == truth


def test_long_traces_use_checkpoints() -> None:
    rng = np.random.default_rng(0)
    starts = np.sort(rng.random(5000) * 1000)
    events = from_intervals(rng.integers(0, 7, 5000), starts, starts + 0.05, 7, [])
    assert len(events._checkpoints) > 5
    for moment in (0.0, 333.3, 999.9, starts[2000]):
        slow = events.initial.copy()
        for t, k, on in zip(events.times, events.ids, events.states, strict=True):
            if t <= moment:
                slow[k] = on
        assert (events.at(moment) == slow).all()


def test_rows_of_different_lengths_are_no_matrix():
    with pytest.raises(InputError, match="matrix must be of shape"):
        make("trace", clients=2, seed=0, matrix=[[0, 1], [1]])


def test_a_library_that_panics_on_a_damaged_file_is_a_sentence(tmp_path, monkeypatch):
    def panic(*_, **__):  # as polars does on some flipped bits; what it raises is no Exception
        raise pl.exceptions.PanicException("assertion failed")

    monkeypatch.setattr(pl, "scan_parquet", panic)
    (tmp_path / "trace.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match="cannot be read as a trace: assertion failed"):
        make("trace", clients=6, seed=0, path=str(tmp_path / "trace.parquet"))


def test_a_number_file_with_a_torn_header(tmp_path):
    path = tmp_path / "trace.npy"
    head = b"{'descr': '<i8', 'fortran_order': False, 'shape': ("
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head)
    with pytest.raises(DataError, match="cannot be read as a trace"):
        make("trace", clients=6, seed=0, path=str(path))


def test_unknown_clients_cannot_write_on_the_terminal(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("client_id,start,end\n0,0,5\n\x1b[2Jevil,1,2\n" + "x" * 5_000 + ",1,2\n")
    notes = []
    _tables.read_trace(path, 3, notes)
    assert "evil" in notes[0]
    assert notes[0].isprintable()
    assert len(notes[0]) < 300
