"""The sites of a federation as clients: stable names, dense ids, facts, and who does not answer at present."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sortition.core import Population
from sortition.core.arrays import Array, Ids, as_array
from sortition.core.client_names import natural_order
from sortition.core.errors import InputError
from sortition.core.facts import check_row


@dataclass(frozen=True)
class Silence:
    """A site that did not answer: the token under which that happened, and the enrolment at which it is asked anew."""

    token: str
    until: int


class Sites:
    """Names and facts of all sites ever met; ``reads`` are the facts that are kept, without which nobody takes part.

    ``optional`` facts count where everybody gives them: that is settled before the first round. ``owners`` are given by
    the operator.

    A site that was late, or whose script raised, stays connected. It is left out until it answers a request for its
    profile; such requests come after 1 enrolment, then 2, 4, 8 … until it trains. A site that connects anew, which its
    token shows, is asked at once.
    """

    def __init__(
        self, reads: Collection[str], optional: Collection[str] = (), owners: Mapping[str, str] | None = None
    ) -> None:
        self.reads, self.optional, self.owners = tuple(reads), tuple(optional), dict(owners or {})
        self.names: list[str] = []
        self.facts: list[dict[str, Array]] = []
        self.silent: dict[str, Silence] = {}
        self.misses: dict[str, int] = {}  # how often each fell silent since it last trained
        self.refused: dict[str, str] = {}  # who cannot take part, and why
        self.enrolments = 0
        self.changed = False

    def answering(self, online: Mapping[str, str]) -> list[str]:
        """Those of the connected sites (name → token) that did not fall silent."""
        silent = self.silent.items()
        self.silent = {name: found for name, found in silent if online.get(name, found.token) == found.token}
        return sorted((name for name in online if name not in self.silent), key=natural_order)

    def to_ask(self, online: Mapping[str, str]) -> list[str]:
        """Sites whose profile is wanted now: those not met before, and silent ones whose pause is over."""
        new = [name for name in self.answering(online) if name not in self.names]
        over = (name for name, silence in self.silent.items() if name in online and silence.until <= self.enrolments)
        return new + sorted(over, key=natural_order)

    def fell_silent(self, name: str, token: str) -> None:
        """Leave a site out, each time for twice as long."""
        misses = self.misses[name] = self.misses.get(name, 0) + 1
        self.silent[name] = Silence(token, self.enrolments + 1 + 2 ** (misses - 1))

    def heard(self, name: str) -> None:
        """A site answered, so it can be chosen."""
        self.silent.pop(name, None)
        self.refused.pop(name, None)

    def refuse(self, name: str, token: str, reason: str) -> None:
        """A site answered, and cannot take part; it is asked later, as if it had been silent."""
        self.refused[name] = reason
        self.fell_silent(name, token)

    def trained(self, name: str) -> None:
        """A site trained in time: its next silence is short."""
        self.misses.pop(name, None)

    def enter(self, name: str, sent: Mapping[str, Any]) -> None:
        """Take a new site in; facts that are missing, of a wrong kind or of another shape are refused."""
        if missing := [fact for fact in self.reads if fact not in sent]:
            raise InputError(f"{name}: its facts lack {missing[0]}. Pass facts=… to answer() in its script.")
        given = [fact for fact in (*self.reads, *self.optional) if fact in sent]
        facts = {fact: self._row(name, fact, sent[fact]) for fact in given}
        self.names.append(name)
        self.facts.append(facts)
        self.changed = True

    def _row(self, name: str, fact: str, sent: Any) -> Array:
        """One fact of a site, as it is kept: in types that stack with those of all others."""
        row = as_array(f"{name}'s facts", sent)
        check_row(fact, row, f"{name}'s facts")
        known = next((facts[fact].shape for facts in self.facts if fact in facts), row.shape)
        if row.shape != known:
            raise InputError(f"{name}: its {fact} must be of shape {known}; got {row.shape}.")
        return row if row.dtype.kind == "f" else row.astype(np.int64)

    def in_order(self) -> None:
        """Give ids by the natural order of names, whoever came first; only before the first round."""
        rows = sorted(range(len(self.names)), key=lambda row: natural_order(self.names[row]))
        self.names, self.facts = [self.names[row] for row in rows], [self.facts[row] for row in rows]

    def settle(self) -> None:
        """Read the optional facts that all sites gave from now on, and no others."""
        self.reads += tuple(fact for fact in self.optional if all(fact in row for row in self.facts))
        self.optional = ()
        self.facts = [{fact: row[fact] for fact in self.reads} for row in self.facts]

    def ids(self, names: Collection[str]) -> Ids:
        """The ids of these sites, sorted; unknown ones are left out."""
        return np.array(sorted(self.names.index(name) for name in names if name in self.names), np.int64)

    def population(self) -> Population:
        """What the server knows of them."""
        facts: dict[str, Any] = {fact: np.stack([row[fact] for row in self.facts]) for fact in self.reads}
        if self.owners and "groups" not in facts:
            owners = [self.owners.get(name, name) for name in self.names]
            number = {owner: row for row, owner in enumerate(dict.fromkeys(owners))}
            facts["groups"] = np.array([number[owner] for owner in owners], np.int64)
        return Population(**facts, n_clients=len(self.names))

    def export(self) -> tuple[dict[str, Array], list[str]]:
        """Facts and names, for a checkpoint."""
        return {fact: np.stack([row[fact] for row in self.facts]) for fact in self.reads}, list(self.names)

    def restore(self, facts: Mapping[str, Array], names: list[str]) -> None:
        """Take over what :meth:`export` gave."""
        self.reads += tuple(fact for fact in self.optional if fact in facts)
        self.optional = ()
        Population(**{fact: facts[fact] for fact in self.reads}, n_clients=len(names))
        self.names = [str(name) for name in names]
        self.facts = [{fact: facts[fact][row] for fact in self.reads} for row in range(len(names))]
