"""A model of your own: any torch.nn.Module whose output is logits. Run: python examples/own_model.py

In a study's file: model = { name = "own_model:Net", width = 8 }. It is called with `inputs` (the shape of one example)
and `classes` if it has parameters of these names; its initial weights depend on the seed alone.
"""

import polars as pl
import torch
from torch import nn

from sortition.studies import study


class Net(nn.Module):
    """A small convolutional net."""

    def __init__(self, inputs: tuple[int, ...], classes: int, width: int = 8) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(inputs[0], width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.head = nn.Linear(width * (inputs[1] // 2) * (inputs[2] // 2), classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images (B, channels, h, w) to logits (B, classes)."""
        return self.head(self.features(x).flatten(1))


def main() -> None:
    result = study(
        {
            "rounds": 20,
            "cohort": 5,
            "seeds": 2,
            "data": {"name": "digits", "clients": 40, "partition": {"name": "dirichlet", "alpha": 0.3}},
            "model": {"name": "own_model:Net", "width": 8},
            "local": {"steps": 10, "batch": 16, "lr": 0.2},
            "method": [{"name": "uniform"}, {"name": "power-of-choice"}],
        }
    )
    print(result)
    last = result.curves.filter(pl.col("round") == 20)  # the records are polars
    print(last.group_by("method", maintain_order=True).agg(pl.col("accuracy", "loss", "bytes").mean()))


if __name__ == "__main__":
    main()
