"""A data set as the simulator sees it: arrays, and where it comes already split over clients, who holds what."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from sortition.core.arrays import Array, Floats, Ids, as_whole, frozen
from sortition.core.errors import bad

CHANNELS = (1, 3, 4)  # grey, colour, colour with transparency
BYTES = 1 << 24  # images of more numbers are scaled batch by batch: as floats they fill four times the memory


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
        features: (N, d) one vector per client, where the data's makers know one (synthetic: the local optimum).
        validation: index arrays into ``x_train``, one per client, where the released split holds some back.
        white: the pixel value of images that :meth:`scaled` maps to 1.
        given_rows: where training and test examples stood in the data that somebody gave in one piece, and that were
            split here: two arrays of rows; None where the data came with a test set.
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
            x, y = np.asarray(getattr(self, f"x_{split}")), np.asarray(getattr(self, f"y_{split}"))
            _check(f"{self.name}.{split}", x, y, self.classes)
            object.__setattr__(self, f"x_{split}", frozen(np.ascontiguousarray(x)))
            object.__setattr__(self, f"y_{split}", frozen(np.ascontiguousarray(y, dtype=np.int64)))
        if self.x_train.shape[1:] != self.x_test.shape[1:]:
            raise bad(f"{self.name}.x_test", f"of examples shaped {self.x_train.shape[1:]}", self.x_test.shape[1:])
        if _treated_alike(self.x_train) != _treated_alike(self.x_test):
            rule = f"like x_train, of type {self.x_train.dtype}"  # images are scaled, anything else is not
            raise bad(f"{self.name}.x_test", rule, self.x_test.dtype, "Give both in the same type.")
        for part in ("clients", "validation"):
            self._check_indices(part)
        if not self.digest:
            object.__setattr__(self, "digest", arrays_digest(self._arrays()))

    def __repr__(self) -> str:
        """How many examples of what shape, not the examples."""
        many = (
            f"{len(self.y_train):,} training and {len(self.y_test):,} test examples of shape {self.x_train.shape[1:]}"
        )
        own = "" if self.clients is None else f", {len(self.clients):,} clients"
        return f"Dataset({self.name!r}: {many}, {self.classes:,} classes{own})"

    def scaled(self, *, standardise: bool = False) -> Dataset:
        """The same data as models get them: images (n, channels, h, w) in [0, 1], anything else as it is.

        ``standardise`` subtracts the training set's mean and divides by its standard deviation, per channel
        (images) or per feature (vectors); whole numbers become floats then. The digest stays that of the stored data.
        """
        train, test = (_numbers(x, self.white) for x in (self.x_train, self.x_test))
        if standardise:
            train, test = train.astype(np.float32, copy=False), test.astype(np.float32, copy=False)
            axes = (0, 2, 3) if train.ndim == 4 else (0,)
            mean = train.mean(axis=axes, keepdims=True, dtype=np.float64).astype(np.float32)
            spread = train.std(axis=axes, keepdims=True, dtype=np.float64).astype(np.float32)
            spread[spread == 0] = 1  # a constant pixel or feature carries nothing; leave it at 0
            train, test = (train - mean) / spread, (test - mean) / spread
        return replace(self, x_train=train, x_test=test, treatment=self.described_inputs(standardise=standardise))

    def prepared(self, *, standardise: bool = False) -> Dataset:
        """What a world takes: :meth:`scaled`, but many images stay as they are, and a learner scales each batch."""
        many = is_image(self.x_train) and self.x_train.size > BYTES
        return self if many and not standardise else self.scaled(standardise=standardise)

    def described_inputs(self, *, standardise: bool = False) -> str:
        """What the examples are and what is done to them before a model gets them, in words."""
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
        """What a reader may not expect of the images and labels, in words."""
        train, test = (np.bincount(y, minlength=self.classes) for y in (self.y_train, self.y_test))
        notes = self._odd_channels()
        if (empty := np.flatnonzero(train + test == 0)).size:
            notes.append(
                f"{self.name} has {self.classes:,} classes, labels 0 … {self.classes - 1}, but examples of only "
                f"{self.classes - empty.size:,} (none of {_first(empty)}). If this is not meant, number the labels "
                "from 0 without gaps."
            )
        if (unseen := np.flatnonzero((train == 0) & (test > 0))).size:
            notes.append(
                f"{test[unseen].sum():,} of {len(self.y_test):,} test examples of {self.name} have labels that no "
                f"training example has ({_first(unseen)})."
            )
        return tuple(notes)

    def _odd_channels(self) -> list[str]:
        """A word on images that have many channels, and another side as long as channels are many."""
        may_be_image = is_image(self.x_train) or self.x_train.dtype.kind == "f"
        shape = _channels_first(self.x_train).shape[1:] if may_be_image else ()
        if len(shape) != 3 or shape[0] in CHANNELS or not set(shape[1:]) & set(CHANNELS):
            return []
        return [
            f"{self.name} has images of {shape[0]} channels, {shape[1]} × {shape[2]} pixels each. If this is not "
            "meant: uint8 images have their channels last, (n, h, w, channels), and floats first, (n, channels, h, w)."
        ]

    @property
    def client_notes(self) -> tuple[str, ...]:
        """What the data's own clients leave out, in words."""
        held = np.concatenate([*(self.clients or ()), *(self.validation or ()), np.empty(0, np.int64)])
        return tuple(unheld(np.unique(held).size, len(self.y_train)))

    @property
    def given_labels(self) -> Ids:
        """The labels in the order in which somebody gave the examples, with those that are held out for testing."""
        if self.given_rows is None:
            return self.y_train
        labels = np.empty(len(self.y_train) + len(self.y_test), np.int64)
        labels[self.given_rows[0]] = self.y_train
        labels[self.given_rows[1]] = self.y_test
        return labels

    @property
    def inputs(self) -> tuple[Array, Array]:
        """Training and test examples as models take them: images as (n, channels, h, w), anything else as it is."""
        if not is_image(self.x_train):
            return self.x_train, self.x_test
        return _channels_first(self.x_train), _channels_first(self.x_test)

    def _check_indices(self, part: str) -> None:
        given = getattr(self, part)
        if given is None:
            return
        indices = tuple(frozen(as_whole(f"{self.name}.{part}", one)) for one in given)
        held = np.concatenate([*indices, np.empty(0, np.int64)])
        if held.size and not 0 <= held.min() <= held.max() < len(self.y_train):
            raise bad(f"{self.name}.{part}", f"indices of the {len(self.y_train)} training examples", held)
        object.__setattr__(self, part, indices)

    def _arrays(self) -> dict[str, Array]:
        arrays = {key: getattr(self, key) for key in ("x_train", "y_train", "x_test", "y_test")}
        for part in ("clients", "validation"):
            arrays |= {f"{part}/{k}": indices for k, indices in enumerate(getattr(self, part) or ())}
        return arrays | ({} if self.features is None else {"features": self.features})


