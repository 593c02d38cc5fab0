"""A-level chemistry in England, 1997 (Chem97 of the R package mlmRev): clients are schools, the task a pupil's score.

31,022 pupils of 2,410 schools, 1 to 188 each (median 8). Six scores from three features: the mean of earlier exams
(GCSE), age and gender.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np

from sortition.core.errors import DataError
from sortition.data.dataset import Dataset
from sortition.data.natural import by_client
from sortition.data.natural_sets._entry import Arrays, NaturalEntry, find_file


def decode(folder: Path) -> Arrays:
    """Read ``features`` (n, 3) float64, ``score`` (n,) uint8 and ``school`` (n,) int32 of R's lazy-load data base."""
    try:
        import rdata
    except ImportError as error:
        raise DataError("Reading Chem97 needs rdata: pip install 'sortition[chem97]'.") from error
    index = find_file(folder, "Rdata.rdx")
    variables = rdata.conversion.convert(rdata.parser.parse_data(index.read_bytes()))["variables"]
    start, size = (int(value) for value in variables["Chem97"])
    packed = index.with_suffix(".rdb").read_bytes()[start + 4 : start + size]
    table = rdata.conversion.convert(rdata.parser.parse_data(zlib.decompress(packed)))
    is_male = table.gender.astype(str) == "M"
    return {
        "features": np.stack([table.gcsescore, table.age, is_male], 1).astype("<f8"),
        "score": (table.score.to_numpy() / 2).astype(np.uint8),
        "school": table.school.astype(str).astype(int).to_numpy().astype("<i4"),
    }


def make(arrays: Arrays, *, test: float = 0.2, seed: int = 0) -> Dataset:
    """Make a federation of schools; features are standardised over all pupils."""
    x = arrays["features"]
    x = ((x - x.mean(axis=0)) / x.std(axis=0)).astype(np.float32)
    return by_client(x, arrays["score"], arrays["school"], name="chem97", test=test, seed=seed)


ENTRY = NaturalEntry(
    name="chem97",
    title="A-level chemistry 1997 by school: 2,410 clients, 6 scores",
    licence="GPL-2+ (the R package's)",
    package="apt:r-cran-mlmrev",
    file="Rdata.rdb and Rdata.rdx of the R package mlmRev",
    sha256={
        "features": "837a67451f3358d0689eccf2f1ffa8be2e02ec3d1a43b2bde8c0eaeb13a268fa",
        "score": "9c4acc92bc6aa937649ffd06c8ea95afdf5d70e1c3e57781156a88e503a90c53",
        "school": "fb4bea78661defd2ab27119f4a1cc3ee001c3b03be8e3a6e5fc6d4d0c69b0590",
    },
    decode=decode,
    make=make,
)
