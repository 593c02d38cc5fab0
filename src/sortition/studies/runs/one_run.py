"""One run in its folder: started, resumed from its checkpoint, recorded round by round, summed up."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sortition import __version__
from sortition.audit.encoding import json_value
from sortition.audit.entries import installed_version
from sortition.audit.log import salt_of
from sortition.core.arrays import Array
from sortition.core.errors import StorageError
from sortition.core.storage.snapshot import difference
from sortition.results import attrition, formats, metrics, run_folder
from sortition.results.statistics import HIGHER
from sortition.simulation import Setup, Simulation, checkpoint, start
from sortition.studies import federation, methods, own_code
from sortition.studies.config import RunConfig, Target
from sortition.studies.federation import BuiltFederation
from sortition.studies.runs import write_folder
from sortition.studies.runs.callback import Callbacks
from sortition.studies.runs.journals import Journals, audited
from sortition.studies.runs.reference import Reference, reference
from sortition.studies.runs.task import OnRound, Play

CHECKPOINT_SECONDS = 10.0
STORED_BITS = 400_000_000  # availability beyond this many rounds × clients is not stored: the seed gives it
PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "polars")


def play(
    config: RunConfig,
    path: Path,
    callbacks: Callbacks,
    on_round: OnRound,
    stopping: Callable[[], bool],
) -> Play:
    """Play what is left of a run, stopped before each training; True if finished, False if it was stopped."""
    shared, setup = federation.setup(config)
    if (model := reference(config, setup)) is not None:
        return _play_reference(config, path, shared, setup, model, callbacks, on_round, stopping)
    simulation = _begin(config, path, shared, setup)
    registrar = simulation.registrar
    journals = Journals(path, registrar, audited=audited(path, config.audit, simulation.played))
    stop = StopRule(config.target if config.stop_at_target else None, run_folder.lines(path / run_folder.ROUNDS))
    saved, summary = time.monotonic(), dict[str, Any]()
    callbacks.on_start(config, path, simulation.played)
    try:
        while simulation.played < config.rounds and not stop.reached:
            if stopping():
                _save(path, simulation, journals)
                return False
            yield simulation.before_training()
            record = simulation.after_training()
            journals.append(record, _timed(simulation.timings))
            value = stop.see(record)
            callbacks.on_round(config, record)
            on_round(simulation.played, value)
            if time.monotonic() - saved > CHECKPOINT_SECONDS:
                _save(path, simulation, journals)
                saved = time.monotonic()
        _save(path, simulation, journals)
        summary = _sum_up(path, shared, setup, simulation, journals.ending())
    finally:
        journals.close()
        callbacks.on_end(config, summary)
    return True


def _play_reference(
    config: RunConfig,
    path: Path,
    shared: BuiltFederation,
    setup: Setup,
    model: Reference,
    callbacks: Callbacks,
    on_round: OnRound,
    stopping: Callable[[], bool],
) -> bool:
    """The rounds of a reference line, from the first; it has no registrar, checkpoint or audit log."""
    simulation, summary = _begin(config, path, shared, setup, audit=False), dict[str, Any]()
    journals = Journals(path, simulation.registrar, audited=False)
    callbacks.on_start(config, path, 0)
    try:
        for t in range(config.rounds):
            if stopping():
                return False
            started = time.perf_counter()
            record = model.play(t)
            journals.append(record, {"total": round(time.perf_counter() - started, 6)})
            callbacks.on_round(config, record)
            on_round(t + 1, (record.get("test") or {}).get("accuracy"))
        journals.sync()
        summary = _write_summary(path, shared, setup, model.client_accuracies(), {})
    finally:
        journals.close()
        callbacks.on_end(config, summary)
    return True


class StopRule:
    """The test figure that progress shows, and whether the target at which a run stops was reached."""

    def __init__(self, target: Target | None, before: list[dict[str, Any]]) -> None:
        self.target, self.reached = target, False
        self.values = dict[int, float]()  # of the last rounds over which the target's mean is taken
        for record in before:
            self.see(record)

    def see(self, record: Mapping[str, Any]) -> float | None:
        """Take a round's record into account; its accuracy (or the target's metric), where evaluated."""
        of = self.target.of if self.target else "accuracy"
        value: float | None = (record.get("test") or {}).get(of)
        if self.target and of in (record.get("test") or {}):
            at, smooth = record["round"], self.target.smooth
            self.values[at] = math.nan if value is None else value
            self.values = {t: v for t, v in self.values.items() if t > at - smooth}
            mean = sum(self.values.values()) / len(self.values)
            met = mean >= self.target.value if HIGHER[of] else mean <= self.target.value
            self.reached |= met and at + 1 >= smooth
        return value


def _begin(
    config: RunConfig, path: Path, shared: BuiltFederation, setup: Setup, *, audit: bool | None = None
) -> Simulation:
    """The simulation to go on with; a new run writes what it is before its first round."""
    now = manifest(config, shared, setup)
    before = run_folder.Run(path).manifest
    if (path / run_folder.CHECKPOINT).exists() and before:
        if changed := difference(before.get("data", {}), now["data"]):
            raise StorageError(f"{path} was run on other data: {changed}.")
        simulation = checkpoint.load(path / run_folder.CHECKPOINT, setup)
    else:
        simulation = start(setup)
    if audit is not False and audited(path, config.audit, simulation.played):
        now["audit"] = {"seed": config.seed, "salt": salt_of(config.seed).hex()}
    (path / run_folder.SUMMARY).unlink(missing_ok=True)
    write_folder.write_config(path / run_folder.CONFIG, config.table())
    write_folder.write_document(path / run_folder.MANIFEST, now)
    arrays = {"sizes": shared.world.holdings.sizes, "label_counts": shared.world.label_counts}
    if config.rounds * shared.split.clients <= STORED_BITS:
        arrays["availability"] = federation.availability_bits(setup, config.rounds)
    if shared.world.adversaries is not None:
        arrays["adversaries"] = shared.world.adversaries.ids
    write_folder.write_arrays(path / run_folder.FEDERATION, arrays)
    return simulation


def manifest(config: RunConfig, shared: BuiltFederation, setup: Setup) -> dict[str, Any]:
    """What a reader needs to trust or repeat the run."""
    selector, parts = setup.selector, shared.split
    return {
        "format": formats.MANIFEST,
        "sortition": __version__,
        "versions": {"python": platform.python_version(), **{name: installed_version(name) for name in PACKAGES}},
        "platform": f"{platform.system()} {platform.machine()}",
        "data": {"name": config.data.name, "digest": parts.dataset.digest, "partition": parts.train.digest},
        "inputs": parts.dataset.described_inputs(),
        "held_out": parts.dataset.held_out,
        "clients": parts.clients,
        "classes": parts.dataset.classes,
        "test_examples": len(parts.dataset.y_test),
        "model": {"name": config.model.name, "parameters": int(setup.world.initial.size)},
        "method": type(selector).__name__,
        "parameters": {name: str(value) for name, value in selector.parameters().items()},
        "needs": methods.needs_of(selector),
        **_aggregation(setup),
        "cite": selector.cite,
        **({"python": found} if (found := own_code.fingerprints(config.table())) else {}),
        "notes": [*parts.train.notes, *shared.availability.notes, *methods.outside_notes(selector)],
    }


def _aggregation(setup: Setup) -> dict[str, Any]:
    """How updates are combined where it is not the mean: what the server keeps, and whether it sees single updates."""
    rule, size, clients = setup.combine, setup.world.initial.size, setup.world.n_clients
    if not rule.individual:
        return {}
    kept = {"memory_bytes": rule.memory_bytes(size, clients)} if rule.remembers else {}
    return {"aggregation": {"combine": rule.name, "individual_updates": True, **kept}}


def _timed(timings: Mapping[str, float]) -> dict[str, float]:
    rounded = {name: round(value, 6) for name, value in timings.items()}
    return {**rounded, "total": round(sum(timings.values()), 6)}


def _save(path: Path, simulation: Simulation, journals: Journals) -> None:
    """Records first, then the checkpoint that counts on them."""
    journals.sync()
    checkpoint.save(path / run_folder.CHECKPOINT, simulation)


def _sum_up(
    path: Path, shared: BuiltFederation, setup: Setup, simulation: Simulation, ending: dict[str, Any]
) -> dict[str, Any]:
    evaluator = setup.at(simulation.played - 1).world.evaluator
    accuracy = evaluator.client_accuracies(simulation.params)
    totals = {"totals": simulation.totals, "clock": simulation.clock, **ending}
    return _write_summary(path, shared, setup, accuracy, totals)


def _write_summary(
    path: Path, shared: BuiltFederation, setup: Setup, accuracy: Array | None, totals: dict[str, Any]
) -> dict[str, Any]:
    """What the records add up to: clients.npz and summary.json."""
    run, n = run_folder.Run(path), shared.split.clients
    counts = {**attrition.counts_per_client(run.records, n), "available": np.zeros(n, np.int64)}
    clock = 0.0
    for record in run.records:
        counts["available"] += setup.reachable(record["round"], clock)
        clock = record.get("clock") or 0.0
    write_folder.write_arrays(path / run_folder.CLIENTS, counts | ({} if accuracy is None else {"accuracy": accuracy}))
    summary = {"status": "done", "rounds": len(run.records), "figures": json_value(metrics.summarise(run)), **totals}
    write_folder.write_document(path / run_folder.SUMMARY, summary)
    return summary
