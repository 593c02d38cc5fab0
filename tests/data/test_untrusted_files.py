"""Data files from strangers: nothing runs, nothing fills the memory, what is wrong is one sentence."""

import contextlib
import gzip
import io
import os
import pickle
import struct
import tracemalloc

import numpy as np
import polars as pl
import pytest

from sortition import availability, data
from sortition.availability import _tables
from sortition.core import DataError
from sortition.data import parquet, parquet_pages
from sortition.data.catalogue import ENTRIES
from sortition.data.image_files import _read_batch, decode, read_idx

CIFAR = ENTRIES["cifar10"]


def quietly(call, kind, match):
    """It fails with a sentence, and with little memory."""
    tracemalloc.start()
    try:
        with pytest.raises(kind, match=match):
            call()
        assert tracemalloc.get_traced_memory()[1] < 2e7
    finally:
        tracemalloc.stop()


def idx(shape, values=b""):
    return b"\0\0\x08" + bytes([len(shape)]) + struct.pack(f">{len(shape)}i", *shape) + values


@pytest.mark.parametrize("shape", [(2**31 - 1, 2**31 - 1), (-1, 5), (60000, 28, 28_000)])
def test_an_idx_file_that_announces_too_much(tmp_path, shape):
    (tmp_path / "a").write_bytes(idx(shape, b"abc"))
    quietly(lambda: read_idx(tmp_path / "a"), ValueError, "announces shape")


def test_a_gzip_bomb_is_read_no_further_than_its_shape(tmp_path):
    with gzip.open(tmp_path / "bomb.gz", "wb", compresslevel=9) as file:
        file.write(idx((3, 2), b"abcdef"))
        for _ in range(64):
            file.write(bytes(1 << 20))
    quietly(lambda: read_idx(tmp_path / "bomb.gz"), ValueError, "holds more values")


class Runs:
    def __reduce__(self):
        return os.system, ("touch gone-off",)


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps(Runs()),
        pickle.dumps({b"data": Runs()}),
        pickle.dumps({b"data": [[1]], b"labels": [1]}),
        pickle.dumps({b"data": np.zeros((1, 3072)), b"labels": [1]}),
        pickle.dumps({b"data": np.zeros((1, 3072), np.uint8), b"labels": [[1]]}),
        pickle.dumps([1, 2]),
        b"cnumpy\nndarray\n((I999999999999\ntR.",  # an array of any size, made by the pickle
        b"(lr\xff\xff\xff\x1f.",  # a memo that announces half a billion places
        b"\x80\x04cbuiltins\neval\n(S'1'\ntR.",
        b"",
    ],
)
def test_a_batch_that_is_not_cifar(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    for name in ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"):
        (tmp_path / name).write_bytes(content)
    quietly(lambda: decode(tmp_path, CIFAR), DataError, "cannot be read")
    assert not (tmp_path / "gone-off").exists()


@pytest.mark.parametrize("protocol", [3, 4])
def test_an_honest_batch_is_read(protocol):
    images = np.arange(2 * 3072).astype(np.uint8).reshape(2, 3072)
    decoded, labels = _read_batch(pickle.dumps({b"data": images, b"labels": [3, 1]}, protocol=protocol), "a", b"labels")
    np.testing.assert_array_equal(decoded, images)
    assert labels.tolist() == [3, 1]


def test_a_sprite_is_measured_before_it_is_unpacked(tmp_path):
    from PIL import Image

    for at in range(1, 6):
        Image.new("1", (1024, 61_000)).save(tmp_path / f"data_batch_{at}.png")
    Image.new("1", (1024, 2)).save(tmp_path / "test_batch.png")
    quietly(lambda: decode(tmp_path, CIFAR), DataError, "1024 × 61000 pixels")
    huge = io.BytesIO()
    Image.new("1", (1, 1)).save(huge, "PNG")
    raw = bytearray(huge.getvalue())
    raw[16:24] = struct.pack(">II", 60_000, 60_000)  # the header's width and height
    import zlib

    raw[29:33] = struct.pack(">I", zlib.crc32(bytes(raw[12:29])))
    (tmp_path / "data_batch_1.png").write_bytes(bytes(raw))
    quietly(lambda: decode(tmp_path, CIFAR), DataError, "too large")


def trace(path):
    return lambda: availability.make("trace", clients=3, seed=0, path=str(path)).at(0)


def test_compressed_traces_are_refused(tmp_path):
    (tmp_path / "t.csv").write_bytes(gzip.compress(b"client_id,start,end\n" + b"0,0,1\n" * 100_000))
    quietly(trace(tmp_path / "t.csv"), DataError, "it is compressed; unpack it first")


def test_a_parquet_file_that_announces_too_many_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "ALWAYS_ALLOWED", 1000)
    path = tmp_path / "t.parquet"
    repeated(start=0, end=1).write_parquet(path)
    quietly(trace(path), DataError, "it announces 2,000,000 rows")


