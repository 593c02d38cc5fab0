"""What is known of a federation: sizes, label counts, who is there when, the cohort, and what is not allowed."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from sortition import availability
from sortition.advice.shadows import ShadowSummary
from sortition.core.arrays import Array, Floats, Ids, find_outside
from sortition.core.cohort import MOST_PLACES, Cohort
from sortition.core.errors import InputError, bad
from sortition.core.population import Population, check_fact
from sortition.core.storage.npz import read_npy, read_npz
from sortition.core.storage.safe_files import read_regular
from sortition.core.storage.snapshot import UNREADABLE
from sortition.core.streams import stream
from sortition.data import partitions
from sortition.federation.pace import Pace
from sortition.simulation.device_tables import Device, devices_of, read_devices
from sortition.simulation.devices import Devices
from sortition.studies.config import Named, PaceTable

MEAN_SIZE = 20  # examples of a client where sizes are unknown
MOST_DRAWN = 1_000_000  # examples, where a partition spreads labels over clients whose sizes are known
# more would fill the memory
MOST_CLIENTS = 1_000_000
MOST_ROUNDS = 100_000
MOST_LABELS = 1_000
MOST_CELLS = 1 << 32  # of a table of rounds × clients


class Limits(BaseModel):
    """What a method may not do; everything is allowed unless said.

    Attributes:
        label_counts: whether it may read label counts.
        secure_aggregation: whether it sees sums of updates only.
        questions: whether it may ask clients.
        traffic: bytes at most, in units of plain averaging; None for no limit.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    label_counts: bool = True
    secure_aggregation: bool = False
    questions: bool = True
    traffic: Annotated[float, Field(gt=0)] | None = None


class LocalWork(BaseModel):
    """What a client of the real federation does in a round; it says how long that takes on a device.

    Attributes:
        epochs: passes over the client's data.
        examples: examples that every client computes on, in place of epochs.
        megabytes: of the model, 10⁶ bytes each; needed where devices have a bandwidth.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    epochs: Annotated[float, Field(gt=0)] = 1.0
    examples: Annotated[int, Field(ge=1)] | None = None
    megabytes: Annotated[float, Field(gt=0)] | None = None

    def examples_of(self, sizes: Array) -> Floats:
        """Return on how many examples clients of these sizes compute in a round (N,)."""
        if self.examples is not None:
            return np.full(len(sizes), float(self.examples))
        return self.epochs * np.maximum(sizes, 1).astype(np.float64)


class Profile(BaseModel):
    """A federation's profile, as its TOML file has it.

    Attributes:
        cohort: clients a round.
        clients: how many there are, where no file says so.
        rounds: planned.
        label_counts: a file of examples per client and label (.csv, .npy, .npz), one row a client; one column is sizes.
        sizes: a file of examples per client, one number a line.
        labels: number of labels, where there are no label counts.
        partition: how labels are spread over clients then, as in a study.
        availability: a mode as in a study, such as a trace: { name = "trace", path = "trace.csv" }.
        dropout: chance that a chosen client does not answer.
        devices: how fast clients compute and send, as in a study; methods are then compared by seconds.
        pace: when the server makes a step, as in a study.
        work: what a client does in a round.
        limits: what methods may not do.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    cohort: Annotated[int, Field(ge=1)]
    clients: Annotated[int, Field(ge=2, le=MOST_CLIENTS)] | None = None
    rounds: Annotated[int, Field(ge=1, le=MOST_ROUNDS)] = 100
    label_counts: str | None = None
    sizes: str | None = None
    labels: Annotated[int, Field(ge=2, le=MOST_LABELS)] = 10
    partition: Named = Named(name="dirichlet", alpha=0.3)
    availability: Named = Named(name="always")
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    devices: Devices | None = None
    pace: PaceTable = Pace()
    work: LocalWork = LocalWork()
    limits: Limits = Limits()


