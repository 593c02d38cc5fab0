"""One form of message for everything that a user can get wrong: *who must be rule; got value. hint.*"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import numpy as np

MOST_NAMES = 60  # that a message lists
LONGEST_COMPARED = 60  # characters of a name that is compared with known ones
LONGEST_PRINTED = 80  # characters of a name that are shown
LONGEST_VALUE = 120  # letters of a value in a message
LARGEST_ARRAY = 6  # numbers of an array that a message shows


class SortitionError(Exception):
    """Everything that Sortition raises on purpose."""


class InputError(SortitionError, ValueError):
    """A value that somebody gave does not fit; nothing has been changed."""


class UndeclaredError(SortitionError):
    """A selector asked for, or read, what its ``needs`` do not declare."""


class StorageError(SortitionError):
    """A file that was written by Sortition cannot be used: torn, foreign, newer or of another configuration."""


class DataError(SortitionError):
    """A data set cannot be had or is not what its checksum says."""


def show_value(value: object) -> str:
    """Write a value as an error message shows it: short, and a large array by its shape."""
    if isinstance(value, np.ndarray) and value.size > LARGEST_ARRAY:
        return f"an array of shape {value.shape}"
    is_phrase = isinstance(value, str) and " " in value
    text = str(value) if is_phrase else repr(value)
    if len(text) > LONGEST_VALUE:
        return text[: LONGEST_VALUE - 3] + "..."
    return text


def printable(text: str, max_characters: int = LONGEST_PRINTED) -> str:
    """Return what a client wrote as a terminal can show it: one line, without control characters, and not too long."""
    if len(text) > max_characters:
        text = f"{text[: max_characters - 1]}…"
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def bad(subject: str, rule: str, got: object, hint: str = "") -> InputError:
    """Make the error with the message ``PowerOfChoice.d must be ≥ 1; got 0. Hint.``

    ``subject`` is what the message is about: an option, an argument or a file.
    """
    message = f"{subject} must be {rule}; got {show_value(got)}."
    if hint:
        message += f" {hint}"
    return InputError(message)


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return `` Did you mean 'alpha'?`` where some known name is near, else an empty text."""
    candidates = list(known)[:MOST_NAMES]
    matches = difflib.get_close_matches(str(name)[:LONGEST_COMPARED], candidates, n=1, cutoff=0.5)
    if not matches:
        return ""
    return f" Did you mean {matches[0]!r}?"


def unknown(kind: str, name: str, known: Iterable[str], holder: str = "") -> InputError:
    """Make the error ``Unknown key 'alhpa'; FedGS has alpha, epsilon. Did you mean 'alpha'?``"""
    names = list(known)
    listing = f"known are {_list_names(names)}"
    if holder:
        listing = f"{holder} has {_list_names(names)}"
    return InputError(f"Unknown {kind} {show_value(name)}; {listing}.{suggest_name(name, names)}")


def _list_names(names: list[str]) -> str:
    """List names, at most 60 of them; they are quoted if one has a comma."""
    if not names:
        return "none"
    first_names = names[:MOST_NAMES]
    if any("," in name for name in first_names):
        first_names = [repr(name) for name in first_names]
    text = ", ".join(first_names)
    if len(names) > MOST_NAMES:
        text += f" and {len(names) - MOST_NAMES:,} more"
    return text
