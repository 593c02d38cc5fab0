"""Trains a cohort in lock-step: every weight is (clients, out, in), every step one batched GEMM a layer and direction.

This works for models made of linear layers, activations and dropout. Forward and backward passes are written out, which
saves what autograd cannot: the input layer needs no input gradient, and w ← w − η·gᵀx is one ``baddbmm`` that never
stores a gradient. Activations are (clients, width, rows), so that nothing is copied and softmax runs along rows.
Clients are ordered by their number of steps, so that those who have finished are a tail that is cut off. Rows beyond a
client's batch have weight 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from sortition.core.arrays import Array
from sortition.learning import dropout, optimiser
from sortition.learning.batches import BatchPlan
from sortition.learning.examples import Examples, first_rows
from sortition.learning.rule import LocalRule

FORWARD = {nn.ReLU: torch.relu_, nn.Tanh: torch.tanh_, nn.Sigmoid: torch.sigmoid_}
BACKWARD = {
    nn.ReLU: lambda gradient, output: torch.ops.aten.threshold_backward(gradient, output, 0),
    nn.Tanh: torch.ops.aten.tanh_backward,
    nn.Sigmoid: torch.ops.aten.sigmoid_backward,
}
GATHERED = 1 << 21  # up to so many numbers the examples of all steps are gathered at once; beyond, step by step

T = TypeVar("T")
U = TypeVar("U")


# ---- which models can be stacked


def stackable_layers(model: nn.Module, width: int | None = None) -> list[nn.Module] | None:
    """Return the layers of a model that can be stacked, from input to output; None for any other model.

    Examples of ``width`` numbers are flattened first: a first layer of another width reads them in another shape.
    """
    if _has_hooks(model):
        return None
    layers = [layer for layer in _opened(model) if not _changes_nothing(layer)]
    if not layers or not isinstance(layers[0], nn.Linear) or not isinstance(layers[-1], nn.Linear):
        return None
    if width is not None and width != layers[0].in_features:
        return None
    if _share_a_parameter(layers):
        return None
    if any(type(layer) not in (nn.Linear, nn.Dropout, *FORWARD) for layer in layers):
        return None
    return layers


def _opened(model: nn.Module) -> list[nn.Module]:
    """List the modules that are called one after the other, with every ``nn.Sequential`` opened."""
    if type(model) is not nn.Sequential:
        return [model]
    return [layer for child in model for layer in _opened(child)]


def _changes_nothing(layer: nn.Module) -> bool:
    """Whether a layer passes flattened examples on as they are."""
    return type(layer) in (nn.Identity, nn.Flatten) or getattr(layer, "p", 1) == 0  # dropout of rate 0


def _has_hooks(model: nn.Module) -> bool:
    """Whether calling a module does more than its ``forward``."""
    hooks = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
    return any(getattr(module, name) for module in model.modules() for name in hooks)


def _share_a_parameter(layers: Sequence[nn.Module]) -> bool:
    """Whether a parameter stands in two places."""
    parameter_ids = [id(parameter) for layer in layers for parameter in layer.parameters()]
    return len(set(parameter_ids)) < len(parameter_ids)


# ---- the plans of several clients, padded to one shape


def padded_plans(ranked: Sequence[BatchPlan]) -> tuple[Array, Array, list[int]]:
    """Lay plans side by side: indices (S, k, B), row weights (S, k, B), and how many clients train in each step."""
    n_steps = ranked[0].steps
    n_rows = max(plan.index.shape[1] for plan in ranked)
    index = np.zeros((n_steps, len(ranked), n_rows), np.int64)
    counts = np.ones((n_steps, len(ranked)), np.int64)
    for client, plan in enumerate(ranked):
        index[: plan.steps, client, : plan.index.shape[1]] = plan.index
        counts[: plan.steps, client] = plan.counts
    is_real = np.arange(n_rows) < counts[:, :, None]
    weights = np.where(is_real, 1 / counts[:, :, None], 0).astype(np.float32)
    steps_of_clients = np.array([plan.steps for plan in ranked])
    active = [int((steps_of_clients > step).sum()) for step in range(n_steps)]
    return index, weights, active


def dropout_words(
    layers: Sequence[nn.Module],
    ranked: Sequence[BatchPlan],
    sources: Sequence[np.random.BitGenerator],
    shape: tuple[int, ...],
) -> list[Array]:
    """Draw the words (S, k, width, B) of each dropout layer; a client's are drawn step by step, layer by layer."""
    widths = []
    width = 0
    for layer in layers:
        if isinstance(layer, nn.Linear):
            width = layer.out_features
        elif isinstance(layer, nn.Dropout):
            widths.append(width)
    n_steps, n_clients, n_rows = shape
    tables = [np.zeros((n_steps, n_clients, width, n_rows), np.int16) for width in widths]
    for client, (plan, source) in enumerate(zip(ranked, sources, strict=True)):
        rows = plan.index.shape[1]
        spans = [dropout.words(rows * width) for width in widths]
        words = dropout.draw(source, plan.steps * sum(spans)).reshape(plan.steps, sum(spans))
        start = 0
        for table, width, span in zip(tables, widths, spans, strict=True):
            layer_words = words[:, start : start + rows * width].reshape(plan.steps, rows, width)
            table[: plan.steps, client, :, :rows] = layer_words.swapaxes(1, 2)
            start += span
    return tables


