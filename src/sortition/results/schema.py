"""What a run folder's files must look like to be read: foreign and damaged ones are refused here, in one place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from sortition.core.arrays import Array
from sortition.core.errors import StorageError

Number = float | None
Whole = Annotated[int, Field(ge=0, lt=2**62)]
Table = dict[str, Any]
Tally = Mapping[str, float]


def _goal(target: dict[str, float]) -> dict[str, float]:
    if target and not ("accuracy" in target or "loss" in target):
        raise ValueError("it has neither accuracy nor loss")
    return target


Goal = Annotated[dict[str, float], AfterValidator(_goal)]
DEEPEST = 32


class Checked(BaseModel):
    """Keys that readers rely on; those of later versions are let through."""

    model_config = ConfigDict(strict=True, extra="ignore")


FaultRecord = dict[str, Whole | list[Whole]]  # ids by what befell them, or how often it happened


@with_config(ConfigDict(strict=True, extra="ignore"))
class QuestionRecord(TypedDict):
    """What a method asked in a round."""

    signal: str
    of: NotRequired[str]  # model, training or pairs
    asked: Whole  # clients
    answered: NotRequired[Whole]
    floats: NotRequired[Whole]  # numbers that were sent up
    after: NotRequired[Whole]  # clients of the rehearsal, 0 without one


@with_config(ConfigDict(strict=True, extra="ignore"))
class RoundRecord(TypedDict):
    """A line of rounds.jsonl: what the engine writes and all readers read. Files of older versions lack some keys."""

    round: Whole  # 0-based
    available: NotRequired[Whole | None]
    cohort: NotRequired[list[Whole] | None]  # as selected
    weights: NotRequired[list[float] | None]
    mass: NotRequired[Literal["expected"]]  # where weights sum to 1 in expectation only
    expected_size: NotRequired[float]  # of a cohort whose size is random
    answered: NotRequired[list[Whole] | None]  # ids; None: the whole cohort
    skipped: NotRequired[bool]  # nobody was available
    full: NotRequired[bool]  # more than the budget on purpose
    questions: NotRequired[list[QuestionRecord] | None]
    started: NotRequired[list[Whole] | None]  # ids, where not the whole cohort started training
    trainings: NotRequired[Whole]  # local trainings, where also others than the cohort trained
    uploads: NotRequired[Whole]  # updates that were sent, in the same rounds
    bytes: NotRequired[Tally | None]
    passes: NotRequired[Tally | None]  # examples that clients computed on, wasted ones included
    steps: NotRequired[Whole]
    clock: NotRequired[Number]  # simulated seconds so far
    train_loss: NotRequired[Number]
    rejected: NotRequired[Table | None]  # where clients sent unsound numbers
    faults: NotRequired[FaultRecord | None]  # see simulation.faults
    test: NotRequired[Mapping[str, Number] | None]  # where evaluated
    clients: NotRequired[Mapping[str, Number] | None]
    notes: NotRequired[Table | None]


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
    margin: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


Kind = Literal["record", "timing", "config", "manifest", "summary", "index"]
KINDS: dict[Kind, TypeAdapter[Any]] = {
    "record": TypeAdapter(RoundRecord),
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
