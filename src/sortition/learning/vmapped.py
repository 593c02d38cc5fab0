"""Trains a cohort of any model in lock-step: ``torch.func.vmap`` maps its forward pass over clients.

Parameters are (clients, …). Only the forward pass is mapped: no loss depends on another client's parameters, so one
ordinary backward pass of the sum of all losses gives every client's gradient, without the cost of a mapped one.
Clients are ordered by their number of steps, so that those who have finished are a tail that is cut off. Rows beyond a
client's batch have weight 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np
import torch
from torch import Tensor, nn

from sortition.learning import dropout, vector
from sortition.learning.batches import BatchPlan, pad_plans
from sortition.learning.client_stack import ClientStack, StackJob, StackResult
from sortition.learning.examples import first_rows
from sortition.learning.objective import ModelInputs, Objective, outputs_of
from sortition.learning.precision import forward_precision

DRAWN_BYTES = 64 << 20  # dropout words that are drawn at once


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """Where a module keeps a tensor of the model's vector.

    Attributes:
        tensors: the module's parameters or buffers by name.
        name: of the tensor among these.
        position: of the tensor in the layout.
        model_tensor: the tensor of the model itself.
    """

    tensors: dict[str, Tensor | None]
    name: str
    position: int
    model_tensor: Tensor


def find_tensor_places(model: nn.Module) -> list[TensorPlace]:
    """List the places of all tensors in the order of the layout; a tensor that is shared has several."""
    own_tensors = [*model.parameters(), *vector.floating_buffers(model)]
    position_by_id = {id(tensor): position for position, tensor in enumerate(own_tensors)}
    places = []
    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                if tensor is not None and id(tensor) in position_by_id:
                    places.append(TensorPlace(tensors, name, position_by_id[id(tensor)], tensor))
    return places


@dataclass(frozen=True, slots=True)
class StackedBatch:
    """One batch of each of k clients.

    Attributes:
        x: the examples (k, B, …).
        targets: (k, B, …).
        weights: (k, B), 1/|batch| on real rows and 0 on padding.
        masks: of each call of a dropout layer (k, B, …).
    """

    x: ModelInputs
    targets: Tensor
    weights: Tensor
    masks: Sequence[Tensor]


class MappedModel:
    """A model whose forward pass and loss are mapped over clients.

    Args:
        model: with its dropout layers keyed.
        dropout_layers: these layers.
        objective: loss of a task; None for cross-entropy on labels.
        precision: of the forward pass, ``float32`` or ``bf16``.
    """

    def __init__(
        self,
        model: nn.Module,
        dropout_layers: Sequence[dropout.KeyedDropout],
        objective: Objective | None = None,
        precision: str = "float32",
    ) -> None:
        self.model = model
        self.objective = objective
        self.precision = precision
        self.dropout_layers = dropout_layers
        self.maps_single_clients = True  # a single client passes as it is where torch would take other kernels anyway
        self.mask_shapes: list[tuple[int, ...]] = []  # of one example, at each call of a dropout layer
        self.mask_rates: list[float] = []
        self._places = find_tensor_places(model)

    def losses(
        self, tensors: Sequence[Tensor], batch: StackedBatch, *, measures_squared_losses: bool
    ) -> tuple[Tensor, Tensor]:
        """Return the mean loss of each client's batch (k,), with its gradient, and the mean squared losses (k,).

        Args:
            tensors: of the model (k, …), in the order of its layout.
            batch: of each client.
            measures_squared_losses: whether squared losses are measured; otherwise they are 0.
        """
        if len(batch.weights) == 1 and not self.maps_single_clients:
            return self._losses_of_single_client(tensors, batch, measures_squared_losses=measures_squared_losses)
        mapped = torch.func.vmap(partial(self._loss_of_client, measures_squared_losses=measures_squared_losses))
        losses: tuple[Tensor, Tensor] = mapped(list(tensors), batch.x, batch.targets, batch.weights, list(batch.masks))
        return losses

    def _losses_of_single_client(
        self, tensors: Sequence[Tensor], batch: StackedBatch, *, measures_squared_losses: bool
    ) -> tuple[Tensor, Tensor]:
        loss, squared_loss = self._loss_of_client(
            [tensor[0] for tensor in tensors],
            examples_of_first_client(batch.x),
            batch.targets[0],
            batch.weights[0],
            [mask[0] for mask in batch.masks],
            measures_squared_losses=measures_squared_losses,
        )
        return loss[None], squared_loss[None]

    def _loss_of_client(
        self,
        tensors: Sequence[Tensor],
        x: ModelInputs,
        targets: Tensor,
        weights: Tensor,
        masks: Sequence[Tensor],
        *,
        measures_squared_losses: bool,
    ) -> tuple[Tensor, Tensor]:
        with self._with_tensors(tensors), self._with_masks(masks):
            with forward_precision(weights.device, self.precision):
                raw_outputs = outputs_of(self.model, x)
            outputs = raw_outputs.float()
        if self.objective is not None:
            loss = self.objective.weighted_batch_loss(outputs, targets, weights)
            if not measures_squared_losses:
                return loss, torch.zeros_like(loss)
            example_losses = self.objective.example_losses(outputs.detach(), targets)
            return loss, _weighted_square(example_losses, weights)
        example_losses = nn.functional.cross_entropy(outputs, targets, reduction="none")
        loss = (example_losses * weights).sum()
        if not measures_squared_losses:
            return loss, torch.zeros_like(loss)
        return loss, _weighted_square(example_losses.detach(), weights)

    @contextmanager
    def _with_tensors(self, tensors: Sequence[Tensor]) -> Iterator[None]:
        """Put one client's tensors into the model, as ``torch.func.functional_call`` does, with less work a call."""
        try:
            for place in self._places:
                place.tensors[place.name] = tensors[place.position]
            yield
        finally:
            for place in self._places:
                place.tensors[place.name] = place.model_tensor

    @contextmanager
    def _with_masks(self, masks: Sequence[Tensor]) -> Iterator[None]:
        """Give the dropout layers the masks of one client, in the order of their calls."""
        masks_in_order = iter(masks)
        try:
            for layer in self.dropout_layers:
                layer.masks = masks_in_order
            yield
        finally:
            for layer in self.dropout_layers:
                layer.masks = None

    def find_masks(self, x: ModelInputs, rows: int) -> None:
        """Find out, by a pass of ``rows`` examples, which masks the dropout layers take.

        Raises ValueError for a layer whose input is not one row for each example.
        """
        calls: list[tuple[dropout.KeyedDropout, tuple[int, ...]]] = []
        hooks = [
            layer.register_forward_pre_hook(lambda layer, inputs: calls.append((layer, tuple(inputs[0].shape))))
            for layer in self.dropout_layers
        ]
        try:
            with torch.no_grad():
                outputs_of(self.model, x)
        finally:
            for hook in hooks:
                hook.remove()
        calls_with_mask = [(layer, shape) for layer, shape in calls if layer.rate > 0]
        for _, shape in calls_with_mask:
            if not shape or shape[0] != rows:
                raise ValueError(f"dropout on a tensor of shape {shape}, whose rows are not the {rows} examples")
        self.mask_shapes = [shape[1:] for _, shape in calls_with_mask]
        self.mask_rates = [layer.rate for layer, _ in calls_with_mask]


