"""The simulator: a world that answers and trains, an engine that plays rounds, and what everything cost.

:class:`World` is the backend: ``measure`` and ``train``, with ``costs`` and ``evaluator``. :class:`Setup` says what is
played, :func:`play_round` plays one round and :func:`run` many. The selector is given; this room imports none. Needs
the extra ``[lab]``. The names are imported when they are first used: the settings of devices, faults and attacks need
no PyTorch.
"""

from typing import TYPE_CHECKING

from sortition._lazy import exports

if TYPE_CHECKING:
    from sortition.simulation.attacks import Attacks
    from sortition.simulation.devices import Devices
    from sortition.simulation.engine import play_round, run
    from sortition.simulation.faults import FaultDraws, Faults
    from sortition.simulation.setup import Carry, Setup, start
    from sortition.simulation.world import TrainedCohort, World

__all__ = [
    "Attacks",
    "Carry",
    "Devices",
    "FaultDraws",
    "Faults",
    "Setup",
    "TrainedCohort",
    "World",
    "play_round",
    "run",
    "start",
]
__getattr__ = exports(
    __name__,
    {
        "Attacks": "sortition.simulation.attacks",
        "Carry": "sortition.simulation.setup",
        "Devices": "sortition.simulation.devices",
        "FaultDraws": "sortition.simulation.faults",
        "Faults": "sortition.simulation.faults",
        "Setup": "sortition.simulation.setup",
        "TrainedCohort": "sortition.simulation.world",
        "World": "sortition.simulation.world",
        "play_round": "sortition.simulation.engine",
        "run": "sortition.simulation.engine",
        "start": "sortition.simulation.setup",
    },
)
