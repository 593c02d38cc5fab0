"""What a run folder's files must look like to be read: foreign and damaged ones are refused here, in one place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from sortition.core.arrays import Array
from sortition.core.errors import StorageError
from sortition.core.round_record import RoundRecord
from sortition.results.statistics import LARGEST_MARGIN, MARGIN

Number = float | None
Whole = Annotated[int, Field(ge=0, lt=2**62)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]  # what TOML can hold
Table = dict[str, Any]


def _goal(target: dict[str, float]) -> dict[str, float]:
    if target and not ("accuracy" in target or "loss" in target):
        raise ValueError("it has neither accuracy nor loss")
    return target


Goal = Annotated[dict[str, float], AfterValidator(_goal)]
DEEPEST = 32


class Checked(BaseModel):
    """Keys that readers rely on; those of later versions are let through."""

    model_config = ConfigDict(strict=True, extra="ignore")


class Chosen(Checked):
    """A method in a configuration.

    Attributes:
        name: of the method, or its import path.
        label: its name in the study.
    """

    name: str = ""
    label: str = ""


class Config(Checked):
    """config.toml: the resolved configuration of the run; running it again gives the same records.

    Attributes:
        setting: the study's setting that this run belongs to.
        seed: of partition, initial model, availability and batches.
        rounds: how many are to be played.
        method: name, label and parameters.
        target: accuracy or loss at which rounds are counted.
        data: data set, clients and partition.
        model: name and options.
        local: how clients train.
        task: loss and metric, where it is not classification.
        availability: the mode, with its options.
    """

    setting: str = ""
    seed: Seed = 0
    rounds: Whole = 0
    method: Chosen = Chosen()
    target: Goal = {}
    data: Table = {}
    model: Table = {}
    local: Table = {}
    task: Table = {}
    availability: Table = {}


class Manifest(Checked):
    """manifest.json: where the run comes from.

    Attributes:
        sortition: version that wrote the folder.
        data: name and digest of the data.
        test_examples: how many examples the model is tested on.
        needs: what the method reads, asks and has reported.
        python: SHA-256 of the user's own code and objects, by the key that names them.
    """

    sortition: str = ""
    data: Table = {}
    test_examples: Whole | None = None
    needs: Table = {}
    python: dict[str, str] = {}


class Summary(Checked):
    """summary.json: how the run ended.

    Attributes:
        status: "done" for a finished run.
        rounds: how many were played.
        figures: the standard figures, such as accuracy at the end and megabytes.
    """

    status: str = ""
    rounds: Whole = 0
    figures: dict[str, Number] = {}


class Index(Checked):
    """study.json: what the folder of all runs holds.

    Attributes:
        title: of the study.
        settings: their names, in the study's order.
        methods: their labels, in the study's order.
        runs: how many the study has, begun or not.
        margin: points of accuracy, or % of the baseline's loss, that are practically no difference.
        baseline: label or name of the method that others are compared with; empty for uniform.
        all_pairs: whether every pair of methods is compared.
    """

    title: str = ""
    settings: list[str] = []
    methods: list[str] = []
    runs: Whole = 0
    margin: Annotated[float, Field(gt=0, le=LARGEST_MARGIN, allow_inf_nan=False)] = MARGIN
    baseline: str = ""
    all_pairs: bool = False


class About(Checked):
    """NAME.about.json: what the history beside a federation's checkpoint NAME is of.

    Attributes:
        sortition: version that wrote it.
        backend: "flower", "nvflare" or "server".
        method: class of the method.
        parameters: of the method, as texts.
        needs: what the method reads, asks and has reported, and whether the server sees single updates.
        cohort: clients whose updates a round is to use.
        overselect: factor on the cohort: so many more are chosen.
        horizon: rounds that the method plans for.
        guards: settings of the guards that are not the defaults.
        audit: the audit log, relative to this file.
        names: the clients' stable names, by id.
    """

    sortition: str = ""
    backend: str = ""
    method: str = ""
    parameters: dict[str, str] = {}
    needs: Table = {}
    cohort: Whole = 0
    overselect: float = 1.0
    horizon: Whole | None = None
    guards: Table = {}
    audit: str | None = None
    names: list[str] = []


Kind = Literal["record", "timing", "config", "manifest", "summary", "index", "about"]
KINDS: dict[Kind, TypeAdapter[Any]] = {
    "record": TypeAdapter(RoundRecord),
    "timing": TypeAdapter(dict[str, float]),
    "config": TypeAdapter(Config),
    "manifest": TypeAdapter(Manifest),
    "summary": TypeAdapter(Summary),
    "index": TypeAdapter(Index),
    "about": TypeAdapter(About),
}


def is_too_deep(value: object) -> bool:
    """Tell whether tables and lists lie too deep within each other; level by level, so that nothing recurses."""
    level = [value]
    for _ in range(DEEPEST):
        inside: list[object] = []
        for container in level:
            if isinstance(container, dict):
                inside += container.values()
            elif isinstance(container, list):
                inside += container
        level = [item for item in inside if isinstance(item, dict | list)]
        if not level:
            return False
    return True


def checked(kind: Kind, value: Any, path: Path, line: int | None = None) -> dict[str, Any]:
    """Return the value of a file of this kind, or refuse it; ``line`` is its number in a file of records."""
    if line is None:
        damaged = f"{path} is damaged"
    else:
        damaged = f"{path} is damaged in line {line}"
    try:
        KINDS[kind].validate_python(value, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        key = ".".join(map(str, first["loc"][:2])) or kind
        raise StorageError(f"{damaged}: {key}: {first['msg'].lower()}.") from None
    if is_too_deep(value):
        raise StorageError(f"{damaged}: it has more than {DEEPEST} tables within each other.")
    return dict(value)


def arrays(stored: Mapping[str, Array], path: Path, **shapes: tuple[int, str]) -> dict[str, Array]:
    """Return the arrays of a file, or refuse them.

    ``shapes`` gives, by name, how many axes an array must have and the kinds of its numbers. All arrays that it names
    must have one row a client.
    """
    named = {name: stored[name] for name in shapes if name in stored}
    lengths = {len(value) if value.ndim else 0 for value in named.values()}
    for name, value in named.items():
        axes, kinds = shapes[name]
        if value.ndim != axes or value.dtype.kind not in kinds or len(lengths) > 1:
            raise StorageError(f"{path} is damaged: {name} has shape {value.shape} and type {value.dtype}.")
        is_whole = value.dtype.kind in "iu"
        if is_whole and value.size and (value.min() < 0 or np.uint64(value.max()) >= 2**62):
            raise StorageError(f"{path} is damaged: {name} holds numbers that count nothing.")
    return dict(stored)
