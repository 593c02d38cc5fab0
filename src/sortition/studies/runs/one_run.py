"""One run in its folder: played round by round, recorded, saved, summed up."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from sortition.audit.encoding import json_value
from sortition.audit.log import derive_salt
from sortition.core.arrays import Array
from sortition.core.round_record import RoundRecord
from sortition.results import attrition, metrics, run_folder
from sortition.results.statistics import HIGHER
from sortition.simulation import Setup, Simulation, run_checkpoint
from sortition.studies import build_federation
from sortition.studies.build_federation import BuiltFederation
from sortition.studies.config import RunConfig, Target
from sortition.studies.runs import write_folder
from sortition.studies.runs.callback import Callbacks
from sortition.studies.runs.journals import Journals, keeps_audit_log
from sortition.studies.runs.manifest import make_manifest
from sortition.studies.runs.reference import Reference, reference
from sortition.studies.runs.resume import resume_or_start
from sortition.studies.runs.run_task import OnRound, Play
from sortition.studies.types import RunSummary, TomlTable

CHECKPOINT_SECONDS = 10.0
STORED_BITS = 400_000_000  # availability beyond this many rounds × clients is not stored: the seed gives it


@dataclass(frozen=True)
class OpenRun:
    """A run that is being played.

    Attributes:
        config: its configuration.
        path: its folder.
        built: data, world and availability, which it shares with other methods.
        setup: what the engine plays.
        callbacks: what follows the run.
        on_round: is called with the rounds played, the figure that progress shows and the share of the limit of cost.
        stopping: tells whether the run is to stop before its next round.
    """

    config: RunConfig
    path: Path
    built: BuiltFederation
    setup: Setup
    callbacks: Callbacks
    on_round: OnRound
    stopping: Callable[[], bool]


def play(
    config: RunConfig,
    path: Path,
    *,
    callbacks: Callbacks,
    on_round: OnRound,
    stopping: Callable[[], bool],
) -> Play:
    """Play the missing rounds as a generator that yields each training job; the caller may run it in a batch.

    Returns True if the run is finished, and False if it was stopped.
    """
    built, setup = build_federation.setup(config)
    run = OpenRun(
        config=config,
        path=path,
        built=built,
        setup=setup,
        callbacks=callbacks,
        on_round=on_round,
        stopping=stopping,
    )
    reference_model = reference(config, setup)
    if reference_model is not None:
        return _play_reference(run, reference_model)
    return (yield from _play_method(run))


def _play_method(run: OpenRun) -> Play:
    """Play the rounds of a run, and yield before each training; return False if the run was stopped before its end."""
    config = run.config
    simulation = _prepare_simulation(run)
    registrar = simulation.registrar
    journals = Journals(run.path, registrar, audited=keeps_audit_log(run.path, config.audit, simulation.played))
    records = cast(list[RoundRecord], run_folder.read_records(run.path / run_folder.ROUNDS))
    stop = StopRule(config.target if config.stop_at_target else None, records, shown=config.metric)
    saved_at = time.monotonic()
    summary = RunSummary()
    run.callbacks.on_start(config, run.path, simulation.played)
    try:
        while not simulation.has_ended and not stop.reached:
            if run.stopping():
                _save(run.path, simulation, journals)
                return False
            yield simulation.before_training()
            record = simulation.after_training()
            journals.append(record, _rounded(simulation.timings))
            figure = stop.observe(record)
            run.callbacks.on_round(config, record)
            run.on_round(simulation.played, figure, simulation.share_of_limit)
            if time.monotonic() - saved_at > CHECKPOINT_SECONDS:
                _save(run.path, simulation, journals)
                saved_at = time.monotonic()
        _save(run.path, simulation, journals)
        summary = _write_last_files(run, simulation, journals)
    finally:
        journals.close()
        run.callbacks.on_end(config, summary)
    return True


def _play_reference(run: OpenRun, model: Reference) -> bool:
    """Play the rounds of a reference line, from the first; it has no registrar, checkpoint or audit log."""
    simulation = _prepare_simulation(run, may_keep_audit_log=False)
    journals = Journals(run.path, simulation.registrar, audited=False)
    summary = RunSummary()
    run.callbacks.on_start(run.config, run.path, 0)
    try:
        for t in range(run.config.most_rounds):
            if run.stopping():
                return False
            started = time.perf_counter()
            record = model.play(t)
            journals.append(record, {"total": round(time.perf_counter() - started, 6)})
            run.callbacks.on_round(run.config, record)
            run.on_round(t + 1, (record.get("test") or {}).get(run.config.metric), None)
        journals.sync()
        summary = _write_summary(run, model.client_scores(), more=RunSummary())
    finally:
        journals.close()
        run.callbacks.on_end(run.config, summary)
    return True


class StopRule:
    """Follows the test figure that progress shows, and knows whether the target at which a run stops was reached.

    Attributes:
        target: what the run should reach; None for a run that plays all its rounds.
        shown: the test metric that progress shows where there is no target.
        reached: whether the mean of the evaluations in the last ``target.smooth`` rounds has reached it.
    """

    def __init__(self, target: Target | None, records: Sequence[RoundRecord], shown: str = "accuracy") -> None:
        self.target = target
        self.shown = shown
        self.reached = False
        self._last_values: dict[int, float] = {}  # rounds played → value, where the mean is taken over them
        for record in records:
            self.observe(record)

    def observe(self, record: RoundRecord) -> float | None:
        """Take a round's record into account, and return the figure that progress shows, where evaluated."""
        figures = record.get("test") or {}
        if self.target is None:
            return figures.get(self.shown)
        value = figures.get(self.target.metric)
        if self.target.metric in figures:
            self._check_target(self.target, record["round"] + 1, math.nan if value is None else value)
        return value

    def _check_target(self, target: Target, played: int, value: float) -> None:
        """Take the mean up to this round, as ``rounds-to-target`` does, and compare it with the target."""
        first_round = played - target.smooth + 1
        self._last_values[played] = value
        self._last_values = {round_: value for round_, value in self._last_values.items() if round_ >= first_round}
        rounds = np.array(list(self._last_values), np.int64)
        values = np.array(list(self._last_values.values()))
        means = metrics.smoothed(rounds, values, target.smooth)[1]
        if metrics.meets_target(means[-1:], target.value, higher=HIGHER[target.metric]).any():
            self.reached = True


