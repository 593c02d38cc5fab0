"""Examples of one node, however they are loaded, and what a module makes of them: batches, outputs, losses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from sortition.clients.models import Model
from sortition.core.arrays import Array
from sortition.core.errors import InputError, bad

CHUNK = 1024  # rows of one forward pass
LABELS = ("label", "labels", "target", "targets", "y")  # under which a batch that is a dict holds its labels
IGNORED = -100  # a label that PyTorch's cross-entropy leaves out: padding, or the prompt of a language model
MANY, FAR = 100, 20  # outputs that are so many, and so many times as many as the labels, are no labels
Batch = tuple[Any, Any]  # inputs and labels
GIVES = "a function that gives (module, x, y) or (module, batches)"


class TorchData:
    """The examples of one node: arrays x and y, or batches as a DataLoader gives them."""

    def __init__(self, batches: list[Batch], whole: bool) -> None:
        self._batches, self.whole = batches, whole
        self._rows = [_rows(y, x) for x, y in batches]

    @classmethod
    def of(cls, *examples: Any) -> TorchData:
        """From (x, y), or from one iterable of batches."""
        if len(examples) == 2:
            x, y = _tensor(examples[0]), _tensor(examples[1])
            return cls([(x, y)], whole=True)
        if len(examples) == 1 and isinstance(examples[0], Mapping):
            return cls([_split(examples[0])], whole=True)
        if len(examples) == 1:
            return cls([_split(batch) for batch in examples[0]], whole=False)
        raise bad("pytorch(load)", GIVES, f"{len(examples) + 1} values")

    def __len__(self) -> int:
        return sum(self._rows)

    @property
    def batches(self) -> int:
        """How many batches were given; 0 for arrays."""
        return 0 if self.whole else len(self._batches)

    @property
    def arrays(self) -> tuple[Array, Array]:
        """(x, y), where they were given as arrays."""
        x, y = self._batches[0]
        if not self.whole or isinstance(x, Mapping):
            raise InputError("pytorch(load, rule) must be given (module, x, y) with arrays x and y; got batches.")
        return x.numpy(), y.numpy()

    def chunks(self, device: str) -> Iterator[tuple[Any, Any, float]]:
        """(inputs, labels, share of the labels that count), all examples in order; without a label left, none."""
        total = sum(count_labels(y) for _, y in self._batches)
        for (x, y), rows in zip(self._batches, self._rows, strict=True):
            for start in range(0, rows, CHUNK):
                part = slice(start, start + CHUNK)
                if labels := count_labels(y[part]):
                    yield _at(x, part, device), _at(y, part, device), labels / total

    def sample(self, rows: int, rng: np.random.Generator, device: str) -> Batch:
        """One mini-batch: ``rows`` examples of the arrays, or one of the batches."""
        if not self.whole:
            x, y = self._batches[int(rng.integers(len(self._batches)))]
            return _at(x, slice(None), device), _at(y, slice(None), device)
        x, y = self._batches[0]
        index = rng.choice(len(self), min(rows, len(self)), replace=False)
        return _at(x, index, device), _at(y, index, device)

    @property
    def largest_label(self) -> int:
        """The largest label of the data; 0 where there are none, or where they are no whole numbers."""
        labels = [y[y != IGNORED] for _, y in self._batches if not y.is_floating_point()]
        return max((int(y.max()) for y in labels if y.numel()), default=0)

    def label_counts(self, classes: int) -> Array:
        """Examples per label (C,), of labels or of label masks."""
        counts = np.zeros(classes, np.int64)
        for _, labels in self._batches:
            y = labels.cpu().numpy()
            if y.dtype.kind == "f":
                raise bad("label_counts", "asked of labels that are whole numbers", f"{y.dtype} targets")
            mask = y.ndim == 2 and y.shape[1] == classes and set(np.unique(y)) <= {0, 1}
            counts += y.astype(bool).sum(axis=0) if mask else _bincount(y[y != IGNORED], classes)
        return counts


def _bincount(y: Array, classes: int) -> Array:
    if y.size and not 0 <= y.min() <= y.max() < classes:
        odd = int(y.min() if y.min() < 0 else y.max())
        raise bad("label_counts", f"asked of labels from 0 to {classes - 1}", odd, "Give pytorch(classes=…).")
    return np.bincount(y, minlength=classes)


def _tensor(value: Any) -> Any:
    import torch

    if isinstance(value, Mapping):
        return {name: _tensor(part) for name, part in value.items()}
    return value if isinstance(value, torch.Tensor) else torch.as_tensor(np.array(value))


def _split(batch: Any) -> Batch:
    """Inputs and labels of one batch."""
    if isinstance(batch, Mapping):
        key = next((name for name in LABELS if name in batch), None)
        if key is None:
            raise bad("a batch", f"a dict with its labels under {' or '.join(LABELS[:2])}", ", ".join(batch))
        inputs = {name: _tensor(value) for name, value in batch.items() if name != key}
        only = next(iter(inputs.values()))
        return (only if len(inputs) == 1 else inputs), _tensor(batch[key])
    if isinstance(batch, list | tuple) and len(batch) == 2:
        return _tensor(batch[0]), _tensor(batch[1])
    raise bad("a batch", "a pair (x, y) or a dict with its labels", type(batch).__name__)


def loaded(found: Any) -> tuple[Any, TorchData]:
    """The module and the examples that ``load`` gave."""
    if not isinstance(found, tuple | list):
        raise bad("pytorch(load)", GIVES, type(found).__name__)
    model, *examples = found
    return model, TorchData.of(*examples)


def _rows(labels: Any, inputs: Any) -> int:
    if not labels.ndim:
        raise bad("pytorch(load)", GIVES, "single examples in place of batches", "Put the data set in a DataLoader.")
    rows = len(labels)
    parts = inputs.values() if isinstance(inputs, Mapping) else [inputs]
    if any(len(part) != rows for part in parts):
        raise bad("pytorch(load)", "as many labels as examples", f"{rows} labels")
    return rows


def _at(value: Any, rows: Any, device: str) -> Any:
    if isinstance(value, Mapping):
        return {name: _at(part, rows, device) for name, part in value.items()}
    return value[rows].to(device)


def count_labels(y: Any) -> int:
    """How many labels a mean loss is the mean of."""
    return int(y.numel() if y.is_floating_point() else (y != IGNORED).sum())


def forward(model: Any, x: Any) -> Any:
    """The outputs: tensors, or their ``logits`` where the module wraps them."""
    out = model(**x) if isinstance(x, Mapping) else model(x)
    return getattr(out, "logits", out)


def mean_loss(model: Any, x: Any, y: Any, loss: Callable[[Any, Any], Any] | None) -> Any:
    """The mean loss of one batch: by the given function, by the module's own, or by what the labels are."""
    from torch.nn import functional

    if loss is None and hasattr(model, "config"):  # modules of transformers compute their loss themselves
        inputs = x if isinstance(x, Mapping) else {"input_ids": x}
        own = getattr(model(**inputs, labels=y), "loss", None)
        if own is not None:
            return own
    outputs = forward(model, x)
    if loss is not None:
        return loss(outputs, y)
    if not hasattr(outputs, "float"):
        raise bad(
            "pytorch(loss)",
            "given where the module's outputs are no tensor",
            type(outputs).__name__,
            "Or give answer() a class with a method loss() of your own.",
        )
    outputs = outputs.float()
    if y.is_floating_point():
        return functional.mse_loss(outputs.reshape(y.shape), y.float())
    if y.ndim == outputs.ndim:
        return functional.binary_cross_entropy_with_logits(outputs, y.float())
    return functional.cross_entropy(outputs.flatten(0, -2), y.flatten().long())


