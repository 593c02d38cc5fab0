"""The papers' convolutional nets. Inputs (channels, height, width); ReLU and 2 × 2 max-pooling throughout.

| preset        | from                             | layers                                                        |
|---------------|----------------------------------|---------------------------------------------------------------|
| fedcor        | FedCor's CIFAR-10 code           | 3 × 3 conv 32-pool-64-pool-64 without padding, 64, C          |
| hics          | HiCS-FL's CIFAR-10 paper         | the same net; ``hics-dropout`` with the released code's 0.2   |
| hics-fmnist   | HiCS-FL's Fashion-MNIST paper    | 5 × 5 conv 16-pool-32-pool without padding, C; widths ours    |
| mcmahan-mnist | McMahan et al. 2017, MNIST       | 5 × 5 conv 32-pool-64-pool, padded, 512, C                    |
| mcmahan-cifar | the TensorFlow net it points to  | 5 × 5 conv 64-pool-64-pool, padded, 384, 192, C, no LRN       |
| fedgs-cifar   | FedGS's CIFAR-10 code            | 5 × 5 conv 64-pool-64-pool without padding, 384, 192, C       |
| fedgs-fmnist  | FedGS's Fashion-MNIST code       | the net of mcmahan-mnist                                      |
| small         | ours, for papers that name none  | 3 × 3 conv 16-pool-32-pool without padding, C                 |
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from sortition.core.errors import bad


def convolutional(
    inputs: tuple[int, int, int],
    classes: int,
    *,
    channels: tuple[int, ...],
    kernel: int,
    padded: bool,
    pools: int,
    dense: tuple[int, ...],
    dropout: float = 0.0,
) -> nn.Module:
    """Make convolutions, of which the first ``pools`` are pooled, then dense layers."""
    layers: list[nn.Module] = []
    padding = kernel // 2 if padded else 0
    depth = inputs[0]
    for i, width in enumerate(channels):
        layers.append(nn.Conv2d(depth, width, kernel, padding=padding))
        if i < pools:
            layers.append(nn.MaxPool2d(2))
        layers.append(nn.ReLU(inplace=True))  # after the pooling: the same function on a quarter of the numbers
        depth = width
    body = nn.Sequential(*layers)
    try:
        with torch.no_grad():
            features = body(torch.zeros(1, *inputs)).numel()
    except RuntimeError as error:
        raise bad("cnn", "given images large enough for its layers", f"shape {inputs}") from error
    head: list[nn.Module] = [nn.Flatten()]
    for width in dense:
        head += [nn.Linear(features, width), nn.ReLU()]
        if dropout:
            head.append(nn.Dropout(dropout))
        features = width
    return nn.Sequential(*body, *head, nn.Linear(features, classes))


_three_convolutions = partial(convolutional, channels=(32, 64, 64), kernel=3, padded=False, pools=2, dense=(64,))
_two_convolutions_mnist = partial(convolutional, channels=(32, 64), kernel=5, padded=True, pools=2, dense=(512,))
_two_convolutions_cifar = partial(convolutional, channels=(64, 64), kernel=5, pools=2, dense=(384, 192))

PRESETS: dict[str, Callable[..., nn.Module]] = {
    "fedcor": _three_convolutions,
    "hics": _three_convolutions,
    "hics-dropout": partial(_three_convolutions, dropout=0.2),
    "hics-fmnist": partial(convolutional, channels=(16, 32), kernel=5, padded=False, pools=2, dense=()),
    "mcmahan-mnist": _two_convolutions_mnist,
    "mcmahan-cifar": partial(_two_convolutions_cifar, padded=True),
    "fedgs-cifar": partial(_two_convolutions_cifar, padded=False),
    "fedgs-fmnist": _two_convolutions_mnist,
    "small": partial(convolutional, channels=(16, 32), kernel=3, padded=False, pools=2, dense=()),
}
