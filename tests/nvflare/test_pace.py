"""Late updates and buffered steps in NVFlare: tasks outlive their step; after a restart they are given up by name."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from nvflare.apis.fl_constant import ReturnCode
from tests.nvflare.loopback import MODEL, Site, centre, federation
from tests.nvflare.loopback_controllers import WithinFedAvg, Workflow, begun, made, played
from tests.nvflare.processes import history, kill, run, start_with_all_sites
from tests.nvflare.test_rounds import runnable

from sortition.core import InputError
from sortition.core.round_record import answered_ids
from sortition.core.storage import snapshot
from sortition.federation.pace import DEADLINE
from sortition.nvflare import SelectorController
from sortition.studies.audit.audit_run import examine_log

BOTH = pytest.mark.parametrize("kind", [Workflow, WithinFedAvg], ids=["own", "fedavg"])
LATE = {"quorum": 0.5, "late": "use"}
BUFFERED = {"kind": "buffered", "buffer": 2}
REFILLED = {**BUFFERED, "refill": "arrival"}
PACES = pytest.mark.parametrize("pace", [LATE, BUFFERED, REFILLED], ids=["late", "buffered", "refilled"])
LOOKS = 8  # of the server in vain, after which slow sites answer
NEVER = 1000
RESTARTED = "the server restarted"


class SlowSites:
    """Lets some sites answer a training when so many further trainings were sent, or the server has nothing else to do.

    It stands in the place of NVFlare's abort signal, which the server reads whenever it looks for results.
    """

    def __init__(self, loopback, names, trainings):
        self.loopback = loopback
        self.names = set(names)
        self.trainings = trainings
        self.held_back = []
        self.looks = 0
        self.send = loopback.broadcast
        loopback.broadcast = self.broadcast
        loopback.abort_signal = self

    def broadcast(self, task, targets):
        loopback = self.loopback
        self.looks = 0
        if task.name == "train":
            loopback.slow = self.names
        self.send(task, targets)
        loopback.slow = set()
        sent_so_far = len(loopback.tasks("train"))
        self.held_back += [(sent_so_far + self.trainings, client_task) for client_task in loopback.later]
        loopback.later = []
        self.release(sent_so_far)

    def release(self, sent_so_far):
        due = [client_task for release_at, client_task in self.held_back if release_at <= sent_so_far]
        self.held_back = [item for item in self.held_back if item[0] > sent_so_far]
        for client_task in due:
            self.loopback.answer(client_task)

    @property
    def triggered(self):
        """Whether the job is aborted: never."""
        self.looks += 1
        if self.looks > LOOKS and self.trainings < NEVER:
            self.release(NEVER)
        return False


def with_slow_sites(*names, trainings=3):
    """A federation of six sites of which these are slow."""
    loopback = federation()
    SlowSites(loopback, names, trainings)
    return loopback


def check_accounts(records):
    """Nobody is in flight twice, and every dispatch ends exactly once; who is in flight at the end."""
    in_flight = set()
    for record in records:
        ended = [*answered_ids(record), *record["notes"].get("unsound_updates", [])]
        for fate in ("failed", "given_up", "too_stale"):
            ended += [int(client) for client in record.get(fate, {})]
        assert len(set(ended)) == len(ended)
        assert not in_flight & set(record["cohort"])
        in_flight = (in_flight | set(record["cohort"])) - set(ended)
        assert record.get("in_flight", 0) == len(in_flight)
    return in_flight


@BOTH
@PACES
def test_steps_do_not_wait_for_slow_sites_and_use_what_they_send(kind, pace):
    controller = played(kind, with_slow_sites("site-1", "site-2"), "uniform", rounds=10, cohort=4, pace=pace)
    records = controller.federation.history
    assert [record["round"] for record in records] == list(range(10))
    check_accounts(records)
    stale = {client for record in records for client in answered_ids(record) if max(record.get("staleness", [0]))}
    assert stale & {0, 1}


@BOTH
def test_without_slow_sites_late_is_the_same_as_rounds(kind):
    plain = played(kind, federation(), "uniform", rounds=6, cohort=4).federation
    late = played(kind, federation(), "uniform", rounds=6, cohort=4, pace=LATE).federation
    assert [record["cohort"] for record in late.history] == [record["cohort"] for record in plain.history]
    for name, array in plain.engine.model.items():
        assert np.array_equal(array, late.engine.model[name])


@BOTH
def test_fedavg_and_the_own_workflow_make_the_same_models(kind):
    federations = [
        played(made_by, with_slow_sites("site-3"), "uniform", rounds=6, cohort=3, pace=BUFFERED).federation
        for made_by in (Workflow, kind)
    ]
    for name, array in federations[0].engine.model.items():
        assert np.allclose(array, federations[1].engine.model[name], atol=1e-6)


def test_a_stale_model_is_rebased():
    """w_v + (w_k − w_{v−τ}): the slow site's change counts, not its old model."""
    loopback = federation(2)
    pace = {"quorum": 1, "late": "use", "staleness": "constant"}
    controller = begun(loopback, "full", cohort=2, deadline=0.5, pace=pace)
    loopback.slow = {"site-2"}
    send = loopback.broadcast
    loopback.broadcast = lambda task, targets: _hold(loopback, send, task, targets)
    controller.rounds(1)
    first = {name: value.copy() for name, value in controller.started.engine.model.items()}
    loopback.silent = {"site-1"}
    loopback.deliver()
    (second,) = controller.rounds(1)
    assert (answered_ids(second), second["staleness"]) == ([1], [1])
    for name, array in controller.started.engine.model.items():
        assert np.allclose(array, first[name] + 0.5 * (centre("site-2")[name] - MODEL[name]), atol=1e-6)


