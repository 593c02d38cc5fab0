"""Selection in an NVFlare job, on a loopback: every method, the same cohorts as the registrar alone, faults, resume."""

from __future__ import annotations

import numpy as np
import pytest
from nvflare.app_common.abstract.fl_model import FLModel
from tests.nvflare.loopback import MODEL, Quadratic, Site, facts, federation, play

from sortition.clients.models import as_vector
from sortition.core import InputError, Population, Registrar, StorageError
from sortition.core.client_names import natural_order
from sortition.nvflare import checkpoint
from sortition.nvflare.selection import Selection
from sortition.nvflare.settings import Settings
from sortition.selectors import discover, find, load
from sortition.studies.audit.run import examine_log

NEEDS_PARAMETERS = {"fedcor": {"warmup": 2}}


def started(name, controller, rounds=4, cohort=2, **options):
    parameters = NEEDS_PARAMETERS.get(name, {})
    return Selection(Settings(name, cohort, parameters, wait_for=1, **options), controller, rounds)


def runnable():
    """Methods whose default does not need a protocol between clients."""
    needs = {name: find(name).load().needs for name in discover()}
    return [name for name, one in needs.items() if not (one.of_server or any(s.of == "pairs" for s in one.asks))]


@pytest.mark.parametrize("name", runnable())
def test_every_method_runs_and_moves_the_model(name):
    controller = federation()
    cohorts, model = play(started(name, controller), controller, dict(MODEL), 4)
    assert any(cohort.ids.size for cohort in cohorts)
    assert not np.array_equal(as_vector(model), as_vector(MODEL))
    assert controller.warnings == []


@pytest.mark.parametrize("name", ["uniform", "fedgs", "fedss", "power-of-choice", "cs-ucb-q"])
def test_cohorts_are_those_of_the_registrar_fed_with_the_same_answers(name):
    controller = federation()
    selection = started(name, controller, seed=3)
    play(selection, controller, dict(MODEL), 4)
    rows = [facts(f"site-{number}") for number in range(1, 7)]
    table = {fact: np.stack([row[fact] for row in rows]) for fact in selection.selector.needs.reads}
    alone = Registrar(selection.selector, Population(**table, n_clients=6), horizon=4, seed=3)
    heard, selection.history = selection.history, []
    twin = federation()
    second = started(name, twin, seed=3)
    second.registrar, second.sites = alone, selection.sites
    play(second, twin, dict(MODEL), 4)
    assert [record["cohort"] for record in second.history] == [record["cohort"] for record in heard]


def test_ids_do_not_depend_on_who_connected_first(monkeypatch):
    controller, late = federation(12), ["site-2", "site-1", "site-11"]
    controller.offline = set(late)
    monkeypatch.setattr("time.sleep", lambda seconds: controller.offline.discard(late.pop()))
    selection = Selection(Settings("by-size", 3, wait_for=12), controller, 4)
    available = selection.enrol(dict(MODEL))
    assert available.tolist() == list(range(12))
    assert selection.sites.names == [f"site-{number}" for number in range(1, 13)]
    assert selection.sites.population().sizes.tolist() == [facts(name)["sizes"] for name in selection.sites.names]


def test_ids_follow_the_natural_order_of_names():
    controller = federation(12)
    selection = started("uniform", controller)
    selection.enrol(dict(MODEL))
    assert selection.sites.names == [f"site-{number}" for number in range(1, 13)]
    assert sorted(["site-10", "site-2"], key=natural_order) == ["site-2", "site-10"]


def test_weights_are_the_cohorts():
    controller = federation()
    selection = started("by-size", controller, cohort=3)
    names = selection.choose(dict(MODEL))
    cohort, asked = selection.cohort, selection.training()
    sent = controller.send_model_and_wait("train", selection.message(asked, dict(MODEL)), names)
    done, arrived = selection.finish({one.meta["client_name"]: one for one in sent}, dict(MODEL))
    from sortition.nvflare.returned import combined

    expected = sum(w * as_vector(arrived.models[k]) for k, w in zip(cohort.ids.tolist(), cohort.weights, strict=True))
    assert done.tolist() == cohort.ids.tolist()
    assert combined(cohort, done, arrived.models, dict(MODEL)) == pytest.approx(expected, abs=1e-6)


