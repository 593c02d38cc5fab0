"""An observer sees what goes in and out; what the audit log tells is enough to choose the same again."""

import json

import numpy as np
import pytest

from sortition.audit import hash_chain
from sortition.audit.entry_writer import commit_to_seed, population_digest
from sortition.audit.log import AuditLog, derive_salt, draw_salt
from sortition.audit.recompute import Evidence, recompute
from sortition.core import Guards, Population, Reading, Registrar
from sortition.selectors import discover, find, load
from sortition.testing.play import AnswerFaults, share_of, turns
from sortition.testing.worlds import ScriptedWorld

SALT = bytes(32)
ROUNDS = 6
FAULTY = AnswerFaults(lost=0.1, spoiled=0.1, silent=0.2)


class Ear:
    """Keeps what clients sent, as a replay would give it again."""

    def __init__(self, log):
        self.log, self.rounds = log, []

    def begun(self, turn, available, budget):
        self.log.begun(turn, available, budget)
        self.heard = Evidence()

    def answered(self, turn, question, answers):
        self.log.answered(turn, question, answers)
        self.heard.answers.append(answers)

    def finished(self, turn, done, reports):
        self.log.finished(turn, done, reports)
        self.rounds.append(Evidence(self.heard.answers, dict(reports)))

    def joined(self, population):
        self.log.joined(population)


def fresh(selector, world=None, **rest):
    return Registrar(selector, (world or ScriptedWorld()).population, horizon=ROUNDS, seed=3, **rest)


def logged(selector, rounds=ROUNDS, faults=FAULTY, **rest):
    """The lines of a few rounds with faults, and what was heard in each."""
    world, lines = ScriptedWorld(), []
    registrar = fresh(selector, world, **rest)
    log = AuditLog(registrar, SALT, lines.append)
    registrar.observer = ear = Ear(log)
    list(turns(registrar, world, rounds, 4, share_of(world, 0.6), faults))
    log.flush()
    return lines, ear.rounds


def entries(lines):
    return [json.loads(line) for line in lines[1:]]


@pytest.mark.parametrize("name", discover())
def test_every_choice_of_every_method_is_made_again(name):
    method = find(name)
    selector = method.load(**method.examples()[0])
    lines, heard = logged(selector)
    assert hash_chain.find_breaks(hash_chain.read_links(line.rstrip(b"\n") for line in lines)) == []
    result = recompute(entries(lines), fresh(selector), evidence=lambda t: heard[t])
    assert (result.rounds, result.differences, result.stopped_because) == (ROUNDS, [], "")
    alone = recompute(entries(lines), fresh(selector))  # the log and nothing else
    assert alone.differences == []
    needs = fresh(selector).needs  # as resolved
    vectors = any(not signal.scalar for signal in (*needs.asks, *needs.reports))
    assert (alone.rounds < ROUNDS) == vectors
    assert ("only digests" in alone.stopped_because) == vectors


def test_the_same_seed_gives_the_same_bytes():
    selector = load("power-of-choice", d=6)
    assert logged(selector)[0] == logged(selector)[0]


def test_guards_are_part_of_it():
    guards = Guards(explore=0.5, winsorise=3.0, quarantine=2, strikes=1)
    selector = load("power-of-choice", d=6)
    lines, _ = logged(selector, guards=guards)
    assert json.loads(lines[0])["guards"]["explore"] == 0.5
    assert recompute(entries(lines), fresh(selector, guards=guards)).rounds == ROUNDS
    assert recompute(entries(lines), fresh(selector)).differences != []


