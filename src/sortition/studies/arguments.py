"""What Python code gives to ``compare``, as the table of a study: names stay, objects are registered under a name."""

from __future__ import annotations

import copy
import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from sortition import selectors
from sortition.availability._tables import as_matrix
from sortition.availability.trace import Trace
from sortition.core.errors import bad
from sortition.core.selector import Selector
from sortition.core.validation import check_parameters
from sortition.data import Dataset, by_client, load, partitions
from sortition.data.load import DataObject
from sortition.data.user_data import from_items
from sortition.learning.task import METRIC_NAME, METRICS, UNNAMED
from sortition.studies import python_objects
from sortition.studies.types import (
    AnySelector,
    AvailabilityLike,
    ClientsLike,
    DataLike,
    LossFunction,
    MethodLike,
    MethodsLike,
    MetricFunction,
    ModelLike,
    PartitionLike,
    SelectorClass,
    TomlTable,
    TraceFrame,
)

if TYPE_CHECKING:
    from torch.nn import Module


def partition(name: str, **options: object) -> TomlTable:
    """Return a partition by name with its options, checked at once: ``partition("dirichlet", alpha=0.3)``."""
    partitions.check(name, **options)
    return {"name": name, **options}


# -- methods --------------------------------------------------------------------------------------------------------


def method_tables(methods: MethodsLike) -> list[TomlTable]:
    """Return ``[[method]]`` tables of names, tables, instances or classes; equal labels get their parameters added."""
    if isinstance(methods, str | Mapping | Selector | type):
        tables = [_method_table(methods)]
    else:
        tables = [_method_table(method) for method in methods]
    label_counts = Counter(table["label"] for table in tables)
    for table in tables:
        if label_counts[table["label"]] > 1:
            table["label"] = ",".join([table["label"], *_parameter_texts(table)])
    return tables


def _parameter_texts(method: TomlTable) -> list[str]:
    """Return ``alpha=0.5`` and so on for the parameters of a method that a label can show."""
    parameters = {key: value for key, value in method.items() if key not in ("name", "label")}
    return [f"{key}={value}" for key, value in parameters.items() if _is_plain(value)]


def _method_table(method: MethodLike) -> TomlTable:
    if isinstance(method, str):
        return {"name": method, "label": _default_label(method)}
    if isinstance(method, Mapping):
        label = method.get("label") or _default_label(str(method.get("name", "")))
        return {"label": label, **method}
    if isinstance(method, Selector):
        return _instance_table(method)
    if inspect.isclass(method) and issubclass(method, Selector):
        return {"name": python_objects.register("method", method), "label": method.__name__}
    raise bad("methods", "names, tables, Selector instances or Selector classes", method)


def _default_label(name: str) -> str:
    """Return the label of a method that has only a name: the class of an import path, or the name with hyphens."""
    return name.rpartition(":")[2].replace("_", "-")


def _instance_table(selector: AnySelector) -> TomlTable:
    """Return a method of the package by its name and changed parameters, and any other as a registered object."""
    defaults = _default_parameters(type(selector))
    changed = {
        key: value for key, value in selector.parameters().items() if key not in defaults or defaults[key] != value
    }
    name = next((name for name in selectors.discover() if selectors.find(name) is type(selector)), None)
    if name is None or not all(_is_plain(value) for value in changed.values()):
        return {"name": python_objects.register("method", selector), "label": type(selector).__name__}
    return {"name": name, "label": name, **changed}


def _default_parameters(cls: SelectorClass) -> TomlTable:
    try:
        return cls.load().parameters()
    except ValueError:  # some parameter has no default
        return {}


def _is_plain(value: object) -> bool:
    return isinstance(value, str | bool | int | float)


def seeds_value(seeds: object) -> object:
    """Return a number or a list of numbers, NumPy's as Python's; anything else stays, and the study refuses it."""
    if isinstance(seeds, np.ndarray | np.generic):
        seeds = seeds.tolist()
    if isinstance(seeds, str | Mapping) or not isinstance(seeds, Iterable):
        return seeds
    return [seed.item() if isinstance(seed, np.generic) else seed for seed in seeds]


# -- data and partition ---------------------------------------------------------------------------------------------


def data_table(source: DataLike, clients: ClientsLike | None) -> TomlTable:
    """Return ``[data]`` of a name, a table, arrays, tensors, a torch Dataset or the examples of each client."""
    if isinstance(source, str | Path):
        table: TomlTable = {"name": str(source)}
    elif isinstance(source, Mapping) and "name" in source:
        table = {str(key): value for key, value in source.items()}
    else:
        dataset = _dataset(cast(DataObject, source), clients)  # a name or a table was taken above
        table = {"name": python_objects.register("data", dataset, dataset.digest)}
    if isinstance(clients, int | np.integer) and not isinstance(clients, bool):
        table["clients"] = int(clients)
    elif clients is not None and isinstance(source, str | Path | Mapping):
        raise bad("clients", "a number, or beside arrays the client of each example", type(clients).__name__)
    return table


def _dataset(source: DataObject, clients: ClientsLike | None) -> Dataset:
    """Return the data set of Python's objects; where ``clients`` names the client of each example, it keeps them."""
    if clients is None or isinstance(clients, int | np.integer) or isinstance(source, Dataset | Mapping):
        return load(source)
    arrays: Sequence[Any]
    if isinstance(source, tuple | list):
        arrays = cast(Sequence[Any], source)
    else:
        arrays = from_items(source)
    if len(arrays) != 2:
        raise bad("data", "(x, y) where clients are given for each example", f"{len(arrays)} arrays")
    x, y = arrays
    return by_client(x, y, clients)


