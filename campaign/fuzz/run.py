"""All targets one after the other, each for its share of the time; tallies are kept in a file and gone on from."""

from __future__ import annotations

import argparse
import importlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from campaign.fuzz.loop import Target, loop

TARGETS = {
    "studies": "studies.TARGET", "records": "folders.LINES", "folders": "folders.TARGET", "rows": "readings.ROWS",
    "readings": "readings.TARGET", "snapshots": "snapshots.TARGET", "traces": "traces.TARGET",
    "audits": "audits.TARGET", "checkpoints": "checkpoints.TARGET", "messages": "messages.TARGET",
    "servers": "servers.TARGET", "metrics": "servers.METRICS", "joins": "registrars.JOINS", "turns": "registrars.TURNS",
    "numbers": "registrars.NUMBERS_TARGET", "lengths": "registrars.LENGTHS",
    "sources": "sources.TARGET", "own-data": "sources.DATA",
}  # fmt: skip


def target(name: str) -> Target:
    """A target by name; its module is imported now."""
    module, _, attribute = TARGETS[name].partition(".")
    found: Target = getattr(importlib.import_module(f"campaign.fuzz.{module}"), attribute)
    return found


def chosen(names: list[str] | None) -> list[Target]:
    """The targets named, or all; Flower's only where it is installed."""
    found = []
    for name in names or TARGETS:
        try:
            found.append(target(name))
        except ModuleNotFoundError as error:
            if names or error.name != "flwr":
                raise
            print(f"{name} are left out: flwr is not installed", flush=True)
    return found


def run(given: argparse.Namespace) -> int:
    """Fuzz; 0 if only errors of ours came out."""
    state = Path(given.state) if given.state else None
    held: dict[str, Any] = json.loads(state.read_text()) if state and state.exists() else {}
    found, targets = False, chosen(given.targets)
    for one in targets:
        seconds = given.seconds * one.share / sum(target.share for target in targets)
        before = held.get(one.name, {"next": 0, "inputs": 0, "seconds": 0.0, "accepted": 0, "refused": 0})
        tally = loop(one, seed=given.seed, first=before["next"], seconds=seconds, inputs=given.inputs)
        told = asdict(tally)
        calls = tally.accepted + tally.refused + len(tally.found)
        held[one.name] = {key: before[key] + told[key] for key in ("inputs", "seconds", "accepted", "refused")}
        held[one.name]["next"] = before["next"] + calls
        rate = tally.inputs / max(tally.seconds, 1e-9)
        print(f"{one.name}: {tally.inputs} inputs ({held[one.name]['inputs']} in all), {rate:.0f} a second", flush=True)
        for place, (number, trace) in tally.found.items():
            found = True
            print(f"  input {number}: {place}\n{trace}", flush=True)
        if state:
            state.write_text(json.dumps(held, indent=1))
    print(f"{sum(row['inputs'] for row in held.values())} inputs in all", flush=True)
    return 1 if found else 0
