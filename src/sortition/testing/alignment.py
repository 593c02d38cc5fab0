"""The check that a method reads answers by their ids, also where some clients did not answer.

An answer may be shorter than the question. A method that takes ``round.available[np.argsort(-loss.values)]`` then
chooses other clients than those that answered so, and raises nothing. To find it, one client's answers are made very
small in one run and very large in another: a method that listens changes how often it chooses that client. It must
still be that client whose share changes most when the clients with the lowest ids never answer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sortition.core import Reading, Signal
from sortition.core.arrays import Array, Ids
from sortition.core.selector import AnySelector
from sortition.testing.play import BUDGET, AnswerFaults, instances, play
from sortition.testing.violation import require
from sortition.testing.worlds import ScriptedWorld

CLIENTS = 18
N_MUTE = 8  # clients with the lowest ids, so that every other position is shifted
LISTENED_TO = range(N_MUTE, CLIENTS)  # the clients whose answers are changed, one at a time
ROUNDS = 12
SMALL_FACTOR = 0.01  # what one client's answers are multiplied with in one run
LARGE_FACTOR = 20.0  # and in the other
FEWEST_INFLUENTIAL = 4  # clients whose answers must make a difference, or nothing can be told
# Shares of clients for whom a change of their answers changes above all how often they are chosen themselves. Methods
# of the package that choose by single answers have 1.0, and 0.8 or more with mute clients; methods that read by
# position have 1.0, and 0.4 or less with mute clients.
CLEAR_SHARE = 0.95
MISREAD_SHARE = 0.6


class OneClientScaled(ScriptedWorld):
    """A scripted world in which one client's answers are multiplied by a factor."""

    def __init__(self, client: int, factor: float) -> None:
        super().__init__(CLIENTS)
        self.client = client
        self.factor = factor

    def rows(self, signal: Signal, ids: Ids, t: int) -> Array:
        """Return the script's lines, with those of the one client multiplied."""
        rows = super().rows(signal, ids, t)
        if signal.of != "pairs":
            rows[ids == self.client] *= self.factor
        return rows


class LowestIdsMute(AnswerFaults):
    """Clients with the lowest ids never answer and never report."""

    def distort(self, reading: Reading, t: int, key: str) -> Reading:
        """Return a reading without their rows."""
        is_heard = reading.ids >= N_MUTE
        return Reading(reading.ids[is_heard], reading.values[is_heard])


class Influence(NamedTuple):
    """How many clients' answers changed who is chosen.

    Attributes:
        n_influential: clients whose answers changed how often somebody is chosen.
        n_on_themselves: those of them whose answers changed most how often they are chosen themselves.
    """

    n_influential: int
    n_on_themselves: int

    @property
    def share(self) -> float:
        """The share of these clients whose answers decide on themselves above all."""
        return self.n_on_themselves / max(self.n_influential, 1)


def aligned_answers(cls: type[AnySelector]) -> None:
    """Answers are read by their ids, not by their positions, also where some do not answer."""
    for selector in instances(cls):
        if not selector.needs.asks and not selector.needs.reports:
            continue
        all_answer = _measure_influence(selector, AnswerFaults())
        if all_answer.n_influential < FEWEST_INFLUENTIAL or all_answer.share < CLEAR_SHARE:
            continue  # it does not choose by single clients' answers
        some_answer = _measure_influence(selector, LowestIdsMute())
        require(
            cls,
            some_answer.n_influential < FEWEST_INFLUENTIAL or some_answer.share >= MISREAD_SHARE,
            "gives a client's answer to another client where some do not answer. An answer holds the ids that it is of:"
            " take reading.ids beside reading.values, never positions in round.available"
            f"{_write_parameters(selector)}.",
        )


def _write_parameters(selector: AnySelector) -> str:
    """Write the parameters under which a method was tried; nothing where it has none."""
    parameters = ", ".join(f"{name} = {value}" for name, value in selector.parameters().items())
    if parameters:
        return f" (with {parameters})"
    return ""


def _measure_influence(selector: AnySelector, faults: AnswerFaults) -> Influence:
    """Count the clients whose answers, large in place of small, change who is chosen, and whom they change most."""
    n_influential = 0
    n_on_themselves = 0
    for client in LISTENED_TO:
        quiet = _times_chosen(selector, OneClientScaled(client, SMALL_FACTOR), faults)
        loud = _times_chosen(selector, OneClientScaled(client, LARGE_FACTOR), faults)
        difference = np.abs(loud - quiet)
        if difference.any():
            n_influential += 1
            n_on_themselves += int(difference[client] == difference.max())
    return Influence(n_influential=n_influential, n_on_themselves=n_on_themselves)


def _times_chosen(selector: AnySelector, world: ScriptedWorld, faults: AnswerFaults) -> Ids:
    """Play a run and return how often each client was chosen (N,)."""
    times = np.zeros(CLIENTS, np.int64)
    for cohort in play(selector, world, ROUNDS, budget=BUDGET, faults=faults):
        times[cohort.ids] += 1
    return times
