"""Encode ids, numbers and rows as small JSON values, and decode them: exact, the same bytes for the same values.

Ids are a list where they are few; otherwise ranges (``"0-99,120"``), packed bits, or packed numbers where they are not
sorted. Numbers keep their type (``f4``, ``f8``), on which a recomputation depends to the last bit. Of vectors only
SHA-256 digests are stored. A log may come from an untrusted source: sizes are checked before anything is decompressed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.errors import StorageError
from sortition.core.storage.safe_files import whole_number

EncodedIds = list[int] | str | dict[str, str | int]  # a list, ranges, or packed with their number
EncodedNumbers = float | list[float | str] | dict[str, str]  # one for all, a list, or packed

MAX_LISTED = 64  # up to this many values are a list that people can read
MAX_DIGESTS = 1024  # up to this many vectors have a digest each; more share one
MAX_CLIENTS = 1 << 26  # clients that a log may have
JSON_TYPES = {str, int, bool, type(None)}  # types that JSON holds unchanged


def encode_ids(ids: Ids) -> EncodedIds:
    """Return ids as JSON, in their order."""
    if ids.size <= MAX_LISTED:
        listed: list[int] = ids.tolist()
        return listed
    is_sorted = bool(np.all(ids[1:] > ids[:-1]))
    if not is_sorted:
        dtype = "<i4" if ids.max() < 2**31 else "<i8"
        return {"ids": _compress(ids.astype(dtype).tobytes()), "n": ids.size}
    gaps = np.flatnonzero(np.diff(ids) > 1)
    if gaps.size < MAX_LISTED:
        return _encode_ranges(ids, gaps)
    mask = np.zeros(int(ids[-1]) + 1, bool)
    mask[ids] = True
    return {"bits": _compress(np.packbits(mask).tobytes()), "n": mask.size}


def encode_ids_unless_implied(ids: Ids, implied: Ids) -> EncodedIds | None:
    """Return ids as JSON; None where they are those that an entry without the key implies."""
    if np.array_equal(ids, implied):
        return None
    return encode_ids(ids)


def _encode_ranges(ids: Ids, gaps: Ids) -> str:
    """Return sorted ids as ranges; after each position in ``gaps`` a new range starts."""
    firsts = ids[np.r_[0, gaps + 1]].tolist()
    lasts = ids[np.r_[gaps, ids.size - 1]].tolist()
    ranges = []
    for first, last in zip(firsts, lasts, strict=True):
        if first == last:
            ranges.append(str(first))
        else:
            ranges.append(f"{first}-{last}")
    return ",".join(ranges)


def decode_ids(encoded: object) -> Ids:
    """Return the ids that :func:`encode_ids` wrote."""
    try:
        if isinstance(encoded, list):
            return np.array([_client_id(item) for item in encoded], np.int64)
        if isinstance(encoded, str):
            return _decode_ranges(encoded)
        if isinstance(encoded, Mapping):
            return _decode_packed_ids(encoded)
        raise TypeError(f"{encoded!r} is no list, text or table")
    except (KeyError, TypeError, ValueError, zlib.error, binascii.Error) as error:
        raise StorageError(f"Ids of an audit log cannot be read: {error!r}.") from None


def _decode_packed_ids(packed: Mapping[str, Any]) -> Ids:
    count = _client_id(packed["n"])
    if "bits" in packed:
        mask = np.frombuffer(_decompress(packed["bits"], (count + 7) // 8), np.uint8)
        return np.flatnonzero(np.unpackbits(mask, count=count))
    raw = _decompress(packed["ids"], 8 * count)
    dtype = "<i4" if len(raw) == 4 * count else "<i8"
    return np.frombuffer(raw, dtype).astype(np.int64)


def _decode_ranges(text: str) -> Ids:
    ranges = []
    for part in text.split(","):
        ends = [_client_id(int(end)) for end in part.split("-")]
        ranges.append((ends[0], ends[-1]))
    total = sum(last - first + 1 for first, last in ranges)
    if total > MAX_CLIENTS or any(last < first for first, last in ranges):
        raise ValueError(f"ranges that hold more than {MAX_CLIENTS} clients, or end before they start")
    return np.concatenate([np.arange(first, last + 1) for first, last in ranges])


def _client_id(value: object) -> int:
    return whole_number(value, "a client", most=MAX_CLIENTS - 1)


def _compress(raw: bytes) -> str:
    return base64.b64encode(zlib.compress(raw, 1)).decode()


def _decompress(text: str, max_bytes: int) -> bytes:
    """Return the bytes that were compressed; refuse more than ``max_bytes`` of them."""
    engine = zlib.decompressobj()
    raw = engine.decompress(base64.b64decode(text, validate=True), max_bytes + 1)
    if len(raw) > max_bytes:
        raise ValueError(f"more than the {max_bytes} bytes that it announces")
    return raw


def encode_numbers(values: Array) -> EncodedNumbers:
    """Return numbers (n,) as JSON; one number where all are the same, so that uniform weights stay readable."""
    if values.size and np.isfinite(values[0]) and values.tobytes() == values[:1].tobytes() * values.size:
        return float(values[0])
    if values.size <= MAX_LISTED:
        return [value if math.isfinite(value) else str(value) for value in values.astype(float).tolist()]
    return {"packed": base64.b64encode(values.astype(values.dtype.newbyteorder("<")).tobytes()).decode()}


def encode_optional_numbers(values: Array | None) -> EncodedNumbers | None:
    """Return numbers (n,) as JSON; None where there are none."""
    if values is None:
        return None
    return encode_numbers(values)


def decode_numbers(encoded: Any, n: int, dtype: str = "f8") -> Floats:
    """Return the n numbers that :func:`encode_numbers` wrote."""
    try:
        if dtype not in ("f2", "f4", "f8"):
            raise ValueError(f"type {dtype!r}")
        if isinstance(encoded, dict):
            numbers = np.frombuffer(base64.b64decode(encoded["packed"], validate=True), f"<{dtype}").astype(dtype)
        elif isinstance(encoded, list):
            numbers = np.array([float(item) for item in encoded], dtype)
        else:
            numbers = np.full(n, float(encoded), dtype)
        if numbers.size != n:
            raise ValueError(f"{numbers.size} numbers for {n} clients")
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise StorageError(f"Numbers of an audit log cannot be read: {error}.") from None
    return numbers


def row_digests(rows: Array) -> str | list[str]:
    """Return the SHA-256 of each row (n, …), its type and shape included; one for all where there are very many."""
    row_type = f"{rows.dtype.newbyteorder('<').str}{rows.shape[1:]}".encode()
    table = np.ascontiguousarray(rows.astype(rows.dtype.newbyteorder("<"), copy=False))
    if len(table) > MAX_DIGESTS:
        return hashlib.sha256(row_type + table.tobytes()).hexdigest()
    return [hashlib.sha256(row_type + row.tobytes()).hexdigest() for row in table]


def json_value(value: Any) -> Any:
    """Return any value as JSON holds it; a number that is not finite becomes None."""
    if type(value) in JSON_TYPES:  # most values
        return value
    if type(value) is float:
        return _finite_or_none(value)
    if isinstance(value, dict):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        if _is_json_list(value):
            return list(value)
        return [json_value(item) for item in value]
    if isinstance(value, set | frozenset):
        return [json_value(item) for item in sorted(value)]
    if isinstance(value, np.ndarray) and _has_json_numbers(value):
        return value.tolist()
    if isinstance(value, np.ndarray | np.generic):
        return json_value(value.tolist())
    if isinstance(value, float):  # of a class that derives from it
        return _finite_or_none(value)
    if isinstance(value, bool | int | str):
        return value
    return str(value)


def _finite_or_none(number: float) -> float | None:
    if math.isfinite(number):
        return number
    return None


def _is_json_list(values: Sequence[object]) -> bool:
    """Tell whether JSON holds these values unchanged: most lists are ids, or finite numbers."""
    types = set(map(type, values))
    if types == {float}:
        return all(map(math.isfinite, cast(Sequence[float], values)))
    return types <= JSON_TYPES


def _has_json_numbers(values: Array) -> bool:
    if values.dtype.kind in "biu":
        return True
    return values.dtype.kind == "f" and bool(np.isfinite(values).all())
