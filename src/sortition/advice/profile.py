"""What is known of a federation: sizes, label counts, who is there when, the cohort, and what is not allowed."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from sortition import availability
from sortition.core.arrays import Array, Ids, not_among
from sortition.core.errors import InputError, bad
from sortition.core.facts import check_fact
from sortition.core.rounds import MOST, Cohort, Population
from sortition.core.storage.npz import read_npy, read_npz
from sortition.core.storage.safe_files import read_regular
from sortition.core.storage.snapshot import FOREIGN
from sortition.core.streams import stream
from sortition.data import partitions
from sortition.studies.config import Named

MEAN_SIZE = 20  # examples of a client where sizes are unknown
MOST_CLIENTS, MOST_ROUNDS, MOST_LABELS = 1_000_000, 100_000, 1_000  # more would fill the memory
MOST_CELLS = 1 << 32  # of a table of rounds × clients


class Limits(BaseModel):
    """What a method may not do; everything is allowed unless said."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    label_counts: bool = True
    secure_aggregation: bool = False
    questions: bool = True
    traffic: Annotated[float, Field(gt=0)] | None = None  # at most so many times that of plain averaging


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
    limits: Limits = Limits()


@dataclass(frozen=True, eq=False)
class Known:
    """A federation as the advisor sees it; ``masks`` (rounds, N) say who was there, where that was recorded.

    ``counts`` have one column where sizes alone are known, or nothing.
    ``chosen`` are the cohorts and weights of each round that was played, where there was one.
    """

    cohort: int
    rounds: int
    counts: Array  # (N, C)
    mode: Named = Named(name="always")
    masks: Array | None = None
    dropout: float = 0.0
    limits: Limits = Limits()
    chosen: tuple[tuple[Ids, Array], ...] = ()
    played_by: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Whatever the source was, its parts must fit each other."""
        check_fact("label_counts", self.counts, len(self.counts), who="source")
        if not self.counts.size:
            raise bad("source.label_counts", "of at least one client and label", f"shape {self.counts.shape}")
        for name, value, most in (("cohort", self.cohort, MOST), ("rounds", self.rounds, MOST_ROUNDS)):
            if not 1 <= value <= most:
                raise bad(f"source.{name}", f"from 1 to {most:,}", value)
        if self.masks is not None and (not len(self.masks) or self.masks.shape[1:] != (self.clients,)):
            raise bad("source.availability", f"of shape (rounds, {self.clients})", f"shape {self.masks.shape}")
        if not 0 <= self.dropout < 1:
            raise bad("source.dropout", "in [0, 1)", self.dropout)
        for ids, weights in self.chosen:
            if not_among(Cohort(ids, weights).ids, np.arange(self.clients)).size:
                raise bad("source.cohort", f"ids below {self.clients}", int(ids.max()))

    @property
    def clients(self) -> int:
        """N."""
        return len(self.counts)

    @property
    def has_labels(self) -> bool:
        """Whether label counts are known; one column is sizes alone."""
        return bool(self.counts.shape[1] > 1)

    @property
    def population(self) -> Population:
        """Sizes and label counts."""
        return Population(self.counts.sum(axis=1), self.counts)

    def present(self, seed: int) -> availability.Availability:
        """Who is there when."""
        name, options = self.mode.name, self.mode.options
        if self.masks is not None:
            name, options = "trace", {"matrix": self.masks.astype(int).tolist()}
        sizes = self.counts.sum(axis=1)
        return availability.make(
            name, clients=self.clients, seed=seed, sizes=sizes, label_counts=self.counts, **options
        )


def from_profile(profile: Profile, folder: Path) -> Known:
    """What a profile says; files are relative to it."""
    notes: tuple[str, ...] = ()
    counts = _table(folder / profile.label_counts) if profile.label_counts else None
    sizes = _table(folder / profile.sizes) if profile.sizes else None
    if counts is not None and counts.shape[1] == 1:
        counts, sizes = None, counts
    if counts is None:
        counts, notes = made_counts(profile, sizes), (_assumed(profile),)
    elif profile.clients not in (None, len(counts)):
        raise bad("profile.clients", f"{len(counts)}, as label_counts has rows", profile.clients)
    if profile.cohort > len(counts):
        raise bad("profile.cohort", f"at most the number of clients, {len(counts)}", profile.cohort)
    mode = profile.availability
    if isinstance(path := mode.options.get("path"), str):
        mode = Named(name=mode.name, **{**mode.options, "path": str(folder / path)})
    availability.mode(mode.name, **mode.options)
    return Known(
        profile.cohort,
        profile.rounds,
        counts,
        mode,
        dropout=profile.dropout,
        limits=profile.limits,
        notes=notes,
    )


def with_labels(source: Known) -> Known:
    """The same federation; where sizes alone are known, labels are spread as in a profile without label counts."""
    if source.has_labels:
        return source
    profile = Profile(cohort=source.cohort)
    counts = made_counts(profile, source.counts)
    return replace(source, counts=counts, notes=(*source.notes, _assumed(profile)))


def _assumed(profile: Profile) -> str:
    rule = profile.partition
    options = ", ".join(f"{key} = {value}" for key, value in rule.options.items())
    by = f"{rule.name} ({options})" if options else rule.name
    return f"Label counts are unknown: {by} spreads {profile.labels} labels; give label_counts for a closer match."


def made_counts(profile: Profile, sizes: Array | None) -> Array:
    """Label counts by the profile's partition, of these sizes (N, 1) where they are known."""
    clients = profile.clients or (None if sizes is None else len(sizes))
    if clients is None:
        raise InputError("profile.clients must be given without label_counts and sizes; got nothing.")
    labels = np.arange(max(MEAN_SIZE * clients, profile.labels)) % profile.labels
    rng = stream(0, "advisor's partition")
    rule = profile.partition
    parts = partitions.split(rule.name, labels, clients, rng, **rule.options).indices
    counts = np.stack([np.bincount(labels[part], minlength=profile.labels) for part in parts])
    if sizes is None:
        return counts
    if sizes.shape != (clients, 1):
        raise bad("profile.sizes", f"a table of {clients} clients, one number a line", f"shape {sizes.shape}")
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return np.stack([rng.multinomial(int(n), p / p.sum()) for n, p in zip(sizes[:, 0], shares, strict=True)])