# ---- the losses of a stack's batches


class BatchLosses:
    """Cross-entropy of the batches of a stack, in S steps of k clients.

    Logits are (k, C, B), classes before rows: over few classes softmax is fastest so.

    Args:
        labels: (S, k, B).
        weights: (S, k, B), 1/|batch| on real rows and 0 on padding.
    """

    def __init__(self, labels: Tensor, weights: Tensor) -> None:
        self.weights = weights.unsqueeze(2)
        self._losses = torch.zeros_like(self.weights)  # of single examples, 0 for steps that a client does not take
        self._steps = list(
            zip(
                labels.unsqueeze(2).unbind(),
                self.weights.unbind(),
                (-self.weights).unbind(),
                self._losses.unbind(),
                strict=True,
            )
        )

    def gradient(self, step: int, logits: Tensor) -> Tensor:
        """Return the gradient (k', C, B) of Σ_b weight_b · loss_b by the logits of the first k' clients."""
        active = logits.size(0)
        labels, weights, minus_weights, losses = (first_rows(tensor, active) for tensor in self._steps[step])
        log_probabilities = torch.log_softmax(logits, 1)
        torch.gather(log_probabilities, 1, labels, out=losses)
        return log_probabilities.exp_().mul_(weights).scatter_add_(1, labels, minus_weights)

    def sums(self) -> Tensor:
        """Return Σ_s of the mean losses of a client's batches (k,), added step by step: padding adds nothing."""
        return (self._losses * self.weights).sum((2, 3)).cumsum(0)[-1].neg_()

    def squares(self) -> Tensor:
        """Return the mean squared loss of the examples of each batch (k, S)."""
        return (self._losses.square() * self.weights).sum((2, 3)).t()


# ---- the local rule


@dataclass
class Slot:
    """One parameter of all clients of a stack (k, …) with what the local rule needs of it.

    Attributes:
        value: the parameter, which the training changes.
        anchor: where each client began.
        moments: none, a velocity, or Adam's two.
        total: the sum of the gradients; only where the dispersion is measured.
    """

    value: Tensor
    anchor: Tensor
    moments: Sequence[Tensor] = ()
    total: Tensor | None = None

    def first(self, count: int) -> Slot:
        """Return the slot of the first clients, in the same memory."""
        total = self.total
        if total is not None:
            total = first_rows(total, count)
        return Slot(
            value=first_rows(self.value, count),
            anchor=first_rows(self.anchor, count),
            moments=[first_rows(moment, count) for moment in self.moments],
            total=total,
        )


