"""Ids, numbers and rows as small JSON values and back: exact, the same bytes for the same values.

Ids: a list where they are few, else ranges (``"0-99,120"``), packed bits, or packed numbers where they are not sorted.
Numbers keep their type (``f4``, ``f8``), on which a recomputation depends to the last bit. Of vectors only SHA-256
digests are kept. What is read may come from an untrusted file: sizes are checked before anything is decompressed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
import zlib
from typing import Any

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.errors import StorageError
from sortition.core.storage.safe_files import whole_number

SHORT = 64  # up to this many, a list that people can read
DIGESTS = 1024  # up to this many vectors have digests of their own; more share one
MOST = 1 << 26  # clients that a log may have
PLAIN = {str, int, bool, type(None)}  # types that JSON has as they are


def encode_ids(ids: Ids) -> Any:
    """Ids as JSON, in their order."""
    if ids.size <= SHORT:
        return ids.tolist()
    if not bool(np.all(ids[1:] > ids[:-1])):
        return {"ids": _compressed(ids.astype("<i4" if ids.max() < 2**31 else "<i8").tobytes()), "n": ids.size}
    breaks = np.flatnonzero(np.diff(ids) > 1)
    if breaks.size < SHORT:
        starts, ends = ids[np.r_[0, breaks + 1]], ids[np.r_[breaks, ids.size - 1]]
        return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts.tolist(), ends.tolist(), strict=True))
    mask = np.zeros(int(ids[-1]) + 1, bool)
    mask[ids] = True
    return {"bits": _compressed(np.packbits(mask).tobytes()), "n": mask.size}


def decode_ids(encoded: Any) -> Ids:
    """The ids that :func:`encode_ids` wrote."""
    try:
        if isinstance(encoded, list):
            return np.array([whole_number(item, "a client", most=MOST - 1) for item in encoded], np.int64)
        if isinstance(encoded, str):
            return _ranges(encoded)
        count = whole_number(encoded["n"], "a client", most=MOST - 1)
        if "bits" in encoded:
            bits = np.frombuffer(_decompressed(encoded["bits"], (count + 7) // 8), np.uint8)
            return np.flatnonzero(np.unpackbits(bits, count=count))
        raw = _decompressed(encoded["ids"], 8 * count)
        return np.frombuffer(raw, "<i4" if len(raw) == 4 * count else "<i8").astype(np.int64)
    except (KeyError, TypeError, ValueError, zlib.error, binascii.Error) as error:
        raise StorageError(f"Ids of an audit log cannot be read: {error!r}.") from None


def _ranges(text: str) -> Ids:
    pairs = [[whole_number(int(end), "a client", most=MOST - 1) for end in part.split("-")] for part in text.split(",")]
    if sum(pair[-1] - pair[0] + 1 for pair in pairs) > MOST or any(pair[-1] < pair[0] for pair in pairs):
        raise ValueError(f"ranges that hold more than {MOST} clients, or end before they start")
    return np.concatenate([np.arange(pair[0], pair[-1] + 1) for pair in pairs])


def _compressed(raw: bytes) -> str:
    return base64.b64encode(zlib.compress(raw, 1)).decode()


def _decompressed(text: str, most: int) -> bytes:
    """What was packed, if it is no longer than ``most`` bytes."""
    engine = zlib.decompressobj()
    raw = engine.decompress(base64.b64decode(text, validate=True), most + 1)
    if len(raw) > most:
        raise ValueError(f"more than the {most} bytes that it announces")
    return raw


def encode_numbers(values: Array) -> Any:
    """Numbers (n,) as JSON; one number where all are the same, so that uniform weights stay readable."""
    if values.size and np.isfinite(values[0]) and values.tobytes() == values[:1].tobytes() * values.size:
        return float(values[0])
    if values.size <= SHORT:
        return [value if math.isfinite(value) else str(value) for value in values.astype(float).tolist()]
    return {"packed": base64.b64encode(values.astype(values.dtype.newbyteorder("<")).tobytes()).decode()}


def decode_numbers(encoded: Any, n: int, dtype: str = "f8") -> Floats:
    """The n numbers that :func:`encode_numbers` wrote."""
    try:
        if dtype not in ("f2", "f4", "f8"):
            raise ValueError(f"type {dtype!r}")
        if isinstance(encoded, dict):
            found = np.frombuffer(base64.b64decode(encoded["packed"], validate=True), f"<{dtype}").astype(dtype)
        elif isinstance(encoded, list):
            found = np.array([float(item) for item in encoded], dtype)
        else:
            found = np.full(n, float(encoded), dtype)
        if found.size != n:
            raise ValueError(f"{found.size} numbers for {n} clients")
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise StorageError(f"Numbers of an audit log cannot be read: {error}.") from None
    return found


def digests(rows: Array) -> Any:
    """SHA-256 of each row (n, …), its type and shape included; one for all where there are very many."""
    about = f"{rows.dtype.newbyteorder('<').str}{rows.shape[1:]}".encode()
    table = np.ascontiguousarray(rows.astype(rows.dtype.newbyteorder("<"), copy=False))
    if len(table) > DIGESTS:
        return hashlib.sha256(about + table.tobytes()).hexdigest()
    return [hashlib.sha256(about + row.tobytes()).hexdigest() for row in table]


def json_value(value: Any) -> Any:
    """Any value as JSON has it; what is not finite becomes None."""
    if type(value) in PLAIN:  # most values
        return value
    if isinstance(value, dict):
        return {str(k): json_value(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [json_value(v) for v in (sorted(value) if isinstance(value, set | frozenset) else value)]
    if isinstance(value, np.ndarray) and (value.dtype.kind in "biu" or _finite(value)):
        return value.tolist()
    if isinstance(value, np.ndarray | np.generic):
        return json_value(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _finite(values: Array) -> bool:
    return values.dtype.kind == "f" and bool(np.isfinite(values).all())