def partition_table(rule: PartitionLike | None) -> TomlTable | None:
    """Return ``data.partition`` of a name, a table, a Partition, a file, index arrays or a function."""
    if rule is None:
        return None
    if isinstance(rule, Mapping):
        return dict(rule)
    if isinstance(rule, str | Path):
        return {"name": str(rule)}
    if isinstance(rule, partitions.Partition):
        return {"name": python_objects.register("partition", rule, rule.digest)}
    if isinstance(rule, list | tuple) or (isinstance(rule, np.ndarray) and rule.ndim == 2):
        return {"name": python_objects.register("partition", partitions.IndexArrays(list(rule)))}
    if callable(rule):
        return {"name": python_objects.register("partition", rule)}
    raise bad("partition", "a name, a table, a Partition, a file, index arrays or a function", rule)


# -- availability, model, rules -------------------------------------------------------------------------------------


def availability_table(mode: AvailabilityLike) -> TomlTable:
    """Return ``[availability]`` of a name, a table, a 0/1 matrix, a trace frame or a function ``(t, clients, rng)``."""
    if isinstance(mode, str):
        return {"name": mode}
    if isinstance(mode, Mapping):
        return dict(mode)
    if hasattr(mode, "columns"):
        return _trace_table(cast(TraceFrame, mode))
    if callable(mode):
        return {"name": python_objects.register("availability", mode)}
    try:
        matrix = np.asarray(mode)
    except ValueError:  # rows of different lengths
        matrix = np.empty(0)
    if matrix.ndim != 2:
        raise bad("availability", "a name, a matrix (rounds, clients), a trace frame or a function", mode)
    reachable = as_matrix(matrix, matrix.shape[1]).astype(int).tolist()
    trace = Trace(matrix=reachable)
    return {"name": python_objects.register("availability", trace, python_objects.fingerprint(matrix))}


def _trace_table(frame: TraceFrame) -> TomlTable:
    """Return ``[availability]`` of a polars or pandas frame; its digest covers the values as texts."""
    import polars as pl

    columns = {name: list(frame[name]) for name in frame.columns}
    trace = Trace(frame=frame if isinstance(frame, pl.DataFrame) else pl.DataFrame(columns))
    digest = python_objects.fingerprint({name: list(map(str, values)) for name, values in columns.items()})
    return {"name": python_objects.register("availability", trace, digest)}


def model_table(model: ModelLike) -> TomlTable:
    """Return ``[model]`` of a name, a table, a torch module or a function that makes one."""
    if isinstance(model, str):
        return {"name": model}
    if isinstance(model, Mapping):
        return dict(model)
    if hasattr(model, "state_dict") and not inspect.isclass(model):
        copies = Copies(cast("Module", model))
        return {"name": python_objects.register("model", copies, python_objects.fingerprint(model))}
    if callable(model):
        _check_maker(model)
        return {"name": python_objects.register("model", model)}
    raise bad("model", "a name, a table, a torch module or a function that makes one", model)


class Copies:
    """Makes copies of a module: every run starts from the same weights, whatever its seed."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def __call__(self) -> Module:
        """Return a copy."""
        return copy.deepcopy(self.module)


def _check_maker(make: Callable[..., object]) -> None:
    """Refuse a function or class that needs more than the shape of the inputs and the number of classes."""
    parameters = inspect.signature(make).parameters.values()
    required = [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    too_many = [name for name in required if name not in ("inputs", "classes")]
    if too_many:
        requirement = "a module, or a function whose parameters are called inputs and classes or have defaults"
        raise bad("model", requirement, f"one with {', '.join(too_many)}", "Try model=lambda inputs, classes: Net(…).")


def task_table(
    loss: str | LossFunction | None, metric: str | MetricFunction | None, higher_is_better: bool | None
) -> TomlTable:
    """Return ``[task]`` of names and functions; empty where nothing is given."""
    table: TomlTable = {}
    if loss is not None:
        table["loss"] = loss if isinstance(loss, str) else _registered_function("loss", loss)
    if metric is not None:
        table["metric"] = metric if isinstance(metric, str) else _registered_function("metric", metric)
    if metric is not None and not isinstance(metric, str):
        table["metric_name"] = _metric_name(metric)
    if higher_is_better is not None:
        table["higher_is_better"] = higher_is_better
    return table


def _registered_function(key: str, function: object) -> str:
    if inspect.isclass(function) or not callable(function):
        if inspect.isclass(function):
            hint = "Give an instance: nn.MSELoss(), not nn.MSELoss."
        else:
            hint = ""
        raise bad(key, "a name or a function (outputs, targets)", function, hint)
    check_parameters(function, ("outputs", "targets"), key)
    return python_objects.register(key, function)


def _metric_name(metric: MetricFunction) -> str:
    """Return what tables call a metric: the name of its function or of its class."""
    name = str(getattr(metric, "__name__", type(metric).__name__))
    if METRIC_NAME.fullmatch(name) and name not in METRICS:
        return name
    if name in METRICS:
        return f"own_{name}"
    return UNNAMED


def rule_table(rule: Any) -> Any:
    """Return a mapping, or a rule such as ``LocalRule(lr=0.1, epochs=1)``, as a table; any other value stays."""
    if is_dataclass(rule) and not inspect.isclass(rule):
        if getattr(rule, "batch", 1) is None:  # a table has no such value, and its default is another batch
            raise bad("local.batch", "a number in a study", None, "A large one takes all examples of a client.")
        return {key: value for key, value in asdict(rule).items() if value is not None}
    if isinstance(rule, Mapping):
        return dict(rule)
    return rule
