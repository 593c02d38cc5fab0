"""A data set as the simulator sees it: arrays, and which client holds which examples where it comes already split."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from sortition.core.arrays import Array, Floats, Ids, as_read_only, as_whole_numbers
from sortition.core.errors import bad
from sortition.core.inputs import Examples, Inputs, shape_of

CHANNELS = (1, 3, 4)  # grey, colour, colour with transparency
ORDER_OF_CHANNELS = "uint8 images have their channels last, (n, h, w, channels), and floats first, (n, channels, h, w)"
BYTES = 1 << 24  # images of more numbers are scaled batch by batch: as floats they fill four times the memory
AXES_OF_A_FEATURE = {3: (0, 1), 4: (0, 2, 3)}  # over which one feature runs: in (n, T, F), in (n, channels, h, w)
MOST_CLASSES = 1_000_000  # a model has a row of numbers for each


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test examples; images stay compact (uint8) until :meth:`scaled`, or until a batch is made of them.

    One rule says what models get. Images are ``uint8`` of shape (n, h, w) or (n, h, w, channels): they are divided by
    ``white`` and their channels go first. Anything else reaches the model as it is: floats as float32, and whole
    numbers (tokens, counts, codes) as int64, or as float32 where the model does not take whole numbers. The rule holds
    for each array of examples that have several.

    Attributes:
        name: what it is called in a configuration.
        x_train: (n, …) images as uint8, or numbers of any other type or shape; or several such arrays.
        y_train: (n,) labels, int64 in 0 … classes − 1; or (n, …) targets that are no labels, float32 or int64.
        x_test: (m, …) like ``x_train``.
        y_test: (m, …) like ``y_train``.
        classes: number of labels; 0 for targets that are no labels.
        float_labels: whether the labels were given as floats, so that they may be meant as numbers.
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
    x_train: Examples
    y_train: Array
    x_test: Examples
    y_test: Array
    classes: int
    clients: tuple[Ids, ...] | None = None
    features: Floats | None = None
    validation: tuple[Ids, ...] | None = None
    white: int = 255
    given_rows: tuple[Ids, Ids] | None = None
    held_out: str = ""
    treatment: str = ""
    float_labels: bool = False
    digest: str = field(default="")

    def __post_init__(self) -> None:
        for split in ("train", "test"):
            subject = f"{self.name}.{split}"
            x = _checked_inputs(f"{subject}: x", getattr(self, f"x_{split}"))
            y = _checked_targets(f"{subject}: y", np.asarray(getattr(self, f"y_{split}")), len(x), self.classes)
            object.__setattr__(self, f"x_{split}", x)
            object.__setattr__(self, f"y_{split}", as_read_only(y))
        _check_alike(self.name, self.x_train, self.x_test)
        if self.y_train.shape[1:] != self.y_test.shape[1:] or self.y_train.dtype != self.y_test.dtype:
            rule = f"like y_train, {self.y_train.dtype} of shape {self.y_train.shape[1:]} each"
            raise bad(f"{self.name}.y_test", rule, f"{self.y_test.dtype} of shape {self.y_test.shape[1:]}")
        for part in ("clients", "validation"):
            self._check_indices(part)
        if not self.digest:
            object.__setattr__(self, "digest", arrays_digest(self._arrays()))

    def __repr__(self) -> str:
        """Say how many examples of what shape there are; do not list them."""
        shape = shape_of(self.x_train)
        parts = [
            f"{len(self.y_train):,} training and {len(self.y_test):,} test examples of shape {shape}",
            f"{self.classes:,} classes" if self.classes else self.describe_targets(),
        ]
        if self.clients is not None:
            parts.append(f"{len(self.clients):,} clients")
        return f"Dataset({self.name!r}: {', '.join(parts)})"

    def scaled(self, *, standardise: bool = False) -> Dataset:
        """Return the data as models get them: images (n, channels, h, w) in [0, 1], anything else as it is.

        ``standardise`` subtracts the training set's mean and divides by its standard deviation, per channel (images)
        or per feature (vectors, and sequences (n, T, F)); whole numbers become floats then. The digest stays that of
        the stored data.
        """
        if isinstance(self.x_train, Inputs) or isinstance(self.x_test, Inputs):
            return self._scale_each(standardise=standardise)
        train = _as_model_numbers(self.x_train, self.white)
        test = _as_model_numbers(self.x_test, self.white)
        if standardise:
            train = train.astype(np.float32, copy=False)
            test = test.astype(np.float32, copy=False)
            axes = AXES_OF_A_FEATURE.get(train.ndim, (0,))
            mean = train.mean(axis=axes, keepdims=True, dtype=np.float64).astype(np.float32)
            spread = train.std(axis=axes, keepdims=True, dtype=np.float64).astype(np.float32)
            spread[spread == 0] = 1  # a constant pixel or feature says nothing; it becomes 0
            train = (train - mean) / spread
            test = (test - mean) / spread
        return replace(self, x_train=train, x_test=test, treatment=self.describe_inputs(standardise=standardise))

    def _scale_each(self, *, standardise: bool) -> Dataset:
        """Return the data with each array as models get it."""
        if standardise:
            raise bad(f"{self.name}: standardise", "false for examples of several arrays", True, "Scale them yourself.")

        def convert(examples: Examples) -> Examples:
            if isinstance(examples, Inputs):
                return examples.map(lambda array: _as_model_numbers(array, self.white))
            return _as_model_numbers(examples, self.white)

        train = convert(self.x_train)
        test = convert(self.x_test)
        return replace(self, x_train=train, x_test=test, treatment=self.describe_inputs())

    def prepared(self, *, standardise: bool = False) -> Dataset:
        """Return what a simulation takes: :meth:`scaled`, except that many images are left for the learner to scale."""
        x = self.x_train
        has_many_images = not isinstance(x, Inputs) and is_image(x) and x.size > BYTES
        if has_many_images and not standardise:
            return self
        return self.scaled(standardise=standardise)

    def as_numbers(self) -> Dataset:
        """Return the same data with targets as float32 numbers in place of labels; the digest stays."""
        return replace(
            self,
            y_train=self.y_train.astype(np.float32),
            y_test=self.y_test.astype(np.float32),
            classes=0,
        )

    def describe_inputs(self, *, standardise: bool = False) -> str:
        """Say what the examples are and what is done to them before a model gets them."""
        if self.treatment:
            return self.treatment
        x = self.x_train
        if isinstance(x, Inputs):
            described = [f"{name}: {_describe_array(array, self.white)}" for name, array in x.arrays.items()]
            return "; ".join(described)
        return _describe_array(x, self.white, standardise=standardise)

    def describe_targets(self) -> str:
        """Say what the targets are."""
        if self.classes:
            return f"labels 0 … {self.classes - 1}"
        if self.y_train.ndim == 1:
            return f"numbers ({self.y_train.dtype}), one per example"
        return f"numbers ({self.y_train.dtype}) of shape {self.y_train.shape[1:]}"

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What a reader may not expect of the images and labels, in sentences."""
        if not self.classes:
            return tuple(self._notes_on_channels())
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
        x = self.x_train
        if isinstance(x, Inputs) or (not is_image(x) and x.dtype.kind != "f"):
            return []
        shape = _channels_first(x).shape[1:]
        if not are_channels_doubtful(shape):
            return []
        return [
            f"{self.name} has images of {shape[0]} channels, {shape[1]} × {shape[2]} pixels each. If this is not "
            f"meant: {ORDER_OF_CHANNELS}."
        ]

    @property
    def client_notes(self) -> tuple[str, ...]:
        """What the clients that come with the data leave out, in sentences."""
        held_rows = np.concatenate([*(self.clients or ()), *(self.validation or ()), np.empty(0, np.int64)])
        return tuple(note_unheld(np.unique(held_rows).size, len(self.y_train)))

    @property
    def given_labels(self) -> Array:
        """The labels in the order in which a user gave the examples, with those that are held out for testing."""
        if self.given_rows is None:
            return self.y_train
        train_rows, test_rows = self.given_rows
        shape = (len(self.y_train) + len(self.y_test), *self.y_train.shape[1:])
        labels = np.empty(shape, self.y_train.dtype)
        labels[train_rows] = self.y_train
        labels[test_rows] = self.y_test
        return labels

    @property
    def inputs(self) -> tuple[Examples, Examples]:
        """Training and test examples as models take them: images as (n, channels, h, w), anything else as it is."""
        train = self.x_train
        test = self.x_test
        if isinstance(train, Inputs) or isinstance(test, Inputs) or not is_image(train):
            return train, test
        return _channels_first(train), _channels_first(test)

    def _check_indices(self, part: str) -> None:
        """Check the index arrays of all clients and freeze them."""
        indices_by_client = getattr(self, part)
        if indices_by_client is None:
            return
        frozen_indices = tuple(
            as_read_only(as_whole_numbers(f"{self.name}.{part}", indices)) for indices in indices_by_client
        )
        rows = np.concatenate([*frozen_indices, np.empty(0, np.int64)])
        if rows.size and not 0 <= rows.min() <= rows.max() < len(self.y_train):
            raise bad(f"{self.name}.{part}", f"indices of the {len(self.y_train)} training examples", rows)
        object.__setattr__(self, part, frozen_indices)

    def _arrays(self) -> dict[str, Array]:
        arrays: dict[str, Array] = {}
        for key in ("x_train", "y_train", "x_test", "y_test"):
            value = getattr(self, key)
            if isinstance(value, Inputs):
                arrays |= {f"{key}/{name}": array for name, array in value.arrays.items()}
            else:
                arrays[key] = value
        for part in ("clients", "validation"):
            arrays |= {f"{part}/{k}": indices for k, indices in enumerate(getattr(self, part) or ())}
        if self.features is not None:
            arrays["features"] = self.features
        return arrays


