from __future__ import annotations

import numpy as np
import pytest

from sortition.core.errors import InputError
from sortition.data import Dataset, dataset


def tiny_dataset(**changes: object) -> Dataset:
    fields: dict[str, object] = {
        "name": "tiny",
        "x_train": np.array([[[0, 255], [51, 102]]] * 3, np.uint8),
        "y_train": [0, 1, 2],
        "x_test": np.zeros((1, 2, 2), np.uint8),
        "y_test": [0],
        "classes": 3,
    }
    return Dataset(**(fields | changes))  # type: ignore[arg-type]


def test_printed_it_is_one_line() -> None:
    assert repr(tiny_dataset()) == "Dataset('tiny': 3 training and 1 test examples of shape (2, 2), 3 classes)"
    assert repr(tiny_dataset(clients=([0], [1]))).endswith("3 classes, 2 clients)")


def test_grey_images_scale_to_one_channel_in_zero_to_one() -> None:
    x = tiny_dataset().scaled().x_train
    assert x.shape == (3, 1, 2, 2)
    assert x.dtype == np.float32
    assert np.allclose(x[0, 0], [[0, 1], [0.2, 0.4]])  # 51/255, 102/255


def test_colour_images_move_channels_first() -> None:
    image = np.arange(12, dtype=np.uint8).reshape(1, 2, 2, 3)
    x = tiny_dataset(x_train=np.repeat(image, 3, axis=0), x_test=image).scaled().x_train
    assert x.shape == (3, 3, 2, 2)
    assert np.allclose(x[0, 1] * 255, image[0, :, :, 1])


def test_standardised_training_set_has_mean_0_and_deviation_1_per_channel() -> None:
    rng = np.random.default_rng(0)
    data = tiny_dataset(
        x_train=rng.integers(0, 256, (50, 4, 4, 3), dtype=np.uint8),
        y_train=[0] * 50,
        x_test=np.zeros((1, 4, 4, 3), np.uint8),
    )
    x = data.scaled(standardise=True).x_train
    assert np.allclose(x.mean(axis=(0, 2, 3)), 0, atol=1e-5)
    assert np.allclose(x.std(axis=(0, 2, 3)), 1, atol=1e-4)


def test_many_images_stay_bytes_and_have_the_axes_of_scaled_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    image = np.arange(12, dtype=np.uint8).reshape(1, 2, 2, 3)
    few = tiny_dataset(x_train=np.repeat(image, 3, axis=0), x_test=image)
    assert few.prepared().x_train.dtype == np.float32
    monkeypatch.setattr(dataset, "BYTES", 35)
    for data in (few, tiny_dataset(x_train=np.zeros((9, 2, 2), np.uint8), y_train=[0] * 9)):
        assert data.prepared() is data
        for raw, scaled in zip(data.inputs, (data.scaled().x_train, data.scaled().x_test), strict=True):
            assert raw.dtype == np.uint8
            assert np.array_equal(raw * np.float32(1 / 255), scaled)


def test_what_is_standardised_is_prepared_as_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset, "BYTES", 0)
    assert tiny_dataset().prepared(standardise=True).x_train.dtype == np.float32
    floats = tiny_dataset(x_train=np.zeros((3, 2, 2)), x_test=np.zeros((1, 2, 2)))
    assert floats.inputs[0].shape == (3, 2, 2)


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint16, np.int8])
@pytest.mark.parametrize("shape", [(2,), (2, 2), (2, 2, 3)])
def test_whole_numbers_that_are_no_bytes_stay_as_they_are(kind: type, shape: tuple[int, ...]) -> None:
    x = np.arange(3 * np.prod(shape)).reshape(3, *shape).astype(kind)
    data = tiny_dataset(x_train=x, x_test=x[:1]).prepared()
    assert data.x_train.dtype == np.int64
    assert np.array_equal(data.inputs[0], x)
    assert tiny_dataset(x_train=x, x_test=x[:1]).scaled(standardise=True).x_train.dtype == np.float32


def test_bytes_of_vectors_are_no_images() -> None:
    x = np.array([[0, 255], [1, 2], [3, 4]], np.uint8)
    assert np.array_equal(tiny_dataset(x_train=x, x_test=x[:1]).prepared().x_train, x)


