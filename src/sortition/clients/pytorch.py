"""A PyTorch module and its examples as a LocalClient: losses, gradients and outputs as the module gives them.

Examples reach the module as they were loaded: nothing is permuted, cast or flattened. Arrays that the message does not
hold keep the values that ``load`` gave them, so frozen parameters and layers that stay at home are no special case.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sortition.clients.models import Model
from sortition.clients.received import Received
from sortition.clients.torch_data import (
    TorchData,
    accuracy,
    count_classes,
    count_labels,
    forward,
    held,
    loaded,
    mean_loss,
)
from sortition.core.arrays import Array
from sortition.core.errors import bad
from sortition.core.streams import stream

if TYPE_CHECKING:
    from sortition.learning import LocalRule

Load = Callable[[Any], tuple[Any, ...]]  # from a node's context to (module, x, y) or (module, batches)
Loss = Callable[[Any, Any], Any]  # from (outputs, labels) to the mean loss
Resources = Callable[[Any], tuple[float, float]]  # from a node's context to seconds of training and of sending
BATCH = 64  # rows of a mini-batch where no rule says how many


class PyTorch:
    """Makes clients; see :func:`pytorch`."""

    def __init__(
        self,
        load: Load,
        rule: LocalRule | None,
        loss: Loss | None,
        classes: int,
        seed: int,
        device: str,
        engine: str,
        resources: Resources | None = None,
    ) -> None:
        self.load, self.rule, self.loss, self.classes = load, rule, loss, classes
        self.seed, self.device, self.engine, self.resources = seed, device, engine, resources
        self.trains = rule is not None

    @property
    def lacks(self) -> tuple[str, ...]:
        """What its clients cannot answer."""
        return () if self.resources is not None else ("resources",)

    def __call__(self, received: Received) -> TorchClient:
        """The client that received this model."""
        return TorchClient(self, received)

    def facts(self, context: Any) -> Mapping[str, Any]:
        """Size and label counts of the node's data; the labels are counted only if they are read."""
        model, data = loaded(self.load(context))
        return NodeFacts(data, lambda: self.classes or count_classes(model, data.largest_label))