def changed(lines, t, change):
    told = entries(lines)
    change(told[t])
    return told


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda e: e.update(cohort=[*e["cohort"][:-1], 0]), r"the cohort should be .*; the log has \[.* 0\]"),
        (lambda e: e.update(weights=[0.7, 0.1, 0.1, 0.1]), "Round 3: the cohort's weights should be 0.25; the log has"),
        (lambda e: e.update(available=e["available"][4:]), "Round 3"),
        (lambda e: e["asked"][0].update(ids=e["asked"][0]["ids"][::-1]), "clients asked for 'loss' should be"),
        (lambda e: e["asked"][0].update(signal="gradient"), "should be for 'loss'; the log has 'gradient'"),
        (lambda e: e["asked"][0]["answers"].update(values=[9.0] * len(e["asked"][0]["answers"]["values"])), "cohort"),
        (lambda e: e.pop("asked"), "a question that the log lacks"),
        (lambda e: e["asked"].append(e["asked"][0]), "that is not asked"),
        (lambda e: e.update(notes={"because": "I say so"}), "notes"),
        (lambda e: e.update(round=7), "should have round 3 here"),
        (lambda e: e.update(budget="many"), "Round 3"),
        (lambda e: e.update(available="0-99999999999"), "Round 3 cannot be recomputed"),
        (lambda e: e.pop("cohort"), "cohort"),
    ],
)  # fmt: skip
def test_a_forged_entry_is_found_even_if_its_hash_is_right(change, message):
    selector = load("power-of-choice", d=6)
    lines, _ = logged(selector, faults=AnswerFaults())
    result = recompute(changed(lines, 3, change), fresh(selector))
    assert result.rounds == 3
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(result.differences[0])


def test_a_replay_finds_answers_that_were_forged_without_changing_the_choice():
    selector = load("power-of-choice", d=6)
    lines, heard = logged(selector, faults=AnswerFaults())

    def higher(entry):
        answers = entry["asked"][0]["answers"]
        answers["values"][int(np.argmax(answers["values"]))] += 1.0

    told = changed(lines, 3, higher)
    assert recompute(told, fresh(selector)).rounds == ROUNDS  # consistent in itself
    (difference,) = recompute(told, fresh(selector), evidence=lambda t: heard[t]).differences
    assert "Round 3: the answers to 'loss' of client" in difference


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("available", [1, 2], r"the available clients should be \[1, 2\]; the log has"),
        ("budget", 9, "the budget should be 9; the log has 4"),
        ("joined", {"clients": 50}, "the population should be"),
        ("done", [0], r"the completed clients should be \[0\]; the log has None"),
        ("blamed", {"0": "not finite"}, "the clients with refused updates should be"),
    ],
)
def test_what_is_known_from_elsewhere_is_held_against_the_log(key, value, message):
    selector = load("uniform")
    lines, _ = logged(selector, faults=AnswerFaults())
    own = [{key: entry.get(key)} for entry in entries(lines)]
    assert recompute(entries(lines), fresh(selector), evidence=lambda t: Evidence(expected=own[t])).rounds == ROUNDS
    own[2][key] = value
    result = recompute(entries(lines), fresh(selector), evidence=lambda t: Evidence(expected=own[t]))
    assert result.rounds == 2
    with pytest.raises(AssertionError, match=f"Round 2: {message}"):
        raise AssertionError(result.differences[0])


def guarded():
    """Five clients of one owner, and one that has sent nonsense: the log of that round and of the one after it."""
    guards, lines = Guards(quarantine=2, strikes=1, quota=2), []
    people = Population(np.ones(10), groups=np.array([0] * 5 + [1, 2, 3, 4, 5]))
    registrar = Registrar(load("uniform"), people, seed=3, guards=guards)
    registrar.observer = log = AuditLog(registrar, SALT, lines.append)
    turn = registrar.begin(np.arange(10), 4)
    bad = int(turn.cohort.ids[0])
    turn.blame({bad: "not finite"})
    registrar.finish(turn)
    turn = registrar.begin(np.arange(10), 4)
    registrar.finish(turn)
    log.flush()
    return lines, bad, turn, lambda: Registrar(load("uniform"), people, seed=3, guards=guards)


