"""What Python code gives to ``compare``, as the table of a study: names stay, objects are kept under a name."""

from __future__ import annotations

import copy
import inspect
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sortition import selectors
from sortition.availability._tables import as_matrix
from sortition.availability.trace import Trace
from sortition.core.errors import bad
from sortition.core.selector import Selector
from sortition.data import Dataset, by_client, load, partitions
from sortition.data.user_data import from_items
from sortition.studies import given

Table = dict[str, Any]
MethodGiven = str | Mapping[str, Any] | Selector[Any] | type[Selector[Any]]


def partition(name: str, **options: Any) -> Table:
    """A partition by name with its options, checked at once: ``partition("dirichlet", alpha=0.3)``."""
    partitions.check(name, **options)
    return {"name": name, **options}


def methods_table(methods: Iterable[MethodGiven] | MethodGiven) -> list[Table]:
    """``[[method]]`` of names, tables, instances and classes; equal labels get what distinguishes them."""
    several = [methods] if isinstance(methods, str | Mapping | Selector | type) else list(methods)
    tables = [_method(one) for one in several]
    times = Counter(table["label"] for table in tables)
    for table in tables:
        own = {key: value for key, value in table.items() if key not in ("name", "label") and _plain(value)}
        if times[table["label"]] > 1 and own:
            table["label"] = ",".join([table["label"], *[f"{key}={value}" for key, value in own.items()]])
    return tables


def _method(one: MethodGiven) -> Table:
    if isinstance(one, str):
        return {"name": one, "label": one.rpartition(":")[2].replace("_", "-")}
    if isinstance(one, Mapping):
        return {"label": one.get("label") or str(one.get("name", "")).rpartition(":")[2].replace("_", "-"), **one}
    if isinstance(one, Selector):
        return _instance(one)
    if inspect.isclass(one) and issubclass(one, Selector):
        return {"name": given.keep("method", one), "label": one.__name__}
    raise bad("methods", "names, tables, Selector instances or Selector classes", one)


def _instance(one: Selector[Any]) -> Table:
    """A method of the package by its name and the parameters that are not default; any other as the object it is."""
    default, own = _defaults(type(one)), one.parameters()
    changed = {key: value for key, value in own.items() if key not in default or default[key] != value}
    name = next((name for name in selectors.discover() if selectors.find(name) is type(one)), None)
    if name is None or not all(_plain(value) for value in changed.values()):
        return {"name": given.keep("method", one), "label": type(one).__name__}
    return {"name": name, "label": name, **changed}


def _defaults(kind: type[Selector[Any]]) -> Table:
    try:
        return kind.load().parameters()
    except ValueError:  # some parameter has no default
        return {}


def _plain(value: Any) -> bool:
    return isinstance(value, str | bool | int | float)


def seeds_value(seeds: Any) -> Any:
    """A number or a list of numbers, NumPy's as Python's; anything else stays, and the study refuses it."""
    plain = seeds.tolist() if isinstance(seeds, np.ndarray | np.generic) else seeds
    if isinstance(plain, str | Mapping) or not isinstance(plain, Iterable):
        return plain
    return [one.item() if isinstance(one, np.generic) else one for one in plain]


def data_table(source: Any, clients: Any) -> Table:
    """``[data]`` of a name, a table, arrays, tensors, a torch Dataset, a frame or per-client arrays."""
    if isinstance(source, str | Path):
        table: Table = {"name": str(source)}
    elif isinstance(source, Mapping) and "name" in source:
        table = dict(source)
    else:
        made = _dataset(source, clients)
        table = {"name": given.keep("data", made, made.digest)}
    if isinstance(clients, int | np.integer) and not isinstance(clients, bool):
        table["clients"] = int(clients)
    elif clients is not None and isinstance(source, str | Path | Mapping):
        raise bad("clients", "a number, or beside arrays the client of each example", type(clients).__name__)
    return table


