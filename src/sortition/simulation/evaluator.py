"""How good a model is: on the test set, and for each client."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortition.core.arrays import Floats
from sortition.learning.evaluation import Passes
from sortition.learning.objective import Objective
from sortition.learning.vector import Vector
from sortition.simulation.holdings import Holdings, means

EXAMPLES_OF_A_BLOCK = 4096  # whose outputs are in memory together


def is_evaluation_due(t: int, every: int, *, is_last: bool) -> bool:
    """Tell whether round t is evaluated where every so many rounds are, and the last one; 0: none is."""
    return every > 0 and (is_last or (t + 1) % every == 0)


@dataclass(frozen=True)
class Evaluator:
    """Passes over the test examples and over the clients' own.

    Attributes:
        test: passes over the test set.
        client_passes: passes over all clients' examples.
        parts: which of these each client is evaluated on.
    """

    test: Passes
    client_passes: Passes
    parts: Holdings

    @property
    def higher_is_better(self) -> bool:
        """Whether a higher score of a client is a better one."""
        return self.test.objective is None or bool(self.test.objective.rule.higher_is_better)

    def score(self, params: Vector) -> dict[str, float]:
        """Return the loss on the test set, and the accuracy or the task's metric."""
        objective = self.test.objective
        if objective is None:
            losses, hits = self.test.losses_and_hits(params)
            return {"loss": float(losses.mean(dtype=np.float64)), "accuracy": float(hits.mean())}
        judged = self.test.judge(params)
        scores = {"loss": float(judged.losses.mean(dtype=np.float64))}
        if not objective.judges_by_loss:
            scores[objective.rule.metric_name] = objective.metric(judged.outputs, judged.targets)
        return scores

    def client_scores(self, params: Vector) -> Floats:
        """Return the accuracy, or the task's metric, of each client (N,), on its hold-out or its training part."""
        objective = self.client_passes.objective
        if objective is not None and not objective.judges_by_loss:
            return self._client_metrics(objective, params)
        losses, hits = self.client_passes.losses_and_hits(params)
        index, sizes = self.parts.gather(np.arange(len(self.parts)))
        if objective is not None:
            return means(losses[index], sizes)
        return means(hits.astype(np.float32)[index], sizes)

    def _client_metrics(self, objective: Objective, params: Vector) -> Floats:
        """Evaluate clients in blocks whose outputs are in memory together."""
        scores = []
        block: list[int] = []
        n_examples = 0
        for client, size in enumerate(self.parts.sizes.tolist()):
            if block and n_examples + size > EXAMPLES_OF_A_BLOCK:
                scores += self._metrics_of(block, objective, params)
                block = []
                n_examples = 0
            block.append(client)
            n_examples += size
        scores += self._metrics_of(block, objective, params)
        return np.array(scores)

    def _metrics_of(self, clients: list[int], objective: Objective, params: Vector) -> list[float]:
        index, sizes = self.parts.gather(np.array(clients))
        judged = self.client_passes.judge(params, index)
        outputs = judged.outputs.split(sizes.tolist())
        targets = judged.targets.split(sizes.tolist())
        return [
            objective.metric(client_outputs, client_targets)
            for client_outputs, client_targets in zip(outputs, targets, strict=True)
        ]
