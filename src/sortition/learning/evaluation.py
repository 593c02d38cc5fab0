"""Passes without training: losses of single examples, outputs, gradients. Dropout is off, running statistics stand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from sortition.core.errors import bad
from sortition.learning import vector
from sortition.learning.dropout import KeyedDropout
from sortition.learning.examples import AnyExamples, Examples
from sortition.learning.objective import ModelInputs, Objective, outputs_of
from sortition.learning.resident import to_device, to_host, to_host_together
from sortition.learning.stacked import BACKWARD, stackable_layers
from sortition.learning.vector import Vector

CHUNK = 1024  # examples of one pass at most
CACHED_NUMBERS = 1 << 18  # of one pass's examples on a CPU: they and the layers' outputs stay in the cache
Index = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class JudgedExamples:
    """Holds a model's outputs and losses on some examples, on the CPU.

    Attributes:
        losses: (n,) the loss of each example.
        outputs: (n, …) the model's outputs.
        targets: (n, …) what the outputs should be.
    """

    losses: npt.NDArray[np.float32]
    outputs: Tensor
    targets: Tensor


class Passes:
    """Passes of a model over one set of examples with labels (n,), or with the targets (n, …) of another task."""

    def __init__(
        self, model: nn.Module, examples: AnyExamples, labels: Tensor, objective: Objective | None = None
    ) -> None:
        self.model = model
        self.examples = examples
        self.labels = labels
        self.objective = objective
        self.layout = vector.Layout.of(model)
        self.layers = self._linear_layers()

    def _linear_layers(self) -> list[nn.Module] | None:
        """Return the layers of a linear chain, which pass without their modules; None for any other model."""
        if not isinstance(self.examples, Examples):
            return None
        if not self.is_by_label and (len(self.examples.shape) != 1 or not self._loss_reads_outputs):
            return None
        return stackable_layers(self.model, self.examples.numbers)

    @property
    def _loss_reads_outputs(self) -> bool:
        """Tell whether losses are computed from the outputs, not by the model itself."""
        return self.objective is None or not self.objective.is_computed_by_model

    @property
    def is_by_label(self) -> bool:
        """Tell whether the loss is the cross-entropy of one label an example."""
        return self.objective is None or self.objective.is_by_label(self.labels)

    def _load(self, params: Vector) -> torch.device:
        """Put the parameters into the model, ready for evaluation, and return its device."""
        device = self.labels.device
        vector.load_into(self.model, self.layout, to_device(params, device))
        self.model.eval()
        return device

    def _forward_function(self, params: Vector) -> Callable[[ModelInputs], Tensor]:
        """Return the model with these parameters as a function.

        Linear layers are called without their modules, which would cost more than the products.
        """
        if self.layers is None:
            self._load(params)
            return partial(outputs_of, self.model)
        layers = self.layers
        parameters = self.layout.split(to_device(params, self.labels.device))

        def logits(x: ModelInputs) -> Tensor:
            if not isinstance(x, Tensor):
                raise TypeError("linear layers take one array of examples")
            activations = x.flatten(1)
            parameters_in_order = iter(parameters)
            for layer in layers:
                if isinstance(layer, nn.Linear):
                    weight = next(parameters_in_order)
                    bias = None if layer.bias is None else next(parameters_in_order)
                    activations = nn.functional.linear(activations, weight, bias)
                elif not isinstance(layer, nn.Dropout | KeyedDropout):
                    activations = layer(activations)
            return activations

        return logits

    @property
    def _rows_per_pass(self) -> int:
        """Return how many examples pass at once: at least 128, which is enough for full speed of a CPU."""
        if self.labels.device.type != "cpu":
            return CHUNK
        rows_in_cache = CACHED_NUMBERS // max(self.examples.numbers, 1)
        return min(CHUNK, max(128, rows_in_cache // 64 * 64))

    @torch.inference_mode()
    def losses_and_hits(
        self, params: Vector, index: Index | None = None
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
        """Return the losses and whether predictions are right, of the examples ``index`` (n,) or of all in order.

        Nothing is right where the targets are no labels.
        """
        if not self.is_by_label:
            judged = self.judge(params, index)
            return judged.losses, _hits(judged.outputs, judged.targets)
        forward = self._forward_function(params)
        device = self.labels.device
        selected = None
        targets = self.labels
        if index is not None:
            selected = torch.as_tensor(index, device=device)
            targets = targets[selected]
        n = len(targets)
        losses = torch.empty(n, device=device)
        hits = torch.empty(n, dtype=torch.bool, device=device)
        for part, x in self.examples.parts(self._rows_per_pass, selected):
            labels = targets[part]
            logits = forward(x)
            by_class = logits.t().contiguous()[None]  # log-softmax over a short last axis is five times slower
            losses[part] = nn.functional.cross_entropy(by_class, labels[None], reduction="none")[0]
            hits[part] = logits.argmax(1) == labels
        loss_array, hit_array = to_host_together([losses, hits])
        return loss_array, hit_array.astype(bool, copy=False)

    @torch.inference_mode()
    def judge(self, params: Vector, index: Index | None = None) -> JudgedExamples:
        """Return losses, outputs and targets of the examples ``index`` (n,), or of all in order."""
        if self.objective is None:
            raise bad("Passes.objective", "given where outputs are judged", None)
        objective = self.objective
        device = self._load(params)
        forward = self._forward_function(params)
        selected = None
        targets = self.labels
        if index is not None:
            selected = torch.as_tensor(index, device=device)
            targets = targets[selected]
        losses = []
        outputs = []
        for part, x in self.examples.parts(self._rows_per_pass, selected):
            if self._loss_reads_outputs:
                part_outputs = forward(x)
                part_losses = objective.example_losses(part_outputs, targets[part])
            else:
                part_losses, part_outputs = objective.losses_and_outputs(self.model, x, targets[part])
            losses.append(part_losses)
            outputs.append(part_outputs)
        return JudgedExamples(to_host(torch.cat(losses)), torch.cat(outputs).cpu(), targets.cpu())

    @torch.inference_mode()
    def first_outputs(self, params: Vector, count: int) -> Tensor:
        """Return what the model gives for the first ``count`` examples, whatever type a user's model makes it."""
        x = self.examples.take(torch.arange(count, device=self.labels.device))
        return self._forward_function(params)(x)

    @torch.inference_mode()
    def outputs(self, params: Vector, inputs: npt.NDArray[np.floating]) -> npt.NDArray[np.float32]:
        """Return the logits (n, classes) of other inputs (n, …)."""
        if not isinstance(self.examples, Examples):
            raise bad("model", "one that takes a single array of examples where a probe is asked", "several inputs")
        device = self._load(params)
        x = torch.as_tensor(np.asarray(inputs, np.float32), device=device)
        x = x.reshape(len(x), *self.examples.shape)
        return to_host(torch.cat([outputs_of(self.model, part) for part in x.split(CHUNK)]))

    def gradient(self, params: Vector, index: Index) -> Vector:
        """Return ∇F(params) (P,), where F is the mean loss of the examples ``index``; buffers have gradient 0."""
        device = self._load(params)
        selected = torch.as_tensor(index, device=device)
        parameters = list(self.model.parameters())
        total = torch.zeros(self.layout.size, device=device)
        for part in selected.split(CHUNK):
            loss = self._summed_loss(part)
            gradients = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
            total[: self.layout.weights] += torch.cat([gradient.reshape(-1) for gradient in gradients])
        return to_host(total / max(len(selected), 1))

    def _summed_loss(self, index: Tensor) -> Tensor:
        """Return the sum of the losses of some examples, with its gradient."""
        x = self.examples.take(index)
        labels = self.labels[index]
        if self.objective is None or self.is_by_label:
            return nn.functional.cross_entropy(outputs_of(self.model, x), labels, reduction="sum")
        loss, _ = self.objective.batch_loss(self.model, x, labels)
        return loss * len(labels)

    def gradients(self, params: Vector, parts: Sequence[Index]) -> Vector:
        """Return :meth:`gradient` of several sets of examples (k, P); many sets pass through linear layers at once."""
        has_dropout = any(isinstance(layer, KeyedDropout) for layer in self.layers or ())
        if self.layers is None or has_dropout or not self.is_by_label:
            return np.stack([self.gradient(params, part) for part in parts])
        return self._pooled_gradients(self.layers, params, parts)

    def _flat_examples(self, index: Tensor) -> Tensor:
        x = self.examples.take(index)
        if not isinstance(x, Tensor):
            raise TypeError("linear layers take one array of examples")
        return x.flatten(1)

    @torch.inference_mode()
    def _pooled_gradients(self, layers: Sequence[nn.Module], params: Vector, parts: Sequence[Index]) -> Vector:
        device = self.labels.device
        parameters = self.layout.split(to_device(params, device))
        total = torch.zeros(len(parts), self.layout.size, device=device)
        sums = [self.layout.split(row) for row in total]
        for pieces in _pooled_pieces([len(part) for part in parts]):
            index = np.concatenate([parts[k][start:end] for k, start, end in pieces])
            selected = torch.as_tensor(index, device=device)
            x = self._flat_examples(selected)
            factors = gradient_factors(layers, parameters, x, self.labels[selected])
            sizes = [end - start for _, start, end in pieces]
            for parameter, (output_gradients, layer_inputs) in enumerate(factors):
                gradients_by_piece = output_gradients.split(sizes)
                inputs_by_piece = layer_inputs.split(sizes)
                for (k, _, _), g, h in zip(pieces, gradients_by_piece, inputs_by_piece, strict=True):
                    target = sums[k][parameter]
                    target.view(len(target), -1).addmm_(g.t(), h)
        counts = torch.tensor([[max(len(part), 1)] for part in parts], device=device)
        return to_host(total.div_(counts))