def _dataset(source: Any, clients: Any) -> Dataset:
    if clients is None or isinstance(clients, int | np.integer) or isinstance(source, Dataset | Mapping):
        return load(source)
    pairs = source if isinstance(source, tuple | list) else from_items(source)
    if len(pairs) != 2:
        raise bad("data", "(x, y) where clients are given for each example", f"{len(pairs)} arrays")
    return by_client(pairs[0], pairs[1], clients)


def partition_table(rule: Any) -> Table | None:
    """``data.partition`` of a name, a table, a Partition, a file, index arrays or a function."""
    if rule is None or isinstance(rule, Mapping):
        return None if rule is None else dict(rule)
    if isinstance(rule, str | Path):
        return {"name": str(rule)}
    if isinstance(rule, partitions.Partition):
        return {"name": given.keep("partition", rule, rule.digest)}
    if isinstance(rule, list | tuple) or (isinstance(rule, np.ndarray) and rule.ndim == 2):
        return {"name": given.keep("partition", partitions.IndexArrays(list(rule)))}
    if callable(rule):
        return {"name": given.keep("partition", rule)}
    raise bad("partition", "a name, a table, a Partition, a file, index arrays or a function", rule)


def availability_table(mode: Any) -> Table:
    """``[availability]`` of a name, a table, a 0/1 matrix, a trace frame or a function ``(t, clients, rng)``."""
    if isinstance(mode, str):
        return {"name": mode}
    if isinstance(mode, Mapping):
        return dict(mode)
    if hasattr(mode, "columns"):
        import polars as pl

        columns = {name: list(mode[name]) for name in mode.columns}
        frame = mode if isinstance(mode, pl.DataFrame) else pl.DataFrame(columns)
        digest = given.fingerprint({name: list(map(str, values)) for name, values in columns.items()})
        return {"name": given.keep("availability", Trace(frame=frame), digest)}
    if callable(mode):
        return {"name": given.keep("availability", mode)}
    try:
        matrix = np.asarray(mode)
    except ValueError:  # rows of different lengths
        matrix = np.empty(0)
    if matrix.ndim != 2:
        raise bad("availability", "a name, a matrix (rounds, clients), a trace frame or a function", mode)
    reachable = as_matrix(matrix, matrix.shape[1]).astype(int).tolist()
    return {"name": given.keep("availability", Trace(matrix=reachable), given.fingerprint(matrix))}


def model_table(model: Any) -> Table:
    """``[model]`` of a name, a table, a torch module or a function that makes one."""
    if isinstance(model, str | Mapping):
        return {"name": model} if isinstance(model, str) else dict(model)
    if hasattr(model, "state_dict") and not inspect.isclass(model):
        return {"name": given.keep("model", Copies(model), given.fingerprint(model))}
    if callable(model):
        _check_maker(model)
        return {"name": given.keep("model", model)}
    raise bad("model", "a name, a table, a torch module or a function that makes one", model)


class Copies:
    """Makes copies of a module: every run starts from the same weights, whatever its seed."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def __call__(self) -> Any:
        """A copy."""
        return copy.deepcopy(self.module)


def rule_table(rule: Any) -> Any:
    """A table of a study from a mapping or from the rule itself, such as ``LocalRule(lr=0.1, epochs=1)``."""
    if is_dataclass(rule) and not inspect.isclass(rule):
        return {key: value for key, value in asdict(rule).items() if value is not None}
    return dict(rule) if isinstance(rule, Mapping) else rule


def _check_maker(make: Any) -> None:
    """Refuse a function or class that wants more than the shape of the inputs and the number of classes."""
    wants = [
        one.name
        for one in inspect.signature(make).parameters.values()
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    if more := [name for name in wants if name not in ("inputs", "classes")]:
        rule = "a module, or a function whose parameters are called inputs and classes or have defaults"
        raise bad("model", rule, f"one with {', '.join(more)}", "Try model=lambda inputs, classes: Net(…).")
