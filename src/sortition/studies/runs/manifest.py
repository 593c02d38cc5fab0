"""The manifest of a run: what a reader needs to trust or repeat it."""

from __future__ import annotations

import platform

from sortition import __version__
from sortition.audit.entry_writer import installed_version
from sortition.core.cost import MOST_ROUNDS
from sortition.results import run_folder
from sortition.simulation import Setup, foresight
from sortition.studies import method_entries, own_code
from sortition.studies.build_federation import BuiltFederation
from sortition.studies.config import RunConfig
from sortition.studies.runs.hardware import describe_hardware
from sortition.studies.types import TomlTable

PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "polars")


def make_manifest(config: RunConfig, built: BuiltFederation, setup: Setup) -> TomlTable:
    """Return the manifest of a run, which manifest.json keeps."""
    selector = setup.selector
    parts = built.split
    document: TomlTable = {
        "format": run_folder.FORMAT,
        "sortition": __version__,
        "versions": {"python": platform.python_version(), **{name: installed_version(name) for name in PACKAGES}},
        "platform": f"{platform.system()} {platform.machine()}",
        "hardware": describe_hardware(config.device),
        "data": {"name": config.data.name, "digest": parts.dataset.digest, "partition": parts.train.digest},
        "inputs": parts.dataset.describe_inputs(),
        "held_out": parts.dataset.held_out,
        "clients": parts.clients,
        "classes": parts.dataset.classes,
        "test_examples": len(parts.dataset.y_test),
        "model": {"name": config.model.name, "parameters": int(setup.world.initial.size)},
        "engine": setup.world.learner.engine_choice.engine_for(setup.world.rule, setup.cohort),
        "method": type(selector).__name__,
        "parameters": {name: str(value) for name, value in selector.parameters().items()},
        "needs": method_entries.needs_of(selector),
    }
    if config.task is not None:
        document["targets"] = parts.dataset.describe_targets()
    if setup.combine.individual:
        document["aggregation"] = _aggregation(setup)
    document["cite"] = selector.cite
    code_digests = own_code.fingerprints(config.table())
    if code_digests:
        document["python"] = code_digests
    document["notes"] = [
        *parts.train.notes,
        *built.availability.notes,
        *built.world.fleet.notes,
        *method_entries.outside_notes(selector),
        *selector.remarks(setup.conditions),
        *_engine_notes(setup),
        *foresight.remarks(setup),
        *_limit_notes(config),
    ]
    return document


def _engine_notes(setup: Setup) -> list[str]:
    """Note why clients train one after the other although their steps are small."""
    note = setup.world.learner.engine_choice.sequential_note(setup.world.rule, setup.cohort)
    return [note] if note else []


def _limit_notes(config: RunConfig) -> list[str]:
    """Note that methods are not told how many rounds there will be where only the cost ends a run."""
    if config.until is None or config.rounds is not None:
        return []
    return [f"Runs end at {config.until}, at the latest after {MOST_ROUNDS:,} rounds: methods know no horizon."]


def _aggregation(setup: Setup) -> TomlTable:
    """Return how updates are combined one by one, and how many bytes the server keeps of them."""
    rule = setup.combine
    aggregation: TomlTable = {"combine": rule.name, "individual_updates": True}
    if rule.remembers:
        aggregation["memory_bytes"] = rule.memory_bytes(setup.world.initial.size, setup.world.n_clients)
    return aggregation
