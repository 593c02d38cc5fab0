"""The simulated server's own answers: losses of parts of a cohort on examples that no client trains on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sortition.aggregation import weighted_sum
from sortition.core.arrays import Floats, Ids
from sortition.core.streams import stream
from sortition.learning.vector import Vector
from sortition.simulation.world import World


class SimServer:
    """Implements core's ``CohortModels`` for the updates (k, P) of clients ``ids`` with these weights in round t."""

    def __init__(self, world: World, params: Vector, ids: Ids, deltas: Vector, weights: Floats, t: int) -> None:
        self.ids, self.rng, self.examples = ids, stream(world.seed, "server signals", t), 0
        self._world, self._params, self._deltas, self._weights = world, params, deltas, weights
        self._row = {int(client): row for row, client in enumerate(ids)}

    def loss(self, members: Sequence[int]) -> float:
        """Mean loss of the model of these members on the validation set."""
        params, rows, examples = self._params, [self._row[int(client)] for client in members], self._world.validation
        if rows:
            own, total = self._weights[rows], float(self._weights.sum())
            own = own * (total / own.sum()) if own.sum() > 0 else np.full(len(rows), total / len(rows))
            params = params + weighted_sum(own, self._deltas[rows])
        self.examples += 0 if examples is None else examples.size
        return float(self._world.learner.passes.losses(params, examples)[0].mean(dtype=np.float64))