def are_channels_doubtful(shape: tuple[int, ...]) -> bool:
    """Tell whether an image (channels, h, w) has many channels and a side of one, three or four pixels."""
    return len(shape) == 3 and shape[0] not in CHANNELS and bool(set(shape[1:]) & set(CHANNELS))


def note_unheld(held: int, examples: int) -> list[str]:
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


def _checked_inputs(subject: str, x: Examples) -> Examples:
    """Return examples as frozen arrays, each of finite numbers."""
    if isinstance(x, Inputs):
        arrays = {name: _checked_array(f"{subject}.{name}", array, least_axes=1) for name, array in x.arrays.items()}
        return Inputs(arrays, x.by_name)
    return _checked_array(subject, np.asarray(x), least_axes=2)


def _checked_array(subject: str, x: Array, *, least_axes: int) -> Array:
    if x.ndim < least_axes or len(x) == 0:
        raise bad(subject, "of shape (examples, …), with at least one example", x.shape)
    if x.dtype.kind not in "uif":
        raise bad(subject, "finite numbers", x.dtype)
    if not _all_finite(x):
        raise bad(subject, "finite numbers", "NaN, infinity or above 3e38")
    return as_read_only(np.ascontiguousarray(x))


def _checked_targets(subject: str, y: Array, examples: int, classes: int) -> Array:
    """Return labels as int64; targets that are no labels as float32 or int64."""
    if not classes:
        if y.ndim == 0 or len(y) != examples or y.dtype.kind not in "iuf":
            raise bad(subject, f"{examples} targets, one per example", f"{y.dtype} of shape {y.shape}")
        if not _all_finite(y):
            raise bad(subject, "finite numbers", "NaN, infinity or above 3e38")
        return np.ascontiguousarray(y, dtype=np.float32 if y.dtype.kind == "f" else np.int64)
    if y.shape != (examples,) or y.dtype.kind not in "iu":
        raise bad(subject, f"{examples} whole numbers, one label per example", f"{y.dtype} of shape {y.shape}")
    if classes > MOST_CLASSES:
        raise bad(subject, f"of at most {MOST_CLASSES:,} classes", f"{classes:,}", "Number the labels from 0 on.")
    if y.min() < 0 or y.max() >= classes:
        raise bad(subject, f"labels in 0 … {classes - 1}", f"{y.min()} … {y.max()}")
    return np.ascontiguousarray(y, dtype=np.int64)


