"""Several arrays an example, for models that take more than one input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sortition.core.arrays import Array, Ids
from sortition.core.errors import bad


@dataclass(frozen=True, eq=False)
class Inputs:
    """Arrays with one row an example each; an index takes the rows of all.

    Attributes:
        arrays: (n, …) each, by name; those of a tuple are named 0, 1, ….
        by_name: whether a model takes them by name, as those of a dict; otherwise by position.
    """

    arrays: Mapping[str, Array]
    by_name: bool

    def __post_init__(self) -> None:
        if not self.arrays:
            raise bad("inputs", "one array or more", "none")
        sizes = {name: len(array) if array.ndim else 0 for name, array in self.arrays.items()}
        if len(set(sizes.values())) > 1:
            listed = ", ".join(f"{name}: {size}" for name, size in sizes.items())
            raise bad("inputs", "arrays of as many examples each", listed)

    @classmethod
    def of(cls, parts: tuple[object, ...] | Mapping[str, object], convert: Callable[[object], Array]) -> Inputs:
        """Make inputs of a tuple or a mapping of whatever ``convert`` makes an array of."""
        if isinstance(parts, Mapping):
            return cls({str(name): convert(part) for name, part in parts.items()}, by_name=True)
        return cls({str(position): convert(part) for position, part in enumerate(parts)}, by_name=False)

    def __len__(self) -> int:
        """Return the number of examples."""
        return len(next(iter(self.arrays.values())))

    def __getitem__(self, rows: Ids | Array | slice) -> Inputs:
        """Return the inputs of some examples."""
        return self.map(lambda array: array[rows])

    def map(self, convert: Callable[[Array], Array]) -> Inputs:
        """Return inputs whose arrays are converted one by one."""
        return Inputs({name: convert(array) for name, array in self.arrays.items()}, self.by_name)

    @property
    def size(self) -> int:
        """The numbers of all arrays."""
        return sum(array.size for array in self.arrays.values())

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of one example in each array, by name."""
        return {name: array.shape[1:] for name, array in self.arrays.items()}


Examples = Array | Inputs  # one array, or several


def concatenate(parts: Sequence[Examples]) -> Examples:
    """Return the examples of all parts, one part after the other."""
    first = parts[0]
    if not isinstance(first, Inputs):
        return np.concatenate([part for part in parts if not isinstance(part, Inputs)])
    names = list(first.arrays)
    several = [part for part in parts if isinstance(part, Inputs)]
    if any(list(part.arrays) != names for part in several) or len(several) < len(parts):
        raise bad("inputs", f"the same arrays everywhere: {', '.join(names)}", "others")
    arrays = {name: np.concatenate([part.arrays[name] for part in several]) for name in names}
    return Inputs(arrays, first.by_name)


def shape_of(examples: Examples) -> tuple[int, ...] | dict[str, tuple[int, ...]]:
    """Return the shape of one example; by name where it has several arrays."""
    if isinstance(examples, Inputs):
        return examples.shapes
    return examples.shape[1:]
