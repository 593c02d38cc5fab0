"""The history of a Flower federation: who was there, who was chosen, who answered.

``SelectorStrategy`` appends one line a round to ``NAME.history.jsonl`` beside its checkpoint NAME, which holds the
clients' facts and the method. A file that ``on_round`` wrote has the same lines, and no facts beside it.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sortition.advice.profile import MEAN_SIZE, MOST_CELLS, Known
from sortition.core.arrays import Array
from sortition.core.errors import StorageError
from sortition.core.storage import snapshot
from sortition.core.storage.safe_files import read_lines

BESIDE = ".history.jsonl"
Clients = tuple[Annotated[int, Field(ge=0)], ...]


class HistoryRound(BaseModel):
    """One line of a history; what else it says is not read."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)
    available: Clients
    cohort: Clients
    weights: tuple[Annotated[float, Field(ge=0, allow_inf_nan=False)], ...]
    answered: Clients
    clients: Annotated[int, Field(ge=1, le=10**8)]

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if len(self.weights) != len(self.cohort) or len(set(self.cohort)) < len(self.cohort):
            raise ValueError("cohort and weights must be of distinct clients, one weight each")
        if max((*self.available, *self.cohort), default=0) >= self.clients:
            raise ValueError(f"ids must be below {self.clients}, the number of clients")
        return self


def is_history(path: Path) -> bool:
    """Whether a file's first line is one of a Flower history."""
    try:
        first = json.loads(next(read_lines(path), b""))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(first, dict) and {"cohort", "answered", "clients"} <= first.keys()


def from_history(path: Path, cohort: int | None = None) -> Known:
    """What a history says; with the checkpoint beside it, also the clients' facts and the method."""
    rounds = _rounds_of(path)
    clients = rounds[-1].clients
    if clients * len(rounds) > MOST_CELLS:
        raise StorageError(f"{path} cannot be read: {clients:,} clients in {len(rounds):,} rounds.")
    facts, method, places = _beside(path)
    masks = np.zeros((len(rounds), clients), bool)
    for t, one in enumerate(rounds):
        masks[t, list(one.available)] = True
    chosen, answered = (sum(len(getattr(one, what)) for one in rounds) for what in ("cohort", "answered"))
    return Known(
        cohort or places or max(1, *(len(one.cohort) for one in rounds)),
        len(rounds),
        _counts(facts, clients),
        masks=masks,
        dropout=max(0.0, 1 - max(answered, 1) / chosen) if chosen else 0.0,
        chosen=tuple((np.array(one.cohort, np.int64), np.array(one.weights)) for one in rounds),
        played_by=method,
    )


def _rounds_of(path: Path) -> list[HistoryRound]:
    """The whole lines; a line that was being written when the server died is not one."""
    rounds: list[HistoryRound] = []
    for number, line in enumerate(read_lines(path), 1):
        try:
            if line.endswith(b"\n"):
                rounds.append(HistoryRound.model_validate_json(line))
        except ValidationError as error:
            what = error.errors(include_url=False)[0]["msg"]
            raise StorageError(f"{path} is not a Flower history: line {number}: {what}.") from None
    if not rounds or any(later.clients < one.clients for one, later in pairwise(rounds)):
        raise StorageError(f"{path} is not a Flower history: clients must not get fewer, and one round be there.")
    return rounds


def _beside(path: Path) -> tuple[dict[str, Array], str, int | None]:
    """Facts, method and cohort of the checkpoint that the history belongs to, where it is there."""
    checkpoint = path.with_name(path.name.removesuffix(BESIDE))
    if not path.name.endswith(BESIDE) or not checkpoint.exists():
        return {}, "Flower", None
    arrays, header = snapshot.load(checkpoint)
    try:
        about: dict[str, Any] = header["flower"]
        facts = {name.removeprefix("facts."): rows for name, rows in arrays.items() if name.startswith("facts.")}
        return facts, str(header["registrar"]["selector"]), about.get("options", {}).get("cohort")
    except (KeyError, TypeError, AttributeError):
        raise StorageError(f"{checkpoint} is not a Flower checkpoint, and {path.name} lies beside it.") from None


def _counts(facts: dict[str, Array], clients: int) -> Array:
    """(N, C) examples by label; one column where only sizes, or nothing, is known of all clients."""
    found = facts.get("label_counts", facts.get("sizes"))
    if found is None or len(found) < clients:
        found = np.full(clients, MEAN_SIZE)
    return found[:clients] if found.ndim > 1 else found[:clients].reshape(-1, 1)