def test_whom_the_guards_kept_out_is_told():
    lines, bad, turn, again = guarded()
    told = entries(lines)[1]["kept_out"]
    assert told["quarantined"] == [bad]
    seen = set(turn.round.available.tolist())
    assert set(told["quota"]) == set(range(10)) - seen - {bad}
    assert len(told["quota"]) in (2, 3)  # of owner 0's five clients two have a place; one may be in quarantine
    assert recompute(entries(lines), again()).rounds == 2
    forged = changed(lines, 1, lambda entry: entry["kept_out"].pop("quarantined"))
    assert "kept out by the guards" in recompute(forged, again()).differences[0]


def test_a_log_that_does_not_say_whom_the_guards_kept_out_differs():
    lines, _, _, again = guarded()
    without = [{key: value for key, value in entry.items() if key != "kept_out"} for entry in entries(lines)]
    assert recompute(entries(lines), again()).rounds == 2
    assert recompute(without, again()).rounds == 0


def test_places_that_stay_empty_stand_in_the_log():
    lines, registrar = [], fresh(load("uniform"))
    registrar.observer = log = AuditLog(registrar, SALT, lines.append)
    registrar.finish(registrar.begin([1, 2], 5))
    registrar.finish(registrar.begin(range(6), 5))
    log.flush()
    assert [entry["notes"] for entry in entries(lines)] == [{"shortfall": 3}, {}]
    assert recompute(entries(lines), fresh(load("uniform"))).rounds == 2
    for notes in ({}, {"shortfall": 2}):
        forged = changed(lines, 0, lambda entry, notes=notes: entry.update(notes=notes))
        assert recompute(forged, fresh(load("uniform"))).rounds == 0


@pytest.mark.parametrize("change", [{"0": "made up"}, None])
def test_refusals_follow_from_what_arrived(change):
    selector = load("power-of-choice", d=6)
    lines, _ = logged(selector)
    at = next(t for t, entry in enumerate(entries(lines)) if "rejected" in entry)
    told = changed(lines, at, lambda e: e.pop("rejected") if change is None else e.update(rejected=change))
    result = recompute(told, fresh(selector))
    assert result.rounds == at
    assert result.differences[0].startswith(f"Round {at}: the refused numbers")


def test_an_odd_row_of_any_announced_shape_takes_no_memory():
    selector = load("power-of-choice", d=6)
    lines, _ = logged(selector, faults=AnswerFaults())
    told = changed(lines, 0, lambda e: e["asked"][0]["answers"].update(odd={"0": [10**6, 10**6]}))
    assert recompute(told, fresh(selector)).rounds == 0


def test_a_vector_that_has_not_its_digest_is_found():
    selector = find("hics").load(**find("hics").examples()[0])
    lines, heard = logged(selector, faults=AnswerFaults())
    (name, reading), *_ = heard[2].reports.items()
    values = reading.values.copy()
    values[1] += 1e-9
    heard[2].reports[name] = Reading(reading.ids, values)
    (difference,) = recompute(entries(lines), fresh(selector), evidence=lambda t: heard[t]).differences
    assert difference.startswith(f"Round 2: the report '{name}' of client {reading.ids[1]} should be")


def test_rows_of_an_odd_form_are_told_and_refused_again():
    selector = load("power-of-choice", d=6)
    lines = []
    registrar = fresh(selector)
    registrar.observer = log = AuditLog(registrar, SALT, lines.append)
    turn = registrar.begin(np.arange(40), 3)
    asked = turn.question.ids.tolist()
    turn.answer({asked[0]: [1.0, 2.0], asked[1]: "rubbish", **dict.fromkeys(asked[2:], 1.5)})
    registrar.finish(turn)
    log.flush()
    assert entries(lines)[0]["asked"][0]["answers"]["odd"] == {str(asked[0]): [2], str(asked[1]): None}
    again = fresh(selector)
    assert recompute(entries(lines), again).rounds == 1
    assert again.strikes.tolist() == registrar.strikes.tolist()
    assert again.strikes.sum() == 2


