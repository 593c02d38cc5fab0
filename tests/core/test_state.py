from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from sortition.core import InputError, State, StorageError, UndeclaredError, per_client, per_pair, shared


@dataclass
class Memory(State):
    counts: np.ndarray = per_client(0, dtype=int)
    rows: np.ndarray = per_client(np.nan, width=3)
    late: np.ndarray = per_client(0.0, width=0)
    distance: np.ndarray = per_pair(np.inf)
    history: np.ndarray | None = shared()
    step: int = shared(0)


def test_fields_start_filled():
    state = Memory(4)
    assert state.counts.tolist() == [0, 0, 0, 0]
    assert state.rows.shape == (4, 3)
    assert state.late.shape == (4, 0)
    assert state.distance.shape == (4, 4)
    assert state.axes() == {"counts": 1, "rows": 1, "late": 1, "distance": 2, "history": 0, "step": 0}


def test_what_is_not_declared_cannot_be_set():
    state = Memory(4)
    with pytest.raises(UndeclaredError, match=r"Memory.count cannot be set: .*Did you mean 'counts'\? .*per_client"):
        state.count = np.zeros(4)
    with pytest.raises(UndeclaredError, match=r"State\.h cannot be set: State declares n_clients"):
        State(4).h = 1.0


@pytest.mark.parametrize(
    ("value", "kind"),
    [({}, "'dict'"), ([1.0], "'list'"), ("text", "'str'"), (np.array([{}]), "an array of object")],
)
def test_what_a_snapshot_cannot_hold_is_refused_when_it_is_set(value, kind):
    with pytest.raises(InputError, match=f"Memory.history must be a number, an array of numbers or None; got {kind}"):
        Memory(4).history = value
    with pytest.raises(InputError, match=r"shared\(value\) must be a number"):
        shared(value)


def test_growth_keeps_ids_and_fills_the_new():
    state = Memory(2)
    state.counts[:] = [5, 6]
    state.distance[:] = [[0, 1], [1, 0]]
    state.late = np.ones((2, 2))
    state.grow(3)
    assert state.counts.tolist() == [5, 6, 0]
    assert np.isnan(state.rows[2]).all()
    assert state.distance[0].tolist() == [0, 1, np.inf]
    assert state.late.tolist() == [[1, 1], [1, 1], [0, 0]]
    state.grow(2)
    assert state.n_clients == 3  # never shrinks


def test_a_copy_is_independent():
    state = Memory(2)
    twin = state.copy()
    twin.counts[0] = 9
    twin.step = 4
    assert state.counts[0] == 0
    assert state.step == 0


def test_round_trip():
    state = Memory(3)
    state.history, state.step = np.arange(6.0).reshape(2, 3), 7
    again = Memory.restored(state.arrays())
    assert again.step == 7
    assert isinstance(again.step, int)
    assert np.array_equal(again.history, state.history)
    assert Memory.restored(Memory(3).arrays()).history is None


def test_what_does_not_fit_is_named():
    arrays = Memory(3).arrays()
    with pytest.raises(StorageError, match="unknown fields \\['strange'\\]"):
        Memory.restored({**arrays, "strange": np.zeros(1)})
    with pytest.raises(StorageError, match="'counts' is missing"):
        Memory.restored({k: v for k, v in arrays.items() if k != "counts"})
    with pytest.raises(StorageError, match="'rows' has shape"):
        Memory.restored({**arrays, "rows": np.zeros((2, 3))})


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("n_clients", np.array(2**50), "shape"),  # no memory is taken for what a file claims
        ("n_clients", np.array(np.inf), "n_clients must be"),
        ("n_clients", np.array([2, 2]), "n_clients must be"),
        ("counts", np.array(["a", "b"]), "type"),
        ("counts", np.array([1 + 2j, 0]), "type"),
        ("counts", np.zeros((2, 3), np.int64), "shape"),
        ("step", np.array(["x"]), "type"),
        ("step", np.array([1, 2]), "shape"),
        ("step", None, "missing"),
    ],
)
def test_a_snapshot_of_other_kinds_or_shapes_does_not_fit(name, value, told):
    arrays = Memory(2).arrays()
    if value is None:
        del arrays[name]
    else:
        arrays[name] = value
    with pytest.raises(StorageError, match=f"does not fit .*Memory: .*{told}"):
        Memory.restored(arrays)
