"""Styles of images and wrong labels, by client."""

from __future__ import annotations

import numpy as np
import pytest

from sortition.core.errors import InputError
from sortition.core.streams import stream
from sortition.data import Dataset
from sortition.data.client_skew import STYLES, LabelNoise, add_label_noise, apply_styles
from sortition.studies import build_federation
from sortition.studies.config import Data, validated

CLIENTS = tuple(np.arange(10 * k, 10 * (k + 1)) for k in range(12))


def images(n_test: int = 400) -> Dataset:
    rng = np.random.default_rng(0)
    return Dataset(
        name="made up",
        x_train=rng.integers(0, 17, (120, 6, 6)).astype(np.uint8),
        y_train=rng.integers(0, 4, 120),
        x_test=rng.integers(0, 17, (n_test, 6, 6)).astype(np.uint8),
        y_test=rng.integers(0, 4, n_test),
        classes=4,
        white=16,
    )


def test_each_client_has_one_style_and_listed_twice_is_twice_as_many() -> None:
    original = images()
    styles = ("plain", "plain", "inverted")
    changed = apply_styles(original, CLIENTS, styles, stream(0, "styles"))
    is_inverted = [np.array_equal(changed.x_train[rows], 16 - original.x_train[rows]) for rows in CLIENTS]
    is_plain = [np.array_equal(changed.x_train[rows], original.x_train[rows]) for rows in CLIENTS]
    assert sum(is_inverted) == 4
    assert sum(is_plain) == 8
    np.testing.assert_array_equal(changed.y_train, original.y_train)


def test_test_images_have_the_styles_in_the_clients_shares() -> None:
    original = images(n_test=3000)
    changed = apply_styles(original, CLIENTS, ("plain", "plain", "inverted"), stream(0, "styles"))
    is_inverted = (changed.x_test == 16 - original.x_test).all(axis=(1, 2))
    assert is_inverted.mean() == pytest.approx(1 / 3, abs=0.03)
    assert changed.digest != original.digest


@pytest.mark.parametrize("style", [name for name in STYLES if name != "plain"])
@pytest.mark.parametrize("shape", [(5, 6, 6), (5, 6, 6, 3)])
def test_every_style_changes_images_and_keeps_their_form(style: str, shape: tuple[int, ...]) -> None:
    original = np.random.default_rng(1).integers(0, 17, shape).astype(np.uint8)
    changed = STYLES[style](original, 16)
    assert changed.shape == original.shape
    assert changed.dtype == np.uint8
    assert changed.max() <= 16
    assert not np.array_equal(changed, original)


def test_a_quarter_turn_twice_is_a_half_turn() -> None:
    original = images().x_train
    twice = STYLES["rotated-90"](STYLES["rotated-90"](original, 16), 16)
    np.testing.assert_array_equal(twice, STYLES["rotated-180"](original, 16))


def test_wrong_labels_are_those_of_a_share_of_the_clients() -> None:
    original = images()
    changed = add_label_noise(original, CLIENTS, LabelNoise(share=0.25, flip=1.0), stream(0, "label noise"))
    n_changed = [int((changed.y_train[rows] != original.y_train[rows]).sum()) for rows in CLIENTS]
    assert sorted(n_changed) == [0] * 9 + [10] * 3
    assert set(changed.y_train) <= {0, 1, 2, 3}
    np.testing.assert_array_equal(changed.y_test, original.y_test)


def test_a_flip_of_one_half_changes_half_of_the_labels() -> None:
    original = images()
    changed = add_label_noise(original, CLIENTS, LabelNoise(share=1.0, flip=0.5), stream(3, "label noise"))
    assert (changed.y_train != original.y_train).mean() == pytest.approx(0.5, abs=0.12)


def test_a_study_gives_clients_styles_and_wrong_labels_by_its_seed() -> None:
    table = {"name": "digits", "clients": 20, "partition": "iid", "styles": ["plain", "rotated-90"]}
    config = Data(**table, label_noise={"share": 0.5, "flip": 0.5})
    plain = build_federation.split_data(Data(name="digits", clients=20, partition="iid"), 0)
    skewed = build_federation.split_data(config, 0)
    again = build_federation.split_data(config, 0)
    other = build_federation.split_data(config, 1)
    assert skewed.train.digest == plain.train.digest
    assert skewed.dataset.digest == again.dataset.digest != plain.dataset.digest
    assert other.dataset.digest != skewed.dataset.digest
    assert skewed.dataset.x_train.dtype == np.float32
    n_changed = (skewed.dataset.y_train != plain.dataset.y_train).mean()
    assert n_changed == pytest.approx(0.25, abs=0.05)


def test_wrong_values_are_refused() -> None:
    table = {"name": "digits", "clients": 5, "partition": "iid"}
    with pytest.raises(InputError, match="Unknown style 'rotated-45'"):
        validated(Data, {**table, "styles": ["rotated-45"]}, "data")
    with pytest.raises(InputError, match=r"data.styles must be a list of plain, .*; got .*an empty one"):
        validated(Data, {**table, "styles": []}, "data")
    with pytest.raises(InputError, match=r"share must be a share in \[0, 1\]; got 1.5"):
        validated(Data, {**table, "label_noise": {"share": 1.5}}, "data")
    with pytest.raises(InputError, match=r"data.styles must be given for images \(uint8\) only"):
        build_federation.split_data(Data(name="synthetic", clients=10, styles=["dark"]), 0)
