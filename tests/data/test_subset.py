"""A part of a data set."""

from __future__ import annotations

import pytest

from sortition.core.errors import InputError
from sortition.data import load
from sortition.data.subset import Subset
from sortition.studies import build_federation
from sortition.studies.config import Data, validated


def test_a_subset_has_so_many_examples_and_is_the_same_each_time() -> None:
    whole = load("digits")
    part = Subset(train=200, test=50).of(whole)
    again = Subset(train=200, test=50).of(whole)
    assert (len(part.x_train), len(part.y_train), len(part.x_test), len(part.y_test)) == (200, 200, 50, 50)
    assert part.digest == again.digest != whole.digest
    only_test = Subset(test=50).of(whole)
    assert len(only_test.y_train) == len(whole.y_train)
    assert (only_test.y_test == part.y_test).all()


def test_a_study_uses_the_subset_for_every_seed() -> None:
    config = Data(name="digits", clients=10, partition="iid", subset={"train": 200, "test": 50})
    parts = [build_federation.split_data(config, seed) for seed in (0, 1)]
    assert parts[0].dataset is parts[1].dataset
    assert parts[0].train.sizes.sum() == 200
    assert parts[0].train.digest != parts[1].train.digest


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(InputError, match=r"data.subset.test must be at most 359; got 1000"):
        Subset(test=1000).of(load("digits"))
    with pytest.raises(InputError, match=r"data.subset.train must be left out for data that come with clients"):
        Subset(train=10).of(load("synthetic", clients=5))
    with pytest.raises(InputError, match="train must be a whole number ≥ 1; got 0"):
        validated(Data, {"name": "digits", "subset": {"train": 0}}, "data")
