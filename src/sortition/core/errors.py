"""One form of message for everything that a user can get wrong: *who must be rule; got value. hint.*"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import numpy as np

LISTED = 60  # names that a message lists


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


def shown(value: object) -> str:
    """A value as an error message shows it: short, arrays by their shape."""
    if isinstance(value, np.ndarray) and value.size > 6:
        return f"an array of shape {value.shape}"
    text = value if isinstance(value, str) and " " in value else repr(value)
    return text if len(text) <= 120 else text[:117] + "..."


def bad(who: str, rule: str, got: object, hint: str = "") -> InputError:
    """The message: ``PowerOfChoice.d must be ≥ 1; got 0. Hint.``"""
    return InputError(f"{who} must be {rule}; got {shown(got)}.{' ' + hint if hint else ''}")


def closest(name: str, known: Iterable[str]) -> str:
    """``Did you mean 'alpha'?`` where some known name is near, else nothing."""
    near = difflib.get_close_matches(str(name)[:LISTED], list(known)[:LISTED], n=1, cutoff=0.5)
    return f" Did you mean {near[0]!r}?" if near else ""


def unknown(what: str, name: str, known: Iterable[str], owner: str = "") -> InputError:
    """``Unknown key 'alhpa'; FedGS has alpha, epsilon. Did you mean 'alpha'?`` Names are quoted if one has a comma."""
    names = list(known)
    more = f" and {len(names) - LISTED:,} more" if len(names) > LISTED else ""
    quoted = any("," in name for name in names[:LISTED])
    listed = ", ".join(repr(name) if quoted else name for name in names[:LISTED]) + more if names else "none"
    return InputError(
        f"Unknown {what} {shown(name)}; {owner or 'known'} {'has' if owner else 'are'} {listed}.{closest(name, names)}"
    )
