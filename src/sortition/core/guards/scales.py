"""The usual norm of what clients send, remembered over rounds: the scale of each signal, and of models' updates.

Compared with one another, the rows of one round say nothing where most of them are false. So the norm of a row is held
against a *scale*: every client has one vote, the norm that it sent last within the last ``rounds`` rounds, and the
scale is the lower median of all votes. A client that has just come (:mod:`~sortition.core.guards.returning`) has none.

So a tenth of the clients holds a tenth of the votes, however many places it has in a round: it moves the scale from the
median of the honest votes to their 56th percentile at most, over any number of rounds, and clients that hold *every*
place for less than half of the remembered rounds cannot move it beyond what the others sent before. Refused rows vote,
too, so that a scale that has become too small follows once most clients send more.

Rows are judged whenever they arrive, against the scale as it is then: it does not matter whether they belong to one
selection or to several, nor how many arrive together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.guards.stored import fill_columns

MODEL = "model"  # the name of the scale of models' updates
ENOUGH_VOTES = 10  # votes that make a scale, or those of half of the clients where there are fewer
FEWEST_HEARD = 3  # clients, or half of them, that must have been heard before anything moves the model
PREFIX = "scales."
Sent = Iterable[tuple[str, Ids, Floats]]  # a signal's name, clients, and the norms of what they sent


class Scales:
    """The norms that clients sent last, by signal, which are their votes on its scale.

    Attributes:
        remembered_rounds: how many rounds a vote counts.
        norms: (N,) the norm that each client sent last, by signal; 0 where it sent none.
        voted_in: (N,) the number of the round, from 1, in which each client sent it, by signal; 0: never.
    """

    def __init__(self, names: Iterable[str], rounds: int, n_clients: int) -> None:
        self.remembered_rounds = rounds
        self.norms: dict[str, Floats] = {name: np.zeros(n_clients) for name in (MODEL, *names)}
        self.voted_in: dict[str, Ids] = {name: np.zeros(n_clients, np.int64) for name in self.norms}

    def scale(self, name: str, index: int) -> float | None:
        """Return the scale of a signal in round ``index``.

        It is None where too few clients have voted, or most sent zeros.
        """
        if name not in self.norms:
            return None
        votes = self._votes(name, index)
        if votes.size < min(ENOUGH_VOTES, self._half):
            return None
        middle = (votes.size - 1) // 2
        return float(np.partition(votes, middle)[middle]) or None

    def limit_without_scale(self, name: str, index: int, norms: Floats) -> float:
        """Return the smallest of these norms and of all votes, to which updates are shortened while there is no scale.

        It is 0 where too few clients have been heard: a client that arrives alone, before all others,
        says nothing of what is usual.
        """
        heard = np.concatenate([norms, self._votes(name, index)])
        if heard.size < min(FEWEST_HEARD, self._half):
            return 0.0
        return float(heard.min())

    @property
    def _half(self) -> int:
        """Half of the clients, rounded up."""
        return -(-self.norms[MODEL].size // 2)

    def _votes(self, name: str, index: int) -> Floats:
        """Return the votes on a signal's scale that count in round ``index``."""
        return self.norms[name][self.voted_in[name] > max(0, index - self.remembered_rounds)]

    def known_scales(self, index: int) -> dict[str, float]:
        """Return the scales that are known in round ``index``, by the name of the signal."""
        scales = {name: self.scale(name, index) for name in self.norms}
        return {name: scale for name, scale in scales.items() if scale is not None}

    def record(self, sent: Sent, index: int) -> None:
        """Take the votes of round ``index``; a norm that is not finite is none."""
        for name, clients, norms in sent:
            finite = np.isfinite(norms)
            self.norms[name][clients[finite]] = norms[finite]
            self.voted_in[name][clients[finite]] = index + 1

    def copy_for(self, n_clients: int) -> Scales:
        """Return a copy for more clients; newcomers have not voted."""
        larger = Scales((name for name in self.norms if name != MODEL), self.remembered_rounds, n_clients)
        fill_columns(larger.export(), self.export())
        return larger

    def export(self) -> dict[str, Array]:
        """Return the votes as named arrays."""
        norms = {f"{PREFIX}norm.{name}": votes for name, votes in self.norms.items()}
        return norms | {f"{PREFIX}when.{name}": rounds for name, rounds in self.voted_in.items()}

    def restored(self, arrays: Mapping[str, Array]) -> Scales:
        """Return a copy with the votes of a snapshot."""
        n_clients = self.norms[MODEL].size
        restored = Scales((name for name in self.norms if name != MODEL), self.remembered_rounds, n_clients)
        fill_columns(restored.export(), arrays)
        return restored
