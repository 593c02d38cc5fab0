"""NVFlare's controllers without processes: both of ours run their own code, and tasks go to sites that are objects."""

from __future__ import annotations

from nvflare.apis.fl_context import FLContext
from nvflare.app_common.workflows.base_model_controller import BaseModelController

from sortition.nvflare import SelectedFedAvg, SelectorController


class InProcess(BaseModelController):
    """Stands behind NVFlare's ModelController, and sends tasks to a ``Loopback`` at once."""

    def connect(self, loopback):
        self.loopback, self.engine, self.abort_signal = loopback, loopback.engine, loopback.abort_signal
        self.fl_ctx, self.events, self.panics = FLContext(), [], []
        return self

    def broadcast_model(self, data, task_name, targets, min_responses, timeout, blocking=True, callback=None):
        found = self.loopback.send_model_and_wait(task_name, data, targets, min_responses, timeout)
        if callback is None:
            return found
        for result in found:
            callback(result)
        return None

    def get_client_disconnect_time(self, name):
        return self.loopback.get_client_disconnect_time(name)

    def get_num_standing_tasks(self):
        return 0

    def event(self, kind):
        self.events.append(kind)

    def fire_event_with_data(self, kind, *about):
        self.events.append(kind)

    def info(self, text):
        pass

    def warning(self, text):
        self.loopback.warning(text)

    def panic(self, text):
        self.panics.append(text)


class Workflow(SelectorController, InProcess):
    """Our own workflow."""


class WithinFedAvg(SelectedFedAvg, InProcess):
    """NVFlare's FedAvg with our selection."""

    def save_model(self, model):
        self.saved = [*getattr(self, "saved", []), model.current_round]
