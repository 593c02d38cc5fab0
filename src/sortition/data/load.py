"""One door to all data sets: by name, by path, or from arrays."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Collection, Mapping
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from re import compile as pattern
from typing import Any, NamedTuple

from sortition.core.errors import InputError, bad, unknown
from sortition.core.import_policy import imported
from sortition.data import fetch, natural_sets
from sortition.data.catalogue import ENTRIES
from sortition.data.dataset import Dataset
from sortition.data.digits import digits
from sortition.data.fetch import read
from sortition.data.natural import from_clients, from_leaf, from_table
from sortition.data.natural_sets import SETS
from sortition.data.natural_sets import read as read_natural
from sortition.data.sources import Report
from sortition.data.synthetic import synthetic
from sortition.data.user_data import from_file, from_items, from_pairs

IMPORT_PATH = pattern(r"[^\W\d][\w.]*:[^\W\d]\w*")
KINDS: dict[str, tuple[Any, str]] = {  # of options, by the type that a function declares
    "int": (Integral, "a whole number"),
    "float": (Real, "a number"),
    "str": (str, "a text"),
    "bool": (bool, "true or false"),
}
MADE: dict[str, Callable[..., Dataset]] = {"digits": digits, "synthetic": synthetic}


def names() -> list[str]:
    """The data sets that have a name."""
    return [*MADE, *ENTRIES, *SETS]


def get(name: str, *, report: Report = lambda line: None, refresh: bool = False) -> Path:
    """Have a real data set, verified: its file or folder. Fetched if it is not there, damaged, or ``refresh``."""
    if name in SETS:
        return natural_sets.get(SETS[name], report=report, refresh=refresh)
    if name not in ENTRIES:
        raise unknown("data set", name, names())
    return fetch.get(name, report=report, refresh=refresh)


def load(source: Any, **options: Any) -> Dataset:
    """A data set by name (see :func:`names`), from a file or folder, by import path, or of Python's objects.

    Objects are ``(x, y)`` or ``(x, y, x_test, y_test)``, ``{client: (x, y)}``, a torch Dataset, or a Dataset itself.
    """
    if not isinstance(source, str | Path):
        return _of_object(source, options)
    if found := _known(source):
        _check(found.declared, str(source), options)
        return found.make(**options)
    if IMPORT_PATH.fullmatch(str(source)):
        return _imported(str(source), options)
    path = Path(source)
    if path.suffix or len(path.parts) > 1:
        raise bad("data", "a name or an existing path", str(source))
    raise unknown("data set", str(source), names())


def check(name: str, options: Mapping[str, Any], beside: Collection[str] = ()) -> None:
    """Refuse wrong and missing options of a data set before it is read; ``beside`` are keys that others take.

    What is not on this machine, or is known only after an import, is left to :func:`load`.
    """
    if found := _known(name):
        _check(found.declared, name, options, beside)


class _Known(NamedTuple):
    declared: Callable[..., Dataset]  # its parameters are the options
    make: Callable[..., Dataset]


def _known(source: str | Path) -> _Known | None:
    """What makes the data set of a name or an existing path."""
    name = str(source).replace("_", "-")
    if name in SETS:
        return _Known(partial(SETS[name].make, {}), partial(read_natural, SETS[name]))
    if name in MADE or name in ENTRIES:
        make = MADE.get(name) or partial(read, name)
    elif os.path.exists(path := os.path.expanduser(source)):  # noqa: PTH110, PTH111  (Path's raise for odd texts)
        make = partial(_reader(Path(path)), Path(path))
    else:
        return None
    return _Known(make, make)


def _reader(path: Path) -> Callable[..., Dataset]:
    """How a path is read: LEAF's folder, a table with a client column, or arrays."""
    if (path / "train").is_dir():
        return from_leaf
    return from_table if path.suffix.lower() in (".csv", ".parquet") else from_file


def _imported(path: str, options: dict[str, Any]) -> Dataset:
    """A data set, or what a function makes of the options, by import path."""
    found = imported(path, "data.name")
    make = found if callable(found) else lambda: found
    _check(make, path, options)
    made = make(**options)
    if isinstance(made, str | Path):
        raise bad("data.name", "arrays or a Dataset, or a function that returns them", made)
    return load(made)


def _of_object(source: Any, options: Mapping[str, Any]) -> Dataset:
    if isinstance(source, Dataset):
        _check(lambda: source, source.name, options)
        return source
    if isinstance(source, Mapping):
        _check(partial(from_clients, {}), "data", options)
        return from_clients(source, **options)
    _check(partial(from_pairs, ()), "data", options)
    return from_pairs(source if isinstance(source, tuple | list) else from_items(source), **options)


def _check(declared: Callable[..., Any], name: str, options: Mapping[str, Any], beside: Collection[str] = ()) -> None:
    """Refuse options that a function does not declare, and the lack of those that it needs."""
    parameters = inspect.signature(declared).parameters.values()
    takes = [one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    known, any_other = [one.name for one in takes], any(one.kind is one.VAR_KEYWORD for one in parameters)
    for option in options:
        if option not in known and not any_other:
            raise unknown("key", option, [*beside, *known], "data" if beside else name)
    for one in takes:
        if one.name in options:
            _check_kind(f"{name}.{one.name}", options[one.name], one.annotation)
    _check_given([one.name for one in takes if one.default is one.empty], name, options)


def _check_kind(who: str, value: Any, declared: Any) -> None:
    """Refuse a value of another type than a function declares, where that is a plain one."""
    kind = str(getattr(declared, "__name__", declared))
    types, words = KINDS.get(kind, (object, ""))
    if not isinstance(value, types) or (isinstance(value, bool) and kind in ("int", "float")):  # True is no number
        raise bad(who, words, value)


def _check_given(needed: list[str], name: str, options: Mapping[str, Any]) -> None:
    if missing := [option for option in needed if option not in options]:
        raise InputError(
            f"{name} must be given the options {', '.join(needed)}; got {', '.join(options) or 'none'}. "
            f"In a study: data = {{ name = {json.dumps(name)}, {', '.join(f'{one} = …' for one in needed)} }}; "
            f"to a command: --set data.{missing[0]}=…."
        )
