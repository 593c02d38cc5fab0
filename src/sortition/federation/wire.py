"""Work and replies as bytes: an npz archive whose first array is a JSON header. No pickle.

What a stranger sends is read only within a limit, which holds for the bytes that an archive announces, too.
"""

from __future__ import annotations

import io
import json
import math
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from sortition.core.arrays import Array
from sortition.core.errors import InputError
from sortition.core.storage.npz import read_npz
from sortition.core.storage.snapshot import UNREADABLE, StoredTable
from sortition.federation.device_mailbox import Work
from sortition.federation.messages import Ask, Profile, Reply

HEADER = "header"
ROOM = 64 * 1024  # bytes of a body beside what the model's size allows
TIMES = 4  # how many times the model a body may be: the model itself, and rows as long as it in double precision


def upload_limit(model: Mapping[str, Array]) -> int:
    """Return how many bytes a device may upload in a federation of this model."""
    return TIMES * sum(np.asarray(value).nbytes for value in model.values()) + ROOM


def write_work(work: Work) -> bytes:
    """Write work as it is sent to a device."""
    ask = work.ask
    seconds = None
    if math.isfinite(work.seconds):
        seconds = work.seconds
    header = {
        "handle": work.handle,
        "seconds": seconds,
        "kind": ask.kind,
        "client": ask.client,
        "round": ask.round,
        "signals": ask.signals,
        "purpose": ask.purpose,
        "trains": ask.trains,
        "facts": ask.facts,
        "optional": ask.optional,
    }
    return _packed(header, model=ask.model, payload=ask.payload)


def read_work(content: bytes | Path) -> Work:
    """Read what :func:`write_work` wrote, as a device does: it trusts its server."""
    header, tables = _unpacked(content, most=None)
    try:
        seconds = math.inf
        if header["seconds"] is not None:
            seconds = float(header["seconds"])
        ask = Ask(
            kind=header["kind"],
            client=int(header["client"]),
            round=int(header["round"]),
            seconds=seconds,
            model=tables["model"] or {},
            signals=_texts(header["signals"]),
            purpose=header["purpose"],
            trains=bool(header["trains"]),
            payload=tables["payload"] or {},
            facts=_texts(header["facts"]),
            optional=_texts(header["optional"]),
        )
        return Work(str(header["handle"]), ask, seconds)
    except (KeyError, TypeError, ValueError) as error:
        raise _unreadable(error) from None


def write_reply(reply: Reply) -> bytes:
    """Write a reply as it is sent to the server."""
    profile = reply.profile
    header = {
        "outcome": reply.outcome,
        "reason": reply.reason,
        "unreported": reply.unreported,
        "name": profile.name,
        "signals": profile.signals,
        "tags": profile.tags,
        "unsure": profile.unsure,
    }
    return _packed(header, model=reply.model, rows=reply.rows, facts=profile.facts)


def read_reply(content: bytes | Path, handle: str, most: int) -> Reply:
    """Read what a device sent; refuse what would unpack to more than ``most`` bytes, or is no reply."""
    header, tables = _unpacked(content, most)
    try:
        outcome = header["outcome"]
        if outcome not in ("ok", "failed"):
            raise ValueError(f"outcome {outcome!r}")
        profile = Profile(
            name=_text(header["name"]),
            facts=tables["facts"] or {},
            signals=_texts(header["signals"]),
            tags=_texts(header["tags"]),
            unsure=_texts(header["unsure"]),
        )
        return Reply(
            handle,
            outcome,
            reason=_text(header["reason"]),
            profile=profile,
            rows=tables["rows"] or {},
            model=tables["model"],
            unreported=_text(header["unreported"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _unreadable(error) from None


def _packed(header: Mapping[str, object], **tables: Mapping[str, Array] | None) -> bytes:
    """Pack a header and tables of arrays, of which one may be absent.

    The names of arrays stand in the header, since a file's name is not any text.
    """
    names: dict[str, list[str] | None] = dict.fromkeys(tables)
    members: dict[str, Array] = {HEADER: np.empty(0, np.uint8)}  # the first member
    for table, arrays in tables.items():
        if arrays is not None:
            names[table] = list(arrays)
            members |= {f"{table}.{row}": np.asarray(value) for row, value in enumerate(arrays.values())}
    text = json.dumps({**header, "arrays": names})
    members[HEADER] = np.frombuffer(text.encode(), np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, **members)  # type: ignore[arg-type]
    return buffer.getvalue()


def _unpacked(content: bytes | Path, most: int | None) -> tuple[StoredTable, dict[str, dict[str, Array] | None]]:
    """Read the header and the tables of an archive in memory or in a file."""
    if isinstance(content, bytes):
        with tempfile.NamedTemporaryFile(suffix=".npz") as file:
            file.write(content)
            file.flush()
            return _unpacked(Path(file.name), most)
    try:
        if most is not None:
            _check_announced(content, most)
        members = read_npz(content)
        header = json.loads(members.pop(HEADER).tobytes().decode())
        tables: dict[str, dict[str, Array] | None] = {}
        for table, names in header.pop("arrays").items():
            if names is None:
                tables[table] = None
            else:
                tables[table] = {name: members[f"{table}.{row}"] for row, name in enumerate(_texts(names))}
        return header, tables
    except UNREADABLE as error:
        raise _unreadable(error) from None


def _check_announced(path: Path, most: int) -> None:
    """Refuse an archive that would unpack to more than ``most`` bytes."""
    with zipfile.ZipFile(path) as archive:
        announced = sum(member.file_size for member in archive.infolist())
    if announced > most:
        raise ValueError(f"it would unpack to {announced:,} bytes, more than {most:,}")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list")
    return tuple(_text(word) for word in value)


def _unreadable(error: Exception) -> InputError:
    reason = f"{type(error).__name__}: {error}"
    if isinstance(error, KeyError):
        reason = f"{error} is missing"
    return InputError(
        f"A message must be an archive of arrays that Sortition wrote; got one that cannot be read: {reason}."
    )
