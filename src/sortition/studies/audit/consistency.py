"""Whether an audit log agrees with what lies beside it in the run folder: manifest, records, summary, configuration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from sortition.audit import entry_writer as audit
from sortition.audit.encoding import decode_ids, decode_numbers, json_value
from sortition.audit.entry_schema import Header, RoundEntry, asked_ids, done_ids
from sortition.audit.entry_writer import commit_to_seed, population_digest
from sortition.audit.events import LoggedStep, has_events, logged_steps
from sortition.audit.recompute import UNREADABLE
from sortition.core.cost import Until, cumulative_costs
from sortition.core.errors import SortitionError
from sortition.core.registrar import Registrar
from sortition.core.round_record import RoundRecord, answered_ids
from sortition.results import metrics, run_folder
from sortition.results.names import ClientNames
from sortition.studies.config import RunConfig
from sortition.studies.runs.one_run import StopRule
from sortition.studies.types import ReadOnlyTable

READING_ERRORS = (*UNREADABLE, SortitionError)
LISTS_OF_CLIENTS = ("cohort", "completed clients", "refused updates")  # differences that name clients


def header_faults(header: Header, registrar: Registrar, disclosed: Any) -> list[str]:
    """Return where the log's header is not of this selection, or not of the seed that was committed to."""
    expected = audit.make_header(registrar, b"")
    keys = ["selector", "parameters", "guards", "clients"]
    if registrar.needs.horizon:
        keys.append("horizon")
    faults = [
        f"The header's {key} should be {expected.get(key)!r}; the log has {header.get(key)!r}."
        for key in keys
        if header.get(key) != expected.get(key)
    ]
    if header.get("population") != population_digest(registrar.population):
        faults.append("The header's population has another digest than the run's clients.")
    return faults + _commitment_faults(header, registrar, disclosed)


def _commitment_faults(header: Header, registrar: Registrar, disclosed: Any) -> list[str]:
    try:
        seed = disclosed["seed"]
        salt = bytes.fromhex(disclosed["salt"])
        if isinstance(seed, bool) or commit_to_seed(salt, seed) != header.get("commitment"):
            return ["The disclosed seed is not the one that the log committed to."]
        if seed != registrar.seed:
            return [f"The disclosed seed is {seed}; the run's configuration has {registrar.seed}."]
    except (TypeError, KeyError, ValueError, AttributeError):
        return ["The manifest does not disclose seed and salt."]
    return []


def record_faults(
    entries: Sequence[RoundEntry],
    records: Sequence[RoundRecord],
    file: str = run_folder.ROUNDS,
    names: ClientNames | None = None,
) -> list[str]:
    """Return where a log and a file of records (a run's, or a federation's history) differ."""
    if has_events(entries):
        return _step_faults(logged_steps(entries), records, file, names or ClientNames())
    faults = []
    if len(entries) != len(records):
        faults.append(f"The log has {len(entries)} rounds; {file} {len(records)}.")
    for entry, record in zip(entries, records, strict=False):
        try:
            faults += [
                f"Round {round_name(entry)}: {difference.text(file, names or ClientNames())}"
                for difference in _differences(entry, record)
            ]
        except READING_ERRORS as error:
            faults.append(f"Round {round_name(entry)}: {file} cannot be compared: {error!r}.")
    return faults


def _step_faults(
    steps: Sequence[LoggedStep], records: Sequence[RoundRecord], file: str, names: ClientNames
) -> list[str]:
    """Return where log and records differ if rounds overlap: a record is then a step, with the selections before it."""
    faults = []
    if len(steps) != len(records):
        faults.append(f"The log has {len(steps)} steps; {file} {len(records)}.")
    for step, record in zip(steps, records, strict=False):
        try:
            entry = step.step or {}
            comparisons = [
                Difference("round", entry.get("version"), record["round"]),
                Difference("cohort", step.cohort, record["cohort"]),
                Difference("completed clients", step.used, answered_ids(record)),
            ]
            if "used" in record:
                comparisons.append(Difference("weights", step.weights, record["used"]))
            if "staleness" in record:
                comparisons.append(Difference("staleness", entry.get("staleness"), record["staleness"]))
            faults += [
                f"Step {entry.get('version')}: {difference.text(file, names)}"
                for difference in comparisons
                if difference.logged != difference.recorded
            ]
        except READING_ERRORS as error:
            faults.append(f"Step {record.get('round')}: {file} cannot be compared: {error!r}.")
    return faults