def test_an_abandoned_turn_and_a_round_played_again_have_one_line():
    selector, lines = load("uniform"), []
    registrar = fresh(selector)
    registrar.observer = log = AuditLog(registrar, SALT, lines.append)
    registrar.begin(np.arange(10), 3)
    saved = registrar.export()
    registrar.finish(registrar.begin(np.arange(20), 3))
    registrar.restore(*saved)  # the server fell over before the round was recorded
    registrar.finish(registrar.begin(np.arange(30), 3))
    registrar.finish(registrar.begin(np.arange(40), 3))
    log.flush()
    assert [entry["available"] for entry in entries(lines)] == [list(range(30)), list(range(40))]


def test_clients_that_join_are_told_with_the_round_they_join_in():
    selector, lines = load("by-size"), []
    small, large = Population(np.arange(5, 15)), Population(np.arange(5, 25))
    registrar = Registrar(selector, small, seed=3)
    registrar.observer = log = AuditLog(registrar, SALT, lines.append)
    registrar.finish(registrar.begin(np.arange(10), 3))
    registrar.join(large)
    registrar.finish(registrar.begin(np.arange(20), 3))
    registrar.finish(registrar.begin(np.arange(20), 3))
    log.flush()
    assert [entry.get("joined", {}).get("clients") for entry in entries(lines)] == [None, 20, None]
    known = recompute(entries(lines), Registrar(selector, small, seed=3), population=lambda n: large)
    assert known.rounds == 3
    unknown = recompute(entries(lines), Registrar(selector, small, seed=3))
    assert (unknown.rounds, unknown.differences) == (1, [])
    assert "their facts are not available" in unknown.stopped_because


def test_commitments_hide_and_bind():
    assert commit_to_seed(SALT, 3) != commit_to_seed(SALT, 4)
    assert commit_to_seed(SALT, 3) != commit_to_seed(derive_salt(3), 3)
    assert derive_salt(3) == derive_salt(3)
    assert draw_salt() != draw_salt()


def test_a_round_of_100_000_clients_stays_small():
    lines = []
    registrar = Registrar(load("power-of-choice", d=200), Population(np.ones(100_000)), seed=0)
    registrar.observer = log = AuditLog(registrar, SALT, lines.append)
    turn = registrar.begin(np.flatnonzero(np.random.default_rng(0).random(100_000) < 0.5), 50)
    turn.answer(Reading(turn.question.ids, np.random.default_rng(1).random(200)))
    registrar.finish(turn)
    log.flush()
    assert len(lines[1]) < 24_000  # of which 100,000 bits of availability are 16,700


def test_the_digest_of_a_population_knows_every_fact():
    base = Population(np.arange(1, 6), groups=np.arange(5))
    others = [
        Population(np.arange(1, 6)),
        Population(np.arange(1, 6) + 1, groups=np.arange(5)),
        Population(np.arange(1, 6), groups=np.arange(5)[::-1]),
        Population(np.arange(1, 6), groups=np.arange(5), known_ids=[0, 1]),
    ]
    assert len({population_digest(one) for one in (base, *others)}) == 5
    assert population_digest(base) == population_digest(Population(np.arange(1, 6), groups=np.arange(5)))


GUARDED = Guards(norm=5, remember=20, strikes=1, quarantine=2, returning=0.4)


@pytest.mark.parametrize("name", ["power-of-choice", "oort", "divfl"])
def test_remembered_scales_are_logged_and_recomputed(name):
    lines, heard = logged(load(name), guards=GUARDED)
    told = [entry["scales"] for entry in entries(lines) if "scales" in entry]
    assert told
    fresh_registrar = fresh(load(name), guards=GUARDED)
    result = recompute(entries(lines), fresh_registrar, evidence=lambda t: heard[t])
    assert (result.differences, result.rounds) == ([], ROUNDS)
    forged = entries(lines)
    last = next(entry for entry in reversed(forged) if "scales" in entry)
    last["scales"] = {name: 2 * scale for name, scale in last["scales"].items()}
    result = recompute(forged, fresh(load(name), guards=GUARDED), evidence=lambda t: heard[t])
    assert "remembered scales" in result.differences[0]