@dataclass(frozen=True, eq=False)
class KnownFederation:
    """A federation as the advisor sees it.

    Attributes:
        cohort: clients a round.
        rounds: how many there are, or are planned.
        counts: (N, C) examples by client and label; one column where sizes alone are known, or nothing.
        mode: the availability as in a study. Default: everybody is always there.
        masks: (rounds, N) who was there, where that was recorded; goes before ``mode``.
        dropout: chance that a chosen client does not answer.
        devices: how fast clients compute and send; None where nothing is known of it, and rounds are counted.
        pace: when the server makes a step.
        work: what a client does in a round.
        limits: what methods may not do.
        chosen: ids and weights of the cohort of each round that was played. Default: none was.
        played_by: the method that chose them.
        shadows: what other methods did in the shadow of that one, by label.
        notes: what a reader of the advice must know of the source.
    """

    cohort: int
    rounds: int
    counts: Array
    mode: Named = Named(name="always")
    masks: Array | None = None
    dropout: float = 0.0
    devices: Devices | None = None
    pace: Pace = Pace()
    work: LocalWork = LocalWork()
    limits: Limits = Limits()
    chosen: tuple[tuple[Ids, Array], ...] = ()
    played_by: str = ""
    shadows: Mapping[str, ShadowSummary] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse parts that do not fit each other, whatever the source was."""
        check_fact("label_counts", self.counts, len(self.counts), subject="source")
        if not self.counts.size:
            raise bad("source.label_counts", "of at least one client and label", f"shape {self.counts.shape}")
        if not 1 <= self.cohort <= MOST_PLACES:
            raise bad("source.cohort", f"from 1 to {MOST_PLACES:,}", self.cohort)
        if not 1 <= self.rounds <= MOST_ROUNDS:
            raise bad("source.rounds", f"from 1 to {MOST_ROUNDS:,}", self.rounds)
        if self.masks is not None and (not len(self.masks) or self.masks.shape[1:] != (self.clients,)):
            raise bad("source.availability", f"of shape (rounds, {self.clients})", f"shape {self.masks.shape}")
        if not 0 <= self.dropout < 1:
            raise bad("source.dropout", "in [0, 1)", self.dropout)
        for ids, weights in self.chosen:
            if find_outside(Cohort(ids, weights).ids, np.arange(self.clients)).size:
                raise bad("source.cohort", f"ids below {self.clients}", int(ids.max()))
        self._check_devices()

    def _check_devices(self) -> None:
        """Refuse a pace without devices, and devices that send a model of unknown size."""
        if self.devices is None:
            if self.pace != Pace():
                hint = "Say in [devices] how fast clients compute and send."
                raise bad("profile.pace", "left out where nothing is known of devices", self.pace.changed(), hint)
            return
        if has_bandwidth(self.devices) and self.work.megabytes is None:
            hint = "Write [work] megabytes = 4.5, or leave the bandwidth out."
            raise bad("profile.work.megabytes", "given where devices have a bandwidth", None, hint)

    @property
    def clients(self) -> int:
        """Return how many clients there are, N."""
        return len(self.counts)

    @property
    def has_labels(self) -> bool:
        """Tell whether label counts are known; one column is sizes alone."""
        return bool(self.counts.shape[1] > 1)

    @property
    def population(self) -> Population:
        """Return sizes and label counts of all clients."""
        return Population(self.counts.sum(axis=1), self.counts)

    def present(self, seed: int) -> availability.Availability:
        """Return who is there when."""
        mode = self.mode
        if self.masks is not None:
            mode = Named(name="trace", matrix=self.masks.astype(int).tolist())
        return availability.make(
            mode.name,
            clients=self.clients,
            seed=seed,
            sizes=self.counts.sum(axis=1),
            label_counts=self.counts,
            **mode.options,
        )


def has_bandwidth(devices: Devices) -> bool:
    """Tell whether it takes a device time to receive and send a model."""
    if math.isfinite(devices.bandwidth) or devices.bandwidth_quantiles is not None:
        return True
    return any(device.bandwidth_down or device.bandwidth_up for device in stated_devices(devices))


def stated_devices(devices: Devices) -> tuple[Device, ...]:
    """Return the devices that a table or a trace states; none where all are drawn."""
    if devices.trace is not None:
        return read_devices(Path(devices.trace).expanduser())
    if devices.table is not None:
        return devices_of(devices.table, "devices.table")
    return ()


def from_profile(profile: Profile, folder: Path) -> KnownFederation:
    """Return the federation that a profile describes; its files are relative to the folder."""
    notes: tuple[str, ...] = ()
    counts = None
    sizes = None
    if profile.label_counts:
        counts = _table(folder / profile.label_counts)
    if profile.sizes:
        sizes = _table(folder / profile.sizes)
    if counts is not None and counts.shape[1] == 1:  # one column is sizes
        sizes = counts
        counts = None
    if counts is None:
        counts = made_counts(profile, sizes)
        notes = (_assumed(profile),)
    elif profile.clients not in (None, len(counts)):
        raise bad("profile.clients", f"{len(counts)}, as label_counts has rows", profile.clients)
    if profile.cohort > len(counts):
        raise bad("profile.cohort", f"at most the number of clients, {len(counts)}", profile.cohort)
    mode = profile.availability
    path = mode.options.get("path")
    if isinstance(path, str):
        mode = Named(name=mode.name, **{**mode.options, "path": str(folder / path)})
    availability.mode(mode.name, **mode.options)
    devices = profile.devices
    if devices is not None and devices.trace is not None:
        devices = replace(devices, trace=str(folder / Path(devices.trace).expanduser()))
    return KnownFederation(
        cohort=profile.cohort,
        rounds=profile.rounds,
        counts=counts,
        mode=mode,
        dropout=profile.dropout,
        devices=devices,
        pace=profile.pace,
        work=profile.work,
        limits=profile.limits,
        notes=notes,
    )


def with_labels(federation: KnownFederation) -> KnownFederation:
    """Return the federation with labels; where sizes alone are known, they are spread as a profile's default says."""
    if federation.has_labels:
        return federation
    profile = Profile(cohort=federation.cohort)
    counts = made_counts(profile, federation.counts)
    return replace(federation, counts=counts, notes=(*federation.notes, _assumed(profile)))


