"""A hash chain of lines: every entry has its number, the hash of the entry before it, and its own hash.

A line is one JSON object that ends in ``"hash"``: the SHA-256 of everything in the line before that key. So a line that
was altered does not match its own hash, and a line that is missing, added or moved does not match its neighbours.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

START = "0" * 64  # the "previous" hash of the first entry
_HASH_KEY = b',"hash":"'


@dataclass(frozen=True)
class Link:
    """One line as it was read.

    Attributes:
        line: its number in the file, from 1.
        entry: what it holds; empty where it is no JSON object.
        hash: the hash that it ends in.
        sound: whether that hash is the one of its content.
    """

    line: int
    entry: dict[str, Any]
    hash: str
    sound: bool

    @property
    def number(self) -> object:
        """The number that the entry says it has."""
        return self.entry.get("entry")

    @property
    def previous(self) -> object:
        """The hash that, by this entry, the entry before it has."""
        return self.entry.get("previous")


def seal(number: int, previous: str, entry: Mapping[str, Any]) -> tuple[bytes, str]:
    """Return the line of an entry, with its newline, and its hash."""
    text = json.dumps({"entry": number, "previous": previous, **entry}, separators=(",", ":"), allow_nan=False)
    content = text[:-1].encode()  # without the closing brace
    content_hash = hashlib.sha256(content).hexdigest()
    return content + _HASH_KEY + content_hash.encode() + b'"}\n', content_hash


def read_link(raw: bytes, line: int) -> Link:
    """Read one line; a line that is no entry at all gives an empty entry that is not sound."""
    content, _, ending = raw.rpartition(_HASH_KEY)
    stated_hash = ending[:64].decode("ascii", "replace")
    try:
        entry = json.loads(raw)
    except (ValueError, RecursionError):
        entry = None
    if not isinstance(entry, dict):
        return Link(line=line, entry={}, hash=stated_hash, sound=False)
    ends_in_hash = ending == stated_hash.encode() + b'"}'
    sound = ends_in_hash and hashlib.sha256(content).hexdigest() == stated_hash
    return Link(line=line, entry=entry, hash=stated_hash, sound=sound)


def read_links(lines: Iterable[bytes]) -> list[Link]:
    """Read all lines."""
    return [read_link(raw, line) for line, raw in enumerate(lines, 1)]


def find_breaks(chain: Sequence[Link], final: object = None) -> list[str]:
    """Say where a chain is broken, and how; an empty list means that it holds.

    Args:
        chain: all lines, in order.
        final: the hash that the last line should have; None where it is not known.
    """
    if not chain:
        return ["The log is empty."]
    faults: list[str] = []
    line_of_hash = {chain_link.hash: chain_link.line for chain_link in chain}
    previous_hash = START
    previous_is_sound = True
    expected_number = 0
    for chain_link in chain:
        if not chain_link.sound:
            faults.append(f"Line {chain_link.line} was altered: its content does not have the hash that it ends in.")
        elif chain_link.previous != previous_hash and previous_is_sound:
            faults.append(_describe_misplaced(chain_link, expected_number, line_of_hash))
        previous_hash = chain_link.hash
        previous_is_sound = chain_link.sound
        if isinstance(chain_link.number, int):
            expected_number = chain_link.number
        expected_number += 1
    if final is not None and chain[-1].hash != final:
        faults.append(_describe_wrong_end(len(chain), line_of_hash.get(str(final))))
    return faults


def _describe_wrong_end(n_lines: int, last_line: int | None) -> str:
    """Say how the end of a log differs; ``last_line`` is the line that should be its last, if it is there."""
    if last_line is None:
        cause = "the end was cut off"
    else:
        cause = f"{n_lines - last_line} lines were added after line {last_line}"
    return f"The log does not end with the hash that the run gave at its end: {cause}, or it was rewritten."


def _describe_misplaced(misplaced: Link, expected_number: int, line_of_hash: Mapping[str, int]) -> str:
    """Say why a line that is sound in itself does not follow from the line before it."""
    number = misplaced.number
    previous = misplaced.previous
    problem = f"Line {misplaced.line} (entry {number}) does not follow from the line before it"
    if isinstance(previous, str) and previous in line_of_hash:
        return f"{problem}: it follows line {line_of_hash[previous]}, so lines were inserted or reordered here."
    if isinstance(number, int) and number > expected_number:
        n_deleted = number - expected_number
        deleted = "an entry was" if n_deleted == 1 else f"{n_deleted} entries were"
        return f"{problem}: {deleted} deleted here."
    return f"{problem}: the entry before it was replaced, or this line was inserted."