@dataclass(frozen=True)
class Difference:
    """What a log and a record say differently of one round.

    Attributes:
        name: the name of the value, such as "cohort".
        logged: the value in the log.
        recorded: the value in the record.
    """

    name: str
    logged: Any
    recorded: Any

    def text(self, file: str, names: ClientNames) -> str:
        """Say the difference in words; clients that only one of both has are named where they have names."""
        text = f"{self.name}: the log has {json_value(self.logged)}; {file} has {json_value(self.recorded)}."
        if names and self.name in LISTS_OF_CLIENTS:
            only_logged = [client for client in self.logged if client not in self.recorded]
            only_recorded = [client for client in self.recorded if client not in self.logged]
            if only_logged:
                text += f" Only the log has {names.list_clients(only_logged)}."
            if only_recorded:
                text += f" Only {file} has {names.list_clients(only_recorded)}."
        return text


def round_name(entry: ReadOnlyTable | RoundEntry) -> str:
    """Return an entry's round, as messages have it."""
    return str(entry.get("round", "?"))[:20]


def _differences(entry: RoundEntry, record: RoundRecord) -> list[Difference]:
    cohort = decode_ids(entry["cohort"])
    notes = dict(record["notes"] or {})
    comparisons = [
        Difference("round", entry["round"], record["round"]),
        Difference("number of available clients", decode_ids(entry["available"]).size, record["available"]),
        Difference("questions", _logged_questions(entry), _recorded_questions(record)),
        Difference("cohort", cohort.tolist(), record["cohort"]),
        Difference("weights", decode_numbers(entry["weights"], cohort.size).tolist(), record["weights"]),
        Difference("completed clients", done_ids(entry).tolist(), answered_ids(record)),
        Difference("clients that the policy left out", _count_left_out(entry), dict(record.get("excluded") or {})),
        Difference("refused numbers", entry.get("rejected") or {}, record.get("rejected") or {}),
        Difference(
            "refused updates",
            [int(client) for client in entry.get("blamed") or {}],
            notes.get("unsound_updates", []),
        ),
    ]
    logged_notes = {key: value for key, value in entry["notes"].items() if key != "guards"}
    if set(logged_notes) != {"sha256"}:  # else they are long, and compared by their digest when they are recomputed
        comparisons.append(Difference("notes", logged_notes, {key: notes.get(key) for key in logged_notes}))
    return [difference for difference in comparisons if difference.logged != difference.recorded]


def _count_left_out(entry: RoundEntry) -> dict[str, int]:
    """Return how many clients each rule of a policy left out, by the log."""
    return {rule: decode_ids(ids).size for rule, ids in (entry.get("excluded") or {}).items()}


def _logged_questions(entry: RoundEntry) -> list[list[str | int]]:
    """Return each signal with how many clients were asked, by the log."""
    return [[question["signal"], asked_ids(question, entry).size] for question in entry.get("asked") or []]


def _recorded_questions(record: RoundRecord) -> list[list[str | int]]:
    """Return each signal with how many clients were asked, by the record."""
    return [[question["signal"], question["asked"]] for question in record["questions"] or []]


def end_faults(run: run_folder.Run, config: RunConfig) -> list[str]:
    """Return where a run that says it is done lacks rounds, or has figures that do not follow from its records."""
    faults = []
    played = len(run.records)
    if run.summary.get("rounds") != played:
        faults.append(f"The summary has {run.summary.get('rounds')} rounds; rounds.jsonl {played}.")
    target = config.target if config.stop_at_target else None
    stop = StopRule(target, cast(list[RoundRecord], run.records))
    if config.until is not None:
        faults += _limit_faults(run, config.until, ends_early=stop.reached or played >= config.most_rounds)
    elif played < config.most_rounds and not stop.reached:
        faults.append(f"The run ends after {played} of {config.rounds} rounds, and no target was reached by then.")
    return faults + _figure_faults(run)


def _limit_faults(run: run_folder.Run, until: Until, *, ends_early: bool) -> list[str]:
    """Return whether a run ended before its cost reached the limit, without another reason, or went on beyond it."""
    costs = cumulative_costs(run.records)[until.currency]
    reached = np.flatnonzero(costs >= until.limit)
    if not reached.size:
        if ends_early:
            return []
        return [f"The run ends after {costs.size} rounds, and {until} were not reached by then."]
    beyond = costs.size - 1 - int(reached[0])
    if beyond:
        return [f"The run goes on for {beyond} rounds after {until} were reached."]
    return []


def _figure_faults(run: run_folder.Run) -> list[str]:
    """Return whether the summary's figures follow from the records."""
    try:
        computed = metrics.summarise(run)
        stored = run.summary.get("figures", {})
    except UNREADABLE as error:
        return [f"The summary's figures cannot be computed from the records: {error!r}."]
    differing = [name for name in computed if name in stored and not _are_close(computed[name], stored[name])]
    if not differing:
        return []
    first = differing[0]
    fault = f"The summary's {first} is {stored[first]}; by the records {computed[first]}."
    if len(differing) > 1:
        fault += f" {len(differing) - 1} more figures differ."
    return [fault]


def _are_close(computed: float | None, stored: float | None) -> bool:
    if computed is None or stored is None:
        return computed == stored
    return math.isclose(computed, stored, rel_tol=1e-9)
