"""Clients whose examples differ in other ways than by label: images in several styles, and wrong labels.

Both are drawn once per seed, by client, after the data were split. So they go with any partition, and a federation can
have equal labels everywhere and different features (``partition = "iid"`` with ``styles``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sortition.core.arrays import Array, Ids
from sortition.core.errors import bad, unknown
from sortition.core.inputs import Inputs
from sortition.core.validation import is_number, refuse_unknown_keys
from sortition.data.dataset import Dataset, is_image

Style = Callable[[Array, int], Array]  # images (n, h, w, …) and the value of white → images of the same shape

STYLES: dict[str, Style] = {
    "plain": lambda images, white: images,
    "rotated-90": lambda images, white: np.rot90(images, 1, axes=(1, 2)),
    "rotated-180": lambda images, white: np.rot90(images, 2, axes=(1, 2)),
    "rotated-270": lambda images, white: np.rot90(images, 3, axes=(1, 2)),
    "mirrored": lambda images, white: images[:, :, ::-1],
    "inverted": lambda images, white: (white - images).astype(np.uint8),
    "dark": lambda images, white: images // 3,
    "coarse": lambda images, white: _coarsen(images),
}


def _coarsen(images: Array) -> Array:
    """Return images in which each square of 2 × 2 pixels has the value of its first pixel."""
    n_rows, n_columns = images.shape[1:3]
    rows = np.arange(n_rows) // 2 * 2
    columns = np.arange(n_columns) // 2 * 2
    return images[:, rows][:, :, columns]


@refuse_unknown_keys
@dataclass(frozen=True)
class LabelNoise:
    """Wrong labels at some of the clients.

    Attributes:
        share: of the clients, the share that has wrong labels; who they are depends on the seed alone.
        flip: probability that a label of such a client is replaced by another one, each as probable.
    """

    share: float = 0.3
    flip: float = 0.5

    def __post_init__(self) -> None:
        for name in ("share", "flip"):
            value = getattr(self, name)
            if not is_number(value) or not 0 <= value <= 1:
                raise bad(f"LabelNoise.{name}", "a share in [0, 1]", value)


def check_styles(styles: Sequence[str]) -> None:
    """Refuse a list of styles that is empty or names one that does not exist."""
    if not styles:
        raise bad("data.styles", f"a list of {', '.join(STYLES)}", "an empty one")
    for style in styles:
        if style not in STYLES:
            raise unknown("style", style, list(STYLES), "data.styles")


def apply_styles(dataset: Dataset, clients: Sequence[Ids], styles: Sequence[str], rng: np.random.Generator) -> Dataset:
    """Return the data with the images of each client in one style, and test images in the same shares.

    Styles are dealt to clients in turn, in random order: one that is listed twice is that of twice as many clients.
    ``clients`` are the rows of the training examples that each client holds.
    """
    check_styles(styles)
    x_train = dataset.x_train
    x_test = dataset.x_test
    if isinstance(x_train, Inputs) or isinstance(x_test, Inputs) or not is_image(x_train):
        raise bad("data.styles", "given for images (uint8) only", dataset.describe_inputs())
    if x_train.shape[1] != x_train.shape[2] and any(style in ("rotated-90", "rotated-270") for style in styles):
        raise bad("data.styles", "without quarter turns where images are not square", x_train.shape[1:3])
    style_of_client = rng.permutation(np.resize(np.arange(len(styles)), len(clients)))
    style_of_row = np.full(len(x_train), -1)
    for rows, style in zip(clients, style_of_client, strict=True):
        style_of_row[rows] = style
    styles_held = style_of_row[style_of_row >= 0]
    shares = np.bincount(styles_held, minlength=len(styles)) / styles_held.size
    style_of_test_row = rng.choice(len(styles), len(x_test), p=shares)
    return replace(
        dataset,
        x_train=_restyle_images(x_train, style_of_row, styles, dataset.white),
        x_test=_restyle_images(x_test, style_of_test_row, styles, dataset.white),
        digest="",
    )


def _restyle_images(images: Array, style_of_row: Ids, styles: Sequence[str], white: int) -> Array:
    changed = images.copy()
    for position, style in enumerate(styles):
        rows = np.flatnonzero(style_of_row == position)
        changed[rows] = STYLES[style](images[rows], white)
    return changed


def add_label_noise(dataset: Dataset, clients: Sequence[Ids], noise: LabelNoise, rng: np.random.Generator) -> Dataset:
    """Return the data with wrong labels at some clients; test labels stay as they are.

    ``clients`` are the rows of the training examples that each client holds. What clients count and report of their
    labels are the wrong ones: they do not know better.
    """
    if dataset.classes < 2:
        raise bad("data.label_noise", "given for labels of two classes or more", dataset.describe_targets())
    n_noisy = round(noise.share * len(clients))
    noisy_clients = np.sort(rng.permutation(len(clients))[:n_noisy])
    labels = dataset.y_train.copy()
    for client in noisy_clients:
        rows = clients[client]
        is_flipped = rng.random(rows.size) < noise.flip
        offset = rng.integers(1, dataset.classes, rows.size)  # never 0: the label is another one
        labels[rows] = np.where(is_flipped, (labels[rows] + offset) % dataset.classes, labels[rows])
    return replace(dataset, y_train=labels, digest="")
