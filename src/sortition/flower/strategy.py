"""A Flower strategy that leaves the choice of clients, and their weights, to a selector.

Flower has no hook for sampling; what it has is ``configure_train``, which holds the grid. There the roster is brought
up to date, the selector's questions go out as ``query.<signal>`` messages, and the user's own strategy configures the
chosen. It aggregates them too: the cohort's weights stand in their replies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from logging import INFO, WARNING
from pathlib import Path
from typing import Any, cast

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.common.logger import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result, Strategy

from sortition.aggregation import CombineRule
from sortition.audit.log_file import LogFile
from sortition.clients.models import Model, model_size
from sortition.core import Guards, Registrar, Turn
from sortition.core.arrays import Ids
from sortition.core.errors import InputError, bad
from sortition.core.selector import Selector
from sortition.core.signals import UPDATE
from sortition.flower import wire
from sortition.flower.base_strategy import BaseStrategy
from sortition.flower.combining import CombineRound, Combining, rate_of
from sortition.flower.enrolment import Enrolment, Waiting
from sortition.flower.exchange import match
from sortition.flower.grid_views import EarlyClose
from sortition.flower.options import Eligible, Options, as_path, named_selector, paths
from sortition.flower.questions import Interview, RoundMessages
from sortition.flower.replies import log_other_examples, reports, usable_models
from sortition.flower.run_files import RunFiles
from sortition.flower.run_outcome import RunOutcome
from sortition.flower.strategy_kinds import layers, log_unread
from sortition.flower.updates import ModelCheck, with_counters
from sortition.flower.weights import Combined, check_mass, weigh

LOOP = ("summary", "configure_train", "aggregate_train", "configure_evaluate", "aggregate_evaluate")  # of a run
TIMEOUT = 3600.0  # seconds of a round, as Flower's own start has it; this very object means that none was given


class SelectorStrategy(Strategy):
    """Runs a selector in a Flower federation.

    Args:
        selector: the method, such as ``sortition.selectors.load("fedgs")``, or its name. ``"auto"`` is Microcosm with
            label counts where all clients of the first round give them, else with sketches of updates.
        cohort: clients per round.
        overselect: factor on the cohort; a round closes when ``cohort`` clients have answered, or at the time limit.
        horizon: rounds that the selector plans for; default: ``num_rounds`` of :meth:`start`.
        seed: of the selector's draws; it stays on the server.
        guards: how far clients are trusted; default: no honest client notices.
        owner_of: from a client's stable name to its owner, for ``Guards.quota``; given here, not by clients.
        bind_names: a name belongs to the node key that first had it; for SuperNodes that are authenticated.
        eligible: who may be chosen: names and tags, or a function of a client's stable name and facts.
        facts: facts that clients are asked for beside those that the selector reads, for ``eligible``.
        strategy: your own strategy; everything but the choice of clients is its own. Default: FedAvg.
        combine: a rule that makes one update of all, before the strategy's step: a name (``median``, ``trimmed-mean``,
            ``geometric-median``, ``norm-bound``, ``fedvarp``, ``mifa``) or a ``sortition.aggregation.CombineRule``.
        answer_timeout: seconds that clients have for a question.
        profile_timeout: seconds that a node has to say who it is; only before the first round is it waited for.
        wait_for: nodes that must be online before the first round; before each, the strategy's ``min_available_nodes``.
        patience: seconds with too few nodes after which a round is skipped; before the first client came, none is.
        checkpoint: file that model, selection and roster are written to; an old one is never overwritten unasked.
        checkpoint_every: rounds between two checkpoints.
        resume: checkpoint to go on from, True for ``checkpoint``; a file that does not exist yet means a fresh start.
        audit: file of the audit log; seed and salt are revealed beside it (``….reveal.json``) when the run is over.
        on_round: called with the record of each round.
    """

    registrar: Registrar | None = None
    _turn: Turn | None = None

    def __init__(
        self,
        selector: Selector[Any] | str = "auto",
        *,
        cohort: int,
        overselect: float = 1.0,
        horizon: int | None = None,
        seed: int = 0,
        guards: Guards | None = None,
        owner_of: Callable[[str], Hashable] | None = None,
        bind_names: bool = False,
        eligible: Eligible | None = None,
        facts: Sequence[str] = (),
        strategy: Strategy | None = None,
        combine: CombineRule | str = "mean",
        answer_timeout: float = 60.0,
        profile_timeout: float = 120.0,
        wait_for: int = 1,
        patience: float = 600.0,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 1,
        resume: str | Path | bool | None = None,
        audit: str | Path | None = None,
        on_round: Callable[[dict[str, Any]], object] | None = None,
    ) -> None:
        selector, self.guards = named_selector(selector), Guards() if guards is None else guards
        limits = answer_timeout, profile_timeout, wait_for, patience
        about = selector, cohort, overselect, self.guards, owner_of, eligible, horizon, seed, facts, on_round
        self.combining = Combining.by(combine)
        self.options = Options(*about, *limits, checkpoint_every, *paths(checkpoint, resume), self.combining.rule)
        self.base = BaseStrategy(FedAvg(min_available_nodes=1) if strategy is None else strategy)
        self._check_base()
        self.selector, self.horizon, self.seed = selector, horizon, int(seed)
        waiting = Waiting(profile_timeout, wait_for, self.base.least_online, patience)
        self.enrolment = Enrolment(selector.needs, type(selector).__name__, waiting, facts)
        self.roster = self.enrolment.roster
        self.roster.owner_of, self.roster.bind_keys = owner_of, bind_names
        kept = self.options, self.base.strategy, self.roster, self.combining
        self.files = RunFiles(*kept, None if audit is None else LogFile(as_path("audit", audit)))
        self.files.on_round = on_round
        self._models = ModelCheck(self.guards, self.base.kind.trees, self.base.kind.own)
        self._interview = Interview(answer_timeout, self._models)
        self._sent: dict[int, Message] = {}
        self._model: Model = {}
        self._running, self._outcome, self._timeout, self._target = False, RunOutcome(), TIMEOUT, 0

    def _check_base(self) -> None:
        if any(isinstance(layer, SelectorStrategy) for layer in layers(self.base.strategy)):
            raise InputError("SelectorStrategy.strategy must not hold a SelectorStrategy: one selector chooses.")
        self.options.check_strategy(type(self.base.strategy).__name__, self.base.kind)

    def __getattr__(self, name: str) -> Any:
        """What only the user's own strategy has: an app goes on calling it where it did before."""
        if name.startswith("_") or "base" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no {name!r}")
        return getattr(self.base.strategy, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """What only the user's own strategy has is set there, where it is read."""
        ours = "_target" not in self.__dict__ or name in self.__dict__ or hasattr(type(self), name)
        theirs = not ours and not name.startswith("_") and hasattr(self.base.strategy, name)
        setattr(self.base.strategy, name, value) if theirs else super().__setattr__(name, value)

    @property
    def history(self) -> list[dict[str, Any]]:
        """The records of all rounds."""
        return self.files.history

    def summary(self) -> None:
        """Log who chooses, and what it learns of clients; then the strategy's own summary."""
        needs, kind = self.selector.needs, self.base.kind
        log(INFO, "\t├──> Selection: %s", self.selector)
        log(INFO, "\t│\t├── reads %s", ", ".join(needs.reads) or "nothing")
        log(INFO, "\t│\t├── asks %s", ", ".join(s.name for s in needs.asks) or "nothing")
        log(INFO, "\t│\t└── has reported %s", ", ".join(s.name for s in needs.reports) or "nothing")
        if self.combining.own:
            log(INFO, "\t├──> Updates are combined by %s", self.combining.rule.name)
        log(INFO, "\t├──> Server step: %s", type(self.base.strategy).__name__)
        if not kind.weighs:
            log(WARNING, "%s does not use the selector's weights.", type(self.base.strategy).__name__)
        log_unread(self.base.inner)
        self.base.original("summary")()

    # -- a run ---------------------------------------------------------------------------------------------------------

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float | None = TIMEOUT,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
        **more: Any,
    ) -> Result:
        """Run the strategy's own ``start`` from the first round, or go on from ``resume`` as if nothing had stopped."""
        self.base.check_model(initial_arrays)
        self.horizon, files = self.options.horizon or num_rounds, self.files
        self._timeout = math.inf if timeout is None else timeout
        if self.options.overselect > 1:
            grid = cast(Grid, EarlyClose(grid, lambda: self._target))
        shifted = None if evaluate_fn is None else lambda r, arrays: evaluate_fn(r + files.played, arrays)
        with ExitStack() as stack:
            initial_arrays = files.open(stack, initial_arrays)
            self._take_over(stack)
            left = max(num_rounds - files.played, 0)
            more |= {"num_rounds": left, **({} if timeout is TIMEOUT else {"timeout": timeout})}
            configs = {"train_config": train_config, "evaluate_config": evaluate_config, "evaluate_fn": shifted}
            more |= {name: value for name, value in configs.items() if value is not None}
            result: Result = self.base.strategy.start(grid, initial_arrays, **more)
            if files.log_file is not None:
                files.log_file.reveal()
        self._outcome.check_end(left, self.history[files.played :], self.base)
        return files.renumbered(result, initial_arrays) if isinstance(result, Result) else result

    def _take_over(self, stack: ExitStack) -> None:
        """Stand in the place of the strategy's own methods for as long as it runs."""
        self._outcome = RunOutcome(any(record["answered"] for record in self.history))
        ours = {name: getattr(self, name) for name in LOOP}
        stack.enter_context(self.base.replaced(**ours))
        self._running, self.registrar, self.enrolment.begun = True, None, False
        stack.callback(setattr, self, "_running", False)

    # -- training ------------------------------------------------------------------------------------------------------

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask what the selector wants to know, and let the strategy write to those it chooses."""
        if not self._running:
            raise InputError(
                "SelectorStrategy must be started by its own start(); a strategy around it would bypass the selection. "
                "Put that strategy inside: SelectorStrategy(selector, strategy=…)."
            )
        available, self._model = self._eligible(self.enrolment.present(grid)), wire.view_arrays(arrays)
        registrar = self._up_to_date()
        turn = self._turn = registrar.begin(available, self.options.asked_to_train)
        number = server_round + self.files.played
        write = RoundMessages(self.base, self.roster, grid, number, arrays, config, turn.index, available)
        while turn.question is not None:
            turn.answer(self._interview.ask(grid, write, turn.question, self._model))
        chosen = turn.cohort.ids if turn.cohort is not None else np.empty(0, np.int64)
        reported = tuple(signal.name for signal in registrar.needs.reports if signal != UPDATE)
        early = self.options.overselect > 1 and turn.cohort is not None and not turn.cohort.full
        self._target = self.options.cohort if early else 0
        log(INFO, "configure_train: %s chose %d of %d", registrar.owner, chosen.size, available.size)
        if turn.cohort is not None:
            check_mass(turn.cohort, self.base, self.combining.rule, registrar.owner)
            self._outcome.check_cohort(turn.cohort, available.size, self.base, registrar.owner)
        self._sent = write.train(chosen.tolist(), self._timeout, reported)
        return list(self._sent.values())

    def _eligible(self, present: Ids) -> Ids:
        """Those of the present clients that may be chosen."""
        if self.options.eligible is None:
            return present
        roster, may = self.roster, self.options.is_eligible
        return present[[may(roster.names[k], roster.tags[k], roster.facts[k]) for k in present.tolist()]]

    def _up_to_date(self) -> Registrar:
        """The registrar, with everybody on the roster, and the lengths of the model's vectors."""
        model = model_size(self._model)
        if self.registrar is None:
            self.roster.settle()
            about = self.selector, self.roster.population()
            self.registrar = Registrar(*about, horizon=self.horizon, seed=self.seed, guards=self.guards, model=model)
            self.files.watch(self.registrar, self._model)
        elif self.enrolment.changed:
            self.registrar.join(self.roster.population())
        self.combining.check_memory(model.parameters or 0, len(self.roster))
        self.registrar.resize(model)
        self.enrolment.changed = False
        return self.registrar

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The strategy's aggregate of the replies that can be used, in the cohort's order, by the cohort's weights."""
        registrar, turn = self.registrar, self._turn
        if registrar is None or turn is None or turn.cohort is None:
            raise bad("aggregate_train", "called after configure_train", "a call without")
        found = match(self._sent, list(replies))
        models, faults = usable_models(found, self._model, self._models, self.base)
        turn.blame(faults)
        log_other_examples(turn.index, found, self.roster, self.base)
        done = turn.cohort.ids[[k in models for k in turn.cohort.ids.tolist()]]
        rows = reports(registrar.needs.reports, found, models, self._model, done)
        usable = registrar.finish(turn, done, rows)
        registrar.counters["duplicate"] += found.duplicate
        registrar.counters["late"] += found.stray
        weighing = weigh(turn.cohort, done if usable.size else usable, self.base, found.errors)
        weighing.combined = self._combined(turn.cohort.mass) if self.combining.own else None
        arrays, metrics = weighing.aggregate(server_round + self.files.played, found.messages, self._model, models)
        if arrays is not None:
            arrays = with_counters(arrays, self._model)
            self._outcome.moved, self._model = True, wire.view_arrays(arrays)
        self.files.remember(turn, registrar, self._model, done, found.failed | faults, weighing.notes)
        self._outcome.check_replies(len(self._sent), found, faults, self.roster.names)
        return arrays, metrics

    def _combined(self, mass: str) -> Combined:
        """The model that this round's updates lead to, by the combining rule."""
        about = CombineRound(len(self.roster), rate_of(self._sent, self.base.config), mass)
        return partial(self.combining.target, self._model, about)

    # -- evaluation is the strategy's own ------------------------------------------------------------------------------

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """As the strategy does; with fewer nodes online than it wants, nobody evaluates."""
        self._target = 0
        return self.base.configure_evaluation(server_round + self.files.played, arrays, config, grid)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """As the strategy does, of the replies that can be averaged."""
        return self.base.aggregate_evaluation(server_round + self.files.played, replies)
