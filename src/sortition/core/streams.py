"""Randomness is handed in: one independent stream per (seed, purpose, round, client).

Nothing random is ever saved, one extra draw shifts nothing else, and methods compared under one seed face the same
partition, initial model, availability and batches.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np

from sortition.core.errors import bad


def seed_sequence(seed: int, purpose: str, t: int = 0, client: int | None = None) -> np.random.SeedSequence:
    """Return the seed sequence behind :func:`stream`; its ``generate_state`` seeds other libraries' generators."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise bad("seed", "a whole number ≥ 0", seed)
    key: tuple[int, ...] = (_purpose_number(purpose), int(t))
    if client is not None:
        key = (*key, int(client))
    return np.random.SeedSequence(int(seed), spawn_key=key)


@lru_cache(maxsize=256)
def _purpose_number(purpose: str) -> int:
    """Return the purpose as a number of 32 bits."""
    return int.from_bytes(hashlib.blake2s(purpose.encode(), digest_size=4).digest(), "little")


def stream(seed: int, purpose: str, t: int = 0, client: int | None = None) -> np.random.Generator:
    """Return a generator that depends on its four arguments and on nothing else."""
    return np.random.Generator(np.random.PCG64(seed_sequence(seed, purpose, t, client)))