@pytest.mark.parametrize("name", ["t.npy", "t.npz", "t.csv", "t.parquet"])
def test_a_pickle_is_no_trace(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(pickle.dumps(Runs()))
    with pytest.raises((DataError, ValueError)):
        trace(tmp_path / name)()
    assert not (tmp_path / "gone-off").exists()


def test_own_data_of_python_objects_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "d.npz", x=np.array([Runs()], dtype=object), y=np.zeros(1))
    with pytest.raises(DataError, match="unpickled"):
        data.load(str(tmp_path / "d.npz"))
    assert not (tmp_path / "gone-off").exists()


REPEATED = 2_000_000  # rows of one number, which take some kilobytes in a Parquet file


def repeated(**values: object) -> pl.DataFrame:
    return pl.select(pl.repeat(0, REPEATED, dtype=pl.Int64).alias("client_id")).with_columns(
        **{name: pl.lit(value) for name, value in values.items()}
    )


def test_columns_that_a_trace_does_not_need_are_not_read(tmp_path):
    path = tmp_path / "t.parquet"
    needless = {f"x{column}": 1.0 for column in range(50)}
    repeated(start=0.0, end=1.0, **needless).write_parquet(path)
    assert path.stat().st_size < 1 << 20
    assert _tables.read_table(path, _tables.COLUMNS).columns == ["client_id", "start", "end"]
    lists = pl.DataFrame({"client_id": [0], "start": [0.0], "end": [1.0], "x": [[0.0] * 1000]})
    lists.write_parquet(path)
    assert trace(path)().tolist() == [True, False, False]


def test_a_small_file_of_very_many_equal_numbers_is_refused(tmp_path):
    path = tmp_path / "t.parquet"
    repeated(label=0, **{f"x{column}": 1.0 for column in range(50)}).write_parquet(path)
    quietly(lambda: data.load(path, client="client_id", label="label"), DataError, "more than the 1,073,741,824")


def test_a_column_of_lists_is_refused_where_it_is_wanted(tmp_path):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"client_id": [0], "start": [[0.0] * 1000], "end": [1.0]}).write_parquet(path)
    quietly(trace(path), DataError, "its column 'start' holds List")


@pytest.mark.parametrize("column", ["client", "label", "x"])
def test_one_long_text_does_not_widen_an_array_of_texts(tmp_path, column):
    texts = {"client": ["a"] * 10_000, "label": ["b"] * 10_000, "x": ["c"] * 10_000}
    texts[column][0] = "d" * 10_000
    frame = pl.DataFrame(texts)
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    for path in (tmp_path / "t.csv", tmp_path / "t.parquet"):
        words = f"its column '{column}' has a text of 10,000 bytes"
        quietly(lambda path=path: data.load(path, client="client", label="label"), DataError, words)


LONG = {"lists": [[0.5] * 1000, [0.5] * 9000], "texts": ["x" * 60_000, "x" * 60_000]}


@pytest.mark.parametrize("column", LONG)
@pytest.mark.parametrize("compression", ["zstd", "gzip"])
def test_what_lists_and_texts_unpack_to_is_counted_before_they_are_read(tmp_path, column, compression):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"x": LONG[column]}).write_parquet(path, compression=compression)
    contents = parquet_pages.measure_unpacked(path, ["x"])
    assert contents.n_values >= {"lists": 10_000, "texts": 2}[column]
    assert contents.n_values * 16 + contents.n_bytes > 60_000
    assert parquet.read_parquet(path, lists=["x"], allowed=1_000_000)["x"].to_list() == LONG[column]
    with pytest.raises(ValueError, match="more than the"):
        parquet.read_parquet(path, lists=["x"], allowed=50_000)


def test_columns_that_are_not_read_do_not_count(tmp_path):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"a": [1, 2], "x": LONG["lists"]}).write_parquet(path)
    assert parquet_pages.measure_unpacked(path, ["a"]).n_values < 10
    assert parquet.read_parquet(path, ["a"], allowed=1000)["a"].to_list() == [1, 2]


@pytest.mark.parametrize("groups", [1, 7])
def test_all_groups_of_rows_count(tmp_path, groups):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"a": np.arange(700.0)}).write_parquet(path, row_group_size=700 // groups)
    assert parquet_pages.measure_unpacked(path, ["a"]).n_values >= 700


def test_texts_that_share_their_beginnings_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"a": ["x", "y", "z"]}).write_parquet(path)
    parquet_pages.measure_unpacked(path, ["a"])
    monkeypatch.setattr(parquet_pages, "SHARED_PREFIXES", 0)  # plain texts, of which this file's dictionary is made
    with pytest.raises(ValueError, match="DELTA_BYTE_ARRAY"):
        parquet_pages.measure_unpacked(path, ["a"])


def test_a_parquet_file_with_damaged_headers_is_refused_in_words(tmp_path):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"a": [1, 2], "x": LONG["lists"]}).write_parquet(path)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(2000):
        damaged = bytearray(content)
        for place in rng.integers(0, len(content) - 8, 3):
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged[: rng.integers(1, len(content))] if rng.random() < 0.1 else damaged)
        with contextlib.suppress(ValueError):
            parquet_pages.measure_unpacked(path, ["a", "x"])