def unheld(held: int, examples: int) -> list[str]:
    """A note on training examples that no client holds, where there are some."""
    left = examples - held
    return [f"{left:,} of {examples:,} training examples are held by no client, and are not used."] if left else []


def _first(labels: Ids) -> str:
    return ", ".join(map(str, labels[:3])) + (", …" if labels.size > 3 else "")


def arrays_digest(arrays: dict[str, Array]) -> str:
    """SHA-256 of named arrays; shapes and types count, byte order and memory layout do not."""
    total = hashlib.sha256()
    for key, array in arrays.items():
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        total.update(f"{key} {little.dtype.str} {little.shape};".encode())
        total.update(little.data)
    return total.hexdigest()


MOST_CLASSES = 1_000_000  # a model has a row of numbers for each


def _check(who: str, x: Array, y: Array, classes: int) -> None:
    if x.ndim < 2 or len(x) == 0:
        raise bad(f"{who}: x", "of shape (examples, …), with at least one example", x.shape)
    if x.dtype.kind not in "uif" or not _finite(x):
        raise bad(
            f"{who}: x", "finite numbers", x.dtype if x.dtype.kind not in "uif" else "NaN, infinity or above 3e38"
        )
    if y.shape != (len(x),) or y.dtype.kind not in "iu":
        raise bad(f"{who}: y", f"{len(x)} whole numbers, one label per example", f"{y.dtype} of shape {y.shape}")
    if classes > MOST_CLASSES:
        raise bad(f"{who}: y", f"of at most {MOST_CLASSES:,} classes", f"{classes:,}", "Number the labels from 0 on.")
    if y.min() < 0 or y.max() >= classes:
        raise bad(f"{who}: y", f"labels in 0 … {classes - 1}", f"{y.min()} … {y.max()}")


def _finite(x: Array) -> bool:
    """Whether all numbers are, as float32; the smallest and the largest are not where one is not."""
    if x.dtype.kind != "f" or x.size == 0:
        return True
    with np.errstate(over="ignore"):
        return bool(np.isfinite(np.array([x.min(), x.max()]).astype(np.float32)).all())


def is_image(x: Array) -> bool:
    """Whether these are images that are scaled: bytes of shape (n, h, w) or (n, h, w, channels)."""
    return x.dtype == np.uint8 and x.ndim in (3, 4)


def _treated_alike(x: Array) -> str:
    """Examples of one kind are treated alike: images are scaled, floats and whole numbers are not."""
    if is_image(x):
        return "images"
    return "floats" if x.dtype.kind == "f" else "whole numbers"


def _numbers(x: Array, white: int) -> Array:
    """Images as (n, channels, h, w) divided by the value of white, floats as float32, whole numbers as int64."""
    if is_image(x):
        scaled = _channels_first(x).astype(np.float32, order="C")  # then in place: a product of both types is slower
        scaled *= np.float32(1 / white)
        return scaled
    if x.dtype.kind == "f":
        return np.ascontiguousarray(_channels_first(x), dtype=np.float32)
    return x.astype(np.int64)


def _channels_first(x: Array) -> Array:
    """A view of images (n, h, w) or (n, h, w, channels) as (n, channels, h, w); floats have their channels first."""
    if x.ndim == 3:
        return x[:, None]
    return np.moveaxis(x, -1, 1) if x.ndim == 4 and x.dtype.kind in "iu" else x
