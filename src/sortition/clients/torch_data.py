"""Examples of one node, however they are loaded, and what a module makes of them: batches, outputs, losses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from sortition.clients.named_arrays import Model
from sortition.core.arrays import Array, Ids
from sortition.core.errors import InputError, bad

if TYPE_CHECKING:
    import numpy.typing as npt
    from torch import Tensor
    from torch.nn import Module

    from sortition.core.inputs import Examples
    from sortition.learning.objective import Objective

    Inputs: TypeAlias = Tensor | tuple[Tensor, ...] | dict[str, Tensor]  # what a module is called with
    RawInputs: TypeAlias = Tensor | npt.ArrayLike | tuple[Any, ...] | Mapping[str, Any]  # the same, as it was loaded
    Batch: TypeAlias = tuple[Inputs, Tensor]  # inputs and labels
    Loss: TypeAlias = Callable[[Any, Tensor], Tensor]  # from (outputs, labels) to the mean loss

CHUNK = 1024  # rows of one forward pass
LABELS = ("label", "labels", "target", "targets", "y")  # under which a batch that is a dict holds its labels
IGNORED = -100  # a label that PyTorch's cross-entropy leaves out: padding, or the prompt of a language model
# outputs that are so many, and so many times as many as the labels, are no labels
MANY_OUTPUTS = 100
MANY_TIMES_THE_LABELS = 20
LOADS = "a function that gives (module, x, y) or (module, batches)"


class TorchData:
    """The examples of one node: arrays x and y, or batches as a DataLoader gives them.

    Args:
        batches: inputs and labels of each batch; one for arrays.
        whole: whether the examples were given as arrays, not in batches.
    """

    def __init__(self, batches: list[Batch], whole: bool) -> None:
        self.whole = whole
        self._batches = batches
        self._rows = [_count_rows(labels, inputs) for inputs, labels in batches]

    @classmethod
    def of(cls, *examples: Any) -> TorchData:
        """Take the examples from (x, y), or from one iterable of batches."""
        if len(examples) == 2:
            x, y = examples
            return cls([(_as_inputs(x), _as_tensor(y))], whole=True)
        if len(examples) != 1:
            raise bad("pytorch(load)", LOADS, f"{len(examples) + 1} values")
        (batches,) = examples
        if isinstance(batches, Mapping):
            return cls([_split(batches)], whole=True)
        return cls([_split(batch) for batch in batches], whole=False)

    def __len__(self) -> int:
        return sum(self._rows)

    @property
    def batches(self) -> int:
        """How many batches were given; 0 for arrays."""
        return 0 if self.whole else len(self._batches)

    @property
    def arrays(self) -> tuple[Examples, Array]:
        """(x, y), where they were given as arrays; x may be several."""
        from sortition.core.inputs import Inputs as SeveralInputs

        x, y = self._batches[0]
        if not self.whole:
            raise InputError("pytorch(load, rule) must be given (module, x, y) with arrays x and y; got batches.")
        if isinstance(x, dict | tuple):
            return SeveralInputs.of(x, lambda part: cast("Tensor", part).numpy()), y.numpy()
        return x.numpy(), y.numpy()

    def chunks(self, device: str) -> Iterator[tuple[Inputs, Tensor, float]]:
        """Give (inputs, labels, share of the labels that count) of all examples in order; none without a label."""
        n_labels = sum(count_labels(y) for _, y in self._batches)
        for (x, y), n_rows in zip(self._batches, self._rows, strict=True):
            for start in range(0, n_rows, CHUNK):
                rows = slice(start, start + CHUNK)
                n_labels_here = count_labels(y[rows])
                if n_labels_here:
                    yield _rows_of(x, rows, device), y[rows].to(device), n_labels_here / n_labels

    def sample(self, n_rows: int, rng: np.random.Generator, device: str) -> Batch:
        """Draw one mini-batch: ``n_rows`` examples of the arrays, or one of the batches."""
        rows: slice | Ids
        if self.whole:
            x, y = self._batches[0]
            rows = rng.choice(len(self), min(n_rows, len(self)), replace=False)
        else:
            x, y = self._batches[int(rng.integers(len(self._batches)))]
            rows = slice(None)
        return _rows_of(x, rows, device), y[rows].to(device)

    @property
    def largest_label(self) -> int:
        """The largest label of the data; 0 where there are none, or where they are no whole numbers."""
        labels = [y[y != IGNORED] for _, y in self._batches if not y.is_floating_point()]
        return max((int(y.max()) for y in labels if y.numel()), default=0)

    def label_counts(self, classes: int) -> Array:
        """Return the examples per label (C,), of labels or of label masks."""
        counts = np.zeros(classes, np.int64)
        for _, labels in self._batches:
            y = labels.cpu().numpy()
            if y.dtype.kind == "f":
                raise bad("label_counts", "asked of labels that are whole numbers", f"{y.dtype} targets")
            is_mask = y.ndim == 2 and y.shape[1] == classes and set(np.unique(y)) <= {0, 1}
            if is_mask:
                counts += y.astype(bool).sum(axis=0)
            else:
                counts += _bincount(y[y != IGNORED], classes)
        return counts


def _bincount(y: Array, classes: int) -> Array:
    """Count labels; refuse one that is not from 0 to C − 1."""
    if y.size and not 0 <= y.min() <= y.max() < classes:
        odd_label = int(y.min() if y.min() < 0 else y.max())
        raise bad("label_counts", f"asked of labels from 0 to {classes - 1}", odd_label, "Give pytorch(classes=…).")
    return np.bincount(y, minlength=classes)


def _as_tensor(value: Tensor | npt.ArrayLike) -> Tensor:
    """Return a tensor as it is, and anything else as one."""
    import torch

    if isinstance(value, torch.Tensor):
        return value
    return torch.as_tensor(np.array(value))


def _as_inputs(value: RawInputs) -> Inputs:
    """Return inputs as tensors: one, several by position, or several by name."""
    if isinstance(value, Mapping):
        return {name: _as_tensor(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return tuple(_as_tensor(part) for part in value)
    return _as_tensor(value)


def _split(batch: object) -> Batch:
    """Split one batch into inputs and labels."""
    if isinstance(batch, Mapping):
        label_key = next((name for name in LABELS if name in batch), None)
        if label_key is None:
            raise bad("a batch", f"a dict with its labels under {' or '.join(LABELS[:2])}", ", ".join(batch))
        inputs = {name: _as_tensor(value) for name, value in batch.items() if name != label_key}
        labels = _as_tensor(batch[label_key])
        if len(inputs) == 1:
            (only_input,) = inputs.values()
            return only_input, labels
        return inputs, labels
    if isinstance(batch, list | tuple) and len(batch) == 2:
        return _as_inputs(batch[0]), _as_tensor(batch[1])
    raise bad("a batch", "a pair (x, y) or a dict with its labels", type(batch).__name__)


def loaded(values: Iterable[Any]) -> tuple[Module, TorchData]:
    """Return the module and the examples that ``load`` gave."""
    if not isinstance(values, tuple | list):
        raise bad("pytorch(load)", LOADS, type(values).__name__)
    model, *examples = values
    return model, TorchData.of(*examples)


def _count_rows(labels: Tensor, inputs: Inputs) -> int:
    """Return how many examples a batch has; refuse one with another number of labels."""
    if not labels.ndim:
        raise bad("pytorch(load)", LOADS, "single examples in place of batches", "Put the data set in a DataLoader.")
    n_rows = len(labels)
    parts = _parts_of(inputs)
    if any(len(part) != n_rows for part in parts):
        raise bad("pytorch(load)", "as many labels as examples", f"{n_rows} labels")
    return n_rows


def _parts_of(inputs: Inputs) -> list[Tensor]:
    """List the tensors of inputs."""
    if isinstance(inputs, dict):
        return list(inputs.values())
    if isinstance(inputs, tuple):
        return list(inputs)
    return [inputs]


def _rows_of(inputs: Inputs, rows: slice | Ids, device: str) -> Inputs:
    """Return some rows of inputs, on a device."""
    if isinstance(inputs, dict):
        return {name: part[rows].to(device) for name, part in inputs.items()}
    if isinstance(inputs, tuple):
        return tuple(part[rows].to(device) for part in inputs)
    return inputs[rows].to(device)


def count_labels(y: Tensor) -> int:
    """Return how many labels a mean loss is the mean of."""
    if y.is_floating_point():
        return int(y.numel())
    return int((y != IGNORED).sum())


def forward(model: Module, x: Inputs) -> Any:
    """Return the module's outputs: a tensor, or whatever it returns; their ``logits`` where it wraps them."""
    from sortition.learning.objective import outputs_of

    return outputs_of(model, x)