def _prepare_simulation(run: OpenRun, *, may_keep_audit_log: bool = True) -> Simulation:
    """Resume or start the simulation, and write configuration, manifest and federation before its next round."""
    config = run.config
    path = run.path
    document = make_manifest(config, run.built, run.setup)
    simulation = resume_or_start(path, run.setup, document["data"])
    if may_keep_audit_log and keeps_audit_log(path, config.audit, simulation.played):
        document["audit"] = {"seed": config.seed, "salt": derive_salt(config.seed).hex()}
    (path / run_folder.SUMMARY).unlink(missing_ok=True)
    write_folder.write_config(path / run_folder.CONFIG, config.table())
    write_folder.write_document(path / run_folder.MANIFEST, document)
    write_folder.write_arrays(path / run_folder.FEDERATION, _federation_arrays(run))
    return simulation


def _federation_arrays(run: OpenRun) -> dict[str, Array]:
    """Return what federation.npz holds before the first round."""
    rounds = run.config.rounds
    world = run.built.world
    arrays: dict[str, Array] = {"sizes": world.training_parts.sizes}
    if world.has_label_counts:
        arrays["label_counts"] = world.label_counts
    if rounds is not None and not _availability_needs_clock(run) and _stores_availability(run, rounds):
        arrays["availability"] = build_federation.availability_bits(run.setup, clocks=[0.0] * rounds)
    if world.fleet.devices_differ:
        arrays["seconds"] = world.costs.quiet_seconds
    if world.adversaries is not None:
        arrays["adversaries"] = world.adversaries.ids
    return arrays


def _stores_availability(run: OpenRun, rounds: int) -> bool:
    return rounds * run.built.split.clients <= STORED_BITS


def _availability_needs_clock(run: OpenRun) -> bool:
    """Tell whether it is known only when a round begins who is reachable in it."""
    return run.setup.pace.slot is not None


def _add_availability(run: OpenRun) -> None:
    """Store who was reachable in a run whose rounds, or their clocks, were not known before its end."""
    if run.config.rounds is not None and not _availability_needs_clock(run):
        return
    stored = run_folder.Run(run.path)
    clocks = build_federation.starting_clocks(cast(list[RoundRecord], stored.records))
    if _stores_availability(run, len(clocks)):
        arrays = stored.federation()
        arrays["availability"] = build_federation.availability_bits(run.setup, clocks)
        write_folder.write_arrays(run.path / run_folder.FEDERATION, arrays)


def _rounded(timings: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of a round's parts and their sum, in microseconds' precision."""
    rounded = {name: round(seconds, 6) for name, seconds in timings.items()}
    return {**rounded, "total": round(sum(timings.values()), 6)}


def _save(path: Path, simulation: Simulation, journals: Journals) -> None:
    """Save the records first, then the checkpoint that counts on them."""
    journals.sync()
    run_checkpoint.save(path / run_folder.CHECKPOINT, simulation)


def _write_last_files(run: OpenRun, simulation: Simulation, journals: Journals) -> RunSummary:
    client_scores = simulation.client_scores
    if client_scores is None:
        last_round = simulation.played - 1
        evaluator = run.setup.world_at(last_round).evaluator
        client_scores = evaluator.client_scores(simulation.params)
    costs = RunSummary(totals=simulation.totals, clock=simulation.clock)
    return _write_summary(run, client_scores, more={**costs, **journals.audit_summary()})


def _write_summary(run: OpenRun, client_scores: Array | None, more: RunSummary) -> RunSummary:
    """Write what the records add up to, clients.npz and summary.json, which also holds ``more``."""
    _add_availability(run)
    stored = run_folder.Run(run.path)
    n_clients = run.built.split.clients
    counts: dict[str, Array] = dict(attrition.counts_per_client(stored.records, n_clients))
    counts["available"] = np.zeros(n_clients, np.int64)
    records = cast(list[RoundRecord], stored.records)
    for record, clock in zip(records, build_federation.starting_clocks(records), strict=True):
        counts["available"] += run.setup.reachable(record["round"], clock)
    if client_scores is not None:
        counts["accuracy" if run.config.task is None else "metric"] = client_scores
    write_folder.write_arrays(run.path / run_folder.CLIENTS, counts)
    summary: RunSummary = {
        "status": "done",
        "rounds": len(stored.records),
        "figures": json_value(metrics.summarise(stored)),
        **more,
    }
    write_folder.write_document(run.path / run_folder.SUMMARY, cast(TomlTable, summary))
    return summary