class NodeFacts(Mapping[str, Any]):
    """Facts that are computed when they are read: a size needs no label, and a regression has none."""

    def __init__(self, data: TorchData, classes: Callable[[], int]) -> None:
        self._known: dict[str, Callable[[], Any]] = {
            "sizes": lambda: len(data),
            "label_counts": lambda: data.label_counts(classes()),
        }

    def __getitem__(self, name: str) -> Any:
        return self._known[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def pytorch(
    load: Load,
    rule: LocalRule | None = None,
    *,
    loss: Loss | None = None,
    classes: int = 0,
    seed: int = 0,
    device: str = "cpu",
    engine: str = "auto",
    resources: Resources | None = None,
) -> PyTorch:
    """Clients of a PyTorch model.

    Args:
        load: from a node's context to (module, x, y), or to (module, batches) with batches such as a DataLoader's:
            pairs (x, y), or dicts with the labels under ``label`` or ``labels``.
        rule: local training; None where the app has a train function of its own.
        loss: from (outputs, labels) to the mean loss. Default: the module's own, if its outputs carry one; else
            cross-entropy for labels, binary cross-entropy for label masks, the squared error for real targets.
        classes: how many labels there are; default: the outputs of the last layer.
        seed: of batches and dropout masks, keyed by round and client; the simulator's of the same seed are the same.
        device: any name that torch knows.
        engine: of a training by rule, as in the simulator.
        resources: from a node's context to the expected seconds of a training and of sending the model once (FedCS).
    """
    if not callable(load):
        raise bad("pytorch(load)", "a function from a context to (module, x, y)", load)
    if rule is not None and rule.keep_state:
        raise bad("pytorch(rule).keep_state", "false: a client here ends with its message", True)
    return PyTorch(load, rule, loss, classes, seed, device, engine, resources)


class TorchClient:
    """Implements core's ``LocalClient`` for one node and one message."""

    def __init__(self, maker: PyTorch, received: Received) -> None:
        self.maker, self.received, self.begun = maker, received, time.monotonic()
        self.model, self.data = loaded(maker.load(received.context))
        self._assign(received.model)

    def _assign(self, arrays: Model) -> None:
        """Load the received arrays into the module; what was not received stays as it is."""
        import torch

        state = held(self.model, arrays)
        self.model.to(self.maker.device)
        with torch.no_grad():
            for name, tensor in state.items():
                tensor.copy_(torch.as_tensor(arrays[name]))
        self.model.eval()

    @property
    def batches(self) -> int:
        """Batches of one epoch; 0 where the data are arrays, of which only the app knows how it cuts them."""
        return self.data.batches

    @property
    def classes(self) -> int:
        """C."""
        return self.maker.classes or count_classes(self.model, self.data.largest_label)

    @property
    def label_counts(self) -> Array:
        """Examples per label (C,)."""
        return self.data.label_counts(self.classes)

    def resources(self) -> Array:
        """Expected seconds (2,) of a training and of sending the model, as the maker's function says."""
        if self.maker.resources is None:
            raise bad("pytorch(resources)", "a function that gives seconds of training and of sending", None)
        return np.asarray(self.maker.resources(self.received.context), np.float64)

    def loss(self) -> float:
        """F_k(w) on all local data."""
        import torch

        with torch.inference_mode():
            return sum((float(self._loss(x, y)) * share for x, y, share in self.data.chunks(self.maker.device)), 0.0)

    def batch_loss(self) -> float:
        """The same on one mini-batch, drawn by (seed, t, client); on all data where no label of the batch counts."""
        import torch

        rows = BATCH if self.maker.rule is None else self.maker.rule.rows(len(self.data))
        rng = stream(self.maker.seed, "loss-batch", self.received.t, self.received.client)
        with torch.inference_mode():
            x, y = self.data.sample(rows, rng, self.maker.device)
            return float(self._loss(x, y)) if count_labels(y) else self.loss()

    def accuracy(self) -> float:
        """Share of the local labels that the received model gives."""
        import torch

        with torch.inference_mode():
            return sum((accuracy(self.model, x, y) * share for x, y, share in self.data.chunks(self.maker.device)), 0.0)

    def gradient(self) -> Array:
        """∇F_k(w) on all local data (P,), in the order of the received arrays; 0 for those without a gradient."""
        import torch

        trained = [p for p in self.model.parameters() if p.requires_grad]
        total = [torch.zeros_like(p, dtype=torch.float32) for p in trained]
        for x, y, share in self.data.chunks(self.maker.device):
            found = torch.autograd.grad(self._loss(x, y), trained, allow_unused=True)
            for into, part in zip(total, found, strict=True):
                if part is not None:
                    into += part.float() * share
        by_parameter = {id(p): g for p, g in zip(trained, total, strict=True)}
        return self._in_order({n: by_parameter.get(id(t)) for n, t in held(self.model, self.received.model).items()})

    def _in_order(self, gradients: Mapping[str, Any]) -> Array:
        parts = []
        for name, value in self.received.model.items():
            if value.dtype.kind == "f":
                found = gradients.get(name)
                parts.append(np.zeros(value.size, np.float32) if found is None else found.reshape(-1).cpu().numpy())
        return np.concatenate(parts) if parts else np.empty(0, np.float32)

    def _loss(self, x: Any, y: Any) -> Any:
        return mean_loss(self.model, x, y, self.maker.loss)

    def outputs_of(self, model: Model, inputs: Array) -> Array:
        """Logits of a model for given inputs (n, …); all other answers remain those of the received model."""
        import torch

        first, _ = self.data.sample(1, np.random.Generator(np.random.PCG64(0)), self.maker.device)
        if not isinstance(first, torch.Tensor):
            raise bad("pytorch(load)", "one array of examples where a probe is asked", type(first).__name__)
        before = {name: tensor.detach().clone() for name, tensor in held(self.model, model).items()}
        try:
            self._assign(model)
            with torch.inference_mode():
                x = torch.as_tensor(np.asarray(inputs), dtype=first.dtype, device=first.device)
                logits = forward(self.model, x.reshape(len(inputs), *first.shape[1:]))
        finally:
            self._assign(before)
        return np.asarray(logits.float().cpu().numpy())

    @cached_property
    def _trained(self) -> Any:
        from sortition.clients.rule_training import RuleResult

        if self.maker.rule is None:
            raise bad("pytorch(load, rule)", "given a rule where the app has no train function of its own", None)
        return RuleResult(self, self.maker.rule)

    def train(self) -> Any:
        """This round's local training by the rule, once."""
        return self._trained
