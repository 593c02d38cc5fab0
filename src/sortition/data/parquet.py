"""Tables from untrusted Parquet files: only the columns that are wanted, and no more memory than is sensible.

A Parquet file stores a number that repeats once: a kilobyte can hold any number of rows and columns of it. Whether a
file is too large is decided from its foot and the headers of its pages, before anything is unpacked; a column that
nobody asked for, of whatever type, is not read at all. Lists are read only where they are wanted by name.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from sortition.data.parquet_pages import measure_unpacked

if TYPE_CHECKING:
    import polars as pl

ALWAYS_ALLOWED = 1 << 30  # bytes that any file may unpack to
LARGEST_RATIO = 20  # beyond that, so many times its own size: numbers that differ shrink to a half or a tenth
WIDEST = 16  # bytes of a cell, at most: a text is held as so many bytes beside its letters


def read_parquet(
    path: Path,
    columns: Collection[str] | None = None,
    *,
    lists: Collection[str] = (),
    allowed: int | None = None,
) -> pl.DataFrame:
    """Read columns of a Parquet file, those that it has; refuse one that would take too much memory.

    Args:
        path: of the file.
        columns: the wanted ones; None for all.
        lists: those of the wanted columns that may hold lists.
        allowed: bytes that the file may unpack to, whatever its size; None for ``ALWAYS_ALLOWED``.

    Raises:
        ValueError: where the file announces too much, or a wanted column holds lists or tables.
        polars.exceptions.PolarsError: where it is no Parquet file.
    """
    import polars as pl  # here, since those who read other files need none of it

    if not path.is_file():  # a pipe never begins, a device never ends
        raise ValueError("it is not a file")
    table = pl.scan_parquet(path, glob=False)
    schema = table.collect_schema()
    read_columns = [column for column in schema if columns is None or column in columns]
    for column in read_columns:
        if schema[column].is_nested() and column not in lists:
            raise ValueError(f"its column {column[:99]!r} holds {schema[column]}, not numbers or texts")
    n_rows = table.select(pl.len()).collect().item()  # read from the foot
    contents = measure_unpacked(path, read_columns)
    n_values = max(n_rows * len(read_columns), contents.n_values)
    n_bytes = n_values * WIDEST + contents.n_bytes
    if allowed is None:
        allowed = ALWAYS_ALLOWED
    limit = max(allowed, LARGEST_RATIO * path.stat().st_size)
    if n_bytes > limit:
        raise ValueError(
            f"it announces {n_rows:,} rows of {len(read_columns):,} columns with {n_values:,} values, "
            f"up to {n_bytes:,} bytes, more than the {limit:,} that its size allows"
        )
    return table.select(read_columns).collect()
