"""Every kind of tampering breaks the chain, and is told by its line."""

import json

import pytest

from sortition.audit import hash_chain


@pytest.fixture
def lines():
    last, made = hash_chain.START, []
    for number in range(6):
        line, last = hash_chain.seal(number, last, {"round": number, "cohort": [number]})
        made.append(line.rstrip(b"\n"))
    return made


def told(lines, final=None):
    return hash_chain.find_breaks(hash_chain.read_links(lines), final)


def test_a_whole_chain_holds(lines):
    assert told(lines) == []
    assert told(lines, hash_chain.read_links(lines)[-1].hash) == []
    assert json.loads(lines[3])["previous"] == json.loads(lines[2])["hash"]


def test_altered(lines):
    lines[3] = lines[3].replace(b'"cohort":[3]', b'"cohort":[4]')
    assert told(lines) == ["Line 4 was altered: its content does not have the hash that it ends in."]


def test_altered_and_hashed_anew(lines):
    line, _ = hash_chain.seal(3, json.loads(lines[2])["hash"], {"round": 3, "cohort": [9]})
    lines[3] = line.rstrip(b"\n")
    (found,) = told(lines)
    assert found.startswith("Line 5 (entry 4) does not follow")
    assert "the entry before it was replaced" in found


@pytest.mark.parametrize(("at", "many"), [(0, "an entry was"), (3, "an entry was"), (slice(2, 4), "2 entries were")])
def test_deleted(lines, at, many):
    del lines[at]
    (found,) = told(lines)
    assert f"{many} deleted here" in found


def test_inserted(lines):
    line, _ = hash_chain.seal(4, json.loads(lines[3])["hash"], {"round": 4, "cohort": [9]})
    lines.insert(4, line.rstrip(b"\n"))
    (found,) = told(lines)
    assert found.startswith("Line 6 (entry 4)")
    assert "inserted or reordered" in found


def test_repeated(lines):
    lines.insert(3, lines[2])
    assert "inserted or reordered" in told(lines)[0]


def test_reordered(lines):
    lines[2], lines[3] = lines[3], lines[2]
    assert "Line 3 (entry 3)" in told(lines)[0]
    assert "inserted or reordered" in told(lines)[0]


def test_cut_at_the_end(lines):
    final = hash_chain.read_links(lines)[-1].hash
    assert "the end was cut off" in told(lines[:-1], final)[0]
    assert told([], final) == ["The log is empty."]


def test_added_at_the_end(lines):
    final = hash_chain.read_links(lines)[-1].hash
    line, _ = hash_chain.seal(6, final, {"round": 6})
    assert "1 lines were added after line 6" in told([*lines, line.rstrip(b"\n")], final)[0]


@pytest.mark.parametrize("line", [b"", b"{}", b"[]", b"nonsense", b'{"entry":0}', b"[" * 100_000, b"\xff\xfe"])
def test_what_is_no_entry_is_altered(lines, line):
    lines[2] = line
    assert told(lines)[0].startswith("Line 3 was altered")


@pytest.mark.parametrize("odd", [{}, [], 5, 1.5, True])
def test_hashes_of_another_kind_are_sentences(lines, odd):
    assert "the end was cut off" in told(lines, odd)[0]
    lines[2] = hash_chain.seal(2, odd, {"round": 2})[0].rstrip(b"\n")
    assert "does not follow from the line before it" in told(lines)[0]
