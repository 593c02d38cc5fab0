"""Entries of a log whose rounds overlap: selections, work given up, steps; and how they belong together.

Where rounds do not overlap, a round is one entry without an ``event``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sortition.audit.encoding import decode_ids, decode_numbers

Entry = Mapping[str, Any]
SELECTED, GIVEN_UP, STEP = "selected", "given up", "step"


def has_events(entries: Sequence[Entry]) -> bool:
    """Whether rounds overlap in this log."""
    return any("event" in entry for entry in entries)


@dataclass
class LoggedStep:
    """A step as a log has it.

    Attributes:
        selections: the entries of the selections before it, since the step before.
        given_up: the entries of work that ended in this time without an update.
        step: its own entry; None where the log ends before it.
        entries: how many entries of the log it is made of.
    """

    selections: list[Entry] = field(default_factory=list)
    given_up: list[Entry] = field(default_factory=list)
    step: Entry | None = None
    entries: int = 0

    @property
    def cohort(self) -> list[int]:
        """Who was sent to work."""
        return [client for entry in self.selections for client in decode_ids(entry["cohort"]).tolist()]

    @property
    def used(self) -> list[int]:
        """Whose updates the step used."""
        entry = self.step or {"received": []}
        return [int(client) for client in decode_ids(entry.get("used", entry["received"]))]

    @property
    def weights(self) -> list[float]:
        """With what weights."""
        if self.step is None:
            return []
        return [float(weight) for weight in decode_numbers(self.step["weights"], len(self.used))]


def logged_steps(entries: Sequence[Entry]) -> list[LoggedStep]:
    """The steps of a log of events, in order; the last one may lack its own entry."""
    steps = [LoggedStep()]
    for entry in entries:
        current = steps[-1]
        current.entries += 1
        if entry.get("event") == SELECTED:
            current.selections.append(entry)
        elif entry.get("event") == GIVEN_UP:
            current.given_up.append(entry)
        else:
            current.step = entry
            steps.append(LoggedStep())
    return steps if steps[-1].entries else steps[:-1]