def _hold(loopback, send, task, targets):
    """Hold trainings of slow sites back, and no questions."""
    slow = loopback.slow
    if task.name != "train":
        loopback.slow = set()
    send(task, targets)
    loopback.slow = slow


def test_fedavg_sums_up_late_results_in_the_step_that_uses_them():
    loopback = with_slow_sites("site-1")
    n_summed = []

    class Counting(WithinFedAvg):
        def update_model(self, model, aggr_result):
            n_summed.append(self._received_count)
            return super().update_model(model, aggr_result)

    controller = played(Counting, loopback, "full", rounds=6, cohort=6, pace={"quorum": 5, "late": "use"})
    records = controller.federation.history
    assert n_summed == [len(answered_ids(record)) for record in records]
    assert any(0 in answered_ids(record) for record in records)


def test_a_site_that_fails_and_one_that_never_answers_end_by_name():
    loopback = federation()
    controller = begun(loopback, "full", cohort=6, deadline=0.2, pace={"quorum": 3, "late": "use", "max_staleness": 1})
    controller.rounds(1)
    loopback.raising = {"site-1": ReturnCode.EXECUTION_EXCEPTION}
    loopback.silent = {"site-2"}
    records = [*controller.rounds(1)]
    loopback.slow = set(loopback.sites) - {"site-2", "site-1"}
    while not any("given_up" in record for record in records):
        records += controller.rounds(1)
        loopback.deliver()
    failed = {client: why for record in records for client, why in record.get("failed", {}).items()}
    given_up = {client: why for record in records for client, why in record.get("given_up", {}).items()}
    assert failed["0"] == "its task ended with EXECUTION_EXCEPTION"
    assert given_up["1"] == "no answer before the deadline"


@BOTH
@PACES
def test_after_a_restart_work_in_flight_is_given_up_by_name(kind, pace, tmp_path):
    files = {"checkpoint": str(tmp_path / "run.npz"), "resume": True}
    options = {"cohort": 4, "deadline": 60, "pace": pace, **files}
    first = played(kind, with_slow_sites("site-1", "site-2", trainings=NEVER), "uniform", rounds=4, **options)
    at_work = check_accounts(first.federation.history)
    assert at_work
    loopback = federation()
    second = played(kind, loopback, "uniform", rounds=8, **options)
    given_up = {
        int(client): why for record in second.federation.history for client, why in record.get("given_up", {}).items()
    }
    assert given_up == dict.fromkeys(at_work, RESTARTED)
    check_accounts(second.federation.history)
    for client in at_work:
        assert any(f"site-{client + 1}" in text and RESTARTED in text for text in loopback.warnings)


@PACES
@pytest.mark.parametrize("name", runnable())
def test_every_method_under_overlap(name, pace):
    counts_rounds = SelectorController(name, 3, 5, MODEL, persistor_id="").settings.selector.counts_rounds
    if pace is REFILLED and counts_rounds:
        with pytest.raises(InputError, match=r"pace\.refill must be 'step' for "):
            made(Workflow, federation(), name, pace=pace)
        return
    loopback = with_slow_sites("site-2", trainings=2)
    controller = played(Workflow, loopback, name, rounds=5, cohort=3, deadline=60, pace=pace)
    records = controller.federation.history
    check_accounts(records)
    assert any(answered_ids(record) for record in records)


@BOTH
@pytest.mark.parametrize(
    ("pace", "message"),
    [
        ({**BUFFERED, "buffer": 9}, r"pace\.buffer must be at most the concurrency, 2; got 9\."),
        ({"quorum": 3}, r"pace\.quorum must be at most the cohort, 2; got 3\."),
        ({"late": "use", "deadline": {"quantile": 0.5}}, r"pace\.deadline must be seconds in a real federation"),
        ({"staleness": "hinge"}, r"pace\.staleness must be left out where late = 'drop'"),
        ({**BUFFERED, "bufer": 2}, r"\.options\.pace"),
    ],
)
def test_a_mistake_is_refused_before_the_job_is_made(kind, pace, message):
    with pytest.raises(InputError, match=message):
        made(kind, federation(), "uniform", cohort=2, deadline=DEADLINE, pace=pace)