@dataclass
class StackedDescent:
    """Applies the local rule of one round to slots, in place: SGD with momentum, or Adam.

    Attributes:
        rule: the local rule.
        lr: its learning rate in this round.
        squares: (k,) Σ_s ‖g_s‖²; only where the dispersion is measured.
        factors: Adam's rate and root (k,) of the current step; None for SGD.
    """

    rule: LocalRule
    lr: float
    squares: Tensor | None = None
    factors: tuple[Tensor, Tensor] | None = None

    def step(self, slot: Slot, left: Tensor, right: Tensor | None) -> None:
        """Descend along the product of (k, a, b) and (k, b, c), or along ``left`` itself if there is no right."""
        value = slot.value
        rule = self.rule
        pull = rule.weight_decay + rule.proximal
        if slot.total is not None and self.squares is not None:
            left = _gradient(left, right)
            right = None
            first_rows(self.squares, len(value)).add_(left.flatten(1).square().sum(1))
            slot.total.add_(left)
        if self.factors is not None:
            self._adam(slot, _gradient(left, right))
            return
        if not slot.moments:
            _accumulate(value, left, right, keep=1 - self.lr * pull, scale=-self.lr)
            if rule.proximal:
                value.add_(slot.anchor, alpha=self.lr * rule.proximal)
            return
        velocity = slot.moments[0]
        _accumulate(velocity, left, right, keep=rule.momentum, scale=1.0)
        if pull:
            velocity.add_(value, alpha=pull)
        if rule.proximal:
            velocity.add_(slot.anchor, alpha=-rule.proximal)
        value.add_(velocity, alpha=-self.lr)

    def _adam(self, slot: Slot, gradient: Tensor) -> None:
        value = slot.value
        rule = self.rule
        pull = rule.weight_decay + rule.proximal
        if pull:
            gradient = gradient.add(value, alpha=pull)
        if rule.proximal:
            gradient = gradient.sub(slot.anchor, alpha=rule.proximal)
        per_client = (-1, *[1] * (value.dim() - 1))
        factors = (first_rows(factor, len(value)).view(per_client) for factor in self.factors or ())
        optimiser.adam_step(value, gradient, *slot.moments, *factors)


def _gradient(left: Tensor, right: Tensor | None) -> Tensor:
    """Return the gradient of which ``left`` and ``right`` are the factors."""
    if right is None:
        return left
    return torch.bmm(left, right)


def _accumulate(target: Tensor, left: Tensor, right: Tensor | None, *, keep: float, scale: float) -> None:
    """Set target ← keep · target + scale · left · right, in place."""
    if right is not None:
        target.baddbmm_(left, right, beta=keep, alpha=scale)
        return
    if keep != 1:
        target.mul_(keep)
    target.add_(left, alpha=scale)


# ---- the stack


class ActiveLayer:
    """One layer of the first k clients; its views are made once for all steps in which these clients train."""

    def __init__(self, layer: nn.Module, slots: Iterator[Slot], count: int) -> None:
        self.is_linear = isinstance(layer, nn.Linear)
        self.dropout_rate: float | None = None
        if isinstance(layer, nn.Dropout):
            self.dropout_rate = layer.p
        self.forward = FORWARD.get(type(layer))
        self.backward = BACKWARD.get(type(layer))
        self.bias: Slot | None = None
        if self.is_linear:
            self.weight = next(slots).first(count)
            self.transposed_weight = self.weight.value.transpose(1, 2)
            if layer.bias is not None:
                self.bias = next(slots).first(count)
                self.bias_column = self.bias.value.unsqueeze(2)

    def product(self, activations: Tensor) -> Tensor:
        """Return W h + b (k, out, B)."""
        if self.bias is None:
            return torch.bmm(self.weight.value, activations)
        return torch.baddbmm(self.bias_column, self.weight.value, activations)


