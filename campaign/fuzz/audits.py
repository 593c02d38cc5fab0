"""Audit logs: those of runs and of federations, with what was revealed, examined and asked why; forged ones, too."""

from __future__ import annotations

import functools
import json
import random
from pathlib import Path
from typing import Any

from campaign.fuzz import mutations
from campaign.fuzz.folders import damaged
from campaign.fuzz.loop import Target
from campaign.fuzz.readings import BUDGET, WORLD
from campaign.fuzz.scratch import scratch
from campaign.fuzz.studied import played, small
from sortition.audit.hash_chain import START, seal
from sortition.audit.log_file import LogFile
from sortition.core import Guards, Registrar
from sortition.results import run_folder
from sortition.selectors import load
from sortition.studies.audit import audit_run as audit
from sortition.studies.audit import explain
from sortition.testing.play import play_turn, share_of

METHODS: tuple[dict[str, Any], ...] = ({"name": "uniform"}, {"name": "power-of-choice", "d": 6}, {"name": "cs-ucb-q"})
FEDERATED = ("uniform", "active", "by-size", "divfl")
WORDS = ("round", "available", "budget", "cohort", "weights", "done", "asked", "answers", "ids", "values", "dtype",
         "odd", "after", "reports", "notes", "rejected", "blamed", "kept_out", "joined", "clients", "population",
         "format", "selector", "parameters", "guards", "commitment", "horizon", "seed", "salt", "facts")  # fmt: skip
TOLD = (run_folder.AUDIT, run_folder.ROUNDS, run_folder.SUMMARY, run_folder.MANIFEST, run_folder.CONFIG)


@functools.cache
def runs() -> tuple[tuple[Path, dict[str, bytes]], ...]:
    """Folders of finished runs, and the bytes of what an audit reads in them."""
    out = scratch() / "audits"
    played(out, small(rounds=3, method=[dict(method) for method in METHODS], guards={"quarantine": 2}))
    homes = [path.parent for path in sorted(out.rglob(run_folder.CONFIG))]
    return tuple((home, {name: (home / name).read_bytes() for name in TOLD}) for home in homes)


@functools.cache
def federation(name: str) -> tuple[Path, dict[str, bytes]]:
    """A federation's log with what was revealed beside it."""
    home = scratch() / f"federation-{name}"
    home.mkdir()
    registrar = Registrar(load(name), WORLD.population, horizon=4, guards=Guards(quarantine=2))
    book = LogFile(home / run_folder.AUDIT)
    book.watch(registrar)
    for t in range(4):
        play_turn(registrar, WORLD, share_of(WORLD, 0.6)(t), BUDGET)
    book.reveal()
    names = (run_folder.AUDIT, f"{run_folder.AUDIT}.reveal.json")
    return home, {name: (home / name).read_bytes() for name in names}


def forgery(rng: random.Random, data: bytes) -> tuple[bytes, str]:
    """A log some of whose entries are others, in a chain that holds; and the hash that it ends with."""
    entries = [json.loads(line) for line in data.splitlines()]
    for entry in entries:
        for key in ("entry", "previous", "hash"):
            entry.pop(key)
    for _ in range(rng.randrange(1, 3)):
        at = rng.randrange(len(entries))
        changed = mutations.tree(rng, entries[at], rng.randrange(1, 3), WORDS)
        entries[at] = changed if isinstance(changed, dict) else {"told": changed}
    lines, last = [], START
    for at, entry in enumerate(entries):
        try:
            line, last = seal(at, last, entry)
        except (ValueError, TypeError):  # what JSON cannot hold
            line, last = seal(at, last, {})
        lines.append(line)
    return b"".join(lines), last


def changed(rng: random.Random, files: dict[str, bytes]) -> dict[str, bytes]:
    """Other contents of one file, or a forged log with an end that fits it."""
    if rng.random() < 0.5:
        log, last = forgery(rng, files[run_folder.AUDIT])
        out = {run_folder.AUDIT: log}
        for name, holder in ((run_folder.SUMMARY, "audit"), (f"{run_folder.AUDIT}.reveal.json", "")):
            if name in files:
                told = json.loads(files[name])
                (told[holder] if holder else told)["final"] = last
                out[name] = json.dumps(told).encode()
        return out
    name = rng.choice(list(files))
    return {name: damaged(rng, name, files[name])}


def play(rng: random.Random) -> int:
    """One log that was tampered with, examined or asked why."""
    ours = rng.random() < 0.5
    home, files = rng.choice(runs()) if ours else federation(rng.choice(FEDERATED))
    for name, data in changed(rng, files).items():
        (home / name).write_bytes(data)
    try:
        if rng.random() < 0.5:
            log = explain.Log(run_folder.Run(home) if ours else home / run_folder.AUDIT)
            t = rng.randrange(-1, 5)
            explain.explain_cohort(log, t) if rng.random() < 0.3 else explain.explain_client(
                log, t, rng.randrange(-1, 15)
            )
        elif ours:
            audit.examine(run_folder.Run(home), replay=rng.random() < 0.2)
        else:
            audit.examine_log(home / run_folder.AUDIT)
    finally:
        for name, data in files.items():
            (home / name).write_bytes(data)
    return 1


def prepare() -> None:
    """All of them."""
    runs()
    for name in FEDERATED:
        federation(name)


TARGET = Target("audits", play, prepare)