def _assumed(profile: Profile) -> str:
    """Say how labels are spread where their counts are not known."""
    rule = profile.partition.name
    options = ", ".join(f"{key} = {value}" for key, value in profile.partition.options.items())
    if options:
        rule += f" ({options})"
    return f"Label counts are unknown: {rule} spreads {profile.labels} labels; give label_counts for a closer match."


def made_counts(profile: Profile, sizes: Array | None) -> Array:
    """Draw label counts by the profile's partition, of these sizes (N, 1) where they are known."""
    clients = profile.clients
    if clients is None and sizes is not None:
        clients = len(sizes)
    if clients is None:
        raise InputError("profile.clients must be given without label_counts and sizes; got nothing.")
    mean_size = MEAN_SIZE
    if sizes is not None:  # mixtures of large clients differ less by chance
        mean_size = max(MEAN_SIZE, min(int(sizes.mean()), MOST_DRAWN // clients))
    labels = np.arange(max(mean_size * clients, profile.labels)) % profile.labels
    rng = stream(0, "advisor's partition")
    rule = profile.partition
    parts = partitions.split(rule.name, labels, clients, rng, **rule.options).indices
    counts = np.stack([np.bincount(labels[part], minlength=profile.labels) for part in parts])
    if sizes is None:
        return counts
    if sizes.shape != (clients, 1):
        raise bad("profile.sizes", f"a table of {clients} clients, one number a line", f"shape {sizes.shape}")
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    rows = [rng.multinomial(int(size), row / row.sum()) for size, row in zip(sizes[:, 0], shares, strict=True)]
    return np.stack(rows)


def shrunk(federation: KnownFederation, most: int) -> KnownFederation:
    """Return at most so many clients, drawn by lot, with a cohort of the same share: small enough to be simulated."""
    clients = federation.clients
    if clients <= most:
        return federation
    sample = np.sort(stream(0, "advisor's sample").choice(clients, most, replace=False))
    cohort = min(federation.cohort, max(2, round(federation.cohort * most / clients)))
    note = f"{most} of {clients} clients were drawn, and {cohort} of them train a round."
    masks = federation.masks
    if masks is not None:
        masks = masks[:, sample]
    devices = federation.devices
    if devices is not None:
        devices = _of_sample(devices, sample)
    return replace(
        federation,
        counts=federation.counts[sample],
        masks=masks,
        cohort=cohort,
        devices=devices,
        chosen=(),
        notes=(*federation.notes, note),
    )


def _of_sample(devices: Devices, sample: Ids) -> Devices:
    """Return the devices of a sample of clients: what is stated follows its client, the others are drawn."""
    stated = {device.client: device for device in stated_devices(devices)}
    rows = []
    for position, client in enumerate(sample.tolist()):
        if client in stated:
            row = {**asdict(stated[client]), "client": position}
            rows.append({key: value for key, value in row.items() if value is not None})
    return replace(devices, table=rows or None, trace=None)


def _table(path: Path) -> Array:
    """Read a table of whole numbers ≥ 0, one row a client."""
    try:
        numbers = _numbers(path)
    except FileNotFoundError:
        raise bad("profile", "files that exist", str(path)) from None
    except UNREADABLE as error:
        raise InputError(f"{path} must be a table of counts; got {error}.") from None
    if not numbers.size or numbers.ndim not in (1, 2):
        raise bad(f"{path.name}", "a table, one row a client", f"shape {numbers.shape}")
    table = numbers.reshape(len(numbers), -1)
    check_fact("label_counts", table, len(table), subject=path.name)
    if table.shape[1] > MOST_LABELS:
        raise bad(f"{path.name}", f"a table of at most {MOST_LABELS:,} columns", table.shape[1])
    return np.asarray(np.rint(table), np.int64)


def _numbers(path: Path) -> Array:
    """Read a file of numbers: an npy file, the first array of an npz file, or comma-separated text."""
    if path.suffix == ".npy":
        return read_npy(path)
    if path.suffix == ".npz":
        return next(iter(read_npz(path).values()), np.empty(0))
    text = read_regular(path).decode("utf-8-sig", errors="replace").strip()  # spreadsheets write a byte order mark
    first_line, _, other_lines = text.partition("\n")
    if _is_header(first_line):
        text = other_lines
    if not text.strip():
        return np.empty(0)
    return np.genfromtxt(io.StringIO(text), delimiter=",", ndmin=2)


def _is_header(line: str) -> bool:
    """Tell whether a cell of the line is not a number; an empty one is a number that is missing."""
    try:
        for cell in line.split(","):
            float(cell.strip() or "nan")
    except ValueError:
        return True
    return False
