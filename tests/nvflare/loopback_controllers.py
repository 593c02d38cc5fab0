"""NVFlare's controllers without processes: both of ours run their own code, and tasks go to sites that are objects."""

from __future__ import annotations

import logging
from contextlib import ExitStack

from nvflare.apis.fl_context import FLContext
from nvflare.app_common.workflows.base_model_controller import BaseModelController
from tests.nvflare.loopback import MODEL

from sortition.clients.named_arrays import as_vector
from sortition.federation.model_engine import ModelEngine
from sortition.nvflare import SelectedFedAvg, SelectorController


class Kept(logging.Handler):
    """Keeps the warnings of a logger in a list."""

    def __init__(self, texts):
        super().__init__(logging.WARNING)
        self.texts = texts

    def emit(self, record):
        self.texts.append(record.getMessage())


class InProcess(BaseModelController):
    """Stands behind NVFlare's ModelController, and sends tasks to a ``Loopback`` at once."""

    def connect(self, loopback):
        self.loopback, self.engine, self.abort_signal = loopback, loopback.engine, loopback.abort_signal
        self.fl_ctx, self.events, self.panics = FLContext(), [], []
        self.logger = logging.Logger("loopback")
        self.logger.addHandler(Kept(loopback.warnings))
        return self

    def broadcast(self, task, fl_ctx, targets=None, min_responses=1, wait_time_after_min_received=0):
        self.loopback.broadcast(task, targets)

    def cancel_task(self, task):
        self.loopback.cancelled.append((task.name, list(task.targets)))

    def get_client_disconnect_time(self, name):
        return self.loopback.get_client_disconnect_time(name)

    def get_num_standing_tasks(self):
        raise AssertionError("a round must be over by its pace, whatever tasks stand")

    def event(self, kind):
        self.events.append(kind)

    def fire_event_with_data(self, kind, *about):
        self.events.append(kind)

    def info(self, text):
        pass

    def warning(self, text):
        self.loopback.warnings.append(text)

    def error(self, text):
        self.loopback.warnings.append(text)

    def panic(self, text):
        self.panics.append(text)


class Workflow(SelectorController, InProcess):
    """Our own workflow."""


class WithinFedAvg(SelectedFedAvg, InProcess):
    """NVFlare's FedAvg with our selection."""

    def save_model(self, model):
        self.saved = [*getattr(self, "saved", []), model.current_round]


# silence costs a test so many seconds
QUICK = {"wait_for": 1, "deadline": 0.2, "answer_timeout": 0.2, "profile_timeout": 0.01}
NEEDS_PARAMETERS = {"fedcor": {"warmup": 2}, "fedcs": {"deadline": 180.0}}


def made(kind, loopback, selector="fedgs", rounds=4, cohort=2, fedavg=None, **options):
    """A controller that is connected to sites; ``fedavg`` are further arguments of it."""
    arguments = {"num_rounds": rounds, "model": dict(MODEL), "persistor_id": "", **(fedavg or {})}
    table = {"parameters": NEEDS_PARAMETERS.get(selector, {}), **QUICK, **options}
    return kind(selector, cohort, options=table, **arguments).connect(loopback)


def played(kind, loopback, *args, **options):
    """A controller whose job is over."""
    controller = made(kind, loopback, *args, **options)
    controller.run()
    assert controller.panics == []
    return controller


class Stepwise(Workflow):
    """Our own workflow, of which a test plays some rounds at a time."""

    def begin_with(self, model):
        self.stack = ExitStack()
        self.begin(ModelEngine(model, combining=self.combining), self.num_rounds, self.stack)
        return self

    def rounds(self, count):
        """The records of the next rounds."""
        for _ in range(count):
            self.choose()
            self.started.driver.dispatch()
            self.started.close_round()
        return self.started.history[-count:]

    @property
    def vector(self):
        return as_vector(self.started.messenger.engine.model)


def begun(loopback, selector="full", **options):
    """A workflow before its first round."""
    return made(Stepwise, loopback, selector, **{"rounds": 20, **options}).begin_with(dict(MODEL))


def cohorts(controller):
    return [record["cohort"] for record in controller.federation.history]


def before_sending(loopback, do):
    """Let ``do(task, round)`` happen before each task goes out."""
    send = loopback.broadcast

    def sending(task, targets):
        do(task.name, task.data.get_header("current_round"))
        return send(task, targets)

    loopback.broadcast = sending
