"""The tables of a study's TOML, and the resolved configuration of one run, as typed models."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Annotated, Any, Literal, Self, TypeGuard, TypeVar, cast, get_type_hints

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    StrictBool,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue

from sortition import availability
from sortition.aggregation import ServerRule
from sortition.core.cost import MOST_ROUNDS, Until
from sortition.core.errors import InputError, bad, unknown
from sortition.core.guards.settings import Guards
from sortition.core.policy import Policy
from sortition.core.validation import translate_error
from sortition.data import partitions
from sortition.data.client_skew import LabelNoise, check_styles
from sortition.data.load import check as check_options
from sortition.data.subset import Subset
from sortition.federation.pace import Pace
from sortition.learning.rule import ADDED, LocalRule
from sortition.learning.task import TaskRule
from sortition.privacy.promises import Promises
from sortition.results.reference_lines import REFERENCES
from sortition.results.schema import Seed
from sortition.simulation.attacks import Attacks
from sortition.simulation.batteries import Habits
from sortition.simulation.devices import Devices
from sortition.simulation.faults import Faults
from sortition.studies.folder_names import can_name_folder
from sortition.studies.types import TomlTable

M = TypeVar("M", bound=BaseModel)
Count = Annotated[int, Field(ge=1, le=10_000_000, strict=True)]  # more is a slip


def _as_pace(value: object) -> object:
    """Let the pace check its own keys and values, so that its messages are the same everywhere."""
    if isinstance(value, dict):
        return Pace.of(value, "study")
    return value


PaceTable = Annotated[Pace, BeforeValidator(_as_pace, json_schema_input_type=Pace)]


class StrictTable(BaseModel):
    """A table whose keys are all known."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Named(BaseModel):
    """Something chosen by name; the other keys are its options, which it checks itself.

    A plain string is shorthand for ``{ name = … }``.

    Attributes:
        name: which one; a plain string in place of the table is the name alone.
    """

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)
    name: str

    @model_validator(mode="before")
    @classmethod
    def _expand_shorthand(cls, value: object) -> object:
        if isinstance(value, str):
            return {"name": value}
        return value

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Allow a table or a plain string."""
        return {"anyOf": [handler(core), {"type": "string"}]}

    @property
    def options(self) -> TomlTable:
        """Return every key that is not a field of the model."""
        return dict(self.model_extra or {})


class Data(Named):
    """A data set and how it is split; other keys are options of ``sortition.data.load``.

    Attributes:
        name: the data set, or a file of your own.
        clients: over how many clients it is split; a data set with clients of its own needs none.
        partition: how it is split, by name and options.
        holdout: share of each client's data that is kept out of its training.
        validation: share of each client's data that the server gets instead, for methods that ask the server itself;
            by default 0.05 for those methods, and nothing for others.
        measured_on: on which part of their data clients measure the losses that methods ask for.
        standardise: whether inputs are scaled to mean 0 and standard deviation 1, by the training set.
        subset: how many training and test examples are used, drawn once and alike for all seeds; by default all.
        styles: of images: each client's are in one of these styles, dealt in turn; test images in the same shares.
        label_noise: which share of the clients has wrong labels, and how many of them.
    """

    clients: Count | None = None
    partition: Named | None = None
    holdout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    validation: Annotated[float, Field(gt=0, lt=1)] | None = None
    measured_on: Literal["train", "holdout"] = "train"
    standardise: bool = False
    subset: Subset | None = None
    styles: tuple[str, ...] | None = None
    label_noise: LabelNoise | None = None

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        if self.styles is not None:
            check_styles(self.styles)
        check_options(self.name, self.options, type(self).model_fields)
        return self


class Natural(StrictTable):
    """The options of ``partition = "natural"``.

    Attributes:
        least: only clients of at least so many examples take part.
    """

    least: Count = 1


class Target(StrictTable):
    """What a run should reach: an accuracy or a loss, in one round or in the mean of some.

    Attributes:
        accuracy: the test accuracy to reach, a share.
        loss: the test loss to reach, in place of an accuracy.
        smooth: the mean of the evaluations in the last so many rounds must reach it.
    """

    accuracy: float | None = None
    loss: Annotated[float, Field(gt=0)] | None = None
    smooth: Count = 1

    @model_validator(mode="after")
    def _check_one_goal(self) -> Self:
        if self.accuracy is not None and self.loss is not None:
            raise InputError("target must be given either accuracy or loss; got both.")
        if self.accuracy is None and self.loss is None:
            raise InputError("target must be given either accuracy or loss; got none.")
        if self.accuracy is not None and not 0 < self.accuracy <= 1:
            raise bad("target.accuracy", "a share in (0, 1]", self.accuracy, "69 % is 0.69.")
        return self

    @property
    def metric(self) -> str:
        """Return ``accuracy`` or ``loss``."""
        if self.accuracy is None:
            return "loss"
        return "accuracy"

    @property
    def value(self) -> float:
        """Return the number to reach."""
        if self.accuracy is not None:
            return self.accuracy
        return cast(float, self.loss)  # one of both is given


class Method(Named):
    """A method by name or import path; keys that are not reserved are its hyper-parameters.

    Attributes:
        name: a method of ``sortition list``, or ``package.module:Class``.
        label: what tables and folders call it; by default its name.
        local: keys of ``[local]`` that differ for this method.
        server: keys of ``[server]`` that differ for this method.
        guards: keys of ``[guards]`` that differ for this method.
        cohort: clients a round, where this method has another number.
        reweight: the cohort's weights in place of the method's own, by "size", "uniform", "fitted" or "fedau"; short
            for ``guards = { reweight = … }``.
    """

    label: str = ""
    local: TomlTable = {}
    server: TomlTable = {}
    guards: TomlTable = {}
    reweight: Literal["own", "size", "uniform", "fitted", "fedau"] | None = None
    cohort: Count | None = None

    @model_validator(mode="after")
    def _set_label(self) -> Self:
        label = self.label or self.name.rpartition(":")[2].replace("_", "-")
        if not can_name_folder(label):
            raise bad("method.label", "a text that can name a folder", label)
        if self.name in REFERENCES and label != self.name:
            raise bad("method.label", f"left out for {self.name}, a reference line", label)
        object.__setattr__(self, "label", label)
        return self


class Federation(StrictTable):
    """Everything that the methods of one setting share.

    Attributes:
        rounds: how many rounds a run has; at most, where ``until`` is given, which may stand in its place.
        until: the cost at which a run ends: ``seconds``, ``megabytes`` or ``passes``.
        cohort: how many clients train in a round.
        data: the data set and how it is split.
        model: what is trained, by name and options.
        local: how a client trains.
        task: loss and metric, where it is not classification by cross-entropy and accuracy.
        server: what the server does with the updates.
        availability: who is reachable when, by name and options.
        devices: how fast clients compute and send, and who drops out.
        pace: how many clients are at work at a time, when a step is made, and what late updates count.
        guards: how far clients are trusted.
        policy: how often and when devices may be used; one table, or several that hold together.
        habits: when devices charge, are idle, and how full their batteries are, for rules of a policy.
        owners: how many owners the clients belong to, in turn; for rules and quotas per owner.
        faults: simulated failures.
        attacks: adversaries among the clients.
        shadow: methods that choose beside the live one and send nothing; records say what they would have done.
        privacy: what the federation promises its clients; ``sortition lint`` and the start of a study judge it.
        target: an accuracy or loss to reach.
        evaluate_every: after how many rounds the model is tested.
        clients_every: after how many rounds every client's accuracy is recorded; 0 for the end only.
        stop_at_target: whether a run ends when it has reached the target.
        audit: whether an audit log is kept; by default it is.
        device: where training runs: ``cpu`` or a device of PyTorch.
        engine: ``stacked``, ``vmapped``, ``sequential``, or ``auto`` for the one of the rule in docs/engine.md.
        precision: numbers in which training computes: ``float32``, or ``bf16`` where clients are not stacked.
    """

    rounds: Count | None = None
    until: Until | None = None
    cohort: Count
    data: Data
    model: Named
    local: LocalRule
    task: TaskRule | None = None
    server: ServerRule = ServerRule()
    availability: Named = Named(name="always")
    devices: Devices = Devices()
    pace: PaceTable = Pace()
    guards: Guards = Guards()
    policy: tuple[Policy, ...] = ()
    habits: Habits | None = None
    owners: Count | None = None
    faults: Faults | None = None
    attacks: Attacks | None = None
    shadow: list[Method] | None = None
    privacy: Promises | None = None
    target: Target | None = None
    evaluate_every: Count = 1
    clients_every: Annotated[int, Field(ge=0)] = 0
    stop_at_target: StrictBool = False
    audit: StrictBool | None = None  # None: an audit log is kept, and the configuration's file does not mention it
    device: str = "cpu"
    engine: str = "auto"
    precision: str | None = None  # None: float32, and the configuration's file does not mention it

    @model_validator(mode="before")
    @classmethod
    def _refuse_pace_among_devices(cls, table: Any) -> Any:
        """Say where a deadline and over-selection belong: devices do not decide on them."""
        devices = table.get("devices") if isinstance(table, dict) else None
        if not isinstance(devices, dict):
            return table
        for key in ("deadline", "overselect"):
            if key in devices:
                hint = f"Move {key} to [pace]: the server decides how long it waits and how many clients it selects."
                raise bad(f"devices.{key}", "left out", devices[key], hint)
        return table

    @field_validator("policy", mode="before", json_schema_input_type=Policy | tuple[Policy, ...])
    @classmethod
    def _as_policies(cls, value: object) -> object:
        if isinstance(value, dict | Policy):
            return [value]
        return value

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.rounds is None and self.until is None:
            raise InputError("rounds must be given, or until = { seconds = … }; got nothing.")
        _check_partition_and_availability(self)
        if self.target is not None and self.target.metric != "loss" and self.metric != "accuracy":
            requirement = f"given as loss = … where a study is judged by {self.metric}"
            raise bad("target", requirement, f"accuracy = {self.target.accuracy}")
        if self.stop_at_target and self.target is None:
            raise InputError("target must be given where stop_at_target = true; got nothing.")
        return self

    @property
    def most_rounds(self) -> int:
        """Return how many rounds a run has at most, whatever they cost."""
        if self.rounds is None:
            return MOST_ROUNDS
        return self.rounds

    @property
    def metric(self) -> str:
        """Return the name of the test metric beside the loss: accuracy, or the task's."""
        if self.task is None:
            return "accuracy"
        return self.task.metric_name