def test_an_unsound_stale_model_is_left_out():
    loopback = with_slow_sites("site-1")
    loopback.sites["site-1"] = Site("site-1", broken=lambda p: {name: value * np.nan for name, value in p.items()})
    controller = played(Workflow, loopback, "full", rounds=6, cohort=6, pace={"quorum": 5, "late": "use"})
    records = controller.federation.history
    assert any("0" in record["left_out"] for record in records)
    assert all(np.isfinite(array).all() for array in controller.federation.engine.model.values())
    check_accounts(records)


# -- NVFlare's own simulator -------------------------------------------------------------------------------------------

SITES = 6
SLOW_SCRIPT = """
import time
import numpy as np
from sortition.nvflare import client as flare

SECONDS = {"site-1": 12.0, "site-2": 12.0}
flare.answer(facts=lambda site: {"sizes": 10})
flare.init()
while flare.is_running():
    model = flare.receive()
    site = flare.get_site_name()
    time.sleep(SECONDS.get(site, 0.2))
    params = {name: np.asarray(array) + 1.0 for name, array in model.params.items()}
    flare.send(flare.FLModel(params=params, metrics={"train_loss": 1.0}))
"""
JOB = f"""
import sys, json
import numpy as np
from sortition.nvflare import selector_job
job = selector_job("slow", sys.argv[2], model={{"w": np.zeros(3)}}, **json.loads(sys.argv[1]))
sys.exit(job.simulator_run("workspace", n_clients={SITES}, threads={SITES}, log_config="concise"))
"""
RECIPE = f"""
import sys, json
import numpy as np
from nvflare.app_common.workflows.fedavg import FedAvg
from nvflare.job_config.api import FedJob
from nvflare.job_config.script_runner import FrameworkType, ScriptRunner
from sortition.nvflare import select_clients
options = json.loads(sys.argv[1])
model = {{"w": [0.0] * 3}}
fedavg = FedAvg(num_clients={SITES}, num_rounds=options.pop("num_rounds"), model=model, persistor_id="")
job = FedJob(name="slow", min_clients=1)
job.to_server(fedavg)
job.to_clients(ScriptRunner(sys.argv[2], framework=FrameworkType.NUMPY))
select_clients(job, options.pop("selector"), **options)
sys.exit(job.simulator_run("workspace", n_clients={SITES}, threads={SITES}, log_config="concise"))
"""


def command(code, folder, **options):
    script = folder / "train.py"
    script.write_text(SLOW_SCRIPT)
    return [sys.executable, "-c", code, json.dumps(options), str(script)]


@pytest.mark.nvflare
@pytest.mark.parametrize("code", [JOB, RECIPE], ids=["own", "fedavg"])
@PACES
def test_the_simulator_does_not_wait_for_slow_sites(code, pace, tmp_path):
    files = {"checkpoint": str(tmp_path / "run.npz"), "audit": str(tmp_path / "audit.jsonl")}
    common = {"selector": "uniform", "cohort": 4, "num_rounds": 12, "wait_for": SITES, "pace": pace, **files}
    run(command(code, tmp_path, **common), tmp_path)
    records = history(tmp_path / "run.npz")
    assert len(records) == 12
    check_accounts(records)
    clocks = np.array([record["clock"] for record in records])
    assert np.median(np.diff(clocks)) < 12.0  # as long as a slow site trains
    late_sites = {
        client
        for record in records
        for client, staleness in zip(answered_ids(record), record.get("staleness", []), strict=False)
        if staleness
    }
    assert late_sites & {0, 1}
    model = snapshot.load(tmp_path / "run.npz")[0]["model.0"]
    assert np.isfinite(model).all()
    assert model.min() > 0
    assert examine_log(tmp_path / "audit.jsonl").faults == []


@pytest.mark.nvflare
def test_a_killed_job_gives_up_what_was_in_flight_by_name(tmp_path):
    common = {"selector": "uniform", "cohort": 4, "num_rounds": 12, "wait_for": SITES, "pace": LATE}
    files = {"checkpoint": str(tmp_path / "run.npz"), "resume": True}
    line = command(JOB, tmp_path, **common, **files)

    def is_in_flight():
        return any(record.get("in_flight") for record in history(tmp_path / "run.npz"))

    kill(start_with_all_sites(line, tmp_path, until=is_in_flight))
    assert is_in_flight()
    before = history(tmp_path / "run.npz")
    assert len(before) < 12
    run(line, tmp_path)
    records = history(tmp_path / "run.npz")
    assert len(records) == 12
    assert records[: len(before)] == before
    given_up = {client: why for record in records for client, why in record.get("given_up", {}).items()}
    assert given_up
    assert set(given_up.values()) == {RESTARTED}
    check_accounts(records)