def test_a_silent_site_is_left_out_and_asked_less_and_less_often():
    controller = federation()
    selection = started("full", controller, rounds=20)
    play(selection, controller, dict(MODEL), 1)
    controller.silent, controller.sent = {"site-3"}, []
    cohorts, _ = play(selection, controller, dict(MODEL), 9)
    assert [2 in cohort.ids for cohort in cohorts] == [True] + [False] * 8
    asked = [at for at, (kind, targets) in enumerate(controller.sent) if kind == "profile" and targets == ["site-3"]]
    trainings = [sum(kind == "train" for kind, _ in controller.sent[:at]) for at in asked]
    assert trainings == [2, 5]  # one round is left out, then two, then four
    assert any("No answer to training from site-3" in text for text in controller.warnings)


def test_a_late_site_takes_part_when_it_has_answered():
    controller = federation()
    selection = started("full", controller, rounds=20)
    play(selection, controller, dict(MODEL), 1)
    controller.silent = {"site-3"}
    play(selection, controller, dict(MODEL), 1)
    controller.silent = set()
    cohorts, _ = play(selection, controller, dict(MODEL), 2)
    assert [2 in cohort.ids for cohort in cohorts] == [False, True]
    assert selection.sites.misses == {}


def test_a_site_that_connects_anew_takes_part_at_once():
    controller = federation()
    selection = started("full", controller, rounds=20)
    play(selection, controller, dict(MODEL), 1)
    controller.silent = {"site-3"}
    play(selection, controller, dict(MODEL), 1)
    controller.silent, controller.sites["site-3"].token = set(), "another token"
    cohorts, _ = play(selection, controller, dict(MODEL), 1)
    assert 2 in cohorts[0].ids


def test_answers_beyond_the_target_are_not_waited_for():
    controller = federation()
    selection = started("uniform", controller, overselect=2.0)
    selection.choose(dict(MODEL))
    asked = selection.training()
    assert (len(asked), selection.target) == (4, 2)
    data = selection.message(asked, dict(MODEL))
    sent = controller.send_model_and_wait("train", data, list(asked), selection.target)
    done, _ = selection.finish({one.meta["client_name"]: one for one in sent}, dict(MODEL))
    assert done.size == 2
    assert selection.sites.silent == {}


def test_optional_facts_are_used_where_all_sites_give_them():
    everybody, some = federation(), federation()
    some.sites["site-4"] = Site("site-4", facts=lambda site: {"sizes": 3})
    for controller, by, reports in ((everybody, "labels", 0), (some, "updates", 1)):
        selection = started("microcosm", controller)
        play(selection, controller, dict(MODEL), 2)
        assert selection.registrar.selector.by == by
        assert len(selection.needs.reports) == reports
        assert controller.warnings == []


def test_the_model_says_how_long_vectors_are_and_not_most_sites():
    class TooLong(Quadratic):
        def gradient(self):
            return np.append(super().gradient(), 1.0)

    controller = federation()
    for number in range(1, 5):
        controller.sites[f"site-{number}"] = Site(f"site-{number}", client=TooLong)
    selection = started("divfl", controller, cohort=6)
    play(selection, controller, dict(MODEL), 2)
    assert selection.registrar.quarantined.tolist() == [2, 2, 2, 2, 0, 0]


def test_an_owner_has_no_more_places_than_its_quota():
    controller, owners = federation(), {f"site-{number}": "bank" for number in range(1, 6)}
    selection = started("uniform", controller, cohort=3, guards={"quota": 1}, owners=owners)
    cohorts, _ = play(selection, controller, dict(MODEL), 4)
    assert all(np.sum(cohort.ids < 5) <= 1 for cohort in cohorts)
    with pytest.raises(InputError, match=r"Guards\.quota must be 0 where owners are unknown"):
        started("uniform", controller, guards={"quota": 1})


def test_a_minimum_above_the_cohort_is_refused_before_sites_are_waited_for():
    with pytest.raises(InputError, match=r"Guards\.minimum must be at most the cohort, 2; got 3"):
        Settings.of("uniform", 2, {"guards": {"minimum": 3}})


