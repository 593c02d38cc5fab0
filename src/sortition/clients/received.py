"""What a client is made from: the model and config that arrived, and the round that they belong to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sortition.clients.models import Model, as_vector
from sortition.core.arrays import Array


@dataclass(frozen=True)
class Received:
    """One message as a client sees it.

    Attributes:
        model: the received arrays by name.
        config: the train config that came with them; ``run_config``: what holds for the whole run.
        t: the round, from 0; ``client``: the client's dense id; ``purpose``: ``train`` or ``rehearsal``. Together with
            a seed of the client's own they fix everything random.
        context: what the framework knows of this node; Flower's ``Context``.
    """

    model: Model
    config: Mapping[str, Any] = field(default_factory=dict)
    t: int = 0
    client: int = 0
    purpose: str = "train"
    context: Any = None
    run_config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def vector(self) -> Array:
        """The model as one vector (P,)."""
        return as_vector(self.model)


MakeClient = Callable[[Received], Any]  # gives a LocalClient, or an object with those of its methods that are asked for
