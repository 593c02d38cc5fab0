"""The simulator: a world that answers and trains, an engine that plays rounds, and what everything cost.

:class:`World` is the backend (``measure`` and ``train``), :class:`Setup` says what is played, :func:`play_round` plays
one round and :func:`run` many. The selector is given; this room imports none. Needs the extra ``[lab]``.
"""

from sortition.simulation.attacks import Attacks
from sortition.simulation.devices import Devices
from sortition.simulation.engine import play_round, run
from sortition.simulation.faults import Faults, Mishaps
from sortition.simulation.setup import Carry, Setup, start
from sortition.simulation.world import Outcome, World

__all__ = [
    "Attacks",
    "Carry",
    "Devices",
    "Faults",
    "Mishaps",
    "Outcome",
    "Setup",
    "World",
    "play_round",
    "run",
    "start",
]
