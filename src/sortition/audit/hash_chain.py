"""A hash chain of lines: every entry has its number, the hash of the entry before it, and its own.

A line is one JSON object that ends in ``"hash"``: the SHA-256 of all of the line before that key. So an altered line
shows by its own hash, and a missing, added or moved one by those of its neighbours.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

START = "0" * 64  # what the first entry has before it
_MARK = b',"hash":"'


@dataclass(frozen=True)
class Link:
    """One line as it was read."""

    line: int  # 1-based
    entry: dict[str, Any]
    hash: str
    sound: bool  # whether the line's own hash is right

    @property
    def number(self) -> Any:
        """The number that the entry says it has."""
        return self.entry.get("entry")

    @property
    def previous(self) -> Any:
        """The hash that it says comes before it."""
        return self.entry.get("previous")


def seal(number: int, previous: str, entry: Mapping[str, Any]) -> tuple[bytes, str]:
    """The line (with its newline) of an entry, and its hash."""
    body = json.dumps({"entry": number, "previous": previous, **entry}, separators=(",", ":"), allow_nan=False)
    head = body[:-1].encode()
    own = hashlib.sha256(head).hexdigest()
    return head + _MARK + own.encode() + b'"}\n', own


def link(raw: bytes, line: int) -> Link:
    """A line, read; one that is no entry at all has an empty one and is not sound."""
    head, _, rest = raw.rpartition(_MARK)
    own = rest[:64].decode("ascii", "replace")
    try:
        entry = json.loads(raw)
    except (ValueError, RecursionError):
        entry = None
    whole = isinstance(entry, dict) and rest == own.encode() + b'"}'
    found = entry if isinstance(entry, dict) else {}
    return Link(line, found, own, whole and hashlib.sha256(head).hexdigest() == own)


def links(lines: Iterable[bytes]) -> list[Link]:
    """All lines, read."""
    return [link(raw, at) for at, raw in enumerate(lines, 1)]


def breaks(chain: Sequence[Link], final: Any = None) -> list[str]:
    """Where a chain is broken, and how; empty if it holds. ``final`` is the hash that should end it."""
    found: list[str] = []
    hashes = {one.hash: one.line for one in chain}
    before: str = START
    expected: int = 0
    for at, one in enumerate(chain):
        if not one.sound:
            found.append(f"Line {one.line} was altered: its content has not the hash that it ends in.")
        elif one.previous != before and (at == 0 or chain[at - 1].sound):
            found.append(_misplaced(one, expected, hashes))
        before = one.hash
        expected = 1 + int(one.number if isinstance(one.number, int) else expected)
    if not chain:
        found.append("The log is empty.")
    elif final is not None and chain[-1].hash != final:
        end = hashes.get(str(final))
        how = "the end was cut off" if end is None else f"{len(chain) - end} lines were added after line {end}"
        found.append(f"The log does not end with the hash that the run gave at its end: {how}, or it was rewritten.")
    return found


def _misplaced(one: Link, expected: int, hashes: Mapping[str, int]) -> str:
    """Why a line that is sound in itself does not follow from the one before it."""
    where = f"Line {one.line} (entry {one.number}) does not follow from the line before it"
    if isinstance(one.previous, str) and one.previous in hashes:
        return f"{where}: it follows line {hashes[one.previous]}, so lines were inserted or reordered here."
    if isinstance(one.number, int) and one.number > expected:
        many = "an entry was" if one.number == expected + 1 else f"{one.number - expected} entries were"
        return f"{where}: {many} deleted here."
    return f"{where}: the entry before it was replaced, or this line was inserted."
