"""Trains a cohort in lock-step: every weight is (clients, out, in), every step one batched GEMM a layer and direction.

This works for models made of linear layers, activations and dropout. Forward and backward passes are written out, which
saves what autograd cannot: the input layer needs no input gradient, and w ← w − η·gᵀx is one ``baddbmm`` that never
stores a gradient. Activations are (clients, width, rows), so that nothing is copied and softmax runs along rows.
Clients are ordered by their number of steps, so that those who have finished are a tail that is cut off. Rows beyond a
client's batch have weight 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from sortition.core.arrays import Array
from sortition.core.errors import bad
from sortition.learning import dropout
from sortition.learning.batches import BatchPlan, pad_plans
from sortition.learning.client_stack import ClientStack, StackedParameter, StackJob, StackResult
from sortition.learning.examples import Examples, first_rows

FORWARD = {nn.ReLU: torch.relu_, nn.Tanh: torch.tanh_, nn.Sigmoid: torch.sigmoid_}
BACKWARD = {
    nn.ReLU: lambda gradient, output: torch.ops.aten.threshold_backward(gradient, output, 0),
    nn.Tanh: torch.ops.aten.tanh_backward,
    nn.Sigmoid: torch.ops.aten.sigmoid_backward,
}
MOST_GATHERED_NUMBERS = 1 << 21  # of the examples of all steps that are gathered at once; more, step by step


# ---- which models can be stacked


def stackable_layers(model: nn.Module, width: int | None = None) -> list[nn.Module] | None:
    """Return the layers of a model that can be stacked, from input to output; None for any other model.

    Examples of ``width`` numbers are flattened first: a first layer of another width reads them in another shape.
    """
    if _has_hooks(model):
        return None
    layers = [layer for layer in _unnested_layers(model) if not _changes_nothing(layer)]
    if not layers or not isinstance(layers[0], nn.Linear) or not isinstance(layers[-1], nn.Linear):
        return None
    if width is not None and width != layers[0].in_features:
        return None
    if _share_a_parameter(layers):
        return None
    if any(type(layer) not in (nn.Linear, nn.Dropout, dropout.KeyedDropout, *FORWARD) for layer in layers):
        return None
    return layers


def _unnested_layers(model: nn.Module) -> list[nn.Module]:
    """List the modules that are called one after the other, with every ``nn.Sequential`` opened."""
    if type(model) is not nn.Sequential:
        return [model]
    return [layer for child in model for layer in _unnested_layers(child)]


def _changes_nothing(layer: nn.Module) -> bool:
    """Tell whether a layer passes flattened examples on as they are."""
    if isinstance(layer, nn.Dropout):
        return layer.p == 0
    return type(layer) in (nn.Identity, nn.Flatten)


def _has_hooks(model: nn.Module) -> bool:
    """Tell whether calling a module does more than its ``forward``."""
    hooks = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
    return any(getattr(module, name) for module in model.modules() for name in hooks)


def _share_a_parameter(layers: Sequence[nn.Module]) -> bool:
    """Tell whether a parameter stands in two places."""
    parameter_ids = [id(parameter) for layer in layers for parameter in layer.parameters()]
    return len(set(parameter_ids)) < len(parameter_ids)


# ---- dropout


def draw_dropout_words(
    layers: Sequence[nn.Module],
    plans: Sequence[BatchPlan],
    sources: Sequence[np.random.BitGenerator],
    shape: tuple[int, ...],
) -> list[Array]:
    """Draw the random words (S, k, width, B) that decide on the units of each dropout layer, one a unit.

    A client's words are drawn step by step and layer by layer.
    """
    widths = []
    width = 0
    for layer in layers:
        if isinstance(layer, nn.Linear):
            width = layer.out_features
        elif isinstance(layer, nn.Dropout):
            widths.append(width)
    n_steps, n_clients, n_rows = shape
    tables = [np.zeros((n_steps, n_clients, width, n_rows), np.int16) for width in widths]
    for client, (plan, source) in enumerate(zip(plans, sources, strict=True)):
        rows = plan.index.shape[1]
        words_by_layer = dropout.draw_step_words(source, steps=plan.steps, rows=rows, widths=widths)
        for table, layer_words in zip(tables, words_by_layer, strict=True):
            table[: plan.steps, client, :, :rows] = layer_words.swapaxes(1, 2)
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

    def sums_over_steps(self) -> Tensor:
        """Return Σ_s of the mean losses of a client's batches (k,), added step by step: padding adds nothing."""
        return (self._losses * self.weights).sum((2, 3)).cumsum(0).select(0, -1).neg_()

    def mean_squares(self) -> Tensor:
        """Return the mean squared loss of the examples of each batch (k, S)."""
        return (self._losses.square() * self.weights).sum((2, 3)).t()


# ---- the stack


class ActiveLayer:
    """One layer of the first k clients; its views are made once for all steps in which these clients train."""

    def __init__(self, layer: nn.Module, parameters: Iterator[StackedParameter], count: int) -> None:
        self.is_linear = isinstance(layer, nn.Linear)
        self.dropout_rate: float | None = None
        if isinstance(layer, nn.Dropout):
            self.dropout_rate = layer.p
        self.forward = FORWARD.get(type(layer))
        self.backward = BACKWARD.get(type(layer))
        self.bias: StackedParameter | None = None
        if self.is_linear:
            self.weight = next(parameters).of_first_clients(count)
            self.transposed_weight = self.weight.value.transpose(1, 2)
            if layer.bias is not None:
                self.bias = next(parameters).of_first_clients(count)
                self.bias_column = self.bias.value.unsqueeze(2)

    def product(self, activations: Tensor) -> Tensor:
        """Return W h + b (k, out, B)."""
        if self.bias is None:
            return torch.bmm(self.weight.value, activations)
        return torch.baddbmm(self.bias_column, self.weight.value, activations)


