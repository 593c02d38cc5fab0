"""What a client is made from: the model and config that arrived, and the round that they belong to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sortition.clients.named_arrays import Model, as_vector
from sortition.core.arrays import Array

Context = Any  # what a framework knows of a node, such as Flower's ``Context``
Config = Mapping[str, Any]  # values of a config or of metrics, which frameworks type differently


@dataclass(frozen=True)
class Received:
    """One message as a client sees it.

    A round, a client and a purpose, together with a seed of the client's own, fix everything random.

    Attributes:
        model: the received arrays by name.
        config: the train config that came with them. Default: empty.
        t: the round, from 0.
        client: the client's dense id.
        purpose: ``train`` or ``rehearsal``.
        context: what the framework knows of this node; Flower's ``Context``.
        run_config: the config that holds for the whole run. Default: empty.
    """

    model: Model
    config: Config = field(default_factory=dict)
    t: int = 0
    client: int = 0
    purpose: str = "train"
    context: Context = None
    run_config: Config = field(default_factory=dict)

    @property
    def vector(self) -> Array:
        """The model as one vector (P,)."""
        return as_vector(self.model)


# gives a LocalClient, or an object with those of its methods that are asked for
MakeClient = Callable[[Received], object]