def _check_partition_and_availability(federation: Federation) -> None:
    """Check names and parameters of partition and availability before any data are at hand."""
    availability.mode(federation.availability.name, **federation.availability.options)
    partition = federation.data.partition
    if partition is not None and partition.name == partitions.NATURAL:
        validated(Natural, partition.options, "partition natural")
    elif partition is not None:
        partitions.check(partition.name, **partition.options)


class RunConfig(Federation):
    """One run: one method on one seed of one setting.

    Attributes:
        setting: the setting's name.
        seed: of partition, initial model, availability, batches and the method's draws.
        method: the method with its hyper-parameters.
    """

    setting: str
    seed: Seed
    method: Method

    def table(self) -> TomlTable:
        """Return the configuration as plain TOML; what is None or empty is left out."""
        table = self.model_dump(mode="json", exclude_none=True)
        table["method"] = {key: value for key, value in table["method"].items() if value != {}}
        table["local"] = {key: value for key, value in table["local"].items() if ADDED.get(key, ...) != value}
        table["server"] = self.server.changed()
        table["devices"] = self.devices.changed(table["devices"])
        table["guards"] = self.guards.changed()
        table["pace"] = self.pace.changed()
        table["policy"] = [policy.changed() for policy in self.policy]
        if self.shadow is not None:
            table["shadow"] = [{"name": shadow.name, "label": shadow.label, **shadow.options} for shadow in self.shadow]
        for name in ("guards", "pace", "policy"):
            if not table[name]:  # defaults are left out: folders without guards stay as they are
                del table[name]
        return {key: table[key] for key in ("setting", "seed", *table)}


