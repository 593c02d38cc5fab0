"""One door to all data sets: by name, by path, or from arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from re import compile as pattern
from typing import Any

from sortition.core.errors import bad, unknown
from sortition.core.import_policy import imported
from sortition.data import fetch, natural_sets
from sortition.data.catalogue import ENTRIES
from sortition.data.dataset import Dataset
from sortition.data.digits import digits
from sortition.data.fetch import read
from sortition.data.natural import from_leaf, from_table
from sortition.data.natural_sets import SETS, NaturalEntry
from sortition.data.natural_sets import read as read_natural
from sortition.data.sources import Report
from sortition.data.synthetic import synthetic
from sortition.data.user_data import from_file, from_pairs

IMPORT_PATH = pattern(r"[A-Za-z_][\w.]+:[A-Za-z_]\w*")
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
    """A data set by name (see :func:`names`), from a file or folder, from (x, y) arrays, or by import path."""
    if isinstance(source, tuple | list):
        return from_pairs(source, **options)
    if not isinstance(source, str | Path):
        raise bad("data", "a name, a path or a tuple of arrays", source)
    name = str(source).replace("_", "-")
    if name in MADE:
        return _called(MADE[name], name, options)
    if name in ENTRIES:
        return _called(partial(read, name), name, options)
    if name in SETS:
        return _natural(SETS[name], options)
    path = Path(source).expanduser()
    if IMPORT_PATH.fullmatch(str(source)) and not path.exists():
        return _imported(str(source), options)
    if path.exists():
        return _called(partial(_reader(path), path), str(source), options)
    if path.suffix or len(path.parts) > 1:
        raise bad("data", "a name or an existing path", str(source))
    raise unknown("data set", str(source), names())


def _reader(path: Path) -> Callable[..., Dataset]:
    """How a path is read: LEAF's folder, a table with a client column, or arrays."""
    if (path / "train").is_dir():
        return from_leaf
    return from_table if path.suffix in (".csv", ".parquet") else from_file


def _natural(entry: NaturalEntry, options: dict[str, Any]) -> Dataset:
    known = list(inspect.signature(entry.make).parameters)[1:]
    for option in options:
        if option not in known:
            raise unknown("key", option, known, entry.name)
    return read_natural(entry, **options)


def _imported(path: str, options: dict[str, Any]) -> Dataset:
    """A data set, or what a function makes of the options, by import path."""
    found = imported(path, "data.name")
    made = found if isinstance(found, Dataset) or not callable(found) else _called(found, path, options)
    if not isinstance(made, Dataset):
        raise bad("data.name", "a Dataset, or a function that returns one", type(made).__name__)
    return made


def _called(make: Callable[..., Dataset], name: str, options: dict[str, Any]) -> Dataset:
    known = list(inspect.signature(make).parameters)
    for option in options:
        if option not in known:
            raise unknown("key", option, known, name)
    return make(**options)
