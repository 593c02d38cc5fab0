"""Devices that are stated, not drawn: a row per client in a study, or a CSV file of real devices."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sortition.availability._tables import read_table
from sortition.core.errors import DataError, InputError, bad, unknown
from sortition.core.storage.snapshot import UNREADABLE
from sortition.core.validation import is_number, is_whole

if TYPE_CHECKING:
    import polars as pl

COLUMNS = ("client", "examples_per_second", "bandwidth_down", "bandwidth_up")
REQUIRED = COLUMNS[:2]
MOST_BYTES = 1 << 30  # of a file


@dataclass(frozen=True)
class Device:
    """The hardware of one client.

    Attributes:
        client: whose it is.
        examples_per_second: in training.
        bandwidth_down: bytes per second from the server; None where nothing is said of it.
        bandwidth_up: bytes per second to the server; None where nothing is said of it.
    """

    client: int
    examples_per_second: float
    bandwidth_down: float | None = None
    bandwidth_up: float | None = None


def devices_of(rows: Iterable[Mapping[str, Any]], subject: str) -> tuple[Device, ...]:
    """Return the rows of a table as devices; refuse a row that cannot be read, and a second row of one client.

    Messages call the table ``subject``.
    """
    devices: dict[int, Device] = {}
    for row in rows:
        device = _device(row, subject)
        if device.client in devices:
            raise bad(subject, "a table of one row a client", f"two rows of client {device.client}")
        devices[device.client] = device
    if not devices:
        raise bad(subject, "a table of one row or more", "none")
    return tuple(devices.values())


def read_devices(path: Path) -> tuple[Device, ...]:
    """Read a CSV or Parquet file with the columns client, examples_per_second and, where known, the bandwidths."""
    subject = "devices.trace"
    if not path.is_file():
        raise bad(subject, "a file", str(path))
    if path.stat().st_size > MOST_BYTES:
        raise bad(subject, f"a file of at most {MOST_BYTES:,} bytes", f"{path} of {path.stat().st_size:,}")
    try:
        table = read_table(path)
    except InputError:
        raise
    except UNREADABLE as error:
        raise DataError(f"{path} cannot be read as a trace of devices: {error}.") from error
    return devices_of(_rows(table, subject), subject)


def _rows(table: pl.DataFrame, subject: str) -> Iterable[dict[str, Any]]:
    """Return the rows of a file's known columns; an empty field is left out of its row."""
    for column in table.columns:
        if column not in COLUMNS:
            raise unknown("column", column, COLUMNS, subject)
    for column in REQUIRED:
        if column not in table.columns:
            columns = ", ".join(table.columns)
            raise bad(subject, f"a table with the column {column}", columns, f"The columns are {', '.join(COLUMNS)}.")
    for row in table.iter_rows(named=True):
        yield {name: value for name, value in row.items() if value is not None}


def _device(row: Mapping[str, Any], subject: str) -> Device:
    """Return one row as a device."""
    for key in row:
        if key not in COLUMNS:
            raise unknown("key", str(key), COLUMNS, subject)
    for key in REQUIRED:
        if key not in row:
            raise bad(subject, f"a table whose rows have {key}", f"a row without: {dict(row)}")
    client = row["client"]
    if not is_whole(client, 0):
        raise bad(f"{subject}.client", "a whole number ≥ 0", client)
    for key in COLUMNS[1:]:
        value = row.get(key, 1.0)
        if not (is_number(value) and math.isfinite(value) and value > 0):
            raise bad(f"{subject}.{key}", "a finite number > 0", f"{value!r} of client {client}")
    return Device(
        client=int(client),
        examples_per_second=float(row["examples_per_second"]),
        bandwidth_down=_bandwidth(row.get("bandwidth_down")),
        bandwidth_up=_bandwidth(row.get("bandwidth_up")),
    )


def _bandwidth(megabits: float | None) -> float | None:
    """Return a bandwidth as a float; None where a row says nothing of it."""
    if megabits is None:
        return None
    return float(megabits)
