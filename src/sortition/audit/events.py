"""Logs of rounds that overlap: which entries (selections, work that was given up) belong to which step.

Where rounds do not overlap, a round is one entry without an ``event``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sortition.audit.encoding import decode_ids, decode_numbers
from sortition.audit.entry_schema import Entry

SELECTED = "selected"
GIVEN_UP = "given up"
STEP = "step"


def has_events(entries: Sequence[Entry]) -> bool:
    """Tell whether rounds overlap in this log."""
    return any("event" in entry for entry in entries)


@dataclass
class LoggedStep:
    """A step as a log has it.

    Attributes:
        selections: the entries of the selections since the step before.
        given_up: the entries of work that ended in this time without an update.
        step: the step's own entry; None where the log ends before it.
        n_entries: how many entries of the log it is made of.
    """

    selections: list[Entry] = field(default_factory=list)
    given_up: list[Entry] = field(default_factory=list)
    step: Entry | None = None
    n_entries: int = 0

    @property
    def cohort(self) -> list[int]:
        """The clients that were sent to work."""
        return [client for entry in self.selections for client in decode_ids(entry["cohort"]).tolist()]

    @property
    def used(self) -> list[int]:
        """The clients whose updates the step used."""
        if self.step is None:
            return []
        return [int(client) for client in decode_ids(self.step.get("used", self.step["received"]))]

    @property
    def weights(self) -> list[float]:
        """The weights of these updates."""
        if self.step is None:
            return []
        return [float(weight) for weight in decode_numbers(self.step["weights"], len(self.used))]


def logged_steps(entries: Sequence[Entry]) -> list[LoggedStep]:
    """Return the steps of a log of events, in order; the last one may lack its own entry."""
    steps: list[LoggedStep] = []
    current = LoggedStep()
    for entry in entries:
        current.n_entries += 1
        if entry.get("event") == SELECTED:
            current.selections.append(entry)
        elif entry.get("event") == GIVEN_UP:
            current.given_up.append(entry)
        else:
            current.step = entry
            steps.append(current)
            current = LoggedStep()
    if current.n_entries:
        steps.append(current)
    return steps
