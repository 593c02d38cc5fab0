import json
import os
from contextlib import suppress

import numpy as np
import polars as pl
import pytest

from sortition.core.errors import DataError, InputError
from sortition.data import by_client, from_clients, from_frame, from_leaf, load
from sortition.data.natural import from_table
from sortition.studies.build_federation import split_data
from sortition.studies.config import Data, validated

X = np.arange(60, dtype=np.float32).reshape(30, 2)
Y = np.arange(30) % 3


def test_client_ids_make_the_split_and_every_client_gives_to_the_test_set():
    owners = np.repeat(["b", "a", "c"], [10, 15, 5])
    dataset = by_client(X, Y, owners, test=0.2)
    assert [len(rows) for rows in dataset.clients] == [12, 8, 4]  # a, b, c
    assert len(dataset.y_test) == 3 + 2 + 1
    for client, name in enumerate("abc"):
        rows = dataset.x_train[dataset.clients[client]][:, 0] / 2
        assert set(owners[rows.astype(int)]) == {name}


def test_a_client_with_one_example_keeps_it():
    dataset = by_client(X, Y, np.r_[0, np.ones(29, int)])
    assert [len(rows) for rows in dataset.clients] == [1, 24]


def test_arrays_of_every_client():
    dataset = from_clients({"one": (X[:10], Y[:10]), "two": (X[10:], Y[10:])})
    assert [len(rows) for rows in dataset.clients] == [8, 16]
    with pytest.raises(InputError, match="client → "):
        from_clients({"one": (X[:10], Y[:9])})


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        ({"a": 3}, r"a table client → \(x, y\) of arrays"),
        ({"a": (X, Y, Y)}, r"a table client → \(x, y\) of arrays"),
        ({"a": (X, 1)}, r"a table client → \(x, y\) of arrays"),
        (
            {"a": (X, Y), "b": (X[:, :1], Y)},
            r"data.x must be of one shape for all clients; got examples of shapes \[\(1,",
        ),
    ],
)
def test_odd_arrays_of_clients_are_refused(examples, message):
    with pytest.raises(InputError, match=message):
        from_clients(examples)


def test_a_client_without_examples_is_left_out():
    dataset, expected = (
        from_clients({"a": (X, Y), "b": ([], []), "c": (X, Y)}),
        from_clients({"a": (X, Y), "c": (X, Y)}),
    )
    assert dataset.digest == expected.digest


def test_clients_of_several_types_are_refused():
    with pytest.raises(InputError, match=r"data.clients must be all numbers or all texts; got ids of several types"):
        by_client(X, Y, np.array(["a", 1, 2] * 10, dtype=object))


class NumberedColumns(dict):
    """What is used of a data frame whose columns have numbers for names, as pandas makes them of an array."""

    @property
    def columns(self):
        return list(self)


def test_columns_that_are_named_by_numbers():
    dataset = from_frame(NumberedColumns({0: X[:, 0], 1: X[:, 1], "ward": Y, "y": Y}), client="ward", label="y")
    assert (
        dataset.digest
        == from_frame(pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "w": Y, "y": Y}), client="w", label="y").digest
    )


def test_types_of_a_table_are_those_of_all_its_rows(tmp_path):
    rows = [f"{k if k < 200 else 'x'},{k % 2},{1 if k < 200 else 1.5}" for k in range(300)]
    path = tmp_path / "TABLE.CSV"
    path.write_text("\n".join(["ward,y,size", *rows, *rows]))
    dataset = load(path, client="ward", label="y", test=0.5)
    assert len(dataset.clients) == 201
    assert set(np.unique(dataset.x_train)) == {1.0, 1.5}


def test_a_frame_with_a_client_column():
    frame = pl.DataFrame({"who": ["u", "v"] * 15, "a": X[:, 0], "b": X[:, 1], "label": ["no", "yes", "maybe"] * 10})
    dataset = from_frame(frame, client="who", label="label")
    assert dataset.x_train.shape == (24, 2)
    assert dataset.classes == 3
    assert len(dataset.clients) == 2
    with pytest.raises(InputError, match="column must be one of who, a, b, label"):
        from_frame(frame, client="user", label="label")
    with pytest.raises(InputError, match="features must be numbers"):
        from_frame(frame, client="a", label="label")


