"""Ten small clients that the simulator and Flower both play: the same data, model, rule and seed."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import numpy as np
from tests.simulation.small import data, parts

from sortition.core.selector import Selector
from sortition.learning import LocalRule, build
from sortition.selectors import discover, load
from sortition.simulation import Setup, World, run

SEED, COHORT, ROUNDS = 3, 3, 6
RULE = LocalRule(lr=0.1, epochs=2, batch=8, decay=0.95)
FEDCOR = {"warmup": 2, "interval": 2, "dimension": 4, "steps": 5, "warmup_steps": 10}

# parameters that suit ten clients, for those methods that want other than their defaults
SMALL = {"fedcor": FEDCOR, "power-of-choice": {"d": 6}, "hics": {"clusters": 3}, "fedss": {"most": 3}}
SMALL["microcosm"] = {"seconds": "ignored"}  # real seconds are not those of the simulator
VARIANTS = {  # so that every way in which a signal travels is taken
    "cpow-d": ("power-of-choice", {"variant": "cpow-d", "d": 6}),  # mini-batch losses
    "rpow-d": ("power-of-choice", {"variant": "rpow-d", "d": 6}),  # scalar reports
    "fedcor-reh": ("fedcor", FEDCOR | {"refit": "round", "warmup_fit": "rounds"}),
    "divfl-drawn": ("divfl", {"greedy": "stochastic", "share": 0.4, "refresh": "all", "weights": "cover"}),
    "fedgs-updates": ("fedgs", {"graph": "updates", "sketch": 16}),  # asked training, folded
    "fedgs-probe": ("fedgs", {"graph": "probe", "noise_size": 6, "noise_mean": 0.5}),  # a payload goes down
    "hics-head": ("hics", {"signal": "head", "clusters": 3}),  # a signal of the method's own
    "longfed-ask": ("longfed", {"gradient": "sum", "first": "ask"}),  # updates, asked and derived from the model
    "fedss-o": ("fedss", {"allocation": "neyman", "most": 3, "sketch": 8}),  # sketched reports
}


def methods() -> dict[str, Selector[Any]]:
    """Every discovered method, and variants."""
    made = {name: load(name, **SMALL.get(name, {})) for name in discover()}
    made = {name: selector for name, selector in made.items() if not selector.needs.of_server}
    return made | {label: load(name, **parameters) for label, (name, parameters) in VARIANTS.items()}


@lru_cache(maxsize=1)
def world() -> World:
    """The simulator's federation."""
    return World(data(), parts(), model(), RULE, seed=SEED)


def model() -> Any:
    """The initial model."""
    return build("mlp", (6,), 4, hidden=(5,), dropout=0.3, seed=SEED)


def digest(vector: Any) -> str:
    """A hash of a model's bytes."""
    return hashlib.sha256(np.ascontiguousarray(vector, np.float32).tobytes()).hexdigest()


def simulated(selector: Selector[Any], rounds: int = ROUNDS) -> tuple[list[list[int]], np.ndarray]:
    """The simulator's cohorts and final model."""
    cohorts: list[list[int]] = []
    carry = run(Setup(world(), selector, COHORT, rounds, seed=SEED), None, lambda _, r: cohorts.append(r["cohort"]))
    return cohorts, carry.params