def test_a_site_that_sends_nonsense_is_quarantined():
    controller = federation()
    controller.sites["site-2"] = Site("site-2", broken=lambda p: {name: value * np.nan for name, value in p.items()})
    selection = started("full", controller, rounds=8, guards={"strikes": 2, "quarantine": 3})
    cohorts, _ = play(selection, controller, dict(MODEL), 6)
    assert [1 in cohort.ids for cohort in cohorts] == [True, True, False, False, False, True]
    assert selection.history[2]["guards"]["quarantined"] == 1


def test_the_choices_of_a_job_are_recomputed_from_its_log(tmp_path):
    controller, path = federation(), tmp_path / "audit.jsonl"
    selection = started("fedgs", controller, audit=str(path))
    play(selection, controller, dict(MODEL), 2)
    controller.sites["site-9"] = Site("site-9")
    play(selection, controller, dict(MODEL), 2)
    assert "seed" in examine_log(path).left
    selection.close(reveal=True)
    found = examine_log(path)
    assert (found.faults, found.left, found.recomputed) == ([], "", 4)


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
    controller = federation()
    controller.sites["site-2"] = Site("site-2", broken=broken)
    selection = started("full", controller)
    _, model = play(selection, controller, dict(MODEL), 1)
    assert np.isfinite(as_vector(model)).all()
    assert words in selection.history[0]["left_out"]["site-2"]
    assert selection.registrar.quarantined[1] == 1


def test_sites_that_join_later_get_the_next_ids():
    controller = federation(4)
    selection = started("fedgs", controller, rounds=6)
    play(selection, controller, dict(MODEL), 2)
    controller.sites["site-9"] = Site("site-9")
    play(selection, controller, dict(MODEL), 2)
    assert selection.sites.names[-1] == "site-9"
    assert selection.registrar.population.n_clients == 5


def test_a_site_that_is_disconnected_is_not_chosen():
    controller = federation()
    controller.offline = {"site-1", "site-2"}
    selection = started("full", controller)
    cohorts, _ = play(selection, controller, dict(MODEL), 1)
    assert selection.sites.names == ["site-3", "site-4", "site-5", "site-6"]
    assert cohorts[0].ids.size == 4


def test_a_site_without_the_facts_is_left_out_with_a_sentence():
    controller = federation()
    controller.sites["site-4"] = Site("site-4", facts=lambda site: {"sizes": 3})
    selection = started("fedgs", controller)
    selection.choose(dict(MODEL))
    assert "site-4" not in selection.sites.names
    assert any("site-4 is left out" in text and "label_counts" in text for text in controller.warnings)


def test_a_site_that_cannot_answer_is_left_out_with_a_sentence():
    controller = federation()
    controller.sites["site-5"] = Site("site-5", client=None)
    selection = started("power-of-choice", controller)
    selection.choose(dict(MODEL))
    assert any("site-5 is left out" in text and "'loss'" in text for text in controller.warnings)


def test_a_question_that_raises_is_an_answer_less():
    class Raises:
        def __init__(self, received):
            pass

        def loss(self):
            raise RuntimeError("no data today")

    controller = federation()
    controller.sites["site-6"] = Site("site-6", client=Raises)
    selection = started("power-of-choice", controller, cohort=6)
    play(selection, controller, dict(MODEL), 1)
    assert selection.history[0]["asked"] == [["loss", 6, 5]]
    assert any("no data today" in text for text in controller.warnings)


def test_a_report_that_raises_is_logged_and_the_model_is_kept():
    controller = federation()
    site = controller.sites["site-6"]
    train = site.train
    site.train = lambda message: FLModel(params=train(message).params, metrics={"train_loss": 1.0})
    selection = started("delta", controller, cohort=6)
    play(selection, controller, dict(MODEL), 1)
    assert 5 in selection.history[0]["answered"]
    (warning,) = controller.warnings
    assert warning.startswith("site-6 failed to report after training: InputError: The app's train function must")


def test_too_few_sites_stop_the_job():
    controller = federation(2)
    selection = Selection(Settings("uniform", 2, wait_for=3, patience=1), controller, 3)
    with pytest.raises(InputError, match="3 sites must be there before the first round; got 2 in 1 s"):
        selection.choose(dict(MODEL))


def test_that_nobody_can_take_part_is_said_at_once():
    selection = started("divfl", federation(client=None), patience=600)
    with pytest.raises(InputError, match="No site can take part; site-1 cannot answer 'gradient'"):
        selection.choose(dict(MODEL))


