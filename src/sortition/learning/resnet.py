"""A small residual network (He et al. 2016, the CIFAR form) with group norm, which has no statistics to average.

Batch norm keeps running statistics that differ between clients; group norm (Wu and He 2018) has none, and is what
federated learning on skewed data uses (Hsieh et al. 2020).
"""

from __future__ import annotations

from torch import Tensor, nn

from sortition.core.errors import bad

GROUPS = 8


class Block(nn.Module):
    """Two 3 × 3 convolutions beside a short cut, which has a 1 × 1 convolution where the shape changes."""

    def __init__(self, depth: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(depth, width, kernel_size=3, stride=stride, padding=1, bias=False),
            nn.GroupNorm(GROUPS, width),
            nn.ReLU(),
            nn.Conv2d(width, width, kernel_size=3, padding=1, bias=False),
            nn.GroupNorm(GROUPS, width),
        )
        self.short_cut: nn.Module = nn.Identity()
        if stride != 1 or depth != width:
            self.short_cut = nn.Conv2d(depth, width, kernel_size=1, stride=stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return relu(body(x) + short cut(x))."""
        return nn.functional.relu(self.body(x) + self.short_cut(x))


def resnet(inputs: tuple[int, ...], classes: int, blocks: int = 1, width: int = 16) -> nn.Module:
    """Make three stages of ``blocks`` blocks, of ``width``, 2 × and 4 × as many channels: 6 · blocks + 2 layers."""
    if len(inputs) != 3:
        raise bad("resnet", "given images (channels, height, width)", f"inputs of shape {inputs}")
    for name, value in (("blocks", blocks), ("width", width)):
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 512:
            raise bad(f"resnet.{name}", "a whole number in 1 … 512", value)
    if width % GROUPS:
        raise bad("resnet.width", f"a multiple of {GROUPS}, the groups of its norm", width)
    layers: list[nn.Module] = [
        nn.Conv2d(inputs[0], width, kernel_size=3, padding=1, bias=False),
        nn.GroupNorm(GROUPS, width),
        nn.ReLU(),
    ]
    depth = width
    for stage in range(3):
        stage_width = width * 2**stage
        for block in range(blocks):
            halves_the_image = stage > 0 and block == 0
            layers.append(Block(depth, stage_width, stride=2 if halves_the_image else 1))
            depth = stage_width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(depth, classes))
