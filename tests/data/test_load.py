from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from sortition.core.errors import DataError, InputError
from sortition.data import load, names


def test_names() -> None:
    images = ["mnist", "fashion-mnist", "cifar10", "cifar100"]
    assert names() == ["digits", "synthetic", *images, "flights", "shakespeare", "chem97", "movielens"]


def test_digits_are_split_evenly_over_labels() -> None:
    data = load("digits")
    assert len(data.y_train) + len(data.y_test) == 1797
    whole = np.bincount(data.y_train) + np.bincount(data.y_test)
    assert np.all(np.abs(np.bincount(data.y_test) - 0.2 * whole) <= 0.5)
    assert data.x_train.dtype == np.uint8
    assert data.scaled().x_train.max() == 1  # white is 16 here
    assert load("digits", seed=1).digest != data.digest == load("digits").digest


def test_own_npz_and_folder(tmp_path: Path) -> None:
    x, y = np.arange(20.0).reshape(10, 2), np.arange(10) % 2
    np.savez(tmp_path / "own.npz", x=x, y=y)
    data = load(tmp_path / "own.npz")
    assert (len(data.y_train), len(data.y_test), data.classes) == (8, 2, 2)
    assert sorted([*data.x_train[:, 0], *data.x_test[:, 0]]) == x[:, 0].tolist()
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, array in (("x_train", x), ("y_train", y), ("x_test", x[:3]), ("y_test", y[:3])):
        np.save(folder / f"{name}.npy", array)
    assert len(load(str(folder)).y_test) == 3


def test_arrays_and_tensors() -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.zeros(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    assert load((x, y)).classes == 3
    assert len(load(((x, y), (x[:2], y[:2]))).y_test) == 2
    assert load((np.zeros((4, 2)), np.array([0.0, 1.0, 1.0, 0.0]))).classes == 2  # whole labels kept as floats


X, Y = np.arange(20.0).reshape(10, 2), np.arange(10) % 2
FORMS = {
    "arrays": (X, Y),
    "arrays with a test set": (X[:8], Y[:8], X[8:], Y[8:]),
    "pairs": [(X[:8], Y[:8]), (X[8:], Y[8:])],
    "clients": {"a": (X[:5], Y[:5]), "b": (X[5:], Y[5:])},
    "data set": load((X, Y)),
}


@pytest.mark.parametrize("form", FORMS)
def test_an_import_path_names_what_load_takes(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("loads_by_path")
    vars(module).update(made=FORMS[form], make=lambda: FORMS[form])
    monkeypatch.setitem(sys.modules, "loads_by_path", module)
    expected = load(FORMS[form])
    assert load("loads_by_path:made").digest == load("loads_by_path:make").digest == expected.digest
    assert len(expected.y_train) == 8
    for path in ("loads_by_path:made", "loads_by_path:make"):
        with pytest.raises(InputError, match="Unknown key 'tset'"):
            load(path, tset=0.1)


class Items:
    """What a torch Dataset is: a length, and items (x, y)."""

    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, at: int) -> tuple[Any, Any]:
        return self.x[at], self.y[at]


def test_a_training_and_a_test_dataset() -> None:
    data = load((Items(X[:8], Y[:8]), Items(X[8:], Y[8:])))
    assert data.x_train.tolist() == X[:8].tolist()
    assert data.y_test.tolist() == Y[8:].tolist()
    columns = load(Items(X, Y[:, None]))  # each label an array of one, as in MedMNIST
    assert sorted([*columns.y_train, *columns.y_test]) == sorted(Y)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            Items(X, np.full(len(Y), "a")),
            r"data\.y must be whole numbers, one label per example; got <U1.*Number texts",
        ),
        ((X, np.full(len(Y), np.nan)), r"data\.y must be finite numbers; got NaN or infinity"),
        ((X, Y.tolist()), r"got lists of numbers\. Lists of examples or labels must be arrays"),
    ],
)
def test_labels_are_whole_numbers_of_an_array(data: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(data)


def test_other_numbers_are_targets_that_are_no_labels() -> None:
    halves = load(Items(X, Y / 2))
    assert halves.classes == 0
    assert halves.y_train.dtype == np.float32
    masks = load((X, np.stack([Y, 1 - Y], axis=1)))
    assert masks.classes == 0
    assert masks.y_train.shape[1:] == (2,)
    assert load((X, Y - 1)).classes == 0  # labels begin at 0
    whole = load((X, Y.astype(float)))
    assert whole.classes == Y.max() + 1
    assert whole.float_labels


def test_an_import_path_names_no_other_name(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("loads_by_path")
    vars(module).update(name="loads_by_path:name", number=7)
    monkeypatch.setitem(sys.modules, "loads_by_path", module)
    with pytest.raises(InputError, match=r"data.name must be arrays or a Dataset, or a function that returns them"):
        load("loads_by_path:name")
    with pytest.raises(InputError, match="data must be a name, arrays, a Dataset"):
        load("loads_by_path:number")


@pytest.mark.parametrize(
    ("source", "options", "error", "message"),
    [
        ("digist", {}, InputError, "Did you mean 'digits'"),
        ("digits", {"tset": 0.1}, InputError, "Did you mean 'test'"),
        ("digits", {"test": 1.0}, InputError, "digits.test must be a share between 0 and 1; got 1.0."),
        ("no/such.npz", {}, InputError, "an existing path"),
        ((np.zeros((3, 2)),), {}, InputError, "1 arrays"),
        ((np.zeros((3, 2)), np.zeros(2, int)), {}, InputError, "3 labels"),
        ((np.zeros((3, 2)), np.array(["a", "b", "c"])), {}, InputError, "whole numbers"),
        (3, {}, InputError, "data must be a name, arrays, a Dataset"),
        ("synthetic", {"alpha": -1}, InputError, "synthetic.alpha must be ≥ 0"),
        ("synthetic", {"clients": 0}, InputError, "synthetic.clients"),
        ("synthetic", {"extra": -1}, InputError, "synthetic.extra"),
        ("synthetic", {"reading": "other"}, InputError, "'deviation' or 'variance'"),
    ],
)
def test_mistakes(source: object, options: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        load(source, **options)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "torn.npz").write_bytes(b"PK\x03\x04torn")
    np.savez(tmp_path / "other.npz", z=np.zeros(3))
    with pytest.raises(DataError, match="cannot be read"):
        load(tmp_path / "torn.npz")
    with pytest.raises(DataError, match="or x and y; got z"):
        load(tmp_path / "other.npz")


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("digits", {"test": "x"}, "digits.test must be a number; got 'x'"),
        ("digits", {"seed": 1.5}, "digits.seed must be a whole number; got 1.5"),
        ("digits", {"seed": True}, "digits.seed must be a whole number; got True"),
        ((np.zeros((4, 2)), np.zeros(4)), {"foo": 1}, "Unknown key 'foo'; data has"),
        ({"a": (np.zeros((4, 2)), np.zeros(4))}, {"test": "x"}, "data.test must be a number; got 'x'"),
    ],
)
def test_options_that_are_unknown_or_of_another_type_are_refused(source, options, message) -> None:
    with pytest.raises(InputError, match=message):
        load(source, **options)


def test_numbers_of_numpy_are_numbers() -> None:
    assert load("digits", seed=np.int64(1), test=np.float32(0.25)).classes == 10
