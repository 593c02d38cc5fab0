"""A data set as the simulator sees it: arrays, and which client holds which examples where it comes already split."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from sortition.core.arrays import Array, Floats, Ids, as_whole, frozen
from sortition.core.errors import bad

CHANNELS = (1, 3, 4)  # grey, colour, colour with transparency
BYTES = 1 << 24  # images of more numbers are scaled batch by batch: as floats they fill four times the memory
MOST_CLASSES = 1_000_000  # a model has a row of numbers for each


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test examples; images stay compact (uint8) until :meth:`scaled`, or until a batch is made of them.

    One rule says what models get. Images are ``uint8`` of shape (n, h, w) or (n, h, w, channels): they are divided by
    ``white`` and their channels go first. Anything else reaches the model as it is: floats as float32, and whole
    numbers (tokens, counts, codes) as int64, or as float32 where the model does not take whole numbers.

    Attributes:
        name: what it is called in a configuration.
        x_train: (n, …) images as uint8, or numbers of any other type or shape.
        y_train: (n,) labels, int64 in 0 … classes − 1.
        x_test: (m, …) like ``x_train``.
        y_test: (m,) like ``y_train``.
        classes: number of labels.
        clients: index arrays into ``x_train``, one per client, where the data come already split.
        features: (N, d) one vector per client, where the source of the data has one (synthetic: the local optimum).
        validation: index arrays into ``x_train``, one per client, where the released split holds some back.
        white: the pixel value of images that :meth:`scaled` maps to 1.
        given_rows: rows of the training and of the test examples in the data that a user gave in one piece and that
            were split here; None where the data came with a test set.
        held_out: which examples were held out for testing here, in words.
        treatment: what was done to the inputs already, in words; empty for data as they were given.
        digest: SHA-256 over all arrays above, with names, shapes and types; computed when not given.
    """

    name: str
    x_train: Array
    y_train: Ids
    x_test: Array
    y_test: Ids
    classes: int
    clients: tuple[Ids, ...] | None = None
    features: Floats | None = None
    validation: tuple[Ids, ...] | None = None
    white: int = 255
    given_rows: tuple[Ids, Ids] | None = None
    held_out: str = ""
    treatment: str = ""
    digest: str = field(default="")

    def __post_init__(self) -> None:
        for split in ("train", "test"):
            x = np.asarray(getattr(self, f"x_{split}"))
            y = np.asarray(getattr(self, f"y_{split}"))
            _check_examples(f"{self.name}.{split}", x, y, self.classes)
            object.__setattr__(self, f"x_{split}", frozen(np.ascontiguousarray(x)))
            object.__setattr__(self, f"y_{split}", frozen(np.ascontiguousarray(y, dtype=np.int64)))
        if self.x_train.shape[1:] != self.x_test.shape[1:]:
            raise bad(f"{self.name}.x_test", f"of examples shaped {self.x_train.shape[1:]}", self.x_test.shape[1:])
        if _kind(self.x_train) != _kind(self.x_test):
            rule = f"like x_train, of type {self.x_train.dtype}"  # images are scaled, anything else is not
            raise bad(f"{self.name}.x_test", rule, self.x_test.dtype, "Give both in the same type.")
        for part in ("clients", "validation"):
            self._check_indices(part)
        if not self.digest:
            object.__setattr__(self, "digest", arrays_digest(self._arrays()))

    def __repr__(self) -> str:
        """Say how many examples of what shape there are; do not list them."""
        parts = [
            f"{len(self.y_train):,} training and {len(self.y_test):,} test examples of shape {self.x_train.shape[1:]}",
            f"{self.classes:,} classes",
        ]
        if self.clients is not None:
            parts.append(f"{len(self.clients):,} clients")
        return f"Dataset({self.name!r}: {', '.join(parts)})"

    def scaled(self, *, standardise: bool = False) -> Dataset:
        """Return the data as models get them: images (n, channels, h, w) in [0, 1], anything else as it is.

        ``standardise`` subtracts the training set's mean and divides by its standard deviation, per channel
        (images) or per feature (vectors); whole numbers become floats then. The digest stays that of the stored data.
        """
        train = _numbers(self.x_train, self.white)
        test = _numbers(self.x_test, self.white)
        if standardise:
            train = train.astype(np.float32, copy=False)
            test = test.astype(np.float32, copy=False)
            axes = (0, 2, 3) if train.ndim == 4 else (0,)
            mean = train.mean(axis=axes, keepdims=True, dtype=np.float64).astype(np.float32)
            spread = train.std(axis=axes, keepdims=True, dtype=np.float64).astype(np.float32)
            spread[spread == 0] = 1  # a constant pixel or feature says nothing; it becomes 0
            train = (train - mean) / spread
            test = (test - mean) / spread
        return replace(self, x_train=train, x_test=test, treatment=self.described_inputs(standardise=standardise))

    def prepared(self, *, standardise: bool = False) -> Dataset:
        """Return what a simulation takes: :meth:`scaled`, except that many images are left for the learner to scale."""
        has_many_images = is_image(self.x_train) and self.x_train.size > BYTES
        if has_many_images and not standardise:
            return self
        return self.scaled(standardise=standardise)

    def described_inputs(self, *, standardise: bool = False) -> str:
        """Say what the examples are and what is done to them before a model gets them."""
        if self.treatment:
            return self.treatment
        x = self.x_train
        shape = f"shape {x.shape[1:]}"
        if is_image(x):
            words = f"images (uint8) of {shape}, divided by {self.white}"
        elif x.dtype.kind == "f":
            words = f"numbers ({x.dtype}) of {shape}"
        else:
            words = f"whole numbers ({x.dtype}) from {x.min()} to {x.max()} of {shape}"
        if standardise:
            return f"{words}, standardised"
        return words if is_image(x) else f"{words}, as they are"

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What a reader may not expect of the images and labels, in sentences."""
        train_counts = np.bincount(self.y_train, minlength=self.classes)
        test_counts = np.bincount(self.y_test, minlength=self.classes)
        notes = self._notes_on_channels()
        labels_without_examples = np.flatnonzero(train_counts + test_counts == 0)
        if labels_without_examples.size:
            n_used = self.classes - labels_without_examples.size
            notes.append(
                f"{self.name} has {self.classes:,} classes, labels 0 … {self.classes - 1}, but examples of only "
                f"{n_used:,} (none of {_first_three(labels_without_examples)}). If this is not meant, number the "
                "labels from 0 without gaps."
            )
        untrained_labels = np.flatnonzero((train_counts == 0) & (test_counts > 0))
        if untrained_labels.size:
            notes.append(
                f"{test_counts[untrained_labels].sum():,} of {len(self.y_test):,} test examples of {self.name} have "
                f"labels that no training example has ({_first_three(untrained_labels)})."
            )
        return tuple(notes)

    def _notes_on_channels(self) -> list[str]:
        """Note images of many channels with a side of one, three or four pixels: their axes may be in another order."""
        if not is_image(self.x_train) and self.x_train.dtype.kind != "f":
            return []
        shape = _channels_first(self.x_train).shape[1:]
        if len(shape) != 3 or shape[0] in CHANNELS or not set(shape[1:]) & set(CHANNELS):
            return []
        return [
            f"{self.name} has images of {shape[0]} channels, {shape[1]} × {shape[2]} pixels each. If this is not "
            "meant: uint8 images have their channels last, (n, h, w, channels), and floats first, (n, channels, h, w)."
        ]

    @property
    def client_notes(self) -> tuple[str, ...]:
        """What the clients that come with the data leave out, in sentences."""
        held_rows = np.concatenate([*(self.clients or ()), *(self.validation or ()), np.empty(0, np.int64)])
        return tuple(notes_on_unheld(np.unique(held_rows).size, len(self.y_train)))

    @property
    def given_labels(self) -> Ids:
        """The labels in the order in which a user gave the examples, with those that are held out for testing."""
        if self.given_rows is None:
            return self.y_train
        train_rows, test_rows = self.given_rows
        labels = np.empty(len(self.y_train) + len(self.y_test), np.int64)
        labels[train_rows] = self.y_train
        labels[test_rows] = self.y_test
        return labels

    @property
    def inputs(self) -> tuple[Array, Array]:
        """Training and test examples as models take them: images as (n, channels, h, w), anything else as it is."""
        if not is_image(self.x_train):
            return self.x_train, self.x_test
        return _channels_first(self.x_train), _channels_first(self.x_test)

    def _check_indices(self, part: str) -> None:
        """Check the index arrays of all clients and freeze them."""
        indices_by_client = getattr(self, part)
        if indices_by_client is None:
            return
        frozen_indices = tuple(frozen(as_whole(f"{self.name}.{part}", indices)) for indices in indices_by_client)
        rows = np.concatenate([*frozen_indices, np.empty(0, np.int64)])
        if rows.size and not 0 <= rows.min() <= rows.max() < len(self.y_train):
            raise bad(f"{self.name}.{part}", f"indices of the {len(self.y_train)} training examples", rows)
        object.__setattr__(self, part, frozen_indices)

    def _arrays(self) -> dict[str, Array]:
        arrays = {key: getattr(self, key) for key in ("x_train", "y_train", "x_test", "y_test")}
        for part in ("clients", "validation"):
            arrays |= {f"{part}/{k}": indices for k, indices in enumerate(getattr(self, part) or ())}
        if self.features is not None:
            arrays["features"] = self.features
        return arrays


def notes_on_unheld(held: int, examples: int) -> list[str]:
    """Note how many training examples no client holds, where there are some."""
    n_unheld = examples - held
    if not n_unheld:
        return []
    return [f"{n_unheld:,} of {examples:,} training examples are held by no client, and are not used."]


def _first_three(labels: Ids) -> str:
    words = ", ".join(map(str, labels[:3]))
    if labels.size > 3:
        words += ", …"
    return words


def arrays_digest(arrays: dict[str, Array]) -> str:
    """Return the SHA-256 of named arrays; shapes and types count, byte order and memory layout do not."""
    digest = hashlib.sha256()
    for key, array in arrays.items():
        little_endian = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        digest.update(f"{key} {little_endian.dtype.str} {little_endian.shape};".encode())
        digest.update(little_endian.data)
    return digest.hexdigest()


def _check_examples(who: str, x: Array, y: Array, classes: int) -> None:
    if x.ndim < 2 or len(x) == 0:
        raise bad(f"{who}: x", "of shape (examples, …), with at least one example", x.shape)
    if x.dtype.kind not in "uif":
        raise bad(f"{who}: x", "finite numbers", x.dtype)
    if not _all_finite(x):
        raise bad(f"{who}: x", "finite numbers", "NaN, infinity or above 3e38")
    if y.shape != (len(x),) or y.dtype.kind not in "iu":
        raise bad(f"{who}: y", f"{len(x)} whole numbers, one label per example", f"{y.dtype} of shape {y.shape}")
    if classes > MOST_CLASSES:
        raise bad(f"{who}: y", f"of at most {MOST_CLASSES:,} classes", f"{classes:,}", "Number the labels from 0 on.")
    if y.min() < 0 or y.max() >= classes:
        raise bad(f"{who}: y", f"labels in 0 … {classes - 1}", f"{y.min()} … {y.max()}")


def _all_finite(x: Array) -> bool:
    """Whether all numbers are finite as float32; otherwise the smallest or the largest is not."""
    if x.dtype.kind != "f" or x.size == 0:
        return True
    with np.errstate(over="ignore"):
        return bool(np.isfinite(np.array([x.min(), x.max()]).astype(np.float32)).all())


def is_image(x: Array) -> bool:
    """Whether these are images that are scaled: bytes of shape (n, h, w) or (n, h, w, channels)."""
    return x.dtype == np.uint8 and x.ndim in (3, 4)


def _kind(x: Array) -> str:
    """Return the kind of examples: images are scaled, floats and whole numbers are not."""
    if is_image(x):
        return "images"
    return "floats" if x.dtype.kind == "f" else "whole numbers"


def _numbers(x: Array, white: int) -> Array:
    """Return images as (n, channels, h, w) divided by the value of white, floats as float32, others as int64."""
    if is_image(x):
        scaled = _channels_first(x).astype(np.float32, order="C")  # then in place: a product of both types is slower
        scaled *= np.float32(1 / white)
        return scaled
    if x.dtype.kind == "f":
        return np.ascontiguousarray(_channels_first(x), dtype=np.float32)
    return x.astype(np.int64)


def _channels_first(x: Array) -> Array:
    """Return images (n, h, w) or (n, h, w, channels) as a view (n, channels, h, w); floats have channels first."""
    if x.ndim == 3:
        return x[:, None]
    if x.ndim == 4 and x.dtype.kind in "iu":
        return np.moveaxis(x, -1, 1)
    return x
