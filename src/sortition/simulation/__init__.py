"""The simulator: a world that answers and trains, a simulation that plays rounds, and what everything cost.

:class:`World` has the clients: ``measure`` and ``train``, with ``costs`` and ``evaluator``. :class:`Setup` says what is
played, a :class:`Simulation` plays it round by round, and :func:`run` many rounds. The selector is given; this room
imports none. Needs the extra ``[lab]``. The names are imported when they are first used: the settings of devices,
faults and attacks need no PyTorch.
"""

from typing import TYPE_CHECKING

from sortition._lazy import exports

if TYPE_CHECKING:
    from sortition.simulation.attacks import Attacks
    from sortition.simulation.batteries import Habits
    from sortition.simulation.devices import Devices
    from sortition.simulation.faults import FaultDraws, Faults
    from sortition.simulation.setup import Setup
    from sortition.simulation.simulation import Simulation, run, start
    from sortition.simulation.world import CohortReturn, World

__all__ = [
    "Attacks",
    "CohortReturn",
    "Devices",
    "FaultDraws",
    "Faults",
    "Habits",
    "Setup",
    "Simulation",
    "World",
    "run",
    "start",
]
__getattr__ = exports(
    __name__,
    {
        "Attacks": "sortition.simulation.attacks",
        "Devices": "sortition.simulation.devices",
        "FaultDraws": "sortition.simulation.faults",
        "Faults": "sortition.simulation.faults",
        "Habits": "sortition.simulation.batteries",
        "Setup": "sortition.simulation.setup",
        "Simulation": "sortition.simulation.simulation",
        "CohortReturn": "sortition.simulation.world",
        "World": "sortition.simulation.world",
        "run": "sortition.simulation.simulation",
        "start": "sortition.simulation.simulation",
    },
)