def _check_alike(name: str, train: Examples, test: Examples) -> None:
    """Refuse test examples of another shape or kind than the training examples."""
    if shape_of(train) != shape_of(test):
        raise bad(f"{name}.x_test", f"of examples shaped {shape_of(train)}", shape_of(test))
    train_arrays = train.arrays if isinstance(train, Inputs) else {"": train}
    test_arrays = test.arrays if isinstance(test, Inputs) else {"": test}
    for key, array in train_arrays.items():
        if _kind(array) != _kind(test_arrays[key]):
            rule = f"like x_train, of type {array.dtype}"  # images are scaled, anything else is not
            raise bad(f"{name}.x_test", rule, test_arrays[key].dtype, "Give both in the same type.")


def _all_finite(x: Array) -> bool:
    """Tell whether all numbers are finite as float32; otherwise the smallest or the largest is not."""
    if x.dtype.kind != "f" or x.size == 0:
        return True
    with np.errstate(over="ignore"):
        return bool(np.isfinite(np.array([x.min(), x.max()]).astype(np.float32)).all())


def is_image(x: Array) -> bool:
    """Tell whether these are images that are scaled: bytes of shape (n, h, w) or (n, h, w, channels)."""
    return x.dtype == np.uint8 and x.ndim in (3, 4)


def _describe_array(x: Array, white: int, *, standardise: bool = False) -> str:
    """Say what an array of examples is and what is done to it before a model gets it."""
    shape = f"shape {x.shape[1:]}"
    if is_image(x):
        words = f"images (uint8) of {shape}, divided by {white}"
    elif x.dtype.kind == "f":
        words = f"numbers ({x.dtype}) of {shape}"
    else:
        words = f"whole numbers ({x.dtype}) from {x.min()} to {x.max()} of {shape}"
    if standardise:
        return f"{words}, standardised"
    return words if is_image(x) else f"{words}, as they are"


def _kind(x: Array) -> str:
    """Return the kind of examples: images are scaled, floats and whole numbers are not."""
    if is_image(x):
        return "images"
    return "floats" if x.dtype.kind == "f" else "whole numbers"


def _as_model_numbers(x: Array, white: int) -> Array:
    """Return images as (n, channels, h, w) divided by the value of white, floats as float32, others as int64."""
    if is_image(x):
        scaled = _channels_first(x).astype(np.float32, order="C")  # then in place: a product of both types is slower
        scaled *= np.float32(1 / white)
        return scaled
    if x.dtype.kind == "f":
        return np.ascontiguousarray(x, dtype=np.float32)
    return x.astype(np.int64)


def _channels_first(x: Array) -> Array:
    """Return images (n, h, w) or (n, h, w, channels) as a view (n, channels, h, w); floats stay as they are."""
    if x.ndim == 3 and x.dtype.kind in "iu":
        return x[:, None]
    if x.ndim == 4 and x.dtype.kind in "iu":
        return np.moveaxis(x, -1, 1)
    return x