@pytest.mark.parametrize("name", ["fedgs", "longfed", "fedcor"])
def test_a_resumed_selection_is_the_one_that_never_stopped(name, tmp_path):
    whole, first = federation(), federation()
    straight = started(name, whole, rounds=6)
    expected, end = play(straight, whole, dict(MODEL), 6)
    half = started(name, first, rounds=6, audit=str(tmp_path / "audit.jsonl"))
    _, model = play(half, first, dict(MODEL), 3)
    checkpoint.save(tmp_path / "half.npz", half, model, {})
    half.close(reveal=False)
    second = started(name, first, rounds=6, audit=str(tmp_path / "audit.jsonl"))
    model, _ = checkpoint.load(tmp_path / "half.npz", second)
    _, model = play(second, first, model, 3)
    second.close(reveal=True)
    assert [record["cohort"] for record in second.history] == [cohort.ids.tolist() for cohort in expected]
    assert np.array_equal(as_vector(model), as_vector(end))
    assert (tmp_path / "audit.jsonl").read_text().count("\n") == 7


def test_a_checkpoint_of_another_selection_is_refused(tmp_path):
    controller = federation()
    selection = started("uniform", controller)
    _, model = play(selection, controller, dict(MODEL), 1)
    checkpoint.save(tmp_path / "one.npz", selection, model, {})
    with pytest.raises(StorageError, match="seed was 0, is 5"):
        checkpoint.load(tmp_path / "one.npz", started("uniform", controller, seed=5))


def test_a_method_can_be_named_by_its_import_path():
    settings = Settings("sortition.selectors.power_of_choice:PowerOfChoice", 2, {"d": 4})
    assert settings.method() == load("power-of-choice", d=4)
    controller = federation()
    play(started("sortition.selectors.uniform:Uniform", controller), controller, dict(MODEL), 1)
    assert controller.warnings == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"selector": "fedgz"}, "Did you mean 'fedgs'"),
        ({"selector": "no.such:Class"}, r"SelectorController\.selector must be importable as package\.module:name"),
        ({"selector": "sortition.core:Guards"}, r"SelectorController\.selector must be a Selector class"),
        ({"cohort": 0}, r"SelectorController\.cohort must be a whole number ≥ 1; got 0"),
        ({"train_timeout": 1.5}, r"SelectorController\.train_timeout must be a whole number ≥ 0"),
        ({"overselect": 0.5}, r"SelectorController\.overselect must be finite and ≥ 1"),
        ({"overselect": "2"}, r"SelectorController\.overselect must be finite and ≥ 1; got '2'"),
        ({"overselect": float("inf")}, r"SelectorController\.overselect must be finite and ≥ 1; got inf"),
        ({"guards": ["a"]}, r"SelectorController\.guards must be a table; got \['a'\]"),
        ({"parameters": ["a"]}, r"SelectorController\.parameters must be a table; got \['a'\]"),
        ({"owners": ["a"]}, r"SelectorController\.owners must be a table; got \['a'\]"),
        ({"seed": "a"}, r"SelectorController\.seed must be a whole number ≥ 0; got 'a'"),
        ({"checkpoint": 3}, r"SelectorController\.checkpoint must be a text; got 3"),
        ({"audit": 3}, r"SelectorController\.audit must be a text; got 3"),
        ({"resume": "no"}, r"SelectorController\.resume must be true or false; got 'no'"),
        ({"resume": True}, r"SelectorController\.checkpoint must be given"),
        ({"selector": "fedgs", "parameters": {"graph": "secure"}}, "protocol between clients"),
        ({"selector": "greedyfed"}, "GreedyFed must not need .shapley. here"),
        ({"parameters": {"weights": "none"}}, r"Uniform\.weights"),
        ({"guards": {"nrom": 1}}, "keys of Guards"),
    ],
)
def test_bad_settings_are_refused_before_anything_runs(settings, words):
    with pytest.raises(InputError, match=words):
        Settings(**{"selector": "uniform", "cohort": 2, **settings})


def test_an_unknown_option_is_named():
    with pytest.raises(InputError, match="Did you mean 'patience'"):
        Settings.of("uniform", 2, {"patiense": 3})
    with pytest.raises(InputError, match=r"SelectorController\.options must be a table"):
        Settings.of("uniform", 2, ["patience"])
