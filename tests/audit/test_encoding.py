"""What is written is read back to the bit; what a stranger writes is refused before it is unpacked."""

import base64
import json
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortition.audit.encoding import (
    MAX_CLIENTS,
    decode_ids,
    decode_numbers,
    encode_ids,
    encode_numbers,
    json_value,
    row_digests,
)
from sortition.core import StorageError


@given(st.lists(st.integers(0, 2000), unique=True, max_size=400), st.booleans())
def test_ids_round_trip(ids, ordered):
    array = np.array(sorted(ids) if ordered else ids, np.int64)
    told = json.loads(json.dumps(encode_ids(array)))
    assert decode_ids(told).tolist() == array.tolist()


def test_ids_stay_small():
    assert encode_ids(np.arange(100_000)) == "0-99999"
    assert encode_ids(np.r_[0:50, 60:70, 99]) == [*range(50), *range(60, 70), 99]  # few enough for a list
    assert encode_ids(np.r_[0:80, 90, 95:99]) == "0-79,90,95-98"
    half = np.flatnonzero(np.random.default_rng(0).random(100_000) < 0.5)
    assert len(json.dumps(encode_ids(half))) < 18_000  # 100,000 bits are 16,700 letters


@given(
    st.lists(st.floats(width=32), max_size=200),
    st.sampled_from(["f4", "f8"]),
    st.booleans(),
)
def test_numbers_round_trip_to_the_bit(values, dtype, alike):
    array = np.array(values[:1] * len(values) if alike else values, dtype)
    told = json.loads(json.dumps(encode_numbers(array), allow_nan=False))
    back = decode_numbers(told, array.size, dtype)
    assert back.dtype == array.dtype
    assert np.array_equal(back, array, equal_nan=True)
    assert np.array_equal(np.signbit(back[~np.isnan(back)]), np.signbit(array[~np.isnan(array)]))


def test_digests_know_type_shape_and_value():
    rows = np.arange(6.0).reshape(2, 3)
    one, two = row_digests(rows)
    assert one != two
    assert row_digests(rows.astype("f4"))[0] != one
    assert row_digests(rows.reshape(2, 3, 1))[0] != one
    assert row_digests(rows.astype(">f8"))[0] == one  # the machine's order of bytes does not count
    assert isinstance(row_digests(np.zeros((2000, 1))), str)


BOMB = base64.b64encode(zlib.compress(bytes(10_000_000))).decode()


@pytest.mark.parametrize(
    "told",
    ["0-99999999999", f"0-{MAX_CLIENTS}", "5-2", "x", "1-2-3-", [-1], [1.5], [True], None, 3, {},
     {"n": 10, "bits": BOMB}, {"n": 10, "ids": BOMB},
     {"n": 10**15, "bits": "AA=="}, {"n": 10, "bits": "&"}, {"n": 9, "bits": 4}],
)  # fmt: skip
def test_strange_ids_are_refused(told):
    with pytest.raises(StorageError):
        decode_ids(told)


@pytest.mark.parametrize("told", [[1], ["x"] * 3, {"packed": "AAAA"}, {"packed": 4}, {}, None, "one"])
def test_strange_numbers_are_refused(told):
    with pytest.raises(StorageError):
        decode_numbers(told, 3)


def test_arrays_become_plain_json():
    given = {"whole": np.array([1, 2]), "table": np.eye(2), "flags": np.array([True]), "one": np.float32(0.5)}
    assert json_value(given) == {"whole": [1, 2], "table": [[1.0, 0.0], [0.0, 1.0]], "flags": [True], "one": 0.5}
    assert json_value(np.array([1.0, np.nan, -np.inf])) == [1.0, None, None]
    assert json_value(np.array([[1.0, np.inf]])) == [[1.0, None]]
    assert json_value(np.array(["a", "b"])) == ["a", "b"]
    assert json_value([1.0, np.nan, 2.0]) == [1.0, None, 2.0]
    assert json_value([1, 2.5, np.inf, None, "a"]) == [1, 2.5, None, None, "a"]
    assert json_value([np.float64(0.5), np.int64(3)]) == [0.5, 3]
    given = [1, 2]
    assert json_value(given) is not given
