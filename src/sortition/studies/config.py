"""The tables of a study's TOML, and the resolved configuration of one run, as typed models."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError, model_validator

from sortition import availability
from sortition.aggregation import ServerRule
from sortition.core.errors import InputError, bad, unknown
from sortition.core.guards.settings import Guards
from sortition.core.validation import translated
from sortition.data import partitions
from sortition.data.load import check as check_options
from sortition.federation.pace import Pace
from sortition.learning.rule import ADDED, LocalRule
from sortition.privacy.promises import Promises
from sortition.results.reference_lines import REFERENCES
from sortition.results.schema import Seed
from sortition.simulation.attacks import Attacks
from sortition.simulation.devices import Devices
from sortition.simulation.faults import Faults
from sortition.studies.labels import names_folder

M = TypeVar("M", bound=BaseModel)
Count = Annotated[int, Field(ge=1, le=10_000_000, strict=True)]  # more is a slip


class StrictTable(BaseModel):
    """A table whose keys are all known."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Named(BaseModel):
    """Something chosen by name; the other keys are its options, which it checks itself. A text is a name.

    Attributes:
        name: which one; a text in place of the table is the name alone.
    """

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)
    name: str

    @model_validator(mode="before")
    @classmethod
    def _text(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> Any:
        return {"anyOf": [handler(core), {"type": "string"}]}

    @property
    def options(self) -> dict[str, Any]:
        """Everything that is not a field of ours."""
        return dict(self.model_extra or {})


class Data(Named):
    """A data set and how it is split; other keys are options of ``sortition.data.load``.

    Attributes:
        name: the data set, or a file of your own.
        clients: over how many clients it is split; a data set with clients of its own needs none.
        partition: how it is split, by name and options.
        holdout: share of each client's data that is kept out of its training.
        validation: share of each client's data that the server gets in its place, for methods that ask the server
            itself; without it 0.05, for those methods alone.
        measured_on: on which part of their data clients measure the losses that methods ask for.
        standardise: whether inputs are scaled to mean 0 and standard deviation 1, by the training set.
    """

    clients: Count | None = None
    partition: Named | None = None
    holdout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    validation: Annotated[float, Field(gt=0, lt=1)] | None = None
    measured_on: Literal["train", "holdout"] = "train"
    standardise: bool = False

    @model_validator(mode="after")
    def _declared(self) -> Self:
        check_options(self.name, self.options, type(self).model_fields)
        return self


class Natural(StrictTable):
    """Options of ``partition = "natural"``: only clients of at least ``least`` examples."""

    least: Count = 1


class Target(StrictTable):
    """What a run should reach: an accuracy or a loss, of one round or of a mean of ``smooth`` rounds.

    Attributes:
        accuracy: the test accuracy to reach, a share.
        loss: the test loss to reach, in place of an accuracy.
        smooth: how many rounds are averaged.
    """

    accuracy: float | None = None
    loss: Annotated[float, Field(gt=0)] | None = None
    smooth: Count = 1

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.accuracy is None) == (self.loss is None):
            raise InputError("target must be given either accuracy or loss; got " + ("both." if self.loss else "none."))
        if self.accuracy is not None and not 0 < self.accuracy <= 1:
            raise bad("target.accuracy", "a share in (0, 1]", self.accuracy, "69 % is 0.69.")
        return self

    @property
    def of(self) -> str:
        """``accuracy`` or ``loss``."""
        return "loss" if self.accuracy is None else "accuracy"

    @property
    def value(self) -> float:
        """The number to reach."""
        return float(self.loss if self.accuracy is None else self.accuracy)  # type: ignore[arg-type]


class Method(Named):
    """A method by name or import path; keys that are not reserved are its hyper-parameters.

    Attributes:
        name: a method of ``sortition list``, or ``package.module:Class``.
        label: what tables and folders call it; by default its name.
        local: keys of ``[local]`` that differ for this method.
        server: keys of ``[server]`` that differ for this method.
        guards: keys of ``[guards]`` that differ for this method.
        cohort: clients a round, where this method has another number.
        reweight: the cohort's weights in place of the method's own, by "size", "uniform" or "fedau"; short for
            ``guards = { reweight = … }``.
    """

    label: str = ""
    local: dict[str, Any] = {}
    server: dict[str, Any] = {}
    guards: dict[str, Any] = {}
    reweight: Literal["own", "size", "uniform", "fedau"] | None = None
    cohort: Count | None = None

    @model_validator(mode="after")
    def _labelled(self) -> Self:
        label = self.label or self.name.rpartition(":")[2].replace("_", "-")
        if not names_folder(label):
            raise bad("method.label", "a text that can name a folder", label)
        if self.name in REFERENCES and label != self.name:
            raise bad("method.label", f"left out for {self.name}, a reference line", label)
        object.__setattr__(self, "label", label)
        return self


