"""Who may be chosen, by name, tag or facts; facts of one's own; and options that cannot work."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")

from flwr.app import ConfigRecord
from flwr.serverapp.strategy import FedAvg
from tests.federation import policy_rules
from tests.flower.loopback import MODEL, Loopback, node

from sortition.core import Cohort, Needs, Policy, Selector
from sortition.core.errors import InputError
from sortition.federation.members import MemberDirectory
from sortition.flower import SelectorStrategy, codec
from sortition.selectors import load
from sortition.studies.audit.audit_run import examine_log

UNIFORM = load("uniform", weights="uniform")
QUIET = FedAvg(fraction_evaluate=0.0)
TAGS = {0: ["gpu"], 1: [], 2: ["gpu", "eu"], 3: ["eu"]}


def federation(facts=None, tags=TAGS):
    def tagged(k):
        inner = node(f"site-{k}", {name: np.asarray(rows[k]) for name, rows in (facts or {}).items()})

        def answered(message):
            reply = inner(message)
            if codec.SELF in reply:
                reply[codec.SELF] = ConfigRecord({**reply[codec.SELF], "tags": tags[k]})
            return reply

        return answered

    return Loopback({k: tagged(k) for k in range(4)})


def available(eligible, grid=None, **options):
    made = SelectorStrategy(UNIFORM, cohort=4, strategy=QUIET, eligible=eligible, **options)
    made.start(grid or federation(), codec.to_record(MODEL), 1)
    return made.history[0]["present"]


def test_eligible_are_names_or_tags():
    assert available(["site-1", "site-3", "elsewhere"]) == [1, 3]
    assert available({"gpu"}) == [0, 2]
    assert available(("eu", "site-0")) == [0, 2, 3]
    assert available(None) == [0, 1, 2, 3]


def test_eligible_is_a_function_of_name_and_facts():
    battery = {"battery": [0.9, 0.1, 0.8, 0.2]}
    grid = federation(battery)
    found = available(lambda name, facts: facts["battery"] > 0.5, grid=grid, facts=["battery"])
    assert found == [0, 2]
    assert list(codec.Assignment.of(grid.sent[0].content).facts) == ["battery"]
    assert available(lambda name, facts: name.endswith("1")) == [1]


def test_where_nobody_is_eligible_the_rounds_are_skipped_and_the_run_says_so():
    made = SelectorStrategy(UNIFORM, cohort=2, strategy=QUIET, eligible=["nobody"], patience=0.1)
    with pytest.raises(InputError, match="None of 2 rounds brought an update"):
        made.start(federation(), codec.to_record(MODEL), 2)
    assert [record["notes"]["skipped"] for record in made.history] == ["nobody available"] * 2


@pytest.mark.parametrize(
    ("eligible", "told"),
    [
        (lambda name, facts: facts["battery"] > 0.2, "whose facts are none; got KeyError: 'battery'. Facts that the"),
        (lambda name, facts: np.ones(2), "got ValueError: The truth value of an array"),
    ],
)
def test_a_function_that_fails_is_named_with_the_client(eligible, told):
    with pytest.raises(InputError) as met:
        available(eligible)
    assert "SelectorStrategy.eligible must give true or false of client 'site-0'" in str(met.value)
    assert told in str(met.value)


def test_facts_that_no_population_can_hold_are_refused_at_once():
    for fact in ("n_clients", "known_ids", "_own", "label_count", "two words"):
        with pytest.raises(InputError, match=r"Unknown population fact .*; SelectorStrategy.facts: Population has"):
            SelectorStrategy(UNIFORM, cohort=2, facts=[fact])


def test_a_folder_is_no_file(tmp_path):
    for name in ("checkpoint", "resume", "audit"):
        with pytest.raises(InputError, match=rf"SelectorStrategy.{name} must be the path of a file; got the folder"):
            SelectorStrategy(UNIFORM, cohort=2, **{name: tmp_path})


def test_what_is_no_choice_of_clients_is_refused():
    for eligible in ("site-1", 3):
        with pytest.raises(InputError, match="eligible must be names, tags or a function"):
            SelectorStrategy(UNIFORM, cohort=2, eligible=eligible)


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("guards", {"explore": 0.1}, r"Guards or None; got {'explore': 0\.1}\. Write Guards\(explore=0\.1\)"),
        ("guards", {}, "Guards or None"),
        ("overselect", "2", "finite and ≥ 1; got '2'"),
        ("answer_timeout", "60", "seconds > 0; got '60'"),
        ("profile_timeout", None, "seconds > 0; got None"),
        ("patience", None, "seconds ≥ 0; got None"),
        ("cohort", "2", "a whole number ≥ 1"),
        ("seed", "a", "a whole number ≥ 0; got 'a'"),
        ("seed", -1, "a whole number ≥ 0; got -1"),
        ("horizon", "a", "a whole number ≥ 1 or None; got 'a'"),
        ("owner_of", "x", "a function or None; got 'x'"),
        ("on_round", 3, "a function or None; got 3"),
        ("facts", "features", "a list of names; got 'features'"),
        ("facts", [3], r"a list of names; got \[3\]"),
        ("checkpoint", 3, "a path; got 3"),
        ("resume", 3, "a path; got 3"),
        ("audit", 3, "a path; got 3"),
    ],
)
def test_options_of_a_wrong_type_are_refused_at_once(name, value, rule):
    with pytest.raises(InputError, match=rf"SelectorStrategy\.{name} must be {rule}"):
        SelectorStrategy(UNIFORM, **{"cohort": 2, name: value})


def test_a_seed_of_numpy_is_kept_as_a_number_that_json_knows():
    assert type(SelectorStrategy(UNIFORM, cohort=2, seed=np.int64(3)).seed) is int


@dataclass(frozen=True)
class Charged(Selector):
    """The clients with the fullest batteries: a method of one's own, with a fact of its own."""

    @property
    def needs(self):
        return Needs(reads=("battery", "place"))

    def select(self, state, round):
        order = np.argsort(-round.population.battery[round.available], kind="stable")
        assert round.population.place.shape == (round.n_clients, 2)
        return Cohort.uniform(round.available[order][: round.budget])