def shrunk(whole: Known, most: int) -> Known:
    """At most so many clients, drawn by lot, with a cohort of the same share: small enough to be simulated."""
    if whole.clients <= most:
        return whole
    kept = np.sort(stream(0, "advisor's sample").choice(whole.clients, most, replace=False))
    cohort = min(whole.cohort, max(2, round(whole.cohort * most / whole.clients)))
    note = f"{most} of {whole.clients} clients were drawn, and {cohort} of them train a round."
    masks = None if whole.masks is None else whole.masks[:, kept]
    return replace(whole, counts=whole.counts[kept], masks=masks, cohort=cohort, chosen=(), notes=(*whole.notes, note))


def _table(path: Path) -> Array:
    """A table of whole numbers ≥ 0, one row a client."""
    try:
        found = _numbers(path)
    except FileNotFoundError:
        raise bad("profile", "files that exist", str(path)) from None
    except FOREIGN as error:
        raise InputError(f"{path} must be a table of counts; got {error}.") from None
    if not found.size or found.ndim not in (1, 2):
        raise bad(f"{path.name}", "a table, one row a client", f"shape {found.shape}")
    found = found.reshape(len(found), -1)
    check_fact("label_counts", found, len(found), who=path.name)
    if found.shape[1] > MOST_LABELS:
        raise bad(f"{path.name}", f"a table of at most {MOST_LABELS:,} columns", found.shape[1])
    return np.asarray(np.rint(found), np.int64)


def _numbers(path: Path) -> Array:
    """What a file of numbers holds: an npy file, the first array of an npz file, or comma-separated text."""
    if path.suffix == ".npy":
        return read_npy(path)
    if path.suffix == ".npz":
        return next(iter(read_npz(path).values()), np.empty(0))
    text = read_regular(path).decode("utf-8-sig", errors="replace").strip()  # spreadsheets write a byte order mark
    first, _, rest = text.partition("\n")
    body = rest if _is_header(first) else text
    return np.genfromtxt(io.StringIO(body), delimiter=",", ndmin=2) if body.strip() else np.empty(0)


def _is_header(line: str) -> bool:
    """Whether a cell is not a number; an empty one is a number that is missing."""
    try:
        for cell in line.split(","):
            float(cell.strip() or "nan")
    except ValueError:
        return True
    return False
