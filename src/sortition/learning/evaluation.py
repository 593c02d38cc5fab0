"""Passes without training: losses of single examples, outputs, gradients. Dropout is off, running statistics stand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sortition.learning import vector
from sortition.learning.examples import Examples
from sortition.learning.linear_gradients import row_gradients
from sortition.learning.stacked import layers_of
from sortition.learning.vector import Vector

CHUNK = 1024  # examples of one pass at most
NUMBERS = 1 << 18  # of a forward pass on a CPU, so that its examples and what layers make of them stay in the cache
Index = npt.NDArray[np.int64]


class Passes:
    """A model over one set of examples: x as the model takes it, labels y (n,)."""

    def __init__(self, model: nn.Module, examples: Examples, labels: torch.Tensor) -> None:
        self.model, self.examples, self.labels = model, examples, labels
        self.layout = vector.Layout.of(model)
        self.layers = layers_of(model, prod(examples.shape))

    def _load(self, params: Vector) -> torch.device:
        device = self.labels.device
        vector.load_into(self.model, self.layout, torch.tensor(params, device=device))
        self.model.eval()
        return device

    def _forward(self, params: Vector) -> Callable[[torch.Tensor], torch.Tensor]:
        """The model with these parameters; of linear layers it is called without modules, which cost more than they."""
        if self.layers is None:
            self._load(params)
            return self.model
        parts = self.layout.split(torch.tensor(params, device=self.labels.device))

        def logits(x: torch.Tensor) -> torch.Tensor:
            h, own = x.flatten(1), iter(parts)
            for layer in self.layers or ():
                if isinstance(layer, nn.Linear):
                    h = nn.functional.linear(h, next(own), next(own) if layer.bias is not None else None)
                elif not isinstance(layer, nn.Dropout):
                    h = layer(h)
            return h

        return logits

    @property
    def _rows(self) -> int:
        """How many examples pass at once: at least 128, which is enough for full speed of a CPU."""
        if self.labels.device.type != "cpu":
            return CHUNK
        return min(CHUNK, max(128, NUMBERS // max(prod(self.examples.shape), 1) // 64 * 64))

    @torch.inference_mode()
    def losses(
        self, params: Vector, index: Index | None = None
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
        """Cross-entropy and whether the prediction is right, of the examples ``index`` (n,), or of all in order."""
        forward, device = self._forward(params), self.labels.device
        at = None if index is None else torch.from_numpy(index).to(device)
        n = len(self.labels) if at is None else len(at)
        losses, hits = torch.empty(n, device=device), torch.empty(n, dtype=torch.bool, device=device)
        for part, x in self.examples.parts(self._rows, at):
            y = self.labels[part] if at is None else self.labels[at[part]]
            logits = forward(x)
            turned = logits.t().contiguous()[None]  # log-softmax over a short last axis is five times slower
            losses[part] = nn.functional.cross_entropy(turned, y[None], reduction="none")[0]
            hits[part] = logits.argmax(1) == y
        return losses.cpu().numpy(), hits.cpu().numpy()

    @torch.inference_mode()
    def first_outputs(self, params: Vector, count: int) -> torch.Tensor:
        """What the model makes of the first ``count`` examples, whatever that is."""
        return self._forward(params)(self.examples.take(torch.arange(count, device=self.labels.device)))

    @torch.inference_mode()
    def outputs(self, params: Vector, inputs: npt.NDArray[np.floating]) -> npt.NDArray[np.float32]:
        """Logits (n, classes) of given inputs (n, …)."""
        device = self._load(params)
        x = torch.as_tensor(np.asarray(inputs, np.float32), device=device)
        x = x.reshape(len(x), *self.examples.shape)
        return torch.cat([self.model(part) for part in x.split(CHUNK)]).cpu().numpy()

    def gradient(self, params: Vector, index: Index) -> Vector:
        """∇F(params) (P,), F the mean loss of the examples ``index``; 0 for buffers."""
        device = self._load(params)
        at = torch.from_numpy(index).to(device)
        parameters = list(self.model.parameters())
        total = torch.zeros(self.layout.size, device=device)
        for part in at.split(CHUNK):
            loss = nn.functional.cross_entropy(self.model(self.examples.take(part)), self.labels[part], reduction="sum")
            found = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
            total[: self.layout.weights] += torch.cat([g.reshape(-1) for g in found])
        return (total / max(len(at), 1)).cpu().numpy()

    def gradients(self, params: Vector, parts: Sequence[Index]) -> Vector:
        """:meth:`gradient` of several sets of examples (k, P); through linear layers many sets pass at once."""
        if self.layers is None:
            return np.stack([self.gradient(params, part) for part in parts])
        return self._pooled_gradients(self.layers, params, parts)

    @torch.inference_mode()
    def _pooled_gradients(self, layers: Sequence[nn.Module], params: Vector, parts: Sequence[Index]) -> Vector:
        device = self.labels.device
        own = self.layout.split(torch.tensor(params, device=device))
        total = torch.zeros(len(parts), self.layout.size, device=device)
        sums = [self.layout.split(row) for row in total]
        for pieces in _together([len(part) for part in parts]):
            at = torch.from_numpy(np.concatenate([parts[k][start:end] for k, start, end in pieces])).to(device)
            sizes = [end - start for _, start, end in pieces]
            pairs = row_gradients(layers, own, self.examples.take(at).flatten(1), self.labels[at])
            for at_parameter, (left, right) in enumerate(pairs):
                for (k, _, _), g, h in zip(pieces, left.split(sizes), right.split(sizes), strict=True):
                    into = sums[k][at_parameter]
                    into.view(len(into), -1).addmm_(g.t(), h)
        return total.div_(torch.tensor([[max(len(part), 1)] for part in parts], device=device)).cpu().numpy()


def _together(sizes: Sequence[int]) -> Iterator[list[tuple[int, int, int]]]:
    """What passes at once, as (set, start, end): a set is cut every ``CHUNK`` examples, whoever else is there."""
    found, rows = list[tuple[int, int, int]](), 0
    for k, size in enumerate(sizes):
        for start in range(0, size, CHUNK):
            end = min(start + CHUNK, size)
            if found and rows + end - start > CHUNK:
                yield found
                found, rows = [], 0
            found.append((k, start, end))
            rows += end - start
    if found:
        yield found
