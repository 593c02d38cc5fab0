"""A PyTorch module and its examples as a LocalClient: losses, gradients and outputs as the module gives them.

Examples reach the module as they were loaded: nothing is permuted, cast or flattened. Arrays that the message does not
hold keep the values that ``load`` gave them, so frozen parameters and layers that stay at home are no special case.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from sortition.clients.named_arrays import Model
from sortition.clients.received_model import Context, Received
from sortition.clients.torch_data import (
    TorchData,
    accuracy,
    count_classes,
    count_labels,
    forward,
    loaded,
    mean_loss,
    named_loss,
    tensors_by_name,
)
from sortition.core.arrays import Array
from sortition.core.errors import bad
from sortition.core.streams import stream
from sortition.core.validation import check_parameters

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

    from sortition.clients.rule_training import RuleResult
    from sortition.clients.torch_data import Inputs, Loss, RawInputs
    from sortition.learning import LocalRule

    Arrays: TypeAlias = tuple[Module, RawInputs, Tensor | npt.ArrayLike]  # (module, x, y)
    Batches: TypeAlias = tuple[Module, Iterable[object]]  # (module, batches)
    Load: TypeAlias = Callable[[Context], Arrays | Batches]  # from a node's context to its module and examples

Resources = Callable[[Context], tuple[float, float]]  # from a node's context to seconds of training and of sending
BATCH = 64  # rows of a mini-batch where no rule says how many


class PyTorch:
    """Makes clients; see :func:`pytorch`."""

    def __init__(
        self,
        load: Load,
        rule: LocalRule | None,
        loss: Loss | str | None,
        classes: int,
        seed: int,
        device: str,
        engine: str,
        resources: Resources | None = None,
    ) -> None:
        self.load = load
        self.rule = rule
        self.loss = loss
        self.classes = classes
        self.seed = seed
        self.device = device
        self.engine = engine
        self.resources = resources
        self.trains = rule is not None

    @property
    def lacks(self) -> tuple[str, ...]:
        """What its clients cannot answer."""
        return ("resources",) if self.resources is None else ()

    def __call__(self, received: Received) -> TorchClient:
        """Make the client that received this model."""
        return TorchClient(self, received)

    def facts(self, context: Context) -> Mapping[str, npt.ArrayLike]:
        """Return size and label counts of the node's data; the labels are counted only if they are read."""
        model, data = loaded(self.load(context))
        return NodeFacts(data, lambda: self.classes or count_classes(model, data.largest_label))


class NodeFacts(Mapping[str, npt.ArrayLike]):
    """Facts that are computed when they are read: a size needs no label, and a regression has none."""

    def __init__(self, data: TorchData, classes: Callable[[], int]) -> None:
        self._compute: dict[str, Callable[[], npt.ArrayLike]] = {
            "sizes": lambda: len(data),
            "label_counts": lambda: data.label_counts(classes()),
        }

    def __getitem__(self, name: str) -> npt.ArrayLike:
        return self._compute[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._compute)

    def __len__(self) -> int:
        return len(self._compute)


def pytorch(
    load: Load,
    rule: LocalRule | None = None,
    *,
    loss: Loss | str | None = None,
    classes: int = 0,
    seed: int = 0,
    device: str = "cpu",
    engine: str = "auto",
    resources: Resources | None = None,
) -> PyTorch:
    """Make clients of a PyTorch model.

    Args:
        load: from a node's context to (module, x, y), or to (module, batches) with batches such as a DataLoader's:
            pairs (x, y), or dicts with the labels under ``label`` or ``labels``.
        rule: local training; None where the app has a train function of its own.
        loss: from (outputs, labels) to the mean loss, or the name of a study's ``task.loss`` ("mse", "bce", …).
            Default: the module's own, if its outputs carry one; else cross-entropy for labels, binary cross-entropy
            for label masks, the squared error for real targets.
        classes: how many labels there are; default: the outputs of the last layer.
        seed: of batches and dropout masks, keyed by round and client; the simulator's of the same seed are the same.
        device: any name that torch knows.
        engine: of a training by rule, as in the simulator.
        resources: from a node's context to the expected seconds of a training and of sending the model once (FedCS).
    """
    if not callable(load):
        raise bad("pytorch(load)", "a function from a context to (module, x, y)", load)
    if isinstance(loss, str):
        named_loss(loss)  # refuses a name that is not known
    elif loss is not None:
        check_parameters(loss, ("outputs", "labels"), "pytorch(loss)")
    if rule is not None and rule.keep_state:
        raise bad("pytorch(rule).keep_state", "false: a client here ends with its message", True)
    return PyTorch(
        load=load,
        rule=rule,
        loss=loss,
        classes=classes,
        seed=seed,
        device=device,
        engine=engine,
        resources=resources,
    )