def accuracy(model: Any, x: Any, y: Any) -> float:
    """Share of right labels in one batch, of those that count."""
    outputs = forward(model, x)
    if y.is_floating_point() or y.ndim == outputs.ndim:
        raise bad("accuracy", "asked of labels that are whole numbers", f"{y.dtype} targets of shape {tuple(y.shape)}")
    return float((outputs.argmax(-1) == y)[y != IGNORED].float().mean())


def held(model: Any, arrays: Model) -> dict[str, Any]:
    """The module's own tensors by the names of the received arrays; arrays in a list are matched by their order."""
    state = dict(model.state_dict(keep_vars=True))
    if (
        arrays
        and not arrays.keys() & state.keys()
        and [v.shape for v in arrays.values()] == [tuple(t.shape) for t in state.values()]
    ):
        return dict(zip(arrays, state.values(), strict=True))
    state = _without_adapter_names(model, state) | state
    for name, value in arrays.items():
        if name not in state or tuple(state[name].shape) != value.shape:
            raise bad("model", f"one with {name} of shape {value.shape}", sorted(state), "Send model.state_dict().")
    return {name: state[name] for name in arrays}


def _without_adapter_names(model: Any, state: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors of PEFT's adapters as ``get_peft_model_state_dict`` calls them; nothing in other modules."""
    adapter = str(getattr(model, "active_adapter", "default"))
    if not hasattr(model, "peft_config"):
        return {}
    parts = {name: [part for part in name.split(".") if part != "modules_to_save"] for name in state}
    own = {name: path for name, path in parts.items() if adapter in path}
    return {".".join(part for part in path if part != adapter): state[name] for name, path in own.items()}


def count_classes(model: Any, largest: int = 0) -> int:
    """How many labels there are, by the outputs of the model's last layer.

    Refused where that layer is not understood, or has far more outputs than ``largest``, the largest label of the data:
    an autoencoder's pixels are no classes.
    """
    hint = "Give pytorch(classes=…)."
    layers = [module for module in model.modules() if list(module.parameters(recurse=False))]
    sized = [layer for layer in layers if not _is_norm(layer)]
    last = sized[-1] if sized else None
    outputs = getattr(last, "out_features", None)
    if outputs is None and not getattr(last, "transposed", False):
        outputs = getattr(last, "out_channels", None)
    if outputs is None and last is not None and not getattr(last, "transposed", False):
        outputs = list(last.parameters(recurse=False))[-1].shape[0]
    if not isinstance(outputs, int):
        kind = "no layer with parameters" if last is None else type(last).__name__
        raise bad("classes", "given where the last layer has no output per label", kind, hint)
    if outputs > MANY and outputs >= FAR * (largest + 1):
        got = f"{outputs} outputs for labels up to {largest}"
        raise bad("classes", "given where the model's outputs are no labels", got, hint)
    return outputs


def _is_norm(layer: Any) -> bool:
    return "Norm" in type(layer).__name__
