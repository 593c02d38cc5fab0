"""Reads a trace file: CSV or Parquet with named columns, or a 0/1 matrix of rounds × clients."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sortition.availability._events import Events, from_intervals, from_transitions
from sortition.availability._mode import Mask
from sortition.core.arrays import Array, Floats
from sortition.core.errors import DataError, InputError, bad, printable
from sortition.core.storage.npz import read_npy, read_npz
from sortition.core.storage.snapshot import UNREADABLE

if TYPE_CHECKING:
    import polars as pl

WHO = "availability trace"
COLUMNS = ("client_id", "start", "end", "time", "state")
COMPRESSED = (
    b"\x1f\x8b",
    b"BZh",
    b"\xfd7zXZ",
    b"\x28\xb5\x2f\xfd",
    b"PK\x03\x04",
    b"\x78\x9c",
    b"\x78\x01",
    b"\x78\xda",
)
ON = ("1", "true", "on", "online", "available")
OFF = ("0", "false", "off", "offline", "unavailable")


def read_trace(path: Path, clients: int, notes: list[str]) -> Events | Mask:
    """Read the events of a trace, or the (rounds, clients) matrix where the file is one."""
    if not path.is_file():
        raise bad(f"{WHO}.path", "a file", str(path))
    try:
        if path.suffix in (".npy", ".npz"):
            return as_matrix(_read_array(path), clients)
        table = read_table(path, COLUMNS)
    except InputError:
        raise
    except UNREADABLE as error:
        raise DataError(f"{path} cannot be read as a trace: {error}.") from error
    if not _has_trace_columns(table):
        matrix = _read_plain_numbers(path)
        if matrix is not None:
            return as_matrix(matrix, clients)
    return from_table(table, clients, notes)


def from_table(table: pl.DataFrame, clients: int, notes: list[str]) -> Events:
    """Return the events of a table ``client_id, start, end`` or ``client_id, time, state``."""
    if not _has_trace_columns(table):
        hint = "A matrix of 0 and 1 has no header, commas between its numbers, and rows of one length."
        raise bad(f"{WHO} columns", "client_id, start, end or client_id, time, state", ", ".join(table.columns), hint)
    table = table.filter(_names_a_client(table["client_id"], clients, notes))
    ids = table["client_id"].cast(int).to_numpy()
    n_absent = clients - len(np.unique(ids))
    if n_absent:
        notes.append(f"{n_absent} of {clients} clients are not in the trace and are never reachable.")
    if {"start", "end"} <= set(table.columns):
        starts = _moments(table["start"], notes)
        ends = _moments(table["end"], notes)
        return from_intervals(ids, starts=starts, ends=ends, clients=clients, notes=notes)
    times = _moments(table["time"], notes)
    states = _states(table["state"])
    return from_transitions(ids, times=times, states=states, clients=clients, notes=notes)


def _has_trace_columns(table: pl.DataFrame) -> bool:
    """Tell whether a table has the columns of a trace."""
    columns = set(table.columns)
    return {"client_id", "start", "end"} <= columns or {"client_id", "time", "state"} <= columns


def as_matrix(values: npt.ArrayLike, clients: int) -> Mask:
    """Return zeros and ones as a (rounds, clients) matrix of bool."""
    try:
        matrix: Array = np.asarray(values)
    except ValueError:
        raise bad(f"{WHO} matrix", f"of shape (rounds, {clients})", "rows of different lengths") from None
    if matrix.ndim != 2 or matrix.shape[1] != clients or len(matrix) == 0:
        raise bad(f"{WHO} matrix", f"of shape (rounds, {clients})", matrix.shape)
    if matrix.dtype.kind not in "buif" or not np.isin(matrix, (0, 1)).all():
        raise bad(f"{WHO} matrix", "made of 0 and 1", matrix)
    return matrix.astype(bool)


def _read_array(path: Path) -> Array:
    """Read the array of an npy file, or the first of an npz file."""
    if path.suffix == ".npy":
        return read_npy(path)
    return next(iter(read_npz(path).values()), np.empty(0))


def read_table(path: Path, columns: Collection[str] | None = None) -> pl.DataFrame:
    """Read a CSV file, or of a Parquet file these columns; no such table, a compressed or endless one: ValueError."""
    try:
        import polars as pl
    except ImportError as error:
        raise DataError("Reading a trace needs polars: pip install 'sortition[lab]'.") from error
    try:
        if path.suffix == ".parquet":
            from sortition.data.parquet import read_parquet

            return read_parquet(path, columns)
        with path.open("rb") as file:
            if file.read(6).startswith(COMPRESSED):
                raise ValueError("it is compressed; unpack it first")
        return pl.read_csv(path, infer_schema_length=None, glob=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise ValueError(str(error).splitlines()[0]) from error


def _read_plain_numbers(path: Path) -> Array | None:
    """Read numbers without a header; None if the file is something else."""
    try:
        return np.loadtxt(path, delimiter=",", ndmin=2)
    except ValueError:
        return None


def _names_a_client(ids: pl.Series, clients: int, notes: list[str]) -> pl.Series:
    """Return which rows name one of the clients 0 … N − 1."""
    whole_ids = ids.cast(int, strict=False)
    is_in_range = ((whole_ids >= 0) & (whole_ids < clients)).fill_null(False)
    is_whole = (whole_ids.cast(float) == ids.cast(float, strict=False)).fill_null(False)
    is_known = is_in_range & is_whole
    unknown_ids = ids.filter(~is_known).unique(maintain_order=True).to_list()
    if unknown_ids:
        examples = ", ".join(printable(str(client)) for client in unknown_ids[:3])
        if len(unknown_ids) > 3:
            examples += ", …"
        notes.append(f"{len(unknown_ids)} unknown clients ({examples}) were left out.")
    if not is_known.any():
        raise bad(f"{WHO} client_id", f"in 0 … {clients - 1}", "no known client")
    return is_known


def _moments(column: pl.Series, notes: list[str]) -> Floats:
    """Return numbers as they are, and dates as seconds since 1970 in UTC, whatever their zone."""
    if column.dtype.is_numeric():
        values = column.cast(float)
    else:
        values = _dates(column, notes).dt.epoch("us").cast(float) / 1e6
    if values.null_count() or not values.is_finite().all():
        faulty_rows = f"{values.null_count()} rows without one"
        raise bad(f"{WHO}.{column.name}", "a number or a date in every row", faulty_rows)
    return values.to_numpy()


def _dates(column: pl.Series, notes: list[str]) -> pl.Series:
    """Return a column of dates, or of texts that are dates, as dates."""
    import polars as pl

    if column.dtype == pl.String:
        has_zone = column.str.contains(r"(Z|[+-]\d\d:?\d\d)$").fill_null(False)
        if not has_zone.all():
            n_naive = int((~has_zone).sum())
            notes.append(f"{column.name}: {n_naive} dates have no time zone and were read as UTC.")
        zoned_texts = pl.select(pl.when(has_zone).then(column).otherwise(column + "Z")).to_series()
        return zoned_texts.str.replace("Z$", "+00:00").str.to_datetime(time_zone="UTC", strict=False)
    if not column.dtype.is_temporal():
        raise bad(f"{WHO}.{column.name}", "numbers or dates", str(column.dtype))
    if column.dtype == pl.Date:
        return column.cast(pl.Datetime("us", "UTC"))
    return column


def _states(column: pl.Series) -> Mask:
    """Return which rows say that the client is on."""
    words = column.cast(str).str.to_lowercase()
    unknown_words = words.filter(~words.is_in([*ON, *OFF]).fill_null(False))
    if len(unknown_words):
        raise bad(f"{WHO}.state", "0 or 1, true or false, on or off", unknown_words[0])
    return words.is_in(list(ON)).to_numpy().astype(bool)
