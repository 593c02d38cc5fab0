"""A log of rounds that overlap: selections, work given up and steps, in order; every choice is made again from it."""

import copy
import json
import re

import pytest
from tests.simulation.test_event_loop import ARRIVAL, BUFFERED, CHANGING, LATE, setup

from sortition.audit import hash_chain
from sortition.audit.events import logged_steps
from sortition.audit.log import AuditLog
from sortition.audit.recompute import recompute
from sortition.core.guards.settings import Guards
from sortition.selectors import find
from sortition.simulation import run_checkpoint, start

ROUNDS = 10
SALT = bytes(32)
SCALAR = ["uniform", "power-of-choice", "active", "oort", "cs-ucb-q", "by-size"]


def logged(about, rounds=ROUNDS):
    lines = []
    simulation = start(about)
    log = simulation.registrar.observer = AuditLog(simulation.registrar, SALT, lines.append)
    records = [simulation.play_round() for _ in range(rounds)]
    log.flush()
    return lines, records, simulation


def entries(lines):
    return [json.loads(line) for line in lines[1:]]


@pytest.mark.parametrize("name", SCALAR)
@pytest.mark.parametrize("pace", [LATE, BUFFERED, ARRIVAL], ids=["late", "buffered", "arrival"])
def test_every_choice_is_made_again(name, pace):
    if pace is ARRIVAL and find(name).counts_rounds:
        return
    guards = Guards(explore=0.3, ceiling=2.0, quarantine=2, strikes=1)
    about = setup(pace, name, faults=CHANGING, guards=guards, parameters=find(name).examples()[0], rounds=ROUNDS)
    lines, records, simulation = logged(about)
    assert hash_chain.find_breaks(hash_chain.read_links(line.rstrip(b"\n") for line in lines)) == []
    assert len(lines) == simulation.registrar.n_log_entries + 1
    result = recompute(entries(lines), start(about).registrar)
    assert (result.differences, result.stopped_because, result.rounds) == ([], "", len(lines) - 1)
    steps = logged_steps(entries(lines))
    assert [step.cohort for step in steps] == [record["cohort"] for record in records]
    used = [record["cohort"] if record["answered"] is None else record["answered"] for record in records]
    assert [step.used for step in steps] == used


@pytest.mark.parametrize(
    ("event", "key", "change", "message"),
    [
        ("step", "weights", lambda entry: [0.5] * len(entry["received"]), "Step .*weights should be"),
        ("step", "staleness", lambda entry: [9] * len(entry["received"]), "Step .*staleness should be"),
        ("step", "version", lambda entry: entry["version"] + 1, "the version should be"),
        ("step", "received", lambda entry: entry["received"][:-1], "Step"),
        ("selected", "cohort", lambda entry: [*entry["cohort"][:-1], 9 - entry["cohort"][-1]], "cohort should be"),
    ],
)
def test_what_was_changed_is_found(event, key, change, message):
    about = setup(BUFFERED, rounds=6)
    chain = entries(logged(about, 6)[0])
    place = max(row for row, entry in enumerate(chain) if entry["event"] == event)
    forged = copy.deepcopy(chain)
    forged[place][key] = change(forged[place])
    result = recompute(forged, start(about).registrar)
    assert result.stopped_because == "an earlier round differs"
    assert re.search(message, result.differences[0])


def test_an_entry_that_is_left_out_is_found():
    about = setup(BUFFERED, faults=CHANGING, rounds=8)
    chain = entries(logged(about, 8)[0])
    place = next(row for row, entry in enumerate(chain) if entry["event"] == "given up")
    result = recompute(chain[:place] + chain[place + 1 :], start(about).registrar)
    assert result.differences


def test_a_run_that_goes_on_has_the_same_log(tmp_path):
    about = setup(ARRIVAL, rounds=8)
    whole, _, _ = logged(about, 8)
    lines = []
    first = start(about)
    log = first.registrar.observer = AuditLog(first.registrar, SALT, lines.append)
    for _ in range(4):
        first.play_round()
    log.flush()
    run_checkpoint.save(tmp_path / "file", first)
    again = run_checkpoint.load(tmp_path / "file", about)
    last = json.loads(lines[-1])["hash"]
    assert again.registrar.n_log_entries + 1 == len(lines)
    log = again.registrar.observer = AuditLog(again.registrar, SALT, lines.append, len(lines), last)
    for _ in range(4):
        again.play_round()
    log.flush()
    assert lines == whole
