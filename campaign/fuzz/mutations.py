"""Wrong values of every kind, and small damage to valid ones: to trees of tables and lists, to texts, to bytes.

Everything is drawn from a ``random.Random``: a seeded one in the campaign, one that hypothesis controls in the tests
(it shrinks what it finds), one that reads atheris's bytes where coverage guides the search.
"""

from __future__ import annotations

import copy
import random
from typing import Any

import numpy as np

TEXTS = (
    "",
    " ",
    "nan",
    "-1",
    "a" * 300,
    "../../etc",
    "\x00",
    "é²",
    "1e999",
    "true",
    "None",
    "uniform",
    "[",
    "{}",
    "\ud800",
)
NUMBERS = (0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**30, 1.5, 1e308, -1e-300, float("nan"), float("inf"), -0.0)
ODD: tuple[Any, ...] = (*TEXTS, *NUMBERS, None, True, False, [], {}, [[]], [None], {"a": {"b": []}}, [1, "x"])


def odd(rng: random.Random) -> Any:
    """A value that hardly anybody expects."""
    return copy.deepcopy(rng.choice(ODD))


def tree(rng: random.Random, value: Any, times: int = 1, words: tuple[str, ...] = (), *, own: bool = False) -> Any:
    """A copy (unless ``own``) with some places changed: a value replaced, dropped, renamed, doubled or wrapped."""
    root = [value if own else copy.deepcopy(value)]
    for _ in range(times):
        holder, key = _place(rng, root)
        act = rng.randrange(7)
        held = holder[key]
        if act <= 2:
            holder[key] = odd(rng) if rng.random() < 0.6 or not _number(held) else near(rng, held)
        elif act == 3 and holder is not root:
            del holder[key]
        elif act == 4 and isinstance(holder, dict):
            name = rng.choice(words) if words and rng.random() < 0.7 else rng.choice(TEXTS)
            holder[name] = holder.pop(key) if rng.random() < 0.5 else odd(rng)
        elif act == 5:
            holder[key] = [held] if rng.random() < 0.5 else {"name": held}
        elif isinstance(held, list):
            holder[key] = held * rng.randrange(4)
        elif isinstance(holder, dict) and holder:
            holder[key] = copy.deepcopy(rng.choice(list(holder.values())))
    return root[0]


def _place(rng: random.Random, root: list[Any]) -> tuple[Any, Any]:
    """A random place of a tree: what holds it, and under which key."""
    holder: Any = root
    key: Any = 0
    while isinstance(holder[key], dict | list) and holder[key] and rng.random() < 0.8:
        holder = holder[key]
        key = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
    return holder, key


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def near(rng: random.Random, value: float) -> Any:
    """A number beside a valid one."""
    return rng.choice((value + 1, value - 1, -value, value * 10, value / 2, float(value), str(value), value * 1e300))


def raw(rng: random.Random, data: bytes, times: int = 1) -> bytes:
    """Bytes with some of them flipped, cut out, doubled, or overwritten by what counts and lengths look like."""
    out = bytearray(data)
    for _ in range(times):
        act, at = rng.randrange(6), rng.randrange(len(out) + 1)
        if act == 0 and out:
            out[at % len(out)] ^= 1 << rng.randrange(8)
        elif act == 1:
            del out[at : at + rng.randrange(1, 40)]
        elif act == 2:
            out[at:at] = out[at : at + rng.randrange(1, 40)]
        elif act == 3:
            out[at : at + 4] = rng.choice((b"\xff\xff\xff\xff", b"\0\0\0\0", b"\xff\xff\xff\x7f"))
        elif act == 4:
            out[at : at + rng.randrange(3)] = rng.choice(TEXTS).encode(errors="replace")
        else:
            out[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9)))
    return bytes(out)


def array(rng: random.Random, value: Any) -> Any:
    """An array with spoiled cells, another type, another shape, or something else altogether."""
    made = np.array(value)
    act = rng.randrange(9)
    if act <= 2 and made.size and made.dtype.kind in "fiu":
        made = made.astype(np.float64) if act else made
        cell = rng.choice((np.nan, np.inf, -1, 1e308, -1e308)) if made.dtype.kind == "f" else rng.choice((-1, 2**40))
        made.flat[rng.randrange(made.size)] = cell if made.dtype.itemsize >= 8 else 7
        return made
    if act == 3:
        kinds = (np.float16, np.int8, np.uint64, bool, complex, "U5", "M8[s]", object)
        with np.errstate(all="ignore"):
            return _cast(made, rng.choice(kinds))
    if act == 4:
        return rng.choice((made[:-1] if made.ndim else made, made[None], made.reshape(-1), made[..., None], made.T))
    if act == 5:
        return np.concatenate([made, made]) if made.ndim else np.stack([made, made])
    if act == 6:
        return np.empty((0, *made.shape[1:]), made.dtype)
    if act == 7:
        return odd(rng)
    return made


def _cast(made: np.ndarray, kind: Any) -> Any:
    try:
        return made.astype(kind)
    except (TypeError, ValueError):
        return made.astype(object)