def named_loss(name: str) -> Objective:
    """Return the loss that a study calls by this name."""
    from sortition.learning.objective import Objective
    from sortition.learning.task import TaskRule

    return Objective(TaskRule(loss=name))


def mean_loss(model: Module, x: Inputs, y: Tensor, loss: Loss | str | None) -> Tensor:
    """Return the mean loss of one batch: by a function or name, by the module's own, or by what the labels are."""
    from torch.nn import functional

    if isinstance(loss, str):
        objective = named_loss(loss)
        targets = y.float() if objective.rule.wants_numbers else y
        return objective.batch_loss(model, x, targets)[0]
    if loss is not None:
        return loss(forward(model, x), y)
    if hasattr(model, "config"):  # modules of transformers compute their loss themselves
        inputs = x if isinstance(x, dict) else {"input_ids": x}
        modules_loss: Tensor | None = getattr(model(**inputs, labels=y), "loss", None)
        if modules_loss is not None:
            return modules_loss
    outputs = forward(model, x)
    if not hasattr(outputs, "float"):
        raise bad(
            "pytorch(loss)",
            "given where the module's outputs are no tensor",
            type(outputs).__name__,
            "Or give answer() a class with a method loss() of your own.",
        )
    logits: Tensor = outputs.float()
    if y.is_floating_point():
        return functional.mse_loss(logits.reshape(y.shape), y.float())
    if y.ndim == logits.ndim:
        return functional.binary_cross_entropy_with_logits(logits, y.float())
    return functional.cross_entropy(logits.flatten(0, -2), y.flatten().long())


