"""Studies: tables and texts of TOML, and what ``--set`` is given."""

from __future__ import annotations

import functools
import random
import tomllib
from pathlib import Path
from typing import Any

import tomli_w

from campaign.fuzz import mutations
from campaign.fuzz.loop import Target
from sortition import availability, reproduction, studies
from sortition.core.errors import InputError
from sortition.data import partitions
from sortition.selectors import discover, find
from sortition.studies import plan
from sortition.studies.study_table import Study

DEMO = Path(studies.__file__).parent / "demo.toml"
PRESETS = Path(reproduction.__file__).parent / "presets"
TOP = tuple(Study.model_fields)


@functools.cache
def seeds() -> tuple[dict[str, Any], ...]:
    """The demo and the presets, with few seeds so that a plan is short."""
    files = [DEMO, *sorted(PRESETS.glob("*.toml"))]
    tables = [tomllib.loads(path.read_text(encoding="utf-8")) for path in files]
    return tuple(_short(table) for table in tables if "rounds" in table and "method" in table)


def _short(table: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in table.items() if key in TOP and key not in ("seeds", "methods", "sweep")}
    kept["method"] = table["method"][:2]
    kept["setting"] = [
        {key: value for key, value in one.items() if key not in ("methods", "seeds")}
        for one in table.get("setting", [])[:1]
    ]
    return {**kept, "seeds": 2}


@functools.cache
def words() -> tuple[str, ...]:
    """Keys and names that mean something."""
    parameters = [name for method in discover() for name in find(method).load().parameters()]
    return (*TOP, "name", "label", "clients", "from", "to", "count", "log", *discover(), *availability.discover(),
            *partitions.discover(), *parameters)  # fmt: skip


def table(rng: random.Random) -> dict[str, Any]:
    """A study's table with something wrong, or not."""
    made = dict(rng.choice(seeds()))
    if rng.random() < 0.5:
        made["method"] = [{"name": rng.choice(discover())}, *made["method"][:1]]
    if rng.random() < 0.2:
        made["sweep"] = {rng.choice(words()): [1, 2], "local.lr": {"from": 0.1, "to": 0.2, "count": 2}}
    changed = mutations.tree(rng, made, rng.randrange(4), words())
    return changed if isinstance(changed, dict) else {"study": changed}


def play(rng: random.Random) -> int:
    """One study, planned; sometimes through its text, sometimes with options of the command line."""
    made = table(rng)
    sets = []
    if rng.random() < 0.3:
        value = rng.choice(("5", "-1", "nan", "[1]", "{a=1}", "x", "", "1e999", '"', "1" * 5000))
        path = (rng.choice(words()) for _ in range(rng.randrange(1, 4)))
        sets = [f"{'.'.join(path)}{rng.choice(('=', '=', '==', ''))}{value}"]
    if rng.random() < 0.2:
        made = _through_text(rng, made)
    plan.plan(made, sets)
    return 1


def _through_text(rng: random.Random, made: dict[str, Any]) -> dict[str, Any]:
    try:
        text = tomli_w.dumps(made)
    except (TypeError, ValueError, AttributeError, RecursionError):  # what the writer cannot write is no input
        return made
    return parsed(mutations.raw(rng, text.encode(errors="replace"), rng.randrange(3)))


def parsed(data: bytes) -> dict[str, Any]:
    """What a file with these bytes holds, read as a study is read."""
    try:
        return tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:  # as plan.read does
        raise InputError(str(error)) from None


TARGET = Target("studies", play)