class Federation(StrictTable):
    """Everything that the methods of one setting share.

    Attributes:
        rounds: how many rounds a run has.
        cohort: how many clients train in a round.
        data: the data set and how it is split.
        model: what is trained, by name and options.
        local: how a client trains.
        server: what the server does with the updates.
        availability: who is reachable when, by name and options.
        devices: how fast clients compute and send, and who drops out.
        pace: how many clients are at work at a time, when a step is made, and what late updates count.
        guards: how far clients are trusted.
        faults: what goes wrong.
        attacks: adversaries among the clients.
        privacy: what the federation promises its clients; ``sortition lint`` and the start of a study judge it.
        target: an accuracy or loss to reach.
        evaluate_every: after how many rounds the model is tested.
        clients_every: after how many rounds every client's accuracy is recorded; 0 for the end only.
        stop_at_target: whether a run ends when it has reached the target.
        audit: whether an audit log is kept; by default it is.
        device: where training runs: ``cpu`` or a device of PyTorch.
        engine: ``stacked``, ``sequential``, or ``auto`` for the faster one.
    """

    rounds: Count
    cohort: Count
    data: Data
    model: Named
    local: LocalRule
    server: ServerRule = ServerRule()
    availability: Named = Named(name="always")
    devices: Devices = Devices()
    pace: Pace = Pace()
    guards: Guards = Guards()
    faults: Faults | None = None
    attacks: Attacks | None = None
    privacy: Promises | None = None
    target: Target | None = None
    evaluate_every: Count = 1
    clients_every: Annotated[int, Field(ge=0)] = 0
    stop_at_target: StrictBool = False
    audit: StrictBool | None = None  # None: an audit log is kept, and the configuration's file does not mention it
    device: str = "cpu"
    engine: str = "auto"

    @model_validator(mode="before")
    @classmethod
    def _moved(cls, table: Any) -> Any:
        devices = table.get("devices") if isinstance(table, dict) else None
        for key in ("deadline", "overselect"):
            if isinstance(devices, dict) and key in devices:
                hint = f"Write pace = {{ {key} = {devices[key]} }}: how long the server waits is its own matter."
                raise bad(f"devices.{key}", "left out", devices[key], hint)
        return table

    @model_validator(mode="after")
    def _stopping(self) -> Self:
        _chosen(self)
        if self.stop_at_target and self.target is None:
            raise InputError("target must be given where stop_at_target = true; got nothing.")
        return self


def _chosen(federation: Federation) -> None:
    """Names and parameters of partition and availability are checked before any data are at hand."""
    availability.mode(federation.availability.name, **federation.availability.options)
    partition = federation.data.partition
    if partition is not None and partition.name == partitions.NATURAL:
        validated(Natural, partition.options, "partition natural")
    elif partition is not None:
        partitions.check(partition.name, **partition.options)


class RunConfig(Federation):
    """One run: one method on one seed of one setting."""

    setting: str
    seed: Seed
    method: Method

    def table(self) -> dict[str, Any]:
        """As plain TOML: what is None or empty is left out."""
        table = self.model_dump(mode="json", exclude_none=True)
        table["method"] = {key: value for key, value in table["method"].items() if value != {}}
        table["local"] = {key: value for key, value in table["local"].items() if ADDED.get(key, ...) != value}
        table["server"] = self.server.changed()
        table["guards"] = self.guards.changed()  # defaults are left out: folders without guards stay as they are
        table["pace"] = self.pace.changed()
        table = {key: value for key, value in table.items() if key not in ("guards", "pace") or value}
        return {key: table[key] for key in ("setting", "seed", *table)}


def validated(kind: type[M], table: Any, owner: str) -> M:
    """The table as a model; an error names the key that was probably meant."""
    if not isinstance(table, dict):
        raise bad(owner, "a table", table)
    try:
        return kind(**table)
    except ValidationError as error:
        for found in error.errors(include_url=False):
            if found["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
                path = [str(part) for part in found["loc"]]
                keys = _keys(kind, path[:-1])
                raise unknown("key", path[-1], keys, ".".join([owner, *path[:-1]])) from None
        raise translated(error, owner) from None


def _is_table(kind: Any) -> bool:
    return hasattr(kind, "model_fields") or is_dataclass(kind)


def _keys(kind: Any, path: list[str]) -> list[str]:
    """The keys that the table at ``path`` has."""
    for part in path:
        if part.isdigit() or not hasattr(kind, "model_fields"):
            continue
        field = kind.model_fields[part].annotation
        kind = next((a for a in getattr(field, "__args__", ()) if _is_table(a)), field)
    return [field.name for field in fields(kind)] if is_dataclass(kind) else list(getattr(kind, "model_fields", {}))
