"""One door to all data sets: by name, by path, or from arrays."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from inspect import Parameter
from numbers import Integral, Real
from pathlib import Path
from re import compile as pattern
from typing import NamedTuple

from sortition.core.errors import InputError, bad, unknown
from sortition.core.import_policy import import_named
from sortition.data import fetch, natural_sets
from sortition.data.catalogue import ENTRIES
from sortition.data.dataset import Dataset
from sortition.data.digits import digits
from sortition.data.natural import from_clients, from_leaf, from_table
from sortition.data.natural_sets import SETS
from sortition.data.sources import Report
from sortition.data.synthetic import synthetic
from sortition.data.user_data import ArrayParts, Example, ExampleSource, from_file, from_items, from_pairs

DataObject = Dataset | Mapping[object, Example] | ArrayParts | ExampleSource
IMPORT_PATH = pattern(r"[^\W\d][\w.]*:[^\W\d]\w*")
OPTION_TYPES: dict[str, tuple[type, str]] = {  # by the type that a function declares: the check, and in words
    "int": (Integral, "a whole number"),
    "float": (Real, "a number"),
    "str": (str, "a text"),
    "bool": (bool, "true or false"),
}
GENERATED: dict[str, Callable[..., Dataset]] = {"digits": digits, "synthetic": synthetic}


def names() -> list[str]:
    """List the data sets that have a name."""
    return [*GENERATED, *ENTRIES, *SETS]


def get(name: str, *, report: Report = lambda line: None, refresh: bool = False) -> Path:
    """Verify a real data set and return its file or folder; fetch it if it is missing or damaged, or on ``refresh``."""
    if name in SETS:
        return natural_sets.get(SETS[name], report=report, refresh=refresh)
    if name not in ENTRIES:
        raise unknown("data set", name, names())
    return fetch.get(name, report=report, refresh=refresh)


def load(source: str | Path | DataObject, **options: object) -> Dataset:
    """Load a data set by name (see :func:`names`), from a file or folder, by import path, or of Python's objects.

    Objects are ``(x, y)`` or ``(x, y, x_test, y_test)``, ``{client: (x, y)}``, a torch Dataset, or a Dataset itself.
    """
    if not isinstance(source, str | Path):
        return _from_object(source, options)
    reader = _reader_of(source)
    if reader is not None:
        _check_options(reader.declared, str(source), options)
        return reader.make(**options)
    if IMPORT_PATH.fullmatch(str(source)):
        return _from_import_path(str(source), options)
    path = Path(source)
    if path.suffix or len(path.parts) > 1:
        raise bad("data", "a name or an existing path", str(source))
    raise unknown("data set", str(source), names())


def check(name: str, options: Mapping[str, object], beside: Collection[str] = ()) -> None:
    """Refuse wrong and missing options of a data set before it is read; ``beside`` are keys that others take.

    What is not on this machine, or is known only after an import, is left to :func:`load`.
    """
    reader = _reader_of(name)
    if reader is not None:
        _check_options(reader.declared, name, options, beside)


class _Reader(NamedTuple):
    """The function that makes a data set, and the one whose parameters are its options."""

    declared: Callable[..., Dataset]
    make: Callable[..., Dataset]


def _reader_of(source: str | Path) -> _Reader | None:
    """Return what reads the data set of a name or an existing path; None for anything else."""
    name = str(source).replace("_", "-")
    if name in SETS:
        entry = SETS[name]
        return _Reader(declared=partial(entry.make, {}), make=partial(natural_sets.read, entry))
    make: Callable[..., Dataset]
    if name in GENERATED:
        make = GENERATED[name]
    elif name in ENTRIES:
        make = partial(fetch.read, name)
    else:
        path = os.path.expanduser(source)  # noqa: PTH111  (Path's raises for odd texts)
        if not os.path.exists(path):  # noqa: PTH110
            return None
        make = partial(_reader_of_path(Path(path)), Path(path))
    return _Reader(declared=make, make=make)


def _reader_of_path(path: Path) -> Callable[..., Dataset]:
    """Return what reads a path: LEAF's folder, a table with a client column, or arrays."""
    if (path / "train").is_dir():
        return from_leaf
    if path.suffix.lower() in (".csv", ".parquet"):
        return from_table
    return from_file


def _from_import_path(path: str, options: Mapping[str, object]) -> Dataset:
    """Load the data behind an import path, or those that a function there makes of the options."""
    target = import_named(path, "data.name")
    make = target if callable(target) else lambda: target
    _check_options(make, path, options)
    data = make(**options)
    if isinstance(data, str | Path):
        raise bad("data.name", "arrays or a Dataset, or a function that returns them", data)
    return load(data)


def _from_object(source: DataObject, options: Mapping[str, object]) -> Dataset:
    if isinstance(source, Dataset):
        _check_options(lambda: source, source.name, options)
        return source
    make: Callable[..., Dataset]
    if isinstance(source, Mapping):
        make = partial(from_clients, source)
    elif isinstance(source, tuple | list):
        make = partial(from_pairs, source)
    else:
        make = partial(from_pairs, from_items(source))
    _check_options(make, "data", options)
    return make(**options)


def _check_options(
    declared: Callable[..., object], name: str, options: Mapping[str, object], beside: Collection[str] = ()
) -> None:
    """Refuse options that a function does not declare, and the lack of those that it needs."""
    parameters = inspect.signature(declared).parameters.values()
    named_parameters = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    known_names = [parameter.name for parameter in named_parameters]
    takes_any_option = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    for option in options:
        if option not in known_names and not takes_any_option:
            raise unknown("key", option, [*beside, *known_names], "data" if beside else name)
    for parameter in named_parameters:
        if parameter.name in options:
            _check_type(f"{name}.{parameter.name}", options[parameter.name], parameter)
    required = [parameter.name for parameter in named_parameters if parameter.default is parameter.empty]
    _check_required(required, name, options)


def _check_type(subject: str, value: object, parameter: Parameter) -> None:
    """Refuse a value of another type than a parameter declares, where that is a plain one."""
    declared_type = str(getattr(parameter.annotation, "__name__", parameter.annotation))
    if declared_type not in OPTION_TYPES:
        return
    accepted, words = OPTION_TYPES[declared_type]
    is_truth_value_for_number = isinstance(value, bool) and declared_type in ("int", "float")
    if not isinstance(value, accepted) or is_truth_value_for_number:
        raise bad(subject, words, value)


def _check_required(required: Sequence[str], name: str, options: Mapping[str, object]) -> None:
    missing_options = [option for option in required if option not in options]
    if not missing_options:
        return
    example = ", ".join(f"{option} = …" for option in required)
    raise InputError(
        f"{name} must be given the options {', '.join(required)}; got {', '.join(options) or 'none'}. "
        f"In a study: data = {{ name = {json.dumps(name)}, {example} }}; "
        f"to a command: --set data.{missing_options[0]}=…."
    )