def _weighted_square(example_losses: Tensor, weights: Tensor) -> Tensor:
    return (example_losses.square() * weights).sum()


def draw_masks(
    mapped: MappedModel,
    plans: Sequence[BatchPlan],
    sources: Sequence[np.random.BitGenerator] | None,
    *,
    n_steps: int,
    n_rows: int,
    device: torch.device,
) -> Iterator[list[Tensor]]:
    """Yield the masks (k, B, …) of each step, one for each call of a dropout layer.

    The words of many steps are drawn and sent to the device at once, so that nothing is sent while a step is computed.

    Args:
        mapped: the model.
        plans: the batches of each client, those with most steps first.
        sources: of the words, one per client.
        n_steps: of the stack.
        n_rows: to which batches are padded.
        device: where the model is.
    """
    n_clients = len(plans)
    widths = [prod(mask_shape) for mask_shape in mapped.mask_shapes]
    if sources is None or not widths:
        yield from ([] for _ in range(n_steps))
        return
    steps_at_once = max(1, DRAWN_BYTES // (2 * n_clients * n_rows * sum(widths)))
    for start in range(0, n_steps, steps_at_once):
        steps = range(start, min(start + steps_at_once, n_steps))
        tables = [np.zeros((len(steps), n_clients, n_rows, width), np.int16) for width in widths]
        for client, (plan, source) in enumerate(zip(plans, sources, strict=True)):
            client_steps = min(max(plan.steps - start, 0), len(steps))
            rows = plan.index.shape[1]
            words = dropout.draw_step_words(source, steps=client_steps, rows=rows, widths=widths)
            for table, layer_words in zip(tables, words, strict=True):
                table[:client_steps, client, :rows] = layer_words
        tables_on_device = [torch.as_tensor(table, device=device) for table in tables]
        for step in range(len(steps)):
            yield [
                dropout.keep_mask(table[step].view(n_clients, n_rows, *mask_shape), rate)
                for table, mask_shape, rate in zip(tables_on_device, mapped.mask_shapes, mapped.mask_rates, strict=True)
            ]


class MappedStack(ClientStack):
    """Clients' copies of one model."""

    def __init__(self, mapped: MappedModel, job: StackJob) -> None:
        super().__init__(job)
        self.mapped = mapped
        self._active_clients = 0

    def _keep_first_clients(self, count: int) -> None:
        """Make the tensors of a step those of the first ``count`` clients, which have steps left to take."""
        if count == self._active_clients:
            return
        self._active_clients = count
        self._active_parameters = [parameter.of_first_clients(count) for parameter in self.parameters]
        self._differentiable_values = [
            parameter.value.detach().requires_grad_() for parameter in self._active_parameters
        ]
        self._active_buffers = [first_rows(buffer, count) for buffer in self.buffers]

    def take_step(self, step: int, batch: StackedBatch, *, measures_squared_losses: bool) -> tuple[Tensor, Tensor]:
        """Train the first clients on one batch each; return mean and mean squared losses of their batches."""
        self._keep_first_clients(len(batch.weights))
        self.set_adam_corrections(step)
        tensors = [*self._differentiable_values, *self._active_buffers]
        losses, squared_losses = self.mapped.losses(tensors, batch, measures_squared_losses=measures_squared_losses)
        gradients = torch.autograd.grad(losses.sum(), self._differentiable_values)
        with torch.no_grad():
            for parameter, gradient in zip(self._active_parameters, gradients, strict=True):
                self.descent.descend(parameter, gradient, None)
        return losses.detach(), squared_losses


def train_mapped_stack(mapped: MappedModel, job: StackJob) -> StackResult:
    """Train clients by their plans."""
    mapped.model.train()
    stack = MappedStack(mapped, job)
    losses, squared_losses = _take_all_steps(stack, job)
    loss_sums = losses.cumsum(0).select(0, -1)  # added step by step: a longer stack adds zeros
    if not job.measures_squared_losses:
        return stack.result(loss_sums, None)
    return stack.result(loss_sums, squared_losses.t())


def _take_all_steps(stack: MappedStack, job: StackJob) -> tuple[Tensor, Tensor]:
    """Take all steps; return mean and mean squared losses (S, k) of the clients' batches, 0 for steps not taken."""
    device = job.device
    index, weights, active = pad_plans(job.plans)
    n_steps, n_clients, n_rows = index.shape
    stack.prepare_adam_corrections(n_steps)
    indices = torch.as_tensor(index, device=device).unbind()
    weights_by_step = torch.as_tensor(weights, device=device).unbind()
    masks_by_step = draw_masks(
        stack.mapped, job.plans, job.dropout_sources, n_steps=n_steps, n_rows=n_rows, device=device
    )
    losses = torch.zeros(n_steps, n_clients, device=device)
    squared_losses = torch.zeros(n_steps, n_clients, device=device)
    for step, (n_active, masks) in enumerate(zip(active, masks_by_step, strict=True)):
        rows = first_rows(indices[step], n_active)
        batch = StackedBatch(
            x=split_by_client(job.examples.take(rows.flatten()), n_active),
            targets=job.labels[rows],
            weights=first_rows(weights_by_step[step], n_active),
            masks=[first_rows(mask, n_active) for mask in masks],
        )
        step_losses, step_squared_losses = stack.take_step(
            step, batch, measures_squared_losses=job.measures_squared_losses
        )
        losses[step, :n_active] = step_losses
        if job.measures_squared_losses:
            squared_losses[step, :n_active] = step_squared_losses
    return losses, squared_losses


def split_by_client(x: ModelInputs, n_clients: int) -> ModelInputs:
    """Return examples (k · B, …) as (k, B, …)."""
    if isinstance(x, dict):
        return {name: part.unflatten(0, (n_clients, -1)) for name, part in x.items()}
    if isinstance(x, tuple):
        return tuple(part.unflatten(0, (n_clients, -1)) for part in x)
    return x.unflatten(0, (n_clients, -1))


def examples_of_first_client(x: ModelInputs) -> ModelInputs:
    """Return the examples (B, …) of the first of k clients (k, B, …)."""
    if isinstance(x, dict):
        return {name: part[0] for name, part in x.items()}
    if isinstance(x, tuple):
        return tuple(part[0] for part in x)
    return x[0]