def test_a_selector_reads_facts_of_ones_own(tmp_path):
    facts = {"battery": [0.1, 0.9, 0.2, 0.8], "place": [[0, 1]] * 4}
    made = SelectorStrategy(
        Charged(), cohort=2, strategy=QUIET, audit=tmp_path / "a.jsonl", checkpoint=tmp_path / "c.npz"
    )
    made.start(federation(facts), codec.to_record(MODEL), 2)
    assert made.history[0]["names"] == ["site-1", "site-3"]
    assert examine_log(tmp_path / "a.jsonl").faults == []
    resumed = SelectorStrategy(Charged(), cohort=2, strategy=QUIET, checkpoint=tmp_path / "c.npz", resume=True)
    resumed.start(federation(facts), codec.to_record(MODEL), 3)
    assert [record["cohort"] for record in resumed.history] == [[1, 3]] * 3


def test_records_name_the_cohort():
    made = SelectorStrategy(UNIFORM, cohort=2, strategy=QUIET)
    made.start(federation(), codec.to_record(MODEL), 2)
    for record in made.history:
        assert record["names"] == [f"site-{k}" for k in record["cohort"]]


def test_a_policy_is_kept_and_its_facts_are_asked_for(tmp_path):
    grid = federation({"battery": [0.9, 0.1, 0.8, 0.7]})
    policy = [Policy(battery=0.5), Policy(participations=1, window="2 rounds", per="tag", only=["gpu"])]
    options = {"policy": policy, "ledger": tmp_path / "devices.sqlite", "patience": 0.1}
    made = SelectorStrategy(UNIFORM, cohort=2, strategy=QUIET, **options)
    made.start(grid, codec.to_record(MODEL), 4)
    chosen = [set(record["cohort"]) for record in made.history]
    assert all(1 not in cohort for cohort in chosen)
    assert all(record["excluded"]["battery=0.5"] == 1 for record in made.history)
    for before, after in pairwise(chosen):
        assert len((before & {0, 2}) | (after & {0, 2})) + len(before & after & {0, 2}) <= 1
    assert any(cohort & {0, 2} for cohort in chosen)
    assert (tmp_path / "devices.sqlite").exists()


@pytest.mark.parametrize("rule", policy_rules.RULES)
def test_each_rule_of_a_policy(rule, monkeypatch):
    monkeypatch.setattr(MemberDirectory, "hour", lambda self, utc: policy_rules.NOON)
    made = SelectorStrategy(
        UNIFORM,
        cohort=2,
        strategy=QUIET,
        policy=Policy(**policy_rules.options_of(rule, parameters=2)),
        owner_of=lambda name: "company",
        patience=0.0,
    )
    grid = federation(policy_rules.FACTS, tags=[["phone"]] * 4)
    if rule in policy_rules.NOBODY:
        with pytest.raises(InputError, match="None of 2 rounds brought an update"):
            made.start(grid, codec.to_record(MODEL), 2)
    else:
        made.start(grid, codec.to_record(MODEL), 2)
    policy_rules.check_two_rounds(rule, made.history)


def test_a_policy_that_leaves_nobody_skips_rounds_with_the_reason():
    made = SelectorStrategy(UNIFORM, cohort=4, strategy=QUIET, policy=Policy(lifetime=1), patience=0.1)
    made.start(federation(), codec.to_record(MODEL), 3)
    assert [record["skipped"] for record in made.history] == [False, True, True]
    assert made.history[2]["notes"]["skipped"] == "nobody eligible"
    assert made.history[2]["excluded"] == {"lifetime=1": 4}
