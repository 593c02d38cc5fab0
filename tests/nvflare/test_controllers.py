"""Both controllers, run as NVFlare runs them but for the transport: rounds, silence, resume, FedAvg's own settings."""

from __future__ import annotations

import numpy as np
import pytest
from nvflare.app_common.app_event_type import AppEventType
from nvflare.app_common.workflows.cyclic import Cyclic
from nvflare.app_common.workflows.fedavg import FedAvg
from nvflare.app_common.workflows.scaffold import Scaffold
from nvflare.app_common.workflows.scatter_and_gather import ScatterAndGather
from nvflare.job_config.api import FedJob
from tests.nvflare.loopback import MODEL, Site, federation
from tests.nvflare.loopback_controllers import WithinFedAvg, Workflow, before_sending, cohorts, made, played

from sortition.core import InputError
from sortition.core.storage import snapshot
from sortition.nvflare import SelectedFedAvg, select_clients, selector_job
from sortition.studies.audit.audit_run import examine_log

BOTH = pytest.mark.parametrize("kind", [Workflow, WithinFedAvg], ids=["own", "fedavg"])


@BOTH
def test_a_dead_site_is_dropped_and_the_federation_goes_on(kind):
    loopback = federation()
    before_sending(loopback, lambda task, t: loopback.silent.update({"site-3"} if (task, t) == ("train", 1) else ()))
    history = played(kind, loopback, "full").federation.history
    assert [2 in record["cohort"] for record in history] == [True, True, False, False]
    assert [record["answered"] for record in history][1:] == [[0, 1, 3, 4, 5]] * 3


@BOTH
def test_a_server_that_died_goes_on_with_the_same_cohorts_and_model(kind, tmp_path):
    whole, file = tmp_path / "whole.npz", tmp_path / "half.npz"
    straight = played(kind, federation(), rounds=6, checkpoint=str(whole))
    loopback, about = federation(), {"checkpoint": str(file), "resume": True, "audit": str(tmp_path / "audit.jsonl")}

    def dies(task, t):
        if (task, t) == ("train", 3):
            raise KeyboardInterrupt

    before_sending(loopback, dies)
    with pytest.raises(KeyboardInterrupt):
        made(kind, loopback, rounds=6, **about).run()
    second = played(kind, federation(), rounds=6, **about)
    assert cohorts(second) == cohorts(straight)
    for name in ("model.0", "model.1"):
        assert np.array_equal(snapshot.load(file)[0][name], snapshot.load(whole)[0][name])
    found = examine_log(tmp_path / "audit.jsonl")
    assert (found.faults, found.unchecked_because, found.n_recomputed) == ([], "", 6)


@BOTH
def test_a_server_that_died_in_its_first_round_goes_on_with_its_audit_log(kind, tmp_path):
    loopback, log = federation(), tmp_path / "audit.jsonl"
    about = {"checkpoint": str(tmp_path / "run.npz"), "resume": True, "audit": str(log)}

    def dies(task, t):
        if task == "train":
            raise KeyboardInterrupt

    before_sending(loopback, dies)
    with pytest.raises(KeyboardInterrupt):
        made(kind, loopback, rounds=3, **about).run()
    assert cohorts(played(kind, federation(), rounds=3, **about)) == cohorts(played(kind, federation(), rounds=3))
    found = examine_log(log)
    assert (found.faults, found.unchecked_because, found.n_recomputed) == ([], "", 3)


@BOTH
def test_a_site_that_was_not_there_before_a_restart_joins(kind, tmp_path):
    about = {"checkpoint": str(tmp_path / "run.npz"), "resume": True}
    played(kind, federation(4), "full", rounds=2, **about)
    loopback = federation(4)
    loopback.sites["site-9"] = Site("site-9")
    controller = played(kind, loopback, "full", rounds=4, **about)
    assert cohorts(controller) == [[0, 1, 2, 3]] * 2 + [[0, 1, 2, 3, 4]] * 2
    assert controller.federation.members.names[4] == "site-9"


@BOTH
def test_an_old_checkpoint_is_not_overwritten(kind, tmp_path):
    played(kind, federation(), checkpoint=str(tmp_path / "run.npz"))
    second = made(kind, federation(), checkpoint=str(tmp_path / "run.npz"))
    second.run()
    assert "run.npz is the checkpoint of an earlier run. Go on with resume=True" in second.panics[0]


@BOTH
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"cohort": 3}, "run.npz is of another federation: cohort was 2, is 3."),
        ({"overselect": 2}, "run.npz is of another federation: overselect was 1.0, is 2.0."),
        ({"fedavg": {"model": {"w": [0.0] * 9}}}, "holds another model than the one that is to be trained: arrays"),
        (
            {"fedavg": {"model": {**MODEL, "layer.bias": np.zeros(4, np.float32)}}},
            "holds another model than the one that is to be trained: layer.bias of shape (3,) in place of (4,).",
        ),
    ],
    ids=["cohort", "overselect", "names", "shapes"],
)
def test_a_checkpoint_of_another_job_is_refused(kind, changed, words, tmp_path):
    about = {"checkpoint": str(tmp_path / "run.npz"), "resume": True}
    played(kind, federation(), rounds=4, **about)
    second = made(kind, federation(), rounds=4, **about, **changed)
    second.run()
    assert words in second.panics[0]


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ((Workflow, {}), (Workflow, {"step": {"name": "momentum"}}), "step.name was 'plain', is 'momentum'."),
        ((Workflow, {}), (Workflow, {"step": {"lr": 0.5}}), "step.lr was 1.0, is 0.5."),
        ((Workflow, {}), (WithinFedAvg, {}), "step.name was 'plain', is \"NVFlare's FedAvg\"."),
        ((WithinFedAvg, {}), (Workflow, {}), "step.name was \"NVFlare's FedAvg\", is 'plain'."),
    ],
    ids=["rule", "rate", "to FedAvg", "from FedAvg"],
)
def test_a_checkpoint_of_another_step_is_refused(first, second, words, tmp_path):
    about = {"checkpoint": str(tmp_path / "run.npz"), "resume": True}
    played(first[0], federation(), rounds=4, fedavg=first[1], **about)
    controller = made(second[0], federation(), rounds=4, fedavg=second[1], **about)
    controller.run()
    assert words in controller.panics[0]


