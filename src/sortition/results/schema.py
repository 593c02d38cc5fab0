"""What a run folder's files must look like to be read: foreign and damaged ones are refused here, in one place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from sortition.core.arrays import Array
from sortition.core.errors import StorageError

Number = float | None
Whole = Annotated[int, Field(ge=0, lt=2**62)]
Table = dict[str, Any]
Tally = dict[str, float]


def _goal(target: dict[str, float]) -> dict[str, float]:
    if target and not ("accuracy" in target or "loss" in target):
        raise ValueError("it has neither accuracy nor loss")
    return target


Goal = Annotated[dict[str, float], AfterValidator(_goal)]
DEEPEST = 32


class Checked(BaseModel):
    """Keys that readers rely on; those of later versions are let through."""

    model_config = ConfigDict(strict=True, extra="ignore")


class Question(Checked):
    """What a method asked."""

    signal: str
    asked: Whole


class Record(Checked):
    """A line of rounds.jsonl."""

    round: Whole
    available: Whole | None = None
    cohort: list[Whole] | None = None
    weights: list[float] | None = None
    answered: list[Whole] | None = None
    questions: list[Question] | None = None
    bytes: Tally | None = None
    passes: Tally | None = None
    clock: Number = None
    train_loss: Number = None
    test: dict[str, Number] | None = None
    clients: dict[str, Number] | None = None
    rejected: Table | None = None
    notes: Table | None = None


class Chosen(Checked):
    """A method in a configuration."""

    name: str = ""
    label: str = ""


class Config(Checked):
    """config.toml."""

    setting: str = ""
    seed: Whole = 0
    rounds: Whole = 0
    method: Chosen = Chosen()
    target: Goal = {}
    data: Table = {}
    model: Table = {}
    local: Table = {}
    availability: Table = {}


class Manifest(Checked):
    """manifest.json."""

    sortition: str = ""
    data: Table = {}
    needs: Table = {}


class Summary(Checked):
    """summary.json."""

    status: str = ""
    rounds: Whole = 0
    figures: dict[str, Number] = {}


class Index(Checked):
    """study.json."""

    title: str = ""
    settings: list[str] = []
    methods: list[str] = []


Kind = Literal["record", "timing", "config", "manifest", "summary", "index"]
KINDS: dict[Kind, TypeAdapter[Any]] = {
    "record": TypeAdapter(Record),
    "timing": TypeAdapter(dict[str, float]),
    "config": TypeAdapter(Config),
    "manifest": TypeAdapter(Manifest),
    "summary": TypeAdapter(Summary),
    "index": TypeAdapter(Index),
}


def too_deep(value: Any) -> bool:
    """Whether tables and lists go on within each other without end; level by level, so that nothing recurses."""
    level = [value]
    for _ in range(DEEPEST):
        level = [item for one in level for item in (one.values() if isinstance(one, Mapping) else one)
                 if isinstance(item, Mapping | list)]  # fmt: skip
    return bool(level)


def checked(kind: Kind, value: Any, path: Path, line: int | None = None) -> dict[str, Any]:
    """The same value, if it is what a file of this kind holds."""
    at = "" if line is None else f" in line {line}"
    try:
        KINDS[kind].validate_python(value, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"][:2])) or kind
        raise StorageError(f"{path} is damaged{at}: {where}: {first['msg'].lower()}.") from None
    if too_deep(value):
        raise StorageError(f"{path} is damaged{at}: it has more than {DEEPEST} tables within each other.")
    return dict(value)


def arrays(found: Mapping[str, Array], path: Path, **shapes: tuple[int, str]) -> dict[str, Array]:
    """The same arrays, if those that ``shapes`` names have so many axes, such kinds of numbers and one row a client."""
    known = {name: found[name] for name in shapes if name in found}
    rows = {len(value) if value.ndim else 0 for value in known.values()}
    for name, value in known.items():
        ndim, kinds = shapes[name]
        if value.ndim != ndim or value.dtype.kind not in kinds or len(rows) > 1:
            raise StorageError(f"{path} is damaged: {name} has shape {value.shape} and type {value.dtype}.")
        if value.dtype.kind in "iu" and value.size and (value.min() < 0 or np.uint64(value.max()) >= 2**62):
            raise StorageError(f"{path} is damaged: {name} holds numbers that count nothing.")
    return dict(found)
