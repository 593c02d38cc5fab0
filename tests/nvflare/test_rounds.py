"""Rounds of an NVFlare job, on a loopback: every method, ids, weights, unsound answers, options."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from nvflare.app_common.abstract.fl_model import FLModel
from tests.federation import policy_rules
from tests.nvflare.loopback import MODEL, Loopback, Quadratic, Site, facts, federation
from tests.nvflare.loopback_controllers import Workflow, begun, cohorts, made, played

from sortition.clients.named_arrays import as_vector
from sortition.core import InputError, Population, Registrar
from sortition.federation.members import MemberDirectory, natural_order
from sortition.nvflare.controller_options import read_options
from sortition.selectors import discover, find, load
from sortition.studies.audit.audit_run import examine_log


def runnable():
    """Methods whose default does not need a protocol between clients."""
    needs = {name: find(name).load().needs for name in discover()}
    return [name for name, one in needs.items() if not (one.of_server or any(s.of == "pairs" for s in one.asks))]


@pytest.mark.parametrize("name", runnable())
def test_every_method_runs_and_moves_the_model(name):
    loopback = federation()
    controller = begun(loopback, name)
    controller.rounds(4)
    assert any(cohorts(controller))
    assert not np.array_equal(controller.vector, as_vector(MODEL))
    assert loopback.warnings == []


@pytest.mark.parametrize("name", ["uniform", "fedgs", "fedss", "power-of-choice", "cs-ucb-q"])
def test_cohorts_are_those_of_the_registrar_fed_with_the_same_answers(name):
    controller = begun(federation(), name, rounds=4, seed=3)
    controller.rounds(4)
    rows = [facts(f"site-{number}") for number in range(1, 7)]
    table = {fact: np.stack([row[fact] for row in rows]) for fact in controller.settings.selector.needs.reads}
    alone = Registrar(controller.settings.selector, Population(**table, n_clients=6), horizon=4, seed=3)
    twin = begun(federation(), name, rounds=4, seed=3)
    twin.started.driver.registrar = alone
    twin.started.messenger.needs = alone.needs
    twin.rounds(4)
    assert cohorts(twin) == cohorts(controller)


def test_a_method_that_measures_seconds_repeats_itself_where_sites_take_the_same():
    choices = [cohorts(played(Workflow, federation(), "tifl", rounds=6, seed=3)) for _ in range(3)]
    assert choices[0] == choices[1] == choices[2]
    controller = begun(federation(), "tifl")
    controller.rounds(1)
    measured = controller.started.driver.registrar.state.total
    assert measured.tolist() == pytest.approx([0.001, 0.002, 0.003, 0.004, 0.005, 0.006])


def test_ids_do_not_depend_on_who_connected_first():
    loopback, late = federation(12), ["site-2", "site-1", "site-11"]
    loopback.offline = set(late)
    controller = begun(loopback, "by-size", cohort=3, wait_for=12)
    online = controller.transport.online

    def one_more_each_time():
        sites = online()
        if late:
            loopback.offline.discard(late.pop())
        return sites

    controller.transport.online = one_more_each_time
    controller.rounds(1)
    members = controller.started.members
    assert members.names == [f"site-{number}" for number in range(1, 13)]
    assert members.population().sizes.tolist() == [facts(name)["sizes"] for name in members.names]


def test_ids_follow_the_natural_order_of_names():
    controller = begun(federation(12), "uniform")
    controller.rounds(1)
    assert controller.started.members.names == [f"site-{number}" for number in range(1, 13)]
    assert sorted(["site-10", "site-2"], key=natural_order) == ["site-2", "site-10"]


def test_weights_are_the_cohorts():
    controller = begun(federation(), "by-size", cohort=3)
    (record,) = controller.rounds(1)
    models = controller.started.messenger.training.models
    pairs = zip(record["cohort"], record["weights"], strict=True)
    assert record["answered"] == record["cohort"]
    assert controller.vector == pytest.approx(sum(w * as_vector(models[k]) for k, w in pairs), abs=1e-6)


def test_optional_facts_are_used_where_all_sites_give_them():
    everybody, some = federation(), federation()
    some.sites["site-4"] = Site("site-4", facts=lambda site: {"sizes": 3})
    for loopback, by, reports in ((everybody, "labels", 1), (some, "updates", 1)):
        controller = begun(loopback, "microcosm")
        controller.rounds(2)
        assert controller.started.registrar.selector.by == by
        assert len(controller.started.messenger.needs.reports) == reports
        assert loopback.warnings == []


def test_the_model_says_how_long_vectors_are_and_not_most_sites():
    class TooLong(Quadratic):
        def gradient(self):
            return np.append(super().gradient(), 1.0)

    loopback = federation()
    for number in range(1, 5):
        loopback.sites[f"site-{number}"] = Site(f"site-{number}", client=TooLong)
    controller = begun(loopback, "divfl", cohort=6)
    controller.rounds(2)
    assert controller.started.registrar.strikes.tolist() == [2, 2, 2, 2, 0, 0]


def test_an_owner_has_no_more_places_than_its_quota():
    owners = {f"site-{number}": "bank" for number in range(1, 6)}
    controller = begun(federation(), "uniform", cohort=3, guards={"quota": 1}, owners=owners)
    records = controller.rounds(4)
    assert all(sum(client < 5 for client in record["cohort"]) <= 1 for record in records)


def test_a_policy_of_tables_is_kept(tmp_path):
    policy = [{"separation": "3 rounds"}, {"examples": 1}]
    ledger = tmp_path / "sites.sqlite"
    records = begun(federation(), "uniform", cohort=2, policy=policy, ledger=str(ledger), patience=0.1).rounds(5)
    for t, record in enumerate(records):
        recent = {client for earlier in records[max(0, t - 2) : t] for client in earlier["cohort"]}
        assert not recent & set(record["cohort"])
    assert records[2]["excluded"] == {"separation=3 rounds": 4}
    assert ledger.exists()


@pytest.mark.parametrize("rule", policy_rules.RULES)
def test_each_rule_of_a_policy(rule, monkeypatch):
    monkeypatch.setattr(MemberDirectory, "hour", lambda self, utc: policy_rules.NOON)
    sites = [
        Site(f"site-{client + 1}", facts=lambda site: policy_rules.facts_of(int(site[-1]) - 1), tags=("phone",))
        for client in range(4)
    ]
    parameters = sum(array.size for array in MODEL.values())
    policy = json.loads(json.dumps(policy_rules.options_of(rule, parameters)))
    owners = {site.name: "company" for site in sites}
    controller = begun(Loopback(sites), "uniform", cohort=2, policy=policy, owners=owners, patience=0.0)
    policy_rules.check_two_rounds(rule, controller.rounds(2))


def test_a_site_that_sends_nonsense_is_quarantined():
    loopback = federation()
    loopback.sites["site-2"] = Site("site-2", broken=lambda p: {name: value * np.nan for name, value in p.items()})
    controller = begun(loopback, guards={"strikes": 2, "quarantine": 3})
    records = controller.rounds(6)
    assert [1 in record["cohort"] for record in records] == [True, True, False, False, False, True]
    assert records[2]["notes"]["guards"]["quarantined"] == 1


def test_the_choices_of_a_job_are_recomputed_from_its_log(tmp_path):
    loopback, path = federation(), tmp_path / "audit.jsonl"
    controller = begun(loopback, "fedgs", rounds=4, audit=str(path))
    controller.rounds(2)
    loopback.sites["site-9"] = Site("site-9")
    controller.rounds(2)
    assert "seed" in examine_log(path).unchecked_because
    controller.started.end()
    found = examine_log(path)
    assert (found.faults, found.unchecked_because, found.n_recomputed) == ([], "", 4)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (lambda p: {name: value * np.nan for name, value in p.items()}, "is not finite"),
        (lambda p: {"layer.bias": p["layer.bias"]}, "missing or unknown"),
        (lambda p: {**p, "layer.bias": p["layer.bias"][:1]}, "in place of"),
        (lambda p: {name: value * 1e12 for name, value in p.items()}, "update: "),
        (lambda p: {}, "no model"),
    ],
)
def test_an_unsound_model_is_left_out_and_blamed(broken, words):
    loopback = federation()
    loopback.sites["site-2"] = Site("site-2", broken=broken)
    controller = begun(loopback)
    (record,) = controller.rounds(1)
    assert np.isfinite(controller.vector).all()
    assert record["answered"] == [0, 2, 3, 4, 5]
    assert words in record["left_out"]["1"]
    assert controller.started.registrar.strikes[1] == 1
    assert any("site-2" in text and words in text for text in loopback.warnings)


def test_that_no_site_can_train_is_said_at_once():
    controller = made(Workflow, federation(broken=lambda p: {name: value * np.nan for name, value in p.items()}))
    controller.run()
    (text,) = controller.panics
    assert "None of the 2 chosen clients can train" in text
    assert "is not finite" in text


def test_sites_that_join_later_get_the_next_ids():
    loopback = federation(4)
    controller = begun(loopback, "fedgs")
    controller.rounds(2)
    loopback.sites["site-9"] = Site("site-9")
    controller.rounds(2)
    assert controller.started.members.names[-1] == "site-9"
    assert controller.started.registrar.population.n_clients == 5


def test_a_site_that_is_disconnected_is_not_chosen():
    loopback = federation()
    loopback.offline = {"site-1", "site-2"}
    controller = begun(loopback)
    (record,) = controller.rounds(1)
    assert controller.started.members.names == ["site-3", "site-4", "site-5", "site-6"]
    assert len(record["cohort"]) == 4


def test_a_site_without_the_facts_is_left_out_with_a_sentence():
    loopback = federation()
    loopback.sites["site-4"] = Site("site-4", facts=lambda site: {"sizes": 3})
    controller = begun(loopback, "fedgs")
    controller.rounds(1)
    assert "site-4" not in controller.started.members.names
    assert any("site-4 cannot take part" in text and "label_counts" in text for text in loopback.warnings)


def test_a_site_that_cannot_answer_is_left_out_with_a_sentence():
    loopback = federation()
    loopback.sites["site-5"] = Site("site-5", client=None)
    begun(loopback, "power-of-choice").rounds(1)
    assert any("site-5 cannot take part: does not answer loss" in text for text in loopback.warnings)


def test_a_question_that_raises_is_an_answer_less():
    class Raises:
        def __init__(self, received):
            pass

        def loss(self):
            raise RuntimeError("no data today")

    loopback = federation()
    loopback.sites["site-6"] = Site("site-6", client=Raises)
    (record,) = begun(loopback, "power-of-choice", cohort=6).rounds(1)
    (question,) = record["questions"]
    assert (question["signal"], question["asked"], question["answered"]) == ("loss", 6, 5)
    assert any("site-6" in text and "no data today" in text for text in loopback.warnings)


def test_a_report_that_raises_is_logged_and_the_model_is_kept():
    loopback = federation()
    site = loopback.sites["site-6"]
    train = site.train
    site.train = lambda message: FLModel(params=train(message).params, metrics={"train_loss": 1.0})
    (record,) = begun(loopback, "delta", cohort=6).rounds(1)
    assert 5 in record["answered"]
    (warning,) = loopback.warnings
    assert "site-6 failed to report after training: InputError: The app's train function must" in warning


def test_a_metric_that_training_does_not_give_is_found_before_a_round_is_paid_for():
    loopback = federation()
    for site in loopback.sites.values():
        train = site.train
        site.train = lambda message, train=train: FLModel(params=train(message).params, metrics={"train_loss": 1.0})
    controller = made(Workflow, loopback, "delta", cohort=3)
    controller.run()
    (text,) = controller.panics
    assert "Delta wants 'step-gradient' reported, and the training of client site-" in text  # the last of three
    assert not any(kind == "train" for kind, _ in loopback.sent)


def test_that_nobody_can_take_part_is_said_at_once():
    controller = made(Workflow, federation(client=None), "divfl", patience=600)
    controller.run()
    (text,) = controller.panics
    assert "No node can take part; node site-" in text
    assert "does not answer gradient, which DivFL needs" in text


def test_a_method_can_be_named_by_its_import_path():
    path = "sortition.selectors.power_of_choice:PowerOfChoice"
    options = read_options("SelectorController", path, 2, 5, {"parameters": {"d": 4}})
    assert options.selector == load("power-of-choice", d=4)
    assert options.horizon == 5
    loopback = federation()
    played(Workflow, loopback, "sortition.selectors.uniform:Uniform", rounds=1)
    assert loopback.warnings == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"selector": "fedgz"}, "Did you mean 'fedgs'"),
        ({"selector": 3}, r"SelectorController\.selector must be the name of a method; got 3"),
        ({"selector": "no.such:Class"}, r"SelectorController\.selector must be importable as package\.module:name"),
        ({"selector": "sortition.core:Guards"}, r"SelectorController\.selector must be a Selector class"),
        ({"cohort": 0}, r"SelectorController\.cohort must be a whole number ≥ 1; got 0"),
        (
            {"deadline": 0},
            r"SelectorController\.deadline must be seconds > 0, or null; got 0\. null waits for everybody",
        ),
        ({"deadline": "1"}, r"SelectorController\.deadline must be seconds > 0, or null; got '1'"),
        ({"answer_timeout": 0}, r"SelectorController\.answer_timeout must be seconds > 0; got 0"),
        ({"profile_timeout": "a"}, r"SelectorController\.profile_timeout must be seconds > 0; got 'a'"),
        ({"patience": -1}, r"SelectorController\.patience must be seconds ≥ 0; got -1"),
        ({"wait_for": 0}, r"SelectorController\.wait_for must be a whole number ≥ 1; got 0"),
        ({"checkpoint_every": 0}, r"SelectorController\.checkpoint_every must be a whole number ≥ 1; got 0"),
        ({"overselect": 0.5}, r"SelectorController\.overselect must be finite and ≥ 1"),
        ({"overselect": "2"}, r"SelectorController\.overselect must be finite and ≥ 1; got '2'"),
        ({"overselect": float("inf")}, r"SelectorController\.overselect must be finite and ≥ 1; got inf"),
        ({"guards": ["a"]}, r"SelectorController\.guards must be a table; got \['a'\]"),
        ({"guards": {"nrom": 1}}, "keys of Guards"),
        ({"guards": {"minimum": 3}}, r"Guards\.minimum must be at most the cohort, 2; got 3"),
        ({"guards": {"quota": 1}}, r"Guards\.quota must be 0 where owners are unknown"),
        ({"parameters": ["a"]}, r"SelectorController\.parameters must be a table; got \['a'\]"),
        ({"parameters": {"weights": "none"}}, r"Uniform\.weights"),
        ({"owners": ["a"]}, r"SelectorController\.owners must be a table; got \['a'\]"),
        ({"seed": "a"}, r"SelectorController\.seed must be a whole number ≥ 0; got 'a'"),
        ({"checkpoint": 3}, r"SelectorController\.checkpoint must be a path; got 3"),
        ({"audit": 3}, r"SelectorController\.audit must be a path; got 3"),
        ({"resume": "no"}, r"SelectorController\.resume must be true or false; got 'no'"),
        ({"resume": True}, r"SelectorController\.resume must be a path where no checkpoint is given"),
        ({"eligible": "gpu"}, r"SelectorController\.eligible must be package\.module:function; got 'gpu'"),
        ({"eligible": 3}, r"SelectorController\.eligible must be names, tags or a function"),
        ({"eligible": lambda name, facts: True}, r"SelectorController\.eligible must be package\.module:function"),
        ({"on_round": print}, r"SelectorController\.on_round must be package\.module:function"),
        ({"on_round": "math:pi"}, r"SelectorController\.on_round must be the import path of a function; got 'math:pi'"),
        ({"on_round": "no.such:function"}, r"SelectorController\.on_round must be importable"),
        ({"facts": "battery"}, r"SelectorController\.facts must be a list of names; got 'battery'"),
        ({"refresh": {"battery": 3}}, r"SelectorController\.refresh must be of the facts \[\]; got 'battery'"),
        ({"selector": "fedgs", "parameters": {"graph": "secure"}}, "products between pairs of clients"),
        ({"selector": "greedyfed"}, "GreedyFed needs 'shapley', which the server computes"),
        ({"policy": {"separatoin": "3 rounds"}}, r"SelectorController\.policy must hold keys of Policy; .*separatoin"),
        ({"policy": "twice"}, r"SelectorController\.policy must be a table; got 'twice'"),
        ({"ledger": "l.sqlite"}, r"SelectorController\.ledger must be given with a policy only"),
        ({"patiense": 3}, "Unknown option 'patiense'; SelectorController.options has .*Did you mean 'patience'"),
        ({"train_timeout": 3}, "Unknown option 'train_timeout'"),
    ],
)
def test_bad_options_are_refused_before_anything_runs(given, words):
    table = {"selector": "uniform", "cohort": 2, **given}
    selector, cohort = table.pop("selector"), table.pop("cohort")
    with pytest.raises(InputError, match=words):
        read_options("SelectorController", selector, cohort, 5, table)


@pytest.mark.parametrize(
    ("combine", "words"),
    [
        ("meen", "Did you mean 'mean'"),
        ({"nmae": "median"}, "combine must be a table"),
        (3, "combine must be a rule's name"),
    ],
)
def test_a_rule_that_there_is_not_is_refused(combine, words):
    with pytest.raises(InputError, match=words):
        made(Workflow, federation(), combine=combine)


def test_options_must_be_a_table():
    with pytest.raises(InputError, match=r"SelectorController\.options must be a table; got \['patience'\]"):
        read_options("SelectorController", "uniform", 2, 5, ["patience"])


def test_what_is_not_given_has_the_defaults_of_every_federation():
    options = read_options("SelectorController", "uniform", 2, 5, None)
    assert (options.pace.deadline, options.answer_timeout, options.profile_timeout) == (1800.0, 60.0, 120.0)
    assert (options.checkpoint, options.resume, options.audit, options.owner_of) == (None, None, None, None)
    assert read_options("SelectorController", "uniform", 2, 5, {"deadline": None}).deadline == math.inf
    assert not begun(federation(), "uniform").combining.own


def test_a_median_is_not_moved_by_one_site():
    loopback = federation()
    loopback.sites["site-2"] = Site("site-2", broken=lambda p: {name: value + 50 for name, value in p.items()})
    mean = begun(loopback, guards={"norm": 0})
    median = begun(loopback, guards={"norm": 0}, combine="median")
    table = begun(loopback, guards={"norm": 0}, combine={"name": "trimmed-mean", "trim": 0.2})
    for controller in (mean, median, table):
        controller.rounds(1)
    assert np.abs(mean.vector).min() > 5
    assert np.abs(median.vector).max() < 5
    assert np.abs(table.vector).max() < 5