def accuracy(model: Module, x: Inputs, y: Tensor) -> float:
    """Return the share of right labels in one batch, of those that count."""
    outputs = forward(model, x)
    if y.is_floating_point() or y.ndim == outputs.ndim:
        raise bad("accuracy", "asked of labels that are whole numbers", f"{y.dtype} targets of shape {tuple(y.shape)}")
    return float((outputs.argmax(-1) == y)[y != IGNORED].float().mean())


def tensors_by_name(model: Module, names: Model | Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the module's own tensors by the names of received arrays; arrays in a list are matched by their order."""
    state: dict[str, Tensor] = dict(model.state_dict(keep_vars=True))
    shapes = [tuple(value.shape) for value in names.values()]
    shares_no_name = not names.keys() & state.keys()
    if names and shares_no_name and shapes == [tuple(tensor.shape) for tensor in state.values()]:
        return dict(zip(names, state.values(), strict=True))
    state = _without_adapter_names(model, state) | state
    for name, shape in zip(names, shapes, strict=True):
        if name not in state or tuple(state[name].shape) != shape:
            raise bad("model", f"one with {name} of shape {shape}", sorted(state), "Send model.state_dict().")
    return {name: state[name] for name in names}


def _without_adapter_names(model: Module, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of PEFT's adapters as ``get_peft_model_state_dict`` calls them; nothing in other modules."""
    if not hasattr(model, "peft_config"):
        return {}
    adapter = str(getattr(model, "active_adapter", "default"))
    tensors = {}
    for name, tensor in state.items():
        path = [part for part in name.split(".") if part != "modules_to_save"]
        if adapter in path:
            tensors[".".join(part for part in path if part != adapter)] = tensor
    return tensors


def count_classes(model: Module, largest: int = 0) -> int:
    """Return how many labels there are, by the outputs of the model's last layer.

    Refused where that layer is not understood, or has far more outputs than ``largest``, the largest label of the data:
    an autoencoder's pixels are no classes.
    """
    hint = "Give pytorch(classes=…)."
    layers = [module for module in model.modules() if list(module.parameters(recurse=False))]
    layers = [layer for layer in layers if not _is_norm(layer)]
    if not layers:
        raise bad("classes", "given where the last layer has no output per label", "no layer with parameters", hint)
    last_layer = layers[-1]
    outputs = _count_outputs(last_layer)
    if outputs is None:
        kind = type(last_layer).__name__
        raise bad("classes", "given where the last layer has no output per label", kind, hint)
    if outputs > MANY_OUTPUTS and outputs >= MANY_TIMES_THE_LABELS * (largest + 1):
        outputs_and_labels = f"{outputs} outputs for labels up to {largest}"
        raise bad("classes", "given where the model's outputs are no labels", outputs_and_labels, hint)
    return outputs


def _count_outputs(layer: Module) -> int | None:
    """Return how many outputs a layer has; None where that is not understood, as of a transposed convolution."""
    outputs = getattr(layer, "out_features", None)
    if outputs is None and not getattr(layer, "transposed", False):
        outputs = getattr(layer, "out_channels", None)
        if outputs is None:
            outputs = list(layer.parameters(recurse=False))[-1].shape[0]
    return outputs if isinstance(outputs, int) else None


def _is_norm(layer: Module) -> bool:
    """Tell whether a layer only normalises."""
    return "Norm" in type(layer).__name__
