"""The parts of a federation, put together: members and messages, the driver of its rounds, and its files."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack

from sortition.core.registrar import Registrar
from sortition.core.round_record import RoundRecord, answered_ids
from sortition.federation.driver import Driver, OpenRound, Selection
from sortition.federation.members import Members
from sortition.federation.messages import Transport
from sortition.federation.messenger import Messenger
from sortition.federation.model_engine import Engine
from sortition.federation.monitoring import LiveMetrics, MeteredTransport
from sortition.federation.options import Options
from sortition.federation.overlapping_messenger import OverlappingMessenger
from sortition.federation.server_checkpoint import RunFiles
from sortition.federation.shadow import Shadows


class LiveFederation:
    """Plays rounds with the clients of a transport, and keeps them on the disk.

    Args:
        transport: moves messages.
        engine: owns the model.
        options: of the federation.
        backend: ``flower``, ``nvflare`` or ``server``, for readers of the history.
        logger: where it is said who is left out, and why.
        stopping: whether the federation is to end, also while it waits for clients.
    """

    def __init__(
        self,
        transport: Transport,
        engine: Engine,
        options: Options,
        backend: str,
        *,
        logger: logging.Logger | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.options = options
        self.engine = engine
        self.logger = logger or logging.getLogger("sortition")
        if options.metrics:
            transport = MeteredTransport(transport)
        messenger_class: type[Messenger] = Messenger
        if options.pace.settings.overlaps:
            messenger_class = OverlappingMessenger
        self.messenger: Messenger = messenger_class(transport, engine, options, logger=self.logger, stopping=stopping)
        shadows: Shadows | None = None
        arrangement = options.arrangement
        if arrangement.shadows:
            shadows = Shadows(
                arrangement.shadows, arrangement.live_label, pace=options.pace.settings, logger=self.logger
            )
        self.files = RunFiles(self.messenger, backend=backend, shadows=shadows)
        if isinstance(self.messenger, OverlappingMessenger) and options.checkpoint_every == 1:
            self.messenger.prepared = self.files.save
        self.driver = Driver(
            self.messenger,
            Selection(options.selector, options.horizon, options.seed, options.guards),
            options.pace,
            policy=self.messenger.policy,
            shadows=shadows,
            started=self._started,
            keep=self._keep,
            sinks=tuple(sink for sink in (options.on_round,) if sink is not None),
            complain=self.logger.warning,
        )
        self.metrics: LiveMetrics | None = None
        if isinstance(transport, MeteredTransport):
            self.metrics = self._show_metrics(transport, backend)

    def _show_metrics(self, transport: MeteredTransport, backend: str) -> LiveMetrics:
        """Show the federation's numbers after every round; what a sink raises is logged."""
        metrics = LiveMetrics(
            self.options.metrics,
            backend=backend,
            driver=self.driver,
            members=self.members,
            transport=transport,
            checkpoint=lambda: self.files.written_at,
            logger=self.logger,
        )
        self.driver.sinks = (*self.driver.sinks, metrics.update)
        return metrics

    def _started(self, registrar: Registrar) -> None:
        """Restore a new registrar where the run goes on, and hand it to whoever reads it."""
        if isinstance(self.messenger, OverlappingMessenger):
            self.messenger.judge_updates = registrar.judge_updates
        self.files.watch(registrar)
        if self.driver.shadows is not None:
            saved_shadows = None
            if self.files.saved is not None:
                saved_shadows = self.files.saved.selection.shadows
            self.driver.shadows.watch(registrar, saved_shadows)
        self.messenger.needs = registrar.needs  # a run that goes on keeps what was resolved

    @property
    def members(self) -> Members:
        """Who takes part."""
        return self.messenger.members

    @property
    def registrar(self) -> Registrar | None:
        """The registrar; None before the first round."""
        return self.driver.registrar

    @property
    def history(self) -> list[RoundRecord]:
        """The records of all rounds, those of before a restart included."""
        return self.files.history

    def open_and_restore(self, stack: ExitStack) -> int:
        """Open and lock the files until the stack closes, restore a saved run, and return how many rounds it played."""
        self.files.open(stack)
        self.messenger.policy.round = self.files.played
        saved = self.files.saved
        if saved is not None and isinstance(self.messenger, OverlappingMessenger):
            self.messenger.restore(*saved.in_flight)
        self.messenger.has_moved_model = any(answered_ids(record) for record in self.history)
        self.messenger.reports_are_proven = self.files.played > 0 and not self.files.promoted
        if self.files.played:
            self.messenger.go_on_from(float(self.history[-1].get("clock") or 0.0))
            self.logger.info("Going on after round %d of %s", self.files.played, self.options.resume)
        if self.metrics is not None:
            self.metrics.open(stack, self.history)
        return self.files.played

    def open_round(self) -> OpenRound:
        """Choose a cohort; refuse one, before it trains, whose updates the combining rule cannot combine."""
        opened = self.driver.open_round()
        combining = self.engine.combining
        combining.check_memory(self.messenger.model_size().parameters or 0, len(self.members))
        if opened.cohort.ids.size:
            combining.rule.check_mass(opened.cohort.mass)
        return opened

    def close_round(self) -> RoundRecord:
        """Make the next model, and keep the record; refused where no client at all can train."""
        record = self.driver.close_round()
        self.messenger.check_progress()
        return record

    def _keep(self, record: RoundRecord) -> None:
        """Add what was counted since the last round to the registrar's counters, then write record and checkpoint."""
        if self.registrar is not None:
            for counter, count in self.messenger.counted.items():
                self.registrar.counters[counter] += count
            self.messenger.counted = dict.fromkeys(self.messenger.counted, 0)
        self.files.keep(record)

    def end(self) -> None:
        """Write the last checkpoint, and reveal the seed of the audit log: the run is over."""
        self.files.save()
        if self.metrics is not None:
            self.metrics.completed = True
        if self.files.log_file is not None and self.registrar is not None:
            self.files.log_file.reveal()
