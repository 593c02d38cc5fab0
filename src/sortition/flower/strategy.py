"""A Flower strategy that leaves the choice of clients, and their weights, to a selector.

Flower has no hook for sampling; what it has is ``configure_train``, which holds the grid. There the roster is brought
up to date, the selector's questions go out as ``query.<signal>`` messages, and the cohort's train messages come back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from contextlib import closing, nullcontext
from logging import INFO, WARNING
from pathlib import Path
from typing import Any, cast

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.common.logger import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result, Strategy

from sortition.audit.log_file import LogFile
from sortition.core import Guards, Registrar, Turn
from sortition.core.arrays import Array
from sortition.core.errors import InputError, StorageError, bad
from sortition.core.selector import Selector
from sortition.core.signals import UPDATE
from sortition.flower import aggregation, checkpoint, wire
from sortition.flower.base_strategy import Stock
from sortition.flower.enrolment import Muster
from sortition.flower.exchange import Replies, match
from sortition.flower.grid_views import Closing, Seen
from sortition.flower.questions import Interview
from sortition.flower.record import record as recorded


class SelectorStrategy(Strategy):
    """Runs a selector in a Flower federation.

    Args:
        selector: the method, such as ``sortition.selectors.load("fedgs")``.
        cohort: clients per round.
        overselect: factor on the cohort; a round closes when ``cohort`` clients have answered, or at the time limit.
        horizon: rounds that the selector plans for; default: ``num_rounds`` of :meth:`start`.
        seed: of the selector's draws; it stays on the server.
        guards: how far clients are trusted; default: no honest client notices.
        owner_of: from a client's stable name to its owner, for ``Guards.quota``; said here, not by clients.
        strategy: a stock strategy of the FedAvg family, for its server step, its train config and evaluation.
        answer_timeout: seconds that clients have for a question.
        wait_for: nodes that must be online before the first round.
        patience: seconds without anybody after which a round is skipped; before the first client came, none is.
        checkpoint: file that model, selection and roster are written to; an old one is never overwritten unasked.
        checkpoint_every: rounds between two checkpoints.
        resume: checkpoint to go on from, True for ``checkpoint``; a file that does not exist yet means a fresh start.
        audit: file of the audit log; seed and salt are revealed beside it (``….reveal.json``) when the run is over.
        on_round: called with the record of each round.
    """

    def __init__(
        self,
        selector: Selector[Any],
        *,
        cohort: int,
        overselect: float = 1.0,
        horizon: int | None = None,
        seed: int = 0,
        guards: Guards | None = None,
        owner_of: Callable[[str], Hashable] | None = None,
        strategy: FedAvg | None = None,
        answer_timeout: float = 60.0,
        wait_for: int = 1,
        patience: float = 600.0,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 1,
        resume: str | Path | bool | None = None,
        audit: str | Path | None = None,
        on_round: Callable[[dict[str, Any]], object] | None = None,
    ) -> None:
        if not isinstance(selector, Selector):
            raise bad("SelectorStrategy.selector", "a Selector", selector, "Make one with sortition.selectors.load.")
        counts = {"cohort": cohort, "wait_for": wait_for, "checkpoint_every": checkpoint_every}
        for name, value in counts.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise bad(f"SelectorStrategy.{name}", "a whole number ≥ 1", value)
        if not answer_timeout > 0:
            raise bad("SelectorStrategy.answer_timeout", "seconds > 0", answer_timeout)
        if not patience >= 0:
            raise bad("SelectorStrategy.patience", "seconds ≥ 0", patience, "math.inf waits without end.")
        if not (math.isfinite(overselect) and overselect >= 1):
            raise bad("SelectorStrategy.overselect", "finite and ≥ 1", overselect)
        if resume is True and checkpoint is None:
            raise bad("SelectorStrategy.resume", "a path where no checkpoint is given", resume)
        for signal in (*selector.needs.asks, *selector.needs.reports):
            if signal.of == "pairs":
                raise InputError(
                    f"{type(selector).__name__} asks for {signal.name!r}, products between pairs of clients, which "
                    "Flower clients cannot exchange. Choose a variant that reads or asks single clients."
                )
        self.guards = Guards() if guards is None else guards
        if self.guards.minimum > cohort:
            raise bad("Guards.minimum", f"at most the cohort, {cohort}", self.guards.minimum)
        if self.guards.quota and owner_of is None and "groups" not in selector.needs.reads:
            raise bad("Guards.quota", "0 where owners are unknown", self.guards.quota, "Give owner_of=….")
        self.selector, self.cohort, self.horizon, self.seed = selector, cohort, horizon, seed
        self.overselect = float(overselect)
        self.stock = Stock(FedAvg() if strategy is None else strategy)
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.checkpoint_every, self.on_round = checkpoint_every, on_round
        self.resume = self.checkpoint if resume is True else Path(resume) if resume else None
        self.history: list[dict[str, Any]] = []
        self.muster = Muster(selector.needs, type(selector).__name__, answer_timeout, wait_for, patience)
        self.muster.roster.owner_of = owner_of
        self.registrar: Registrar | None = None
        self._interview = Interview(answer_timeout, self.guards)
        self._restored: tuple[dict[str, Array], dict[str, Any]] | None = None
        self._turn: Turn | None = None
        self._sent: dict[int, Message] = {}
        self._model: dict[str, Array] = {}
        self._done, self._timeout, self._target = 0, 3600.0, 0
        self.logbook = None if audit is None else LogFile(audit)

    def summary(self) -> None:
        """Log who chooses, and what it learns of clients."""
        needs = self.selector.needs
        log(INFO, "\t├──> Selection: %s", self.selector)
        log(INFO, "\t│\t├── reads %s", ", ".join(needs.reads) or "nothing")
        log(INFO, "\t│\t├── asks %s", ", ".join(s.name for s in needs.asks) or "nothing")
        log(INFO, "\t│\t└── has reported %s", ", ".join(s.name for s in needs.reports) or "nothing")
        log(INFO, "\t└──> Server step: %s", type(self.stock.strategy).__name__)

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Run, or go on from ``resume``; rounds are numbered as if the server had never died."""
        self.horizon, self._timeout = self.horizon or num_rounds, timeout
        if self.overselect > 1:
            grid = cast(Grid, Closing(grid, lambda: self._target))
        shifted = None if evaluate_fn is None else lambda r, arrays: evaluate_fn(r + self._done, arrays)
        with checkpoint.held(self.checkpoint, self.resume), closing(self.logbook) if self.logbook else nullcontext():
            if self.resume is not None and self.resume.exists():
                initial_arrays = self._restore(self.resume, initial_arrays)
                log(INFO, "Going on after round %d of %s", self._done, self.resume)
            self._check_log()
            left = max(num_rounds - self._done, 0)
            result = super().start(grid, initial_arrays, left, timeout, train_config, evaluate_config, shifted)
            if self.logbook is not None:
                self.logbook.reveal()
        if not result.arrays:
            result.arrays = initial_arrays
        for name in ("train_metrics_clientapp", "evaluate_metrics_clientapp", "evaluate_metrics_serverapp"):
            setattr(result, name, {r + self._done: value for r, value in getattr(result, name).items()})
        return result

    @property
    def options(self) -> dict[str, Any]:
        """What must be the same when a federation goes on, beside the registrar's own parameters."""
        return {"cohort": self.cohort, "overselect": self.overselect, "strategy": type(self.stock.strategy).__name__}

    def _restore(self, path: Path, initial: ArrayRecord) -> ArrayRecord:
        model, arrays, header = checkpoint.load(path, self.muster.roster, self.stock, self.options)
        if fault := wire.fault(model, wire.tables(initial)):
            raise StorageError(f"{path} holds another model than the one that is to be trained: {fault}.")
        self._restored, self.history = (arrays, header["registrar"]), header["history"]
        self._done = header["index"]
        if self.logbook is not None and header["salt"]:
            self.logbook.salt = header["salt"]
        return wire.record(model)

    def _check_log(self) -> None:
        """Refuse to begin where the log of an earlier run is."""
        if self.logbook is None or self._done:
            return
        path = self.logbook.path
        if path.exists() and path.stat().st_size:
            raise StorageError(
                f"{path} is the audit log of an earlier run. Go on from its checkpoint with resume=, or choose another "
                "audit=."
            )

    # -- training ------------------------------------------------------------------------------------------------------

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask what the selector wants to know, and write to those it chooses."""
        available = self.muster.call(grid)
        registrar = self._up_to_date()
        content = self.stock.content(server_round + self._done, arrays, config)
        self._model = wire.tables(arrays)
        turn = self._turn = registrar.begin(available, math.ceil(self.cohort * self.overselect))
        send = self._interview.about(content, self.muster.roster, turn.index, self.stock)
        while turn.question is not None:
            turn.answer(self._interview.ask(grid, send, turn.question, self._model))
        chosen = turn.cohort.ids if turn.cohort is not None else np.empty(0, np.int64)
        reports = tuple(signal.name for signal in registrar.needs.reports if signal != UPDATE)
        early = self.overselect > 1 and turn.cohort is not None and not turn.cohort.full
        self._target = self.cohort if early else 0
        self._sent = {int(k): send.message("train", int(k), self._timeout, reports=reports) for k in chosen}
        log(INFO, "configure_train: %s chose %d of %d", registrar.owner, chosen.size, available.size)
        return list(self._sent.values())

    def _up_to_date(self) -> Registrar:
        """The registrar, with everybody on the roster."""
        roster = self.muster.roster
        if self.registrar is None:
            self.registrar = Registrar(
                self.selector, roster.population(), horizon=self.horizon, seed=self.seed, guards=self.guards
            )
            if self._restored is not None:
                self.registrar.restore(*self._restored)
            if self.logbook is not None:
                self.logbook.watch(self.registrar)
        elif self.muster.changed:
            self.registrar.join(roster.population())
        self.muster.changed = False
        return self.registrar

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """w + Σ a_k Δ_k over the sound replies in the cohort's order, then the stock strategy's server step."""
        registrar, turn = self.registrar, self._turn
        if registrar is None or turn is None or turn.cohort is None:
            raise bad("aggregate_train", "called after configure_train", "a call without")
        found = match(self._sent, list(replies))
        models, faults = aggregation.sound(found.contents, self._model, self.guards)
        turn.blame(faults)
        done, weights, notes = aggregation.weighed(turn.cohort, models)
        usable = registrar.finish(turn, done, self._reports(found, models, done))
        registrar.counters["duplicate"] += found.duplicate
        registrar.counters["late"] += found.stray
        arrays = None
        if usable.size:
            mean = aggregation.mean(self._model, models, done, weights)
            self._model = self.stock.step(server_round + self._done, mean)
            arrays = wire.record(self._model)
        self._remember(turn, done, found.failed | faults, notes)
        names = [f"client {self.muster.roster.names[k]}" for k in done.tolist()]
        metrics = self.stock.metrics([found.contents[k] for k in done.tolist()], weights.tolist(), names)
        metrics["cohort"], metrics["answered"] = turn.cohort.ids.tolist(), done.tolist()
        return arrays, metrics

    def _reports(self, found: Replies, models: dict[int, Any], done: Array) -> dict[str, dict[int, Array]]:
        """Rows by signal and client; the update is what the model itself tells."""
        told = {client: wire.received(found.contents[client], wire.ROWS) for client in done.tolist()}
        out = {}
        for signal in self.selector.needs.reports:
            out[signal.name] = {client: rows[signal.name] for client, rows in told.items() if signal.name in rows}
            if signal == UPDATE:
                before = wire.flatten(self._model)
                out[signal.name] = {k: wire.flatten({n: models[k][n] for n in self._model}) - before for k in told}
        return out

    def _remember(self, turn: Turn, done: Array, faults: dict[int, str], notes: dict[str, Any]) -> None:
        registrar, names = self.registrar, self.muster.roster.names
        if registrar is None:
            return
        record = recorded(turn, done, faults, registrar.population.n_clients, notes)
        for client, reason in faults.items():
            log(WARNING, "Client %s is left out: %s", names[client], reason)
        if silent := record["silent"]:
            log(WARNING, "No answer in time from %s", ", ".join(names[k] for k in silent))
        if turn.skipped:
            log(WARNING, "Round %d is skipped: %s", turn.index + 1, record["skipped"])
        self.history.append(record)
        if self.logbook is not None:
            self.logbook.sync()
        if self.on_round is not None:
            self.on_round(record)
        if self.checkpoint is not None and (turn.index + 1) % self.checkpoint_every == 0:
            salt = "" if self.logbook is None else self.logbook.salt.hex()
            about = self.history, salt, self.options
            checkpoint.save(self.checkpoint, self._model, registrar, self.muster.roster, self.stock, *about)

    # -- evaluation is the stock strategy's ----------------------------------------------------------------------------

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """As the stock strategy does; with fewer nodes online than it wants, nobody evaluates."""
        online, self._target = list(grid.get_node_ids()), 0
        if not self.stock.enough(len(online)):
            log(WARNING, "Evaluation of round %d is skipped: %d nodes online", server_round + self._done, len(online))
            return []
        seen = cast(Grid, Seen(grid, online))
        return self.stock.strategy.configure_evaluate(server_round + self._done, arrays, config, seen)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """As the stock strategy does, of the replies that can be averaged."""
        return self.stock.evaluated(server_round + self._done, replies)
