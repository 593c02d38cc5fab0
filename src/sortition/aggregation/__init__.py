"""From the clients' updates to the next model, in two steps that combine freely. Numpy only; no PyTorch.

``combine``: ids (k,), weights (k,), updates (k, P) → one update (P,). ``step``: model and update → the next model. Both
rules are frozen and keep no memory of their own: they take the memory of the round before and return the next one, so
a round can be played again from what was saved. In a loop of one's own::

    combine, step = CombineRule("fedvarp"), StepRule("momentum", momentum=0.9)
    memory, state = combine.init(model.size, clients=100), step.init(model.size)
    ...
    update, memory = combine.apply(ids, weights, updates, memory, clients=100)
    model, state = step.apply(model, update, state)
"""

from sortition.aggregation.combine import CombineRule, weighted_sum
from sortition.aggregation.memory import UpdateMemory
from sortition.aggregation.server_table import ServerRule
from sortition.aggregation.step import StepRule

__all__ = ["CombineRule", "ServerRule", "StepRule", "UpdateMemory", "weighted_sum"]
