"""The user's own data: an npz file, a folder of npy files, or arrays and tensors from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeGuard, cast

import numpy as np
import numpy.typing as npt

from sortition.core.arrays import Array
from sortition.core.errors import DataError, bad
from sortition.core.inputs import Examples, Inputs
from sortition.core.storage.npz import read_npy, read_npz
from sortition.core.storage.snapshot import UNREADABLE
from sortition.core.streams import stream
from sortition.data.dataset import MOST_CLASSES, Dataset

ARRAY_NAMES = ("x_train", "y_train", "x_test", "y_test")
TARGET_NAMES = ("label", "labels", "target", "targets", "y")  # of an example that is a dict
InputsLike = npt.ArrayLike | tuple[npt.ArrayLike, ...] | Mapping[str, npt.ArrayLike]  # one array, or several
Example = Sequence[Any]  # (x, y), where x is an InputsLike


class ExampleSource(Protocol):
    """A torch Dataset, or anything else with a length whose items are (x, y)."""

    def __len__(self) -> int:
        """Return the number of examples."""

    def __getitem__(self, index: int, /) -> Example:
        """Return one example and its label."""


Part = InputsLike | Inputs | Example | ExampleSource
ArrayParts = tuple[Part, ...] | list[Part]


def from_file(path: Path, *, test: float = 0.2, seed: int = 0) -> Dataset:
    """Read the arrays of one npz file, or of a folder of npy files.

    They are ``x_train y_train x_test y_test``, or ``x y``, of which a share ``test`` is then held out.
    """
    try:
        arrays = _read_arrays(path)
    except UNREADABLE as error:
        raise DataError(f"{path} cannot be read as arrays: {error}.") from error
    if all(name in arrays for name in ARRAY_NAMES):
        return from_arrays(*(arrays[name] for name in ARRAY_NAMES), name=path.stem)
    if "x" in arrays and "y" in arrays:
        return from_arrays(arrays["x"], arrays["y"], name=path.stem, test=test, seed=seed)
    stored_names = ", ".join(sorted(arrays)) or "nothing"
    raise DataError(f"{path} must hold {', '.join(ARRAY_NAMES)}, or x and y; got {stored_names}.")


def _read_arrays(path: Path) -> dict[str, Array]:
    """Read arrays by name from an npz file, or from the npy files of a folder."""
    if not path.is_dir():
        return read_npz(path)
    return {file.stem: read_npy(file) for file in sorted(path.glob("*.npy"))}


class Targets(NamedTuple):
    """What examples are to be given by a model.

    Attributes:
        values: labels (n,) as int64, or targets (n, …) that are no labels.
        classes: number of labels; 0 for targets that are no labels.
        float_labels: whether the labels were given as floats.
    """

    values: Array
    classes: int
    float_labels: bool = False


def from_arrays(
    x: InputsLike | Inputs,
    y: npt.ArrayLike,
    x_test: InputsLike | Inputs | None = None,
    y_test: npt.ArrayLike | None = None,
    *,
    name: str = "data",
    test: float = 0.2,
    seed: int = 0,
) -> Dataset:
    """Make a data set of arrays or torch tensors; ``x`` may be a tuple or a dict of them.

    Whole numbers ``y`` (n,) are labels; other numbers are targets, for a task with a loss of its own. Without a test
    set a share ``test`` of the examples is drawn for it by the seed.
    """
    examples = as_inputs(x)
    given_targets = as_numpy(y)
    if given_targets.ndim == 0 or len(examples) != len(given_targets):
        n_targets = len(given_targets) if given_targets.ndim else "a single one"
        raise bad(f"{name}.y", f"{len(examples)} labels, one per example", n_targets)
    if x_test is None and y_test is None:
        targets = as_targets(given_targets, f"{name}.y")
        return _split_at_random(examples, targets, name=name, test=test, seed=seed)
    given_test_targets = as_numpy(y_test)
    all_targets = as_targets(_stack_targets(given_targets, given_test_targets, name), f"{name}.y")
    return Dataset(
        name=name,
        x_train=examples,
        y_train=all_targets.values[: len(given_targets)],
        x_test=as_inputs(cast(InputsLike, x_test)),
        y_test=all_targets.values[len(given_targets) :],
        classes=all_targets.classes,
        float_labels=all_targets.float_labels,
    )


def _stack_targets(y: Array, y_test: Array, name: str) -> Array:
    """Return the targets for training and for testing in one array."""
    if y.shape[1:] != y_test.shape[1:] or y_test.ndim == 0:
        raise bad(f"{name}.y_test", f"of shape (examples, …) like y, {y.shape[1:]} each", f"shape {y_test.shape}")
    return np.concatenate([y, y_test])


def _split_at_random(x: Examples, targets: Targets, *, name: str, test: float, seed: int) -> Dataset:
    """Hold a share ``test`` of the examples out for testing."""
    if not 0 < test < 1:
        raise bad(f"{name}.test", "a share between 0 and 1", test)
    order = stream(seed, "own data").permutation(len(x))
    test_rows, train_rows = np.split(order, [max(1, round(test * len(x)))])
    return Dataset(
        name=name,
        x_train=x[train_rows],
        y_train=targets.values[train_rows],
        x_test=x[test_rows],
        y_test=targets.values[test_rows],
        classes=targets.classes,
        float_labels=targets.float_labels,
        given_rows=(train_rows, test_rows),
        held_out=f"{len(test_rows):,} of the {len(x):,} examples given, drawn at random",
    )


def from_pairs(parts: ArrayParts, *, name: str = "data", test: float = 0.2, seed: int = 0) -> Dataset:
    """Make a data set of ``(x, y)``, ``((x, y), (x_test, y_test))``, ``(x, y, x_test, y_test)`` or two Datasets.

    Each ``x`` may be a tuple or a dict of arrays.
    """
    arrays = list(parts)
    if not _begins_with_several_inputs(parts):
        arrays = [array for part in parts for array in _arrays_of(part)]
    if len(arrays) not in (2, 4):
        rule = "(x, y), (x_train, y_train, x_test, y_test) or two Datasets"
        has_lists = any(isinstance(part, list) for part in parts)
        given_parts = "lists of numbers" if has_lists else f"{len(arrays)} arrays"
        raise bad("data", rule, given_parts, "Lists of examples or labels must be arrays: np.array(x), np.array(y).")
    return from_arrays(*cast(list[Any], arrays), name=name, test=test, seed=seed)


def _begins_with_several_inputs(parts: ArrayParts) -> bool:
    """Tell whether the parts are x and y, where x is a tuple or a dict of arrays, and not pairs (x, y)."""
    if len(parts) not in (2, 4) or not isinstance(parts[0], tuple | Mapping | Inputs):
        return False
    second = parts[1]
    return not isinstance(second, tuple | list | Mapping) and hasattr(second, "shape")


def _arrays_of(part: Part) -> Sequence[Part]:
    """List the arrays of a part: one array, a pair of them, or the examples and labels of a Dataset."""
    if isinstance(part, tuple | list):
        return part
    if _is_example_source(part):
        return from_items(part)
    return (part,)


def _is_example_source(part: object) -> TypeGuard[ExampleSource]:
    return hasattr(part, "__getitem__") and not hasattr(part, "shape") and not isinstance(part, Inputs | Mapping)


def from_items(source: ExampleSource) -> tuple[Examples, Array]:
    """Return the examples (x, y) of a torch Dataset, or of anything with a length whose items are (x, y).

    An ``x`` may be a tuple or a dict of arrays; an item may be a dict that holds its label under ``label`` or ``y``.
    """
    if hasattr(source, "columns"):
        raise bad("data", "arrays, or sortition.data.from_frame(frame, client=…, label=…)", type(source).__name__)
    try:
        pairs = [_as_pair(source[index]) for index in range(len(source))]
        examples = _stack_inputs([x for x, _ in pairs])
        labels = np.array([as_numpy(y) for _, y in pairs])
    except (TypeError, ValueError, KeyError) as error:
        rule = "a name, arrays, a Dataset of (x, y) or {client: (x, y)}"
        raise bad("data", rule, type(source).__name__, f"{error}") from None
    if labels.ndim == 2 and labels.shape[1] == 1:  # each label is an array of one
        labels = labels[:, 0]
    return examples, labels


def _as_pair(item: Example | Mapping[str, Any]) -> Example:
    """Return an item of a Dataset as (x, y)."""
    if not isinstance(item, Mapping):
        x, y = item
        return x, y
    target_name = next((name for name in TARGET_NAMES if name in item), None)
    if target_name is None:
        raise ValueError(f"items with {', '.join(map(str, item))}, and no label")
    return {name: value for name, value in item.items() if name != target_name}, item[target_name]


def _stack_inputs(examples: Sequence[Any]) -> Examples:
    """Return single examples as arrays with one row each."""
    first = examples[0]
    if isinstance(first, Mapping):
        columns = {name: [example[name] for example in examples] for name in first}
        return Inputs.of(columns, _stack)
    if isinstance(first, tuple):
        return Inputs.of(tuple(zip(*examples, strict=True)), _stack)
    return _stack(examples)


def _stack(rows: Any) -> Array:
    return np.stack([as_numpy(row) for row in rows])


def as_inputs(x: InputsLike | Examples) -> Examples:
    """Return one array, or the arrays of a tuple or a dict."""
    if isinstance(x, Inputs):
        return x
    if isinstance(x, tuple | Mapping):
        return Inputs.of(x, as_numpy)
    return as_numpy(x)


def as_numpy(values: object) -> Array:
    """Return an array, or a torch tensor on any device, as a numpy array."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    return np.asarray(values)


def as_targets(y: Array, subject: str) -> Targets:
    """Return whole numbers (n,) from 0 on as labels, also where they are kept as floats; other numbers as they are."""
    if y.dtype.kind == "b":
        y = y.astype(np.int64)
    if y.ndim == 0 or y.dtype.kind not in "iuf":
        hint = ""
        if y.dtype.kind in "UO":
            hint = "Number texts: classes, y = np.unique(y, return_inverse=True)."
        raise bad(subject, "whole numbers, one label per example", f"{y.dtype} of shape {y.shape}", hint)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise bad(subject, "finite numbers", "NaN or infinity")
    is_whole = y.dtype.kind != "f" or bool((y == np.floor(y)).all())
    if y.ndim == 1 and is_whole and 0 <= np.min(y, initial=0) <= np.max(y, initial=0) < MOST_CLASSES:
        classes = int(np.max(y, initial=0)) + 1
        return Targets(y.astype(np.int64), classes, float_labels=y.dtype.kind == "f")
    return Targets(y, classes=0)
