"""What a run's configuration and seed say about its rounds: who is reachable; and, in a replay, all that happened."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import cast

import numpy as np

from sortition.audit.encoding import encode_ids, json_value
from sortition.audit.entry_writer import encode_excluded, encode_joined
from sortition.audit.recompute import Differs, Evidence
from sortition.core.arrays import Ids
from sortition.core.errors import show_value
from sortition.core.guards.answer_screening import Answers
from sortition.core.in_flight import ServerStep
from sortition.core.intake import attach_ids
from sortition.core.observer import Reports, add_observer
from sortition.core.population import Population
from sortition.core.questions import Measure
from sortition.core.round_record import RoundRecord
from sortition.core.turn import Turn
from sortition.simulation import Setup, start
from sortition.simulation.simulation import client_figures
from sortition.studies import build_federation


class Configured:
    """Computes from a run's set-up, without a replay, who is reachable in a round, how many are taken, and who joined.

    Args:
        setup: what the run played.
        records: of the run; their clocks say when rounds began.
    """

    def __init__(self, setup: Setup, records: Sequence[RoundRecord]) -> None:
        self.setup = setup
        self._records = records
        self._clocks = build_federation.starting_clocks(records)
        self._t = 0

    def __call__(self, t: int) -> Evidence:
        """Return what the log's entry of round t must have."""
        self._t = t
        expected: dict[str, object] = {
            "available": encode_ids(np.flatnonzero(self.setup.reachable(t, self._clocks[t]))),
            "budget": self.setup.cohort_pace.places,
            "joined": encode_joined(self.setup.known(t)) if self._has_newcomers(t) else None,
        }
        return Evidence(expected=expected)

    def _has_newcomers(self, t: int) -> bool:
        faults = self.setup.faults
        if t == 0:
            return False
        return faults.newcomers(t).size > 0 or faults.taken(t).size > 0

    def population(self, clients: int) -> Population:
        """Return who is known in the round asked for last."""
        return self.setup.known(self._t)


class Replay(Configured):
    """Repeats the run, as an observer of its own registrar; every record is compared with rounds.jsonl."""

    def __init__(self, setup: Setup, records: Sequence[RoundRecord]) -> None:
        super().__init__(setup, records)
        self._simulation = start(setup)
        self._evidence = Evidence()
        registrar = self._simulation.registrar
        registrar.observer = add_observer(registrar.observer, self)

    def __call__(self, t: int) -> Evidence:
        """Repeat round t."""
        self._evidence = super().__call__(t)
        replayed = self._simulation.play_round()
        stored = self._records[t]
        _check_same_record(stored, self._evaluated_like(stored, replayed, t))
        return self._evidence

    def _evaluated_like(self, stored: RoundRecord, replayed: RoundRecord, t: int) -> RoundRecord:
        """Return the replayed record with the evaluations of a round that was the last one before the run got more."""
        world = self.setup.world_at(t)
        params = self._simulation.params
        record = replayed.copy()
        if "test" in stored and "test" not in record:
            record["test"] = world.evaluator.score(params)
        if "clients" in stored and "clients" not in record:
            record["clients"] = client_figures(
                world.evaluator.client_scores(params), higher_is_better=world.evaluator.higher_is_better
            )
        return cast(RoundRecord, json.loads(json.dumps(json_value(record))))

    def begun(self, turn: Turn, available: Ids, budget: int) -> None:
        """Forget the answers to an abandoned turn: a new one begins."""
        self._evidence.answers.clear()

    def answered(self, turn: Turn, question: Measure, answers: Answers) -> None:
        """Keep the answers."""
        self._evidence.answers.append(answers)

    def dispatched(self, turn: Turn) -> None:
        """Keep nothing: the round is finished next."""

    def gave_up(self, ids: Ids, reason: str) -> None:
        """Keep nothing: a replayed round ends with all its work."""

    def stepped(self, step: ServerStep, reports: Reports) -> None:
        """Keep the reports of a step."""
        self._evidence.reports = {name: attach_ids(name, report, step.arrived) for name, report in reports.items()}

    def finished(self, turn: Turn, done: Ids, reports: Reports) -> None:
        """Keep who completed, the reports, and whose updates were refused."""
        self._evidence.reports = {name: attach_ids(name, report, done) for name, report in reports.items()}
        all_completed = turn.cohort is None or np.array_equal(done, turn.cohort.ids)
        self._evidence.expected |= {
            "done": None if all_completed else encode_ids(done),
            "blamed": json_value(turn.blamed) or None,
            "excused": sorted(turn.excused & turn.blamed.keys()) or None,
            "scales": json_value(turn.scales) or None,
            "excluded": encode_excluded(turn.excluded),
        }

    def joined(self, population: Population) -> None:
        """Keep nothing: the set-up says who joins."""


def _check_same_record(stored: RoundRecord, replayed: RoundRecord) -> None:
    for key in {**replayed, **stored}:
        if replayed.get(key) != stored.get(key):
            expected = show_value(replayed.get(key))
            actual = show_value(stored.get(key))
            raise Differs(f"{key} in rounds.jsonl should be {expected}, as the replay has it; it is {actual}.")
