"""Client apps of every kind of model: stock apps with the two lines, and PyTorch models of other shapes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from sklearn.datasets import load_digits
from tests.flower import in_process
from torch import nn
from torch.nn import functional

from sortition.flower import answer, pytorch

NODES = in_process.NODES
read_digits = lru_cache(load_digits)  # a file that takes longer to read than the models here to train


@dataclass(frozen=True)
class ModelKind:
    """An app and the arrays that it begins with; ``note`` says what is special."""

    make: Callable[[Path], ClientApp]
    initial: Callable[[], ArrayRecord]
    note: str = ""


def images(partition: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Flat images and labels of one node: two or three labels each."""
    digits = read_digits()
    order = np.argsort(digits.target, kind="stable")
    own = np.concatenate(np.array_split(order, 2 * NODES)[partition::NODES])[::6]
    return torch.tensor(digits.data[own] / 16, dtype=torch.float32), torch.tensor(digits.target[own])


@dataclass(frozen=True)
class TorchKind:
    """A PyTorch app: which model, on which data, what of it travels."""

    model: Callable[[], nn.Module]
    data: Callable[[int], tuple[Any, torch.Tensor]] = images
    loss: Callable[[Any, Any], Any] = functional.cross_entropy
    sends: Callable[[str], bool] = lambda name: True
    stated: bool = False  # whether the loss has to be given to our client

    def arrays(self, model: nn.Module) -> ArrayRecord:
        """What travels of a model."""
        return ArrayRecord({n: v for n, v in model.state_dict().items() if self.sends(n)})

    def initial(self) -> ArrayRecord:
        """The arrays of a new model."""
        torch.manual_seed(0)
        return self.arrays(self.model())

    def fresh(self) -> nn.Module:
        """A model whose parts that stay at home are the same on every node."""
        torch.manual_seed(0)
        return self.model()

    def app(self, _: Path) -> ClientApp:
        """A client app with a train function of its own, which answers."""
        app = ClientApp()

        def local(context: Any) -> tuple[nn.Module, Any, torch.Tensor]:
            return self.fresh(), *self.data(context.node_config["partition-id"])

        @app.train()
        def train(msg: Message, context: Any) -> Message:
            model, x, y = local(context)
            model.load_state_dict(msg.content["arrays"].to_torch_state_dict(), strict=False)
            trained = [p for p in model.parameters() if p.requires_grad]
            losses = []
            for _ in range(3):
                loss = self.loss(model(**x) if isinstance(x, dict) else model(x), y)
                for p, g in zip(trained, torch.autograd.grad(loss, trained), strict=True):
                    p.data -= (0.05 * g).to(p.dtype)
                losses.append(loss.item())
            metrics = {"train_loss": float(np.mean(losses)), "steps": 3, "num-examples": len(y)}
            content = RecordDict({"arrays": self.arrays(model), "metrics": MetricRecord(metrics)})
            return Message(content, reply_to=msg)

        answer(app, pytorch(local, loss=self.loss if self.stated else None, resources=lambda context: (1.0, 0.1)))
        return app


class Adapted(nn.Module):
    """A frozen layer with a low-rank adapter beside it, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.base, self.head = nn.Linear(64, 32), nn.Linear(32, 10)
        self.lora_a, self.lora_b = nn.Linear(64, 2, bias=False), nn.Linear(2, 32, bias=False)
        self.base.requires_grad_(False)
        self.head.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        return self.head(functional.relu(self.base(x) + self.lora_b(self.lora_a(x))))


class Pooled(nn.Module):
    """Token ids and a mask, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(17, 8), nn.Linear(8, 10)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Logits."""
        held = self.embed(input_ids) * attention_mask[..., None]
        return self.out(held.sum(1) / attention_mask.sum(1, keepdim=True))


def tokens(partition: int) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Grey levels as token ids."""
    x, y = images(partition)
    return {"input_ids": (x * 16).long(), "attention_mask": torch.ones(x.shape)}, y


def mlp() -> nn.Module:
    """A small multilayer perceptron."""
    return nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))


def normalised() -> nn.Module:
    """One with running statistics."""
    return nn.Sequential(nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 10))


def half(partition: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images in half precision."""
    x, y = images(partition)
    return x.half(), y


def real(partition: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean brightness of the lower half, from the upper half."""
    x, _ = images(partition)
    return x[:, :32], x[:, 32:].mean(1, keepdim=True)


def marks(partition: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Three marks for every image: even, above four, round."""
    x, y = images(partition)
    return x, torch.stack([y % 2 == 0, y > 4, (y == 0) | (y == 6) | (y == 8)], 1).long()


def marked(outputs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The loss of marks."""
    return functional.binary_cross_entropy_with_logits(outputs, y.float())


TORCH = {
    "MLP": TorchKind(mlp),
    "frozen parameters, adapters travel": TorchKind(Adapted, sends=lambda name: "lora" in name),
    "FedBN: norms stay at home": TorchKind(normalised, sends=lambda name: not name.startswith("1.")),
    "BatchNorm, all of it travels": TorchKind(normalised),
    "half precision": TorchKind(lambda: mlp().half(), half),
    "inputs by name": TorchKind(Pooled, tokens),
    "regression": TorchKind(lambda: nn.Linear(32, 1), real, functional.mse_loss),
    "multi-label": TorchKind(lambda: nn.Linear(64, 3), marks, marked),
}


def stock(name: str, initial: Callable[[], ArrayRecord]) -> ModelKind:
    """A stock app with the two lines."""
    return ModelKind(lambda folder: in_process.client_app(name, folder), initial)


def digits_start() -> ArrayRecord:
    """Logistic regression before the first round."""
    return ArrayRecord([np.zeros((10, 64)), np.zeros(10)])


def cnn_start() -> ArrayRecord:
    """The stock network before the first round."""
    import importlib

    torch.manual_seed(0)
    return ArrayRecord(importlib.import_module("pytorchexample.task").Net().state_dict())


KINDS = {
    "quick-start PyTorch (CNN)": stock("pytorch", cnn_start),
    "quick-start scikit-learn": stock("sklearn", digits_start),
    "quick-start NumPy": stock("numpy", lambda: ArrayRecord([np.ones((1, 8))])),
    **{name: ModelKind(kind.app, kind.initial) for name, kind in TORCH.items()},
}
CONFIG = {"lr": 0.1}


def config() -> ConfigRecord:
    """The train config of the stock apps."""
    return ConfigRecord(CONFIG)