class Stack:
    """Clients' copies of one model.

    Args:
        layers: of :func:`stackable_layers`.
        initial: the parameters from which each client begins (k, …), in the model's order.
        descent: the local rule.
        states: what the optimiser remembers of the clients (k, S); None where it starts anew.
    """

    def __init__(
        self,
        layers: Sequence[nn.Module],
        initial: Sequence[Tensor],
        descent: StackedDescent,
        states: Tensor | None = None,
    ) -> None:
        self.layers = layers
        self.descent = descent
        self._active_layers: list[ActiveLayer] = []
        self._active_clients = 0
        n_moments = descent.rule.moments
        self.slots = [self._slot(parameter, n_moments) for parameter in initial]
        self.earlier_steps = [0] * len(initial[0])  # Adam's, of each client
        if states is not None:
            remembered = optimiser.unpack(states, initial, n_moments)
            for slot, moments in zip(self.slots, remembered, strict=True):
                slot.moments = moments
            if descent.rule.optimizer == "adam":
                self.earlier_steps = states[:, -1].int().tolist()

    def _slot(self, parameter: Tensor, n_moments: int) -> Slot:
        value = parameter.clone(memory_format=torch.contiguous_format)
        slot = Slot(value=value, anchor=parameter, moments=[torch.zeros_like(value) for _ in range(n_moments)])
        if self.descent.squares is not None:
            slot.total = torch.zeros_like(value)
        return slot

    def _layers_of_first(self, count: int) -> list[ActiveLayer]:
        """Return the layers of the first clients, made anew when some have finished."""
        if count != self._active_clients:
            slots = iter(self.slots)
            self._active_layers = [ActiveLayer(layer, slots, count) for layer in self.layers]
            self._active_clients = count
        return self._active_layers

    def step(self, step: int, x: Tensor, words: Sequence[Tensor], losses: BatchLosses) -> None:
        """Train the first k clients on one batch each.

        Args:
            step: the number of the step, from 0.
            x: the examples (k, B, d).
            words: per dropout layer (k, width, B).
            losses: take the losses of the batches and give the gradient of the logits.
        """
        layers = self._layers_of_first(x.size(0))
        activations = x.transpose(1, 2)
        words_by_layer = iter(words)
        self._set_adam_factors(step, x.device)
        saved = list[Tensor]()  # what each layer needs on the way back: its input, its mask, or its output
        for layer in layers:
            if layer.is_linear:
                saved.append(activations)
                activations = layer.product(activations)
            elif layer.dropout_rate is not None:
                mask = dropout.keep_mask(next(words_by_layer), layer.dropout_rate)
                saved.append(mask)
                activations = activations * mask
            elif layer.forward is not None:
                if saved[-1] is activations:  # the way back needs them, and the activation works in place
                    activations = activations.clone()
                activations = layer.forward(activations)
                saved.append(activations)
        self._backward(losses.gradient(step, activations), layers, saved)

    def _backward(self, gradient: Tensor, layers: Sequence[ActiveLayer], saved: Sequence[Tensor]) -> None:
        for position in reversed(range(len(layers))):
            layer = layers[position]
            if layer.is_linear:
                output_gradient = gradient
                if position > 0:  # computed before the step moves these weights; examples need no gradient
                    gradient = torch.bmm(layer.transposed_weight, output_gradient)
                self.descent.step(layer.weight, output_gradient, saved[position].transpose(1, 2))
                if layer.bias is not None:
                    self.descent.step(layer.bias, output_gradient.sum(2), None)
            elif layer.dropout_rate is not None:
                gradient = gradient * saved[position]
            elif layer.backward is not None:
                gradient = layer.backward(gradient, saved[position])

    def _set_adam_factors(self, step: int, device: torch.device) -> None:
        """Set Adam's factors of a step, for each client by the steps that it remembers."""
        if self.descent.rule.optimizer != "adam":
            return
        factors = [optimiser.corrections(earlier + step + 1, self.descent.lr) for earlier in self.earlier_steps]
        rate, root = torch.tensor(factors, dtype=torch.float32, device=device).t().contiguous()
        self.descent.factors = (rate, root)

    def remembered(self, steps: Tensor) -> Tensor:
        """Return what the optimiser remembers (k, S) after so many steps (k,) of each client."""
        adam_steps = None
        if self.descent.rule.optimizer == "adam":
            adam_steps = steps + torch.tensor(self.earlier_steps, dtype=torch.float32, device=steps.device)
        return optimiser.pack([slot.moments for slot in self.slots], adam_steps)

    def updates(self) -> Tensor:
        """Return what each client changed (k, P)."""
        values = [slot.value.flatten(1) for slot in self.slots]
        anchors = [slot.anchor.flatten(1) for slot in self.slots]
        sizes = [value.size(1) for value in values]
        updates = values[0].new_empty(len(values[0]), sum(sizes))
        for columns, value, anchor in zip(updates.split(sizes, 1), values, anchors, strict=True):
            torch.sub(value, anchor, out=columns)
        return updates

    def dispersion(self, steps: Tensor) -> Tensor | None:
        """Return sqrt((Σ‖g_s‖² − ‖Σ g_s‖²/R) / (R − 1)) (k,), 0 for a single step; None where it is not measured."""
        if self.descent.squares is None:
            return None
        totals = [slot.total for slot in self.slots if slot.total is not None]
        square_of_sum = sum(total.flatten(1).square().sum(1) for total in totals)
        excess = (self.descent.squares - square_of_sum / steps).clamp_min(0)
        return (excess / (steps - 1).clamp_min(1)).sqrt()


# ---- training