@BOTH
def test_nobody_is_written_to_when_nobody_is_there(kind):
    loopback = federation()
    before_sending(loopback, lambda task, t: loopback.offline.update(loopback.sites if task == "train" else ()))
    controller = played(kind, loopback, "uniform", rounds=3, patience=0.1)
    assert [len(cohort) for cohort in cohorts(controller)] == [2, 0, 0]
    assert [task for task, _ in loopback.sent] == ["profile", "train"]


def test_a_mistake_stops_the_job_with_one_sentence():
    for kind in (Workflow, WithinFedAvg):
        controller = made(kind, federation(2), wait_for=3, patience=0.1)
        controller.run()
        (text,) = controller.panics
        assert text.startswith("sortition: 3 clients must be online before the first round; got 2 in 0.1 s.")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"step": ["a"]}, r"SelectorController\.step must be a table; got \['a'\]"),
        ({"step": {"rate": 1.0}}, r"SelectorController\.step must hold keys of StepRule; .*'rate'"),
        ({"model": [1.0]}, r"SelectorController\.model must be a table; got \[1\.0\]"),
    ],
)
def test_a_step_or_model_of_a_wrong_type_is_refused_at_once(given, words):
    with pytest.raises(InputError, match=words):
        made(Workflow, federation(), fedavg=given)


def test_fedavgs_own_events_and_saving_stay():
    controller = played(WithinFedAvg, federation())
    assert controller.saved == [0, 1, 2, 3]
    for kind in (AppEventType.ROUND_STARTED, AppEventType.BEFORE_AGGREGATION, AppEventType.AFTER_AGGREGATION):
        assert controller.events.count(kind) == 4


def test_fedavg_stops_early_on_its_own_condition():
    controller = played(WithinFedAvg, federation(), fedavg={"stop_cond": "train_loss <= 2"})
    assert len(cohorts(controller)) == 1


def test_excluded_arrays_stay_as_they_are(tmp_path):
    file = tmp_path / "run.npz"
    played(WithinFedAvg, federation(), fedavg={"exclude_vars": "bias"}, checkpoint=str(file))
    saved, header = snapshot.load(file)
    weight, bias = (saved[f"model.{header['federation']['model'].index(name)}"] for name in MODEL)
    assert np.abs(weight).sum() > 0
    assert np.abs(bias).sum() == 0


def test_what_a_fedavg_was_given_stays():
    job = FedJob(name="existing", min_clients=6)
    given = {"num_rounds": 7, "fedprox_mu": 0.1, "memory_gc_rounds": 2, "exclude_vars": "bias", "task_name": "learn"}
    job.to_server(FedAvg(num_clients=6, persistor_id="", model={"w": [1.0]}, task_check_period=0.25, **given))
    select_clients(job, "fedgs", cohort=2, seed=5)
    (workflow,) = job._deploy_map["server"].get_app_config().workflows
    controller = workflow.controller
    assert type(controller) is SelectedFedAvg
    assert {name: getattr(controller, name) for name in given} == given
    assert (controller._task_check_period, controller.model, controller.settings.seed) == (0.25, {"w": [1.0]}, 5)


@pytest.mark.parametrize("given", [{"aggregation_weights": {"site-1": 2.0}}, {"aggregator": object()}])
def test_weights_of_others_are_refused(given):
    with pytest.raises(InputError, match=f"SelectedFedAvg.{next(iter(given))} must be left out"):
        SelectedFedAvg("fedgs", 2, **given)


@pytest.mark.parametrize(
    ("workflows", "found"),
    [
        ([], "one without a workflow"),
        ([ScatterAndGather(min_clients=1)], "ScatterAndGather"),
        ([Scaffold(), Cyclic()], "Scaffold, Cyclic"),
        ([SelectedFedAvg("uniform", 2)], "SelectedFedAvg"),
    ],
)
def test_a_job_without_fedavg_is_told_what_it_has_and_what_would_work(workflows, found):
    job = FedJob(name="another")
    for workflow in workflows:
        job.to_server(workflow)
    with pytest.raises(InputError, match=f"is NVFlare's FedAvg; got {found}") as error:
        select_clients(job, "fedgs", cohort=2)
    assert "select_clients(recipe, 'fedgs', cohort=2)" in str(error.value)
    assert "selector='fedgs', cohort=2" in str(error.value)


def test_a_job_goes_on_while_one_site_is_left(tmp_path):
    script = tmp_path / "train.py"
    script.touch()
    job = selector_job("own", str(script), selector="fedgs", cohort=2, num_rounds=3, model={"w": [1.0]}, wait_for=6)
    assert job.job.min_clients == 1
