"""What both controllers share: their options, a federation on NVFlare's sites, and how a job ends."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import ExitStack

from nvflare.apis.client import Client
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.workflows.model_controller import ModelController

from sortition.core.errors import SortitionError
from sortition.core.storage.snapshot import StoredTable
from sortition.federation.live import LiveFederation
from sortition.federation.model_engine import Combining, ModelEngine
from sortition.nvflare.controller_options import read_options
from sortition.nvflare.task_transport import JobAbortedError, NvflareTransport


class SelectingController(ModelController):
    """A controller whose sites a selector chooses.

    Attributes:
        settings: the options, checked.
        combining: how updates become one.
        federation: that of the job; None before it runs.
    """

    transport: NvflareTransport
    federation: LiveFederation | None = None

    def configure(self, selector: str, cohort: int, rounds: int, options: StoredTable | None) -> None:
        """Check what was given, and keep it where NVFlare looks: in attributes that are called like the arguments."""
        who = type(self).__name__
        self.settings = read_options(who, selector, cohort=cohort, rounds=rounds, options=options)
        self.combining = Combining.by((options or {}).get("combine", "mean"), who)
        self.selector = selector
        self.cohort = cohort
        self.options = options

    def run(self) -> None:
        """Run the workflow; a mistake of the user stops the job with one sentence."""
        try:
            with ExitStack() as stack:
                self.play(stack)
        except JobAbortedError:
            self.info("The job is aborted.")
        except SortitionError as error:
            self.panic(f"sortition: {error}")

    @abstractmethod
    def play(self, stack: ExitStack) -> None:
        """Play all rounds; the stack holds the files."""

    def begin(self, engine: ModelEngine, rounds: int, stack: ExitStack) -> int:
        """Make the federation of this job; return how many rounds were played before a restart."""
        self.transport = NvflareTransport(self, rounds)
        self.federation = LiveFederation(self.transport, engine, self.settings, "nvflare", logger=self.logger)
        return self.federation.open_and_restore(stack)

    @property
    def started(self) -> LiveFederation:
        """The federation of a job that runs."""
        if self.federation is None:
            raise SortitionError(f"{type(self).__name__} must be started by NVFlare.")
        return self.federation

    def choose(self) -> list[str]:
        """Open a round; return the names of the sites that the selector chose, in the cohort's order."""
        federation = self.started
        cohort = federation.open_round().cohort
        names = [federation.members[client].name for client in cohort.ids.tolist()]
        self.info(f"{type(self.settings.selector).__name__} chose {', '.join(names) or 'nobody'}")
        return names

    def process_result_of_unknown_task(
        self, client: Client, task_name: str, client_task_id: str, result: Shareable, fl_ctx: FLContext
    ) -> None:
        """Count the result of a task that has ended as late; NVFlare calls this."""
        if self.federation is not None:
            self.transport.take_late(client_task_id, result)