@dataclass(frozen=True, slots=True)
class StackResult(Generic[T]):
    """What the training of a stack of k clients gave, as tensors or as arrays.

    Attributes:
        updates: (k, P).
        losses: (k,) mean batch losses.
        dispersion: (k,) spread of the stochastic gradients; None where it is not measured.
        squares: (k, steps) mean squared losses of the examples of each batch; None where they are not measured.
        states: (k, S) what the optimiser remembers; None where it starts anew in every round.
    """

    updates: T
    losses: T
    dispersion: T | None
    squares: T | None
    states: T | None

    def map(self, convert: Callable[[T], U]) -> StackResult[U]:
        """Convert every value that is there."""
        return StackResult(
            updates=convert(self.updates),
            losses=convert(self.losses),
            dispersion=_map_optional(convert, self.dispersion),
            squares=_map_optional(convert, self.squares),
            states=_map_optional(convert, self.states),
        )


def _map_optional(convert: Callable[[T], U], value: T | None) -> U | None:
    if value is None:
        return None
    return convert(value)


@torch.inference_mode()
def train_stack(
    *,
    layers: Sequence[nn.Module],
    initial: Sequence[Tensor],
    examples: Examples,
    labels: Tensor,
    plans: Sequence[BatchPlan],
    rule: LocalRule,
    lr: float,
    sources: Sequence[np.random.BitGenerator] | None,
    dispersion: bool,
    squares: bool,
    states: Tensor | None,
) -> StackResult[Tensor]:
    """Train clients by their plans.

    Args:
        layers: of :func:`stackable_layers`.
        initial: the parameters from which each client begins (k, …), in the model's order.
        examples: all examples, rows (n, d).
        labels: (n,).
        plans: one per client, those with most steps first.
        rule: the local rule.
        lr: its learning rate in this round.
        sources: of dropout words, one per client; None without dropout.
        dispersion: whether to measure the spread of the stochastic gradients.
        squares: whether to measure the mean squared loss of the examples of each batch.
        states: what the optimiser remembers of the clients (k, S); None where it starts anew.
    """
    device = labels.device
    descent = StackedDescent(rule, lr)
    if dispersion:
        descent.squares = torch.zeros(len(plans), device=device)
    stack = Stack(layers, initial, descent, states)
    losses = _take_all_steps(stack, examples, labels, plans, sources)
    steps = torch.tensor([max(plan.steps, 1) for plan in plans], dtype=torch.float32, device=device)
    updates = stack.updates()
    states_after = None
    if states is not None:
        states_after = stack.remembered(torch.tensor([plan.steps for plan in plans], device=device))
    return StackResult(
        updates=updates,
        losses=losses.sums() / steps,
        dispersion=stack.dispersion(steps),
        squares=losses.squares() if squares else None,
        states=states_after,
    )


def _take_all_steps(
    stack: Stack,
    examples: Examples,
    labels: Tensor,
    ranked: Sequence[BatchPlan],
    sources: Sequence[np.random.BitGenerator] | None,
) -> BatchLosses:
    """Take all steps of clients that are ordered by their number of steps and return the losses of their batches."""
    device = labels.device
    index, weights, active = padded_plans(ranked)
    word_tables = []
    if sources:
        word_tables = dropout_words(stack.layers, ranked, sources, index.shape)
    index_on_device = torch.from_numpy(index).to(device)
    losses = BatchLosses(labels[index_on_device], torch.from_numpy(weights).to(device))
    batches = _batches(examples, index_on_device, active)
    for step, (active_clients, x) in enumerate(zip(active, batches, strict=True)):
        words = [torch.from_numpy(table[step, :active_clients]).to(device) for table in word_tables]
        stack.step(step, x, words, losses)
    return losses


def _batches(examples: Examples, index: Tensor, active: Sequence[int]) -> Iterator[Tensor]:
    """Yield the examples (k', B, d) of each step's clients; a batch is valid until the next one is taken."""
    n_steps, n_clients, n_rows = index.shape
    if index.numel() * examples.shape[0] <= GATHERED:
        gathered = examples.take(index.flatten()).view(n_steps, n_clients, n_rows, -1).unbind()
        for x, active_clients in zip(gathered, active, strict=True):
            yield first_rows(x, active_clients)
        return
    flat_indices = index.flatten(1).unbind()
    active_indices = [
        first_rows(indices, active_clients * n_rows)
        for active_clients, indices in zip(active, flat_indices, strict=True)
    ]
    for active_clients, x in zip(active, examples.batches(active_indices), strict=True):
        yield x.view(active_clients, n_rows, -1)