@pytest.mark.parametrize(
    ("x", "standardise", "words"),
    [
        (np.zeros((3, 2, 2), np.uint8), False, "images (uint8) of shape (2, 2), divided by 255"),
        (np.zeros((3, 2, 2), np.uint8), True, "images (uint8) of shape (2, 2), divided by 255, standardised"),
        (np.zeros((3, 2), np.float32), False, "numbers (float32) of shape (2,), as they are"),
        (np.array([[0, 7], [2, 3], [1, 1]]), False, "whole numbers (int64) from 0 to 7 of shape (2,), as they are"),
    ],
)
def test_what_is_done_to_inputs_is_said(x: np.ndarray, standardise: bool, words: str) -> None:
    data = tiny_dataset(x_train=x, x_test=x[:1])
    assert data.prepared(standardise=standardise).describe_inputs() == words
    assert data.describe_inputs(standardise=standardise) == words


def test_constant_feature_does_not_divide_by_zero() -> None:
    x = np.array([[1.0, 2.0], [1.0, 4.0], [1.0, 6.0]])
    assert np.isfinite(tiny_dataset(x_train=x, x_test=x[:1]).scaled(standardise=True).x_train).all()


def test_digest_tells_data_apart_and_survives_scaling() -> None:
    assert tiny_dataset().digest == tiny_dataset().digest == tiny_dataset().scaled().digest
    assert tiny_dataset().digest != tiny_dataset(y_train=[0, 2, 1]).digest
    assert tiny_dataset().digest != tiny_dataset(clients=([0], [1, 2])).digest


def test_arrays_cannot_be_changed_behind_the_owners_back() -> None:
    with pytest.raises(ValueError, match="read-only"):
        tiny_dataset().x_train[0] = 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y_train": [0, 1]}, "one label per example"),
        ({"y_train": [0, 1, 3]}, "labels in 0 … 2"),
        ({"y_train": [0.5, 1, 2]}, "whole numbers"),
        ({"x_train": np.full((3, 2), np.nan)}, "finite"),
        ({"x_train": np.full((3, 2), 1e39), "x_test": np.zeros((1, 2))}, "finite"),
        ({"x_test": np.zeros((1, 3, 3), np.uint8)}, "shaped"),
        ({"x_test": np.zeros((1, 2, 2), np.float32)}, "like x_train, of type uint8; got dtype\\('float32'\\)"),
        ({"x_test": np.zeros((1, 2, 2), np.int64)}, "like x_train, of type uint8; got dtype\\('int64'\\)"),
        ({"x_train": np.zeros((0, 2, 2), np.uint8), "y_train": []}, "at least one"),
        ({"clients": ([0], [3])}, "indices of the 3"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tiny_dataset(**changes)


@pytest.mark.parametrize(
    ("changes", "notes"),
    [
        ({}, []),
        (
            {"y_train": [1, 2, 2], "y_test": [1]},
            ["tiny has 3 classes, labels 0 … 2, but examples of only 2 (none of 0)."],
        ),
        (
            {"y_train": [0, 50, 0], "classes": 51},
            ["tiny has 51 classes, labels 0 … 50, but examples of only 2 (none of 1, 2, 3, …)."],
        ),
        (
            {"y_train": [0, 2, 0], "y_test": [1]},
            ["1 of 1 test examples of tiny have labels that no training example has (1)."],
        ),
    ],
)
def test_what_labels_leave_out_is_noted(changes: dict[str, object], notes: list[str]) -> None:
    found_notes = tiny_dataset(**changes).notes
    assert [note.partition(" If this")[0] for note in found_notes] == notes
    assert tiny_dataset(**changes).scaled().notes == found_notes


def test_what_own_clients_leave_out_is_noted() -> None:
    assert tiny_dataset(clients=([0], [1])).client_notes == (
        "1 of 3 training examples are held by no client, and are not used.",
    )
    assert tiny_dataset(clients=([0], [1]), validation=([2], [])).client_notes == ()


@pytest.mark.parametrize(
    ("shape", "kind", "channels"),
    [
        ((8, 8, 3), np.uint8, None),
        ((3, 8, 8), np.uint8, "8 channels, 3 × 8 pixels"),  # torch's order in bytes
        ((3, 8, 8), np.float32, None),
        ((8, 8, 3), np.float32, "8 channels, 8 × 3 pixels"),  # the order of files in floats
        ((16, 8, 8), np.float32, None),  # features of many channels
        ((8, 8), np.float32, None),
    ],
)
def test_channels_that_seem_to_be_elsewhere_are_noted(shape: tuple[int, ...], kind: type, channels: str | None) -> None:
    data = tiny_dataset(x_train=np.zeros((3, *shape), kind), x_test=np.zeros((1, *shape), kind))
    for examples in (data, data.prepared()):
        assert [note.partition(" each.")[0] for note in examples.notes] == (
            [f"tiny has images of {channels}"] if channels else []
        )