class TorchClient:
    """Implements core's ``LocalClient`` for one node and one message.

    Attributes:
        maker: what made it, with the options of :func:`pytorch`.
        received: the message.
        begun: when it was made, in seconds of ``time.monotonic``.
        model: the module, with the received arrays in it.
        data: the node's examples.
    """

    def __init__(self, maker: PyTorch, received: Received) -> None:
        self.maker = maker
        self.received = received
        self.begun = time.monotonic()
        self.model, self.data = loaded(maker.load(received.context))
        self._assign(received.model)

    def _assign(self, arrays: Model | Mapping[str, Tensor]) -> None:
        """Load the received arrays into the module; what was not received stays as it is."""
        import torch

        tensors = tensors_by_name(self.model, arrays)
        self.model.to(self.maker.device)
        with torch.no_grad():
            for name, tensor in tensors.items():
                tensor.copy_(torch.as_tensor(arrays[name]))
        self.model.eval()

    @property
    def batches(self) -> int:
        """Batches of one epoch; 0 where the data are arrays, of which only the app knows how it cuts them."""
        return self.data.batches

    @property
    def classes(self) -> int:
        """How many labels there are, C."""
        return self.maker.classes or count_classes(self.model, self.data.largest_label)

    @property
    def output_axes(self) -> int:
        """How many axes the module's outputs have, with that of the examples."""
        import torch

        first, _ = self.data.sample(1, np.random.Generator(np.random.PCG64(0)), self.maker.device)
        with torch.inference_mode():
            return int(forward(self.model, first).ndim)

    @property
    def label_counts(self) -> Array:
        """Examples per label (C,)."""
        return self.data.label_counts(self.classes)

    def resources(self) -> Array:
        """Return the expected seconds (2,) of a training and of sending the model, as the maker's function says."""
        if self.maker.resources is None:
            raise bad("pytorch(resources)", "a function that gives seconds of training and of sending", None)
        return np.asarray(self.maker.resources(self.received.context), np.float64)

    def loss(self) -> float:
        """Return F_k(w) on all local data."""
        import torch

        total = 0.0
        with torch.inference_mode():
            for x, y, share in self.data.chunks(self.maker.device):
                total += float(self._loss(x, y)) * share
        return total

    def batch_loss(self) -> float:
        """Return the loss on one mini-batch, drawn by (seed, t, client); on all data if none of its labels counts."""
        import torch

        n_rows = BATCH
        if self.maker.rule is not None:
            n_rows = self.maker.rule.rows_per_batch(len(self.data))
        rng = stream(self.maker.seed, "loss-batch", self.received.t, self.received.client)
        with torch.inference_mode():
            x, y = self.data.sample(n_rows, rng, self.maker.device)
            if count_labels(y):
                return float(self._loss(x, y))
            return self.loss()

    def accuracy(self) -> float:
        """Return the share of the local labels that the received model gives."""
        import torch

        total = 0.0
        with torch.inference_mode():
            for x, y, share in self.data.chunks(self.maker.device):
                total += accuracy(self.model, x, y) * share
        return total

    def gradient(self) -> Array:
        """Return ∇F_k(w) on all local data (P,), in the order of the received arrays; 0 where there is no gradient."""
        import torch

        parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        totals = [torch.zeros_like(parameter, dtype=torch.float32) for parameter in parameters]
        for x, y, share in self.data.chunks(self.maker.device):
            gradients = torch.autograd.grad(self._loss(x, y), parameters, allow_unused=True)
            for total, gradient in zip(totals, gradients, strict=True):
                if gradient is not None:
                    total += gradient.float() * share
        total_by_parameter = {id(parameter): total for parameter, total in zip(parameters, totals, strict=True)}
        tensors = tensors_by_name(self.model, self.received.model)
        parts = []
        for name, value in self.received.model.items():
            if value.dtype.kind != "f":
                continue
            total_gradient = total_by_parameter.get(id(tensors[name]))
            if total_gradient is None:
                parts.append(np.zeros(value.size, np.float32))
            else:
                parts.append(total_gradient.reshape(-1).cpu().numpy())
        if not parts:
            return np.empty(0, np.float32)
        return np.concatenate(parts)

    def _loss(self, x: Inputs, y: Tensor) -> Tensor:
        return mean_loss(self.model, x, y, self.maker.loss)

    def outputs_of(self, model: Model, inputs: Array) -> Array:
        """Return a model's logits for given inputs (n, …); all other answers remain those of the received model."""
        import torch

        first, _ = self.data.sample(1, np.random.Generator(np.random.PCG64(0)), self.maker.device)
        if not isinstance(first, torch.Tensor):
            raise bad("pytorch(load)", "one array of examples where a probe is asked", type(first).__name__)
        previous = {name: tensor.detach().clone() for name, tensor in tensors_by_name(self.model, model).items()}
        try:
            self._assign(model)
            with torch.inference_mode():
                x = torch.as_tensor(np.asarray(inputs), dtype=first.dtype, device=first.device)
                logits = forward(self.model, x.reshape(len(inputs), *first.shape[1:]))
        finally:
            self._assign(previous)
        return np.asarray(logits.float().cpu().numpy())

    @cached_property
    def _trained(self) -> RuleResult:
        from sortition.clients.rule_training import RuleResult

        if self.maker.rule is None:
            raise bad("pytorch(load, rule)", "given a rule where the app has no train function of its own", None)
        return RuleResult(self, self.maker.rule)

    def train(self) -> RuleResult:
        """Train by the rule, once a round."""
        return self._trained