def _hits(outputs: Tensor, targets: Tensor) -> npt.NDArray[np.bool_]:
    """Return whether each prediction is the right label; False where the targets are no labels of the outputs."""
    if targets.ndim != 1 or targets.is_floating_point() or outputs.ndim != 2:
        return np.zeros(len(targets), bool)
    return (outputs.argmax(1) == targets).numpy()


def _pooled_pieces(sizes: Sequence[int]) -> Iterator[list[tuple[int, int, int]]]:
    """Yield the pieces (set, start, end) that pass at once.

    A set is cut every ``CHUNK`` examples, whichever other sets there are.
    """
    pieces = list[tuple[int, int, int]]()
    rows = 0
    for k, size in enumerate(sizes):
        for start in range(0, size, CHUNK):
            end = min(start + CHUNK, size)
            if pieces and rows + end - start > CHUNK:
                yield pieces
                pieces = []
                rows = 0
            pieces.append((k, start, end))
            rows += end - start
    if pieces:
        yield pieces


def gradient_factors(
    layers: Sequence[nn.Module], parameters: Sequence[Tensor], x: Tensor, y: Tensor
) -> list[tuple[Tensor, Tensor]]:
    """Return the gradients of single examples through linear layers, as factors.

    There is one pair g (B, out), h (B, in) per parameter, in the model's order: gᵀh of some rows is the gradient of
    the sum of their losses.

    Args:
        layers: linear unit_factor, activations and dropout, which is off.
        parameters: of the linear layers.
        x: examples (B, d).
        y: labels (B,).
    """
    parameters_in_order = iter(parameters)
    activations = x
    passed = list[tuple[nn.Module, Tensor, Tensor | None]]()  # (linear, input, weight) or (activation, output, None)
    for layer in layers:
        if isinstance(layer, nn.Linear):
            weight = next(parameters_in_order)
            passed.append((layer, activations, weight))
            bias = None if layer.bias is None else next(parameters_in_order)
            activations = nn.functional.linear(activations, weight, bias)
        elif not isinstance(layer, nn.Dropout):
            activations = layer(activations)
            passed.append((layer, activations, None))
    g = torch.softmax(activations, 1)
    g[torch.arange(len(y), device=y.device), y] -= 1
    unit_factor = x.new_ones(len(x), 1)
    factors = list[tuple[Tensor, Tensor]]()
    for layer, saved, weight in reversed(passed):
        if weight is None:
            g = BACKWARD[type(layer)](g, saved)
            continue
        if layer.bias is not None:
            factors.append((g, unit_factor))
        factors.append((g, saved))
        if saved is not x:
            g = g @ weight
    return factors[::-1]
