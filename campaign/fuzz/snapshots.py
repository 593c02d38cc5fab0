"""Snapshots of every method's registrar, and checkpoints of runs: damaged, foreign, with other arrays inside."""

from __future__ import annotations

import functools
import json
import random
from typing import Any

import numpy as np

from campaign.fuzz import mutations
from campaign.fuzz.folders import npz
from campaign.fuzz.loop import Target
from campaign.fuzz.readings import BUDGET, ROUNDS, WORLD, methods
from campaign.fuzz.scratch import scratch
from sortition.core import Registrar, Selector
from sortition.core.storage.snapshot import load
from sortition.testing.play import play_turn, share_of

WORDS = ("selector", "parameters", "seed", "horizon", "index", "counters", "shapes", "format")


@functools.cache
def sound(at: int) -> tuple[Selector[Any], bytes]:
    """A method and its snapshot after some rounds."""
    selector = methods()[at]
    registrar = Registrar(selector, WORLD.population, horizon=ROUNDS)
    for t in range(4):
        play_turn(registrar, WORLD, share_of(WORLD, 0.6)(t), BUDGET)
    path = scratch() / f"sound-{at}.npz"
    registrar.save(path)
    return selector, path.read_bytes()


def damaged(rng: random.Random, data: bytes) -> bytes:
    """A whole archive with another array or another header in it."""
    if rng.random() < 0.5:
        return npz(rng, data)
    path = scratch() / "header.npz"
    path.write_bytes(data)
    arrays, header = load(path)
    text = json.dumps(mutations.tree(rng, header, rng.randrange(1, 3), WORDS)).encode()
    np.savez(path, header=np.frombuffer(text, np.uint8), **arrays)
    return path.read_bytes()


def play(rng: random.Random) -> int:
    """One snapshot that was made up is loaded; one whose bytes are damaged is also played on, where it is taken."""
    selector, data = sound(rng.randrange(len(methods())))
    path = scratch() / "snapshot.npz"
    made_up = rng.random() < 0.5
    path.write_bytes(damaged(rng, data) if made_up else mutations.raw(rng, data, rng.randrange(1, 5)))
    registrar = Registrar.load(path, selector, WORLD.population)
    if not made_up:
        play_turn(registrar, WORLD, share_of(WORLD, 0.6)(9), BUDGET)
    return 1


def prepare() -> None:
    """One of every example."""
    for at in range(len(methods())):
        sound(at)


TARGET = Target("snapshots", play, prepare)
