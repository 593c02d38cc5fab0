"""What a run's configuration and seed say about its rounds: who is reachable; and, in a replay, all that happened."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sortition.audit.encoding import encode_ids, json_value
from sortition.audit.entries import encode_joined
from sortition.audit.recompute import Differs, Evidence
from sortition.core.arrays import Ids
from sortition.core.errors import shown
from sortition.core.flights import Received
from sortition.core.guards.screening import Answers
from sortition.core.intake import with_ids
from sortition.core.observer import Reports
from sortition.core.questions import Measure
from sortition.core.rounds import Population
from sortition.core.turn import Turn
from sortition.simulation import Setup, start
from sortition.simulation.simulation import client_figures


class Configured:
    """What the configuration says of a round without a replay: who is reachable, how many can be taken, who joined."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self._t = 0

    def __call__(self, t: int) -> Evidence:
        """What the log's entry of round t must have."""
        self._t, faults = t, self.setup.faults
        grown = t > 0 and (faults.size(t) > faults.size(t - 1) or faults.taken(t).size > 0)
        people = self.setup.known(t) if grown else None
        expected = {
            "available": encode_ids(np.flatnonzero(self.setup.reachable(t))),
            "budget": self.setup.cohort_pace.places,
            "joined": None if people is None else encode_joined(people),
        }
        return Evidence(expected=expected)

    def population(self, clients: int) -> Population:
        """Who is known in the round asked for last."""
        return self.setup.known(self._t)


class Replay(Configured):
    """The run, repeated, as an observer of its own registrar; every record is compared with rounds.jsonl."""

    def __init__(self, setup: Setup, records: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(setup)
        self._simulation = start(setup)
        self._records = records
        self._evidence = Evidence()
        self._simulation.registrar.observer = self

    def __call__(self, t: int) -> Evidence:
        """Repeat round t."""
        self._evidence = super().__call__(t)
        record = self._simulation.play_round()
        if t < len(self._records):
            _same(self._records[t], self._measured(t, record, self._records[t]))
        return self._evidence

    def _measured(self, t: int, record: Mapping[str, Any], logged: Mapping[str, Any]) -> dict[str, Any]:
        """The record, evaluated also where a run once ended that was then given more rounds."""
        world, params = self.setup.at(t).world, self._simulation.params
        if "test" in logged and "test" not in record:
            record = {**record, "test": world.evaluator.score(params)}
        if "clients" in logged and "clients" not in record:
            record = {**record, "clients": client_figures(world.evaluator.client_accuracies(params))}
        if "shortfall" not in (logged.get("notes") or {}):  # older records lack it; newer logs must have it
            record = {**record, "notes": {name: note for name, note in record["notes"].items() if name != "shortfall"}}
        if "trainings" not in logged:  # older records lack them too
            record = {key: value for key, value in record.items() if key not in ("trainings", "uploads")}
        return dict(json.loads(json.dumps(json_value(record))))

    def begun(self, turn: Turn, available: Ids, budget: int) -> None:
        """A new turn: the one before it was abandoned."""
        self._evidence.asked.clear()

    def answered(self, turn: Turn, question: Measure, answers: Answers) -> None:
        """Keep the answers."""
        self._evidence.asked.append(answers)

    def dispatched(self, turn: Turn) -> None:
        """Nothing to keep: the round is finished next."""

    def gave_up(self, ids: Ids, reason: str) -> None:
        """Nothing to keep."""

    def stepped(self, step: Received, reports: Reports) -> None:
        """Keep the reports of a step."""
        self._evidence.reports = {name: with_ids(name, given, step.arrived) for name, given in reports.items()}

    def finished(self, turn: Turn, done: Ids, reports: Reports) -> None:
        """Keep who completed, the reports, and whose updates were refused."""
        self._evidence.reports = {name: with_ids(name, given, done) for name, given in reports.items()}
        all_of_it = turn.cohort is None or np.array_equal(done, turn.cohort.ids)
        self._evidence.expected |= {
            "done": None if all_of_it else encode_ids(done),
            "blamed": json_value(turn.blamed) or None,
        }

    def joined(self, population: Population) -> None:
        """Nothing to keep: the set-up says who joins."""


def _same(logged: Mapping[str, Any], played: Mapping[str, Any]) -> None:
    for key in {**played, **logged}:
        if played.get(key) != logged.get(key):
            mine, other = shown(played.get(key)), shown(logged.get(key))
            raise Differs(f"{key} in rounds.jsonl should be {mine}, as the replay has it; it is {other}.")