class NotAvailable:
    """As pandas' NA: equal to nothing it can tell."""

    def __eq__(self, other):
        return self

    __hash__ = None

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")

    def __str__(self):
        return "<NA>"


@pytest.mark.parametrize("column", ["who", "label"])
@pytest.mark.parametrize(
    ("value", "missing"),
    [("u", None), (1, None), (True, None), (1.0, float("nan")), ("u", NotAvailable())],
    ids=["texts", "numbers", "truths", "floats", "pandas"],
)
def test_rows_without_a_client_or_a_label_are_refused(column, value, missing):
    columns = {"who": ["u", "v"] * 15, "a": X[:, 0], "label": [0, 1] * 15, column: [value] * 28 + [missing] * 2}
    kinds = {column: pl.Object} if isinstance(missing, NotAvailable) else {}
    frame = pl.DataFrame(columns, schema_overrides=kinds)
    with pytest.raises(InputError, match=f"data: {column} must be given for every example; got 2 of 30 missing. Drop"):
        from_frame(frame, client="who", label="label")


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_examples_without_a_client_are_refused(missing):
    with pytest.raises(InputError, match=r"data.clients must be given for every example; got 1 of 30 missing"):
        by_client(X, Y, ["u"] * 29 + [missing] if missing is None else [1.0] * 29 + [missing])


def leaf(folder, part, users):
    (folder / part).mkdir(parents=True)
    document = {"users": list(users), "num_samples": [len(pairs["y"]) for pairs in users.values()], "user_data": users}
    (folder / part / "data.json").write_text(json.dumps(document))


def test_leaf_files_of_pictures_and_of_texts(tmp_path):
    pictures = tmp_path / "femnist"
    leaf(pictures, "train", {"w1": {"x": [[0.0, 1.0]] * 3, "y": [0, 1, 2]}, "w2": {"x": [[0.5, 0.5]], "y": [1]}})
    leaf(pictures, "test", {"w1": {"x": [[1.0, 1.0]], "y": [2]}, "w9": {"x": [[0.0, 0.0]], "y": [0]}})
    dataset = from_leaf(pictures)
    assert [len(rows) for rows in dataset.clients] == [3, 1]
    assert dataset.y_test.tolist() == [2]  # w9 is nobody who trains
    assert dataset.x_train.dtype == np.float32
    texts = tmp_path / "shakespeare"
    leaf(texts, "train", {"ROMEO": {"x": ["abc", "bcd"], "y": ["d", "e"]}})
    leaf(texts, "test", {"ROMEO": {"x": ["cde"], "y": ["f"]}})
    dataset = from_leaf(texts).scaled()
    assert dataset.x_train.tolist() == [[97, 98, 99], [98, 99, 100]]
    assert dataset.x_train.dtype == np.int64  # tokens are not divided by 255
    assert dataset.y_test.tolist() == [102]


def test_paths_of_leaf_folders_and_of_tables_are_loaded_by_name(tmp_path):
    leaf(tmp_path / "femnist", "train", {"w1": {"x": [[0.0, 1.0]] * 3, "y": [0, 1, 2]}})
    leaf(tmp_path / "femnist", "test", {"w1": {"x": [[1.0, 1.0]], "y": [2]}})
    assert len(load(tmp_path / "femnist").clients) == 1
    frame = pl.DataFrame({"who": ["u", "v"] * 15, "a": X[:, 0], "y": Y})
    frame.write_csv(tmp_path / "table.csv")
    frame.write_parquet(tmp_path / "table.parquet")
    for suffix in ("csv", "parquet"):
        assert len(load(tmp_path / f"table.{suffix}", client="who", label="y").clients) == 2
    (tmp_path / "broken.parquet").write_text("who,y")
    with pytest.raises(DataError, match="cannot be read as a table"):
        load(tmp_path / "broken.parquet", client="who", label="y")


def test_options_of_a_table_stand_beside_its_name_in_a_study(tmp_path):
    path = str(tmp_path / "visits.csv")
    pl.DataFrame({"ward": ["u", "v"] * 15, "a": X[:, 0], "outcome": Y}).write_csv(path)
    options = {"client": "ward", "label": "outcome"}
    dataset = split_data(validated(Data, {"name": path, **options}, "data"), 0)
    assert dataset.clients == 2
    assert (
        split_data(validated(Data, {"name": path, **options, "seed": 1}, "data"), 0).dataset.digest
        != dataset.dataset.digest
    )
    for given, missing in (({}, "got none"), ({"client": "ward"}, "got client")):
        with pytest.raises(InputError, match=rf"visits.csv must be given the options client, label; {missing}\."):
            validated(Data, {"name": path, **given}, "data")
        with pytest.raises(InputError, match="must be given the options client, label"):
            load(path, **given)


