"""What is known of a federation: sizes, label counts, who is there when, the cohort, and what is not allowed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from sortition import availability
from sortition.core.arrays import Array, Ids
from sortition.core.errors import InputError, StorageError, bad
from sortition.core.facts import check_fact
from sortition.core.rounds import Population
from sortition.core.storage.npz import read_npy, read_npz
from sortition.core.storage.snapshot import FOREIGN
from sortition.core.streams import stream
from sortition.data import partitions
from sortition.results import run_folder
from sortition.studies.audit.log_reader import Log
from sortition.studies.config import Named, validated
from sortition.studies.plan import read

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


def known(source: str | Path, *, cohort: int | None = None, kind: Literal["", "counts", "trace"] = "") -> Known:
    """A profile's file, a run's folder, an audit log, label histograms or a trace, by what the source is."""
    path = Path(source)
    if path.is_dir():
        return from_run(run_folder.Run(path))
    if path.suffix == ".toml":
        return from_profile(validated(Profile, read(path), "profile"), path.parent)
    if path.suffix == ".jsonl":
        return from_log(path)
    if path.suffix not in (".csv", ".npy", ".npz", ".parquet"):
        raise bad("source", "a profile (.toml), a run's folder, an audit log (.jsonl) or a table of clients", str(path))
    if cohort is None:
        raise InputError("--cohort must be given where the source does not say it; got nothing.")
    return from_profile(Profile(cohort=cohort, label_counts=str(path.resolve())), path.parent)


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


def from_run(run: run_folder.Run) -> Known:
    """A finished or unfinished run of a study: its federation, and whom its method chose."""
    arrays, config = run.federation(), run.config
    if "label_counts" not in arrays:
        raise StorageError(f"{run.path} has no federation.npz to learn from.")
    faults = config.get("faults") or {}
    chosen = tuple((np.array(r["cohort"], np.int64), np.array(r.get("weights") or [])) for r in run.records)
    return Known(
        int(config["cohort"]),
        int(config["rounds"]),
        arrays["label_counts"],
        Named(**config.get("availability", {"name": "always"})),
        arrays.get("availability"),
        dropout=float(sum(faults.get(fate, 0.0) for fate in ("before", "during", "after"))),
        chosen=tuple((ids, weights if weights.size == ids.size else _equal(ids)) for ids, weights in chosen),
        played_by=run.method,
    )


def from_log(path: Path) -> Known:
    """An audit log: who was there and who was chosen; facts of clients where they were disclosed beside it."""
    log = Log(path)
    if not log.entries:
        raise StorageError(f"{path} has no round yet.")
    rounds = [log.round(t) for t in range(len(log.entries))]
    clients = log.clients(len(rounds) - 1)
    masks = np.zeros((len(rounds), clients), bool)
    for t, one in enumerate(rounds):
        masks[t, one.available] = True
    disclosed = run_folder.document(path.with_name(f"{path.name}.reveal.json")).get("facts") or {}
    notes: tuple[str, ...] = ()
    if "label_counts" in disclosed:
        counts = np.asarray(disclosed["label_counts"])
    else:
        counts = np.asarray(disclosed.get("sizes") or np.full(clients, MEAN_SIZE)).reshape(-1, 1)
        notes = ("The log does not hold the clients' label counts, so nothing is said of mixtures.",)
    return Known(
        int(rounds[0].entry["budget"]),
        len(rounds),
        counts,
        masks=masks,
        chosen=tuple((one.cohort, one.weights) for one in rounds),
        played_by=log.method,
        notes=notes,
    )


def shrunk(whole: Known, most: int) -> Known:
    """At most so many clients, drawn by lot, with a cohort of the same share: small enough to be simulated."""
    if whole.clients <= most:
        return whole
    kept = np.sort(stream(0, "advisor's sample").choice(whole.clients, most, replace=False))
    cohort = max(2, round(whole.cohort * most / whole.clients))
    note = f"{most} of {whole.clients} clients were drawn, and {cohort} of them train a round."
    masks = None if whole.masks is None else whole.masks[:, kept]
    return replace(whole, counts=whole.counts[kept], masks=masks, cohort=cohort, notes=(*whole.notes, note))


def _equal(ids: Ids) -> Array:
    return np.full(ids.size, 1.0 / max(ids.size, 1))


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


def options_of(source: Known) -> dict[str, Any]:
    """What the advice rests on, for its heading."""
    return {"clients": source.clients, "cohort": source.cohort, "labels": source.counts.shape[1]}