class Stack(ClientStack):
    """Clients' copies of one chain of linear layers, those of :func:`stackable_layers`."""

    def __init__(self, layers: Sequence[nn.Module], job: StackJob) -> None:
        super().__init__(job)
        self.layers = layers
        self._active_layers: list[ActiveLayer] = []
        self._active_clients = 0

    def _layers_of_first_clients(self, count: int) -> list[ActiveLayer]:
        """Return the layers of the first ``count`` clients; they are made anew when other clients have finished."""
        if count != self._active_clients:
            parameters = iter(self.parameters)
            self._active_layers = [ActiveLayer(layer, parameters, count) for layer in self.layers]
            self._active_clients = count
        return self._active_layers

    def take_step(self, step: int, x: Tensor, dropout_words: Sequence[Tensor], losses: BatchLosses) -> None:
        """Train the first k clients on one batch each.

        Args:
            step: the number of the step, from 0.
            x: the examples (k, B, d).
            dropout_words: random 16-bit words (k, width, B) of each dropout layer, one a unit.
            losses: take the losses of the batches and give the gradient of the logits.
        """
        layers = self._layers_of_first_clients(x.size(0))
        activations = x.transpose(1, 2)
        words_by_layer = iter(dropout_words)
        self.set_adam_corrections(step)
        saved = list[Tensor]()
        for layer in layers:
            if layer.is_linear:
                saved.append(activations)
                activations = layer.product(activations)
            elif layer.dropout_rate is not None:
                mask = dropout.keep_mask(next(words_by_layer), layer.dropout_rate)
                saved.append(mask)
                activations = activations * mask
            elif layer.forward is not None:
                if saved[-1] is activations:  # the backward pass needs them, and the activation works in place
                    activations = activations.clone()
                activations = layer.forward(activations)
                saved.append(activations)
        self._backward(losses.gradient(step, activations), layers, saved)

    def _backward(self, gradient: Tensor, layers: Sequence[ActiveLayer], saved: Sequence[Tensor]) -> None:
        """Pass the gradient of the outputs back through the layers, and move each weight as soon as it can be.

        Args:
            gradient: (k, C, B) of the loss by the last layer's outputs.
            layers: from input to output.
            saved: what each layer's pass needs: the input of a linear layer, the mask of dropout, the output of an
                activation.
        """
        for position in reversed(range(len(layers))):
            layer = layers[position]
            if layer.is_linear:
                output_gradient = gradient
                if position > 0:  # computed before the step moves these weights; examples need no gradient
                    gradient = torch.bmm(layer.transposed_weight, output_gradient)
                self.descent.descend(layer.weight, output_gradient, saved[position].transpose(1, 2))
                if layer.bias is not None:
                    self.descent.descend(layer.bias, output_gradient.sum(2), None)
            elif layer.dropout_rate is not None:
                gradient = gradient * saved[position]
            elif layer.backward is not None:
                gradient = layer.backward(gradient, saved[position])


# ---- training


@torch.inference_mode()
def train_stack(layers: Sequence[nn.Module], job: StackJob) -> StackResult:
    """Train clients by their plans, through the layers of :func:`stackable_layers`, on one array of examples."""
    stack = Stack(layers, job)
    losses = _take_all_steps(stack, job)
    squared_losses = None
    if job.measures_squared_losses:
        squared_losses = losses.mean_squares()
    return stack.result(losses.sums_over_steps(), squared_losses)


def _take_all_steps(stack: Stack, job: StackJob) -> BatchLosses:
    """Take all steps and return the losses of the clients' batches."""
    if not isinstance(job.examples, Examples):
        raise bad("engine", "'auto', 'vmapped' or 'sequential' for examples of several arrays", "stacked")
    device = job.device
    index, weights, active = pad_plans(job.plans)
    stack.prepare_adam_corrections(len(index))
    words_by_step: list[tuple[Tensor, ...]] = [()] * len(index)
    if job.dropout_sources:
        tables = draw_dropout_words(stack.layers, job.plans, job.dropout_sources, index.shape)
        words_by_step = list(zip(*[torch.as_tensor(table, device=device).unbind() for table in tables], strict=True))
    index_on_device = torch.as_tensor(index, device=device)
    losses = BatchLosses(job.labels.take(index_on_device), torch.as_tensor(weights, device=device))
    batches = _batches(job.examples, index_on_device, active)
    for step, (active_clients, x) in enumerate(zip(active, batches, strict=True)):
        active_words = [first_rows(table, active_clients) for table in words_by_step[step]]
        stack.take_step(step, x, active_words, losses)
    return losses


def _batches(examples: Examples, index: Tensor, active: Sequence[int]) -> Iterator[Tensor]:
    """Yield the examples (k', B, d) of each step's clients; a batch is valid until the next one is taken."""
    n_steps, n_clients, n_rows = index.shape
    if index.numel() * examples.shape[0] <= MOST_GATHERED_NUMBERS:
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