@pytest.mark.parametrize(
    ("name", "option", "meant"),
    [("digits", "client", "clients"), ("digits", "holdot", "holdout"), ("flights", "tset", "test")],
)
def test_a_wrong_key_of_data_is_refused_before_anything_is_read(name, option, meant):
    with pytest.raises(InputError, match=f"Unknown key '{option}'; data has .*Did you mean '{meant}'"):
        validated(Data, {"name": name, option: 1}, "data")


def test_data_that_are_not_here_are_checked_where_they_are_read():
    assert validated(Data, {"name": "elsewhere/visits.csv", "client": "ward"}, "data").options == {"client": "ward"}


def test_a_file_that_is_not_leaf_is_refused(tmp_path):
    (tmp_path / "train").mkdir()
    with pytest.raises(DataError, match="got none"):
        from_leaf(tmp_path)
    (tmp_path / "train" / "x.json").write_text('{"users": []}')
    with pytest.raises(DataError, match=r"must be LEAF's JSON"):
        from_leaf(tmp_path)


def test_natural_clients_in_a_study(monkeypatch):
    from sortition.studies import python_objects

    dataset = by_client(X, Y, np.repeat(np.arange(4), [3, 7, 10, 10]), test=0.2)
    with python_objects.forgotten_afterwards():
        name = python_objects.register("data", dataset, dataset.digest)

        def clients(**options):
            return split_data(validated(Data, {"name": name, **options}, "data"), 0).train.sizes.tolist()

        assert clients() == clients(partition="natural") == [3, 6, 8, 8]
        assert clients(partition={"name": "natural", "least": 5}) == [6, 8, 8]
        drawn = clients(partition="natural", clients=2)
        assert len(drawn) == 2
        with pytest.raises(InputError, match="at most 3, the clients of"):
            clients(partition={"name": "natural", "least": 5}, clients=4)
    with pytest.raises(InputError, match="given from Python"):
        split_data(validated(Data, {"name": name + "0"}, "data"), 0)


HOSTILE = {
    "no examples": ([], []),
    "ragged": ([[1, 2], [3]], [0, 1]),
    "nothing": ([None, [1, 2]], [0, 1]),
    "huge": ([[1, 2], [3, 10**400]], [0, 1]),
    "texts of different lengths": (["ab", "abc"], ["a", "b"]),
    "an empty text": (["ab", "ab"], ["", "b"]),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_odd_examples_of_leaf_are_refused_in_one_sentence(tmp_path, kind):
    x, y = HOSTILE[kind]
    for part, user_data in (("train", {"u": {"x": x, "y": y}}), ("test", {"u": {"x": x[:1], "y": y[:1]}})):
        (tmp_path / part).mkdir()
        (tmp_path / part / "all.json").write_text(json.dumps({"users": ["u"], "user_data": user_data}))
    with pytest.raises((DataError, InputError)):
        from_leaf(tmp_path)


def test_a_damaged_table_a_pipe_and_lists_are_refused(tmp_path):
    path = tmp_path / "table.parquet"
    pl.DataFrame({"c": [1] * 6, "y": [0, 1] * 3, "a": [1.0] * 6}).write_parquet(path)
    assert len(from_table(path, client="c", label="y").clients) == 1
    sound = path.read_bytes()
    for at in range(0, len(sound), 7):  # whatever polars makes of it, no panic comes out
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 0xFF]) + sound[at + 1 :])
        with suppress(DataError, InputError):
            from_table(path, client="c", label="y")
    pl.DataFrame({"c": [1] * 6, "y": [[0]] * 6, "a": [1.0] * 6}).write_parquet(path)
    with pytest.raises(DataError, match="its column 'y' holds List"):
        from_table(path, client="c", label="y")
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(DataError, match="it is not a file"):
        from_table(tmp_path / "pipe.csv", client="c", label="y")
