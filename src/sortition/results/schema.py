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
from sortition.results.statistics import LARGEST_MARGIN, MARGIN

Number = float | None
Whole = Annotated[int, Field(ge=0, lt=2**62)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]  # what TOML can hold
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
    """What a method asked in a round.

    Attributes:
        signal: the name of what was asked.
        of: "model", "training" or "pairs".
        asked: how many clients.
        answered: how many of them.
        floats: numbers that were sent up.
        after: clients of the rehearsal, 0 without one.
    """

    signal: str
    of: NotRequired[str]
    asked: Whole
    answered: NotRequired[Whole]
    floats: NotRequired[Whole]
    after: NotRequired[Whole]


@with_config(ConfigDict(strict=True, extra="ignore"))
class RoundRecord(TypedDict):
    """A line of rounds.jsonl: what the engine writes and all readers read. Files of older versions lack some keys.

    Attributes:
        round: index, from 0.
        available: how many clients could be reached.
        cohort: ids of the clients that were selected.
        weights: their aggregation weights.
        mass: "expected" where weights sum to 1 in expectation only.
        expected_size: of a cohort whose size is random, the sum of the clients' probabilities.
        answered: ids whose update arrived in time; null where the whole cohort answered.
        skipped: whether nobody was available.
        full: whether more than the budget trained on purpose.
        questions: what the method asked before it chose, one table each.
        started: ids that began to train, where not the whole cohort did.
        trainings: local trainings, where also others than the cohort trained.
        uploads: updates that were sent, in the same rounds.
        bytes: traffic by purpose and direction.
        passes: examples that clients computed on by purpose, wasted ones included.
        server_passes: examples of its own that the server computed on, where a method asks the server itself.
        steps: local steps of the cohort.
        clock: simulated seconds since the start.
        train_loss: mean training loss of the cohort.
        rejected: client → why its numbers were withheld from the method.
        faults: ids by what befell them, or how often it happened.
        test: loss and accuracy of the global model on the test set, where this round was evaluated.
        clients: mean, spread and worst tenth of the clients' accuracies, where this round evaluated them.
        notes: the method's diagnostics, what the guards did, empty places.
    """

    round: Whole
    available: NotRequired[Whole | None]
    cohort: NotRequired[list[Whole] | None]
    weights: NotRequired[list[float] | None]
    mass: NotRequired[Literal["expected"]]
    expected_size: NotRequired[float]
    answered: NotRequired[list[Whole] | None]
    skipped: NotRequired[bool]
    full: NotRequired[bool]
    questions: NotRequired[list[QuestionRecord] | None]
    started: NotRequired[list[Whole] | None]
    trainings: NotRequired[Whole]
    uploads: NotRequired[Whole]
    bytes: NotRequired[Tally | None]
    passes: NotRequired[Tally | None]
    server_passes: NotRequired[Whole]
    steps: NotRequired[Whole]
    clock: NotRequired[Number]
    train_loss: NotRequired[Number]
    rejected: NotRequired[Table | None]
    faults: NotRequired[FaultRecord | None]
    test: NotRequired[Mapping[str, Number] | None]
    clients: NotRequired[Mapping[str, Number] | None]
    notes: NotRequired[Table | None]


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
        inner = [one.values() if isinstance(one, dict) else one for one in level]
        level = [item for items in inner for item in items if isinstance(item, (dict, list))]
        if not level:
            return False
    return True


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
