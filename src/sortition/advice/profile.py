"""What is known of a federation: sizes, label counts, who is there when, the cohort, and what is not allowed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from sortition import availability
from sortition.core.arrays import Array, Ids
from sortition.core.errors import InputError, bad
from sortition.core.facts import check_fact
from sortition.core.rounds import Population
from sortition.core.storage.npz import read_npy, read_npz
from sortition.core.storage.snapshot import FOREIGN
from sortition.core.streams import stream
from sortition.data import partitions
from sortition.studies.config import Named

MEAN_SIZE = 20  # examples of a client where sizes are unknown


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
        label_counts: a file of examples per client and label (.csv, .npy, .npz), one row a client.
        sizes: a file of examples per client.
        labels: number of labels, where there are no label counts.
        partition: how labels are spread over clients then, as in a study.
        availability: a mode as in a study, such as a trace: { name = "trace", path = "trace.csv" }.
        dropout: chance that a chosen client does not answer.
        limits: what methods may not do.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    cohort: Annotated[int, Field(ge=1)]
    clients: Annotated[int, Field(ge=2)] | None = None
    rounds: Annotated[int, Field(ge=1)] = 100
    label_counts: str | None = None
    sizes: str | None = None
    labels: Annotated[int, Field(ge=2, le=1000)] = 10
    partition: Named = Named(name="dirichlet", alpha=0.3)
    availability: Named = Named(name="always")
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    limits: Limits = Limits()


@dataclass(frozen=True, eq=False)
class Known:
    """A federation as the advisor sees it; ``masks`` (rounds, N) say who was there, where that was recorded.

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

    @property
    def clients(self) -> int:
        """N."""
        return len(self.counts)

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
    notes: list[str] = []
    counts = _table(folder / profile.label_counts) if profile.label_counts else None
    sizes = _table(folder / profile.sizes)[:, 0] if profile.sizes else None
    if counts is None:
        counts = made_counts(profile, sizes)
        notes.append(f"Labels are spread by {profile.partition.name}: give label_counts for a closer match.")
    elif profile.clients not in (None, len(counts)):
        raise bad("profile.clients", f"{len(counts)}, as label_counts has rows", profile.clients)
    if profile.cohort > len(counts):
        raise bad("profile.cohort", f"at most the number of clients, {len(counts)}", profile.cohort)
    mode = profile.availability
    if "path" in mode.options:
        mode = Named(name=mode.name, **{**mode.options, "path": str(folder / mode.options["path"])})
    availability.mode(mode.name, **mode.options)
    return Known(
        profile.cohort,
        profile.rounds,
        counts,
        mode,
        dropout=profile.dropout,
        limits=profile.limits,
        notes=tuple(notes),
    )


def made_counts(profile: Profile, sizes: Array | None) -> Array:
    """Label counts by the profile's partition, of these sizes where they are known."""
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
    if len(sizes) != clients:
        raise bad("profile.sizes", f"of {clients} clients", len(sizes))
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return np.stack([rng.multinomial(int(n), p / p.sum()) for n, p in zip(sizes, shares, strict=True)])


def shrunk(whole: Known, most: int) -> Known:
    """At most so many clients, drawn by lot, with a cohort of the same share: small enough to be simulated."""
    if whole.clients <= most:
        return whole
    kept = np.sort(stream(0, "advisor's sample").choice(whole.clients, most, replace=False))
    cohort = max(2, round(whole.cohort * most / whole.clients))
    note = f"{most} of {whole.clients} clients were drawn, and {cohort} of them train a round."
    masks = None if whole.masks is None else whole.masks[:, kept]
    return replace(whole, counts=whole.counts[kept], masks=masks, cohort=cohort, notes=(*whole.notes, note))


def _table(path: Path) -> Array:
    """A table of whole numbers ≥ 0, one row a client."""
    try:
        if path.suffix == ".npy":
            found = read_npy(path)
        elif path.suffix == ".npz":
            found = next(iter(read_npz(path).values()))
        else:
            found = np.atleast_2d(np.genfromtxt(path, delimiter=",", skip_header=_header(path)))
    except FileNotFoundError:
        raise bad("profile", "files that exist", str(path)) from None
    except FOREIGN as error:
        raise InputError(f"{path} must be a table of counts; got {error}.") from None
    found = found.reshape(len(found), -1)
    check_fact("label_counts", found, len(found), who=path.name)
    return np.asarray(np.rint(found), np.int64)


def _header(path: Path) -> int:
    first = path.read_text(errors="replace").partition("\n")[0]
    return int(any(letter.isalpha() for letter in first))
