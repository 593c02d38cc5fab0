"""Checks the files of a run folder when they are read: foreign and damaged ones are refused here, in one place."""

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


def _check_goal(target: dict[str, float]) -> dict[str, float]:
    """Refuse a target that names neither of the two figures which rounds are counted to."""
    if target and not ("accuracy" in target or "loss" in target):
        raise ValueError("it has neither accuracy nor loss")
    return target


Goal = Annotated[dict[str, float], AfterValidator(_check_goal)]
MOST_LEVELS = 32  # tables and lists within each other


class FileContent(BaseModel):
    """Holds the keys of a file that readers rely on; other keys, such as those of later versions, are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore")


class MethodEntry(FileContent):
    """Names the method of a run.

    Attributes:
        name: the method's name or import path.
        label: the method's name in the study.
    """

    name: str = ""
    label: str = ""


class Config(FileContent):
    """Holds the resolved configuration of the run; running it again gives the same records.

    Attributes:
        setting: the study's setting that this run belongs to.
        seed: what partition, initial model, availability and batches are drawn from.
        rounds: how many rounds the run has.
        method: the method's name, label and parameters.
        target: the accuracy or loss that the rounds to a target are counted to.
        data: the data set, the number of clients and the partition.
        model: the model's name and options.
        local: how clients train.
        task: the loss and the metric of a task that is not classification.
        availability: the mode of availability, with its options.
    """

    setting: str = ""
    seed: Seed = 0
    rounds: Whole = 0
    method: MethodEntry = MethodEntry()
    target: Goal = {}
    data: Table = {}
    model: Table = {}
    local: Table = {}
    task: Table = {}
    availability: Table = {}


class Manifest(FileContent):
    """Says where the run comes from.

    Attributes:
        sortition: the version that wrote the folder.
        data: the name and the digest of the data.
        test_examples: how many examples the model is tested on.
        needs: what the method reads, asks and has reported.
        python: the SHA-256 of the user's own code and objects, by the key that names them.
    """

    sortition: str = ""
    data: Table = {}
    test_examples: Whole | None = None
    needs: Table = {}
    python: dict[str, str] = {}


class Summary(FileContent):
    """Says how the run ended.

    Attributes:
        status: "done" for a finished run.
        rounds: how many rounds were played.
        figures: the standard figures, such as accuracy at the end and megabytes.
    """

    status: str = ""
    rounds: Whole = 0
    figures: dict[str, Number] = {}


class Index(FileContent):
    """Says what the folder of all runs holds.

    Attributes:
        title: the study's title.
        settings: the names of the settings, in the study's order.
        methods: the labels of the methods, in the study's order.
        runs: how many runs the study has, begun or not.
        margin: how many points of accuracy, or % of the baseline's loss, are practically no difference.
        baseline: the label or name of the method that others are compared with; empty for uniform.
        all_pairs: whether every pair of methods is compared.
    """

    title: str = ""
    settings: list[str] = []
    methods: list[str] = []
    runs: Whole = 0
    margin: Annotated[float, Field(gt=0, le=LARGEST_MARGIN, allow_inf_nan=False)] = MARGIN
    baseline: str = ""
    all_pairs: bool = False


class About(FileContent):
    """Describes the federation whose history lies beside its checkpoint NAME.

    Attributes:
        sortition: the version that wrote the file.
        backend: "flower", "nvflare" or "server".
        method: the class of the method.
        parameters: the method's parameters, as texts.
        needs: what the method reads, asks and has reported, and whether the server sees single updates.
        cohort: how many clients' updates a round is to use.
        overselect: how many clients are chosen for each update that is to be used.
        horizon: how many rounds the method plans for.
        guards: the settings of the guards that are not the defaults.
        audit: the path of the audit log, relative to this file.
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
    """Tell whether more than MOST_LEVELS tables and lists lie within each other; recursion would overflow on them."""
    level = [value]
    for _ in range(MOST_LEVELS):
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
    """Return what a file of this kind holds, or raise StorageError; ``line`` is the number of a line of records."""
    if line is None:
        complaint = f"{path} is damaged"
    else:
        complaint = f"{path} is damaged in line {line}"
    try:
        KINDS[kind].validate_python(value, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        key = ".".join(map(str, first["loc"][:2])) or kind
        raise StorageError(f"{complaint}: {key}: {first['msg'].lower()}.") from None
    if is_too_deep(value):
        raise StorageError(f"{complaint}: it has more than {MOST_LEVELS} tables within each other.")
    return dict(value)


def checked_arrays(arrays: Mapping[str, Array], path: Path, **shapes: tuple[int, str]) -> dict[str, Array]:
    """Return the arrays of a file, or raise StorageError.

    ``shapes`` gives, by name, how many axes an array must have and the kinds of its numbers. All arrays that it names
    must have one row a client.
    """
    arrays_by_client = {name: arrays[name] for name in shapes if name in arrays}
    lengths = {len(array) if array.ndim else 0 for array in arrays_by_client.values()}
    for name, array in arrays_by_client.items():
        n_axes, kinds = shapes[name]
        if array.ndim != n_axes or array.dtype.kind not in kinds or len(lengths) > 1:
            raise StorageError(f"{path} is damaged: {name} has shape {array.shape} and type {array.dtype}.")
        is_whole = array.dtype.kind in "iu"
        if is_whole and array.size and (array.min() < 0 or np.uint64(array.max()) >= 2**62):
            raise StorageError(f"{path} is damaged: {name} holds numbers that count nothing.")
    return dict(arrays)
