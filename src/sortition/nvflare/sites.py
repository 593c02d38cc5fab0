"""The sites of a federation as clients: stable names, dense ids, facts, and who answers no more."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from sortition.core import Population
from sortition.core.arrays import Array, Ids
from sortition.core.client_names import natural_order
from sortition.core.errors import InputError
from sortition.core.facts import check_row


class Sites:
    """Names and facts of all sites ever met; ``reads`` are the facts that are kept.

    A site whose script raised or was late stays connected and never answers again: it is left out until it connects
    anew, which its token shows.
    """

    def __init__(self, reads: Collection[str]) -> None:
        self.reads = tuple(reads)
        self.names: list[str] = []
        self.facts: list[dict[str, Array]] = []
        self.silent: dict[str, str] = {}  # name → the token under which it fell silent
        self.changed = False

    def answering(self, online: Mapping[str, str]) -> list[str]:
        """Those of the connected sites (name → token) that did not fall silent."""
        self.silent = {name: token for name, token in self.silent.items() if online.get(name, token) == token}
        return sorted((name for name in online if name not in self.silent), key=natural_order)

    def enter(self, name: str, sent: Mapping[str, Any]) -> None:
        """Take a new site in; facts that are missing, of a wrong kind or of another shape are refused."""
        facts = dict[str, Array]()
        for fact in self.reads:
            if fact not in sent:
                raise InputError(f"{name}: its facts lack {fact}. Pass facts=… to answer() in its script.")
            row = np.asarray(sent[fact])
            check_row(fact, row, f"{name}'s facts")
            facts[fact] = row if row.dtype.kind == "f" else row.astype(np.int64)
            if self.facts and facts[fact].shape != self.facts[0][fact].shape:
                raise InputError(
                    f"{name}: its {fact} must be of shape {self.facts[0][fact].shape}; got {facts[fact].shape}."
                )
        self.names.append(name)
        self.facts.append(facts)
        self.changed = True

    def ids(self, names: Collection[str]) -> Ids:
        """The ids of these sites, sorted; unknown ones are left out."""
        return np.array(sorted(self.names.index(name) for name in names if name in self.names), np.int64)

    def population(self) -> Population:
        """What the server knows of them."""
        facts = {fact: np.stack([row[fact] for row in self.facts]) for fact in self.reads}
        return Population(**facts, n_clients=len(self.names))

    def export(self) -> tuple[dict[str, Array], list[str]]:
        """Facts and names, for a checkpoint."""
        return {fact: np.stack([row[fact] for row in self.facts]) for fact in self.reads}, list(self.names)

    def restore(self, facts: Mapping[str, Array], names: list[str]) -> None:
        """Take over what :meth:`export` gave."""
        Population(**{fact: facts[fact] for fact in self.reads}, n_clients=len(names))
        self.names = [str(name) for name in names]
        self.facts = [{fact: facts[fact][row] for fact in self.reads} for row in range(len(names))]
