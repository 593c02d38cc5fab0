from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sortition.core.errors import InputError
from sortition.core.streams import stream
from sortition.data import load
from sortition.data.charts import partition_chart, write
from sortition.data.describe import describe
from sortition.data.partitions import Partition, split

LABELS = np.array([0, 0, 1, 1])


def test_numbers_by_hand() -> None:
    description = describe(Partition(([0, 1], [2], [3])), LABELS, 2)
    assert description.labels.tolist() == [1, 1, 1]
    assert description.distance.tolist() == [0.5, 0.5, 0.5]  # (1, 0) against (½, ½): ½ (½ + ½)
    even = describe(Partition(([0, 2], [1, 3])), LABELS, 2)
    assert even.distance.tolist() == [0, 0]
    assert even.labels.tolist() == [2, 2]


def test_words() -> None:
    description = str(describe(Partition(([0, 1, 2], [3]), ("something was repaired.",)), LABELS, 2))
    assert "examples per client             1 … 3, median 2" in description
    assert "something was repaired." in description


def test_pictures(tmp_path: Path) -> None:
    pytest.importorskip("altair")
    data = load("digits")
    partition = split("shards", data.y_train, 10, stream(0, "split"))
    chart = partition_chart(describe(partition, data.y_train, 10), "shards")
    for name in ("a.svg", "a.png"):
        assert write(chart, tmp_path / name).stat().st_size > 1000
    with pytest.raises(InputError, match="picture must be a file that ends in"):
        write(chart, tmp_path / "a.doc")
    with pytest.raises(InputError, match="an existing folder"):
        write(chart, tmp_path / "no" / "a.png")


def test_what_models_get_is_shown():
    from sortition.data.describe import describe_data
    from sortition.data.user_data import from_arrays

    vector = np.zeros((10, 4))
    images = np.zeros((10, 8, 8), np.uint8)
    text = describe_data(from_arrays({"vector": vector, "image": images}, np.linspace(0, 1, 10), name="mine"))
    assert "a model gets, vector  float32 of shape (batch, 4)" in text
    assert "a model gets, image   float32 of shape (batch, 1, 8, 8)" in text
    assert "numbers (float32), one per example" in text
    assert "one with a loss of its own" in text
