"""Names of clients beside their ids, and which client a user means."""

import json

import pytest

from sortition.core.errors import InputError, StorageError
from sortition.results.names import ClientNames, names_by_id, read_names

HOSPITALS = names_by_id(["hospital-1", "hospital-2", "3", "3 east"])


def test_a_client_is_called_by_name_and_id():
    assert HOSPITALS.name_with_id(1) == "hospital-2 (id 1)"
    assert HOSPITALS.name_with_id(9) == "client 9"
    assert HOSPITALS.sentence_start(9) == "Client 9"
    assert HOSPITALS.sentence_start(1) == "hospital-2 (id 1)"
    assert names_by_id(["0", "1"]).name_with_id(1) == "client 1"
    assert HOSPITALS.list_clients([1, 9]) == "hospital-2 (id 1), 9"
    assert ClientNames().list_clients(range(13)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, …"


def test_a_name_that_a_client_made_up_cannot_write_to_the_terminal():
    hostile = names_by_id(["\x1b[2J\nok", "x" * 500])
    assert hostile.name_with_id(0) == "\\x1b[2J\\nok (id 0)"
    assert len(hostile.short_name(1)) == 80


def test_a_client_is_found_by_name_or_id():
    assert HOSPITALS.find("hospital-2", 4, "in round 1") == 1
    assert HOSPITALS.find("1", 4, "in round 1") == 1
    assert HOSPITALS.find("3 east", 4, "in round 1") == 3
    with pytest.raises(InputError, match=r"--client must be one client; got '3', which means 3 \(id 2\) and 3 east"):
        HOSPITALS.find("3", 4, "in round 1")
    assert HOSPITALS.find("id:3", 4, "in round 1") == 3
    assert HOSPITALS.find("name:3", 4, "in round 1") == 2


def test_an_unknown_client_is_a_sentence():
    with pytest.raises(InputError, match=r"the name of a client, or 0 to 3, .* round 1; got 'hospitl-2'. Did you mean"):
        HOSPITALS.find("hospitl-2", 4, "in round 1")
    with pytest.raises(InputError, match="--names gives a file of them"):
        ClientNames().find("hospital-2", 4, "in round 1")
    with pytest.raises(InputError, match="must be 0 to 3, the clients known in round 1; got '4'"):
        ClientNames().find("4", 4, "in round 1")
    with pytest.raises(InputError, match="0 to 3"):
        ClientNames().find("9" * 5000, 4, "in round 1")


def test_names_are_read_from_a_list_or_a_table(tmp_path):
    path = tmp_path / "names.json"
    for content in (["a", "b"], {"names": ["a", "b"], "cohort": 3}):
        path.write_text(json.dumps(content))
        assert read_names(path).name_with_id(1) == "b (id 1)"
    for content in ({}, ["a", 3], "ab", None):
        path.write_text(json.dumps(content))
        with pytest.raises(InputError, match="--names must be a JSON list of names by id"):
            read_names(path)
    path.write_text("[" * 100_000)
    with pytest.raises(StorageError, match="cannot be read"):
        read_names(path)
    with pytest.raises(InputError, match="does not exist"):
        read_names(tmp_path / "none.json")