def validated(kind: type[M], table: object, subject: str) -> M:
    """Return the table as a model; an error names the key that was probably meant."""
    if not isinstance(table, dict):
        raise bad(subject, "a table", table)
    try:
        return kind(**table)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            if detail["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
                *parents, key = [str(part) for part in detail["loc"]]
                raise unknown("key", key, _keys_at(kind, parents), ".".join([subject, *parents])) from None
        raise translate_error(error, subject) from None


def _keys_at(model: type[BaseModel], path: list[str]) -> list[str]:
    """Return the keys of the table at ``path`` in a model."""
    table: object = model
    for key in path:
        if key.isdigit():
            continue
        if _is_model(table):
            table = _table_type(table.model_fields[key].annotation)
        elif isinstance(table, type) and is_dataclass(table):
            table = _table_type(get_type_hints(table)[key])
    if _is_model(table):
        return list(table.model_fields)
    if isinstance(table, type) and is_dataclass(table):
        return [field.name for field in fields(table)]
    return []


def _is_model(annotation: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _table_type(annotation: object) -> object:
    """Return the table among the types of a field such as ``Faults | None`` or ``list[Method]``, else the field's."""
    for argument in getattr(annotation, "__args__", ()):
        if _is_model(argument) or is_dataclass(argument):
            return argument
    return annotation
