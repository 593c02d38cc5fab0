"""A Flower strategy that leaves the choice of clients, and their weights, to a selector.

Flower has no hook for sampling; what it has is ``configure_train``, which holds the grid. There the roster is brought
up to date, the selector's questions go out as ``query.<signal>`` messages, and the user's own strategy configures the
chosen. It aggregates them too: the cohort's weights stand in their replies.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from logging import INFO, WARNING
from typing import Any, Unpack, cast

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.common.logger import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result, Strategy

from sortition.aggregation import CombineRule
from sortition.core import Guards, Registrar
from sortition.core.cohort import Cohort
from sortition.core.errors import InputError, bad
from sortition.core.round_record import RoundRecord
from sortition.core.selector import AnySelector
from sortition.core.signals import Signal
from sortition.core.validation import is_number
from sortition.federation.driver import OpenRound
from sortition.federation.live import LiveFederation
from sortition.federation.model_engine import Combining
from sortition.federation.options import FederationOptions, Options
from sortition.federation.overlapping_messenger import OverlappingMessenger
from sortition.federation.pace import Pace
from sortition.flower import codec
from sortition.flower.aggregation import FlowerEngine, check_mass, log_other_examples, train_config
from sortition.flower.base_strategy import BaseStrategy
from sortition.flower.grid_transport import FlowerRound, FlowerTransport, collect
from sortition.flower.strategy_traits import StrategyTraits, layers, log_ignored_options
from sortition.privacy import Deployment, Promises, lint

LOOP_METHODS = ("summary", "configure_train", "aggregate_train", "configure_evaluate", "aggregate_evaluate")  # of a run
NOT_GIVEN: Any = object()  # sentinel: no timeout was passed to start()
MOST_SMALL_COHORTS = 3  # cohorts in a row that are too small, after which a run that has no model yet ends
CLASS_NAME = "SelectorStrategy"


class SelectorStrategy(Strategy):
    """Runs a selector in a Flower federation.

    Args:
        selector: the method, such as ``sortition.selectors.load("fedgs")``, or its name. ``"auto"`` is Microcosm with
            label counts where all clients of the first round give them, else with sketches of updates.
        cohort: clients per round.
        strategy: your own strategy; everything but the choice of clients is its own. Default: FedAvg.
        combine: a rule that makes one update of all, before the strategy's step: a name (``median``, ``trimmed-mean``,
            ``geometric-median``, ``norm-bound``, ``fedvarp``, ``mifa``) or a ``sortition.aggregation.CombineRule``.
        options: ``overselect``, ``pace``, ``guards``, ``checkpoint``, ``resume``, ``audit``, ``on_round``, ``metrics``,
            ``shadow``, ``policy``, ``eligible`` and others, each as
            :class:`~sortition.federation.options.FederationOptions` describes it. A client is a node, of which the
            strategy's ``min_available_nodes`` must be online before each round. Where rounds overlap, work in flight is
            given up, by name, after a restart.
    """

    _ready = False  # whether attributes are those of a whole object

    def __init__(
        self,
        selector: AnySelector | str = "auto",
        *,
        cohort: int,
        strategy: Strategy | None = None,
        combine: CombineRule | str = "mean",
        **options: Unpack[FederationOptions],
    ) -> None:
        if strategy is None:
            strategy = FedAvg(min_available_nodes=1)
        self.user_strategy = BaseStrategy(strategy)
        self.options = Options.read(CLASS_NAME, selector, cohort=cohort, **options)
        self.combining = Combining.by(combine, CLASS_NAME)
        self.selector = self.options.selector
        self.seed = self.options.seed
        self._check_base()
        self._set_up(self.options)
        self._ready = True

    def _set_up(self, options: Options) -> None:
        """Make the parts of a run that begins: nothing of an earlier run of the same object is left."""
        self.combining.memory = None
        self.engine = FlowerEngine(self.user_strategy, self.combining)
        self.transport = FlowerTransport(self.user_strategy, self._candidates)
        self.federation = LiveFederation(
            self.transport,
            self.engine,
            options,
            "flower",
            logger=logging.getLogger("flwr"),
        )
        self.messenger = self.federation.messenger
        self.members = self.federation.members
        self.driver = self.federation.driver
        self.files = self.federation.files
        self._running = False
        self._too_small = 0  # cohorts in a row that are smaller than the strategy needs

    def _candidates(self) -> list[str]:
        return [self.members.session_of(client) for client in self.messenger.candidates.tolist()]

    def _check_base(self) -> None:
        """Refuse combinations with a strategy that cannot work; log what breaks a promise of privacy."""
        options = self.options
        traits = self.user_strategy.traits
        name = type(self.user_strategy.strategy).__name__
        if any(isinstance(layer, SelectorStrategy) for layer in layers(self.user_strategy.strategy)):
            raise InputError("SelectorStrategy.strategy must not hold a SelectorStrategy: one selector chooses.")
        if traits.replies_for_noise and (traits.replies_for_noise != options.cohort or options.overselect > 1):
            requirement = f"the cohort, {options.cohort}, without overselect: its noise is of that many equal weights"
            raise bad(f"{name}.num_sampled_clients", requirement, traits.replies_for_noise)
        if options.cohort < traits.least_updates:
            requirement = f"at least {traits.least_updates}: of fewer updates {name} makes no model"
            raise bad("SelectorStrategy.cohort", requirement, options.cohort)
        if self.combining.own and not traits.linear:
            raise InputError(
                f"SelectorStrategy.combine = {self.combining.rule.name!r} makes one update of all, and {name} "
                "aggregates by a rule of its own. Use FedAvg, FedProx, FedAvgM, FedAdam, FedAdagrad or FedYogi with it."
            )
        if options.guards.clip and not traits.linear:
            hint = "Use FedAvg, FedProx, FedAvgM, FedAdam, FedAdagrad or FedYogi with it."
            raise bad("Guards.clip", f"0 with {name}, which aggregates by a rule of its own", options.guards.clip, hint)
        needs = self.selector.needs
        compares_updates = any(signal.exact for signal in (*needs.questions, *needs.reports))
        if traits.trees and compares_updates:
            raise InputError(
                f"{type(self.selector).__name__} compares updates, and {name} trains trees, which have none. "
                "Choose a method that reads facts or losses."
            )
        self._check_pace(name)
        log_privacy(self.selector, options.cohort, options.guards, traits)

    def _check_pace(self, name: str) -> None:
        """Refuse, by name, what a strategy cannot do where rounds overlap."""
        pace = self.options.pace
        traits = self.user_strategy.traits
        if not pace.settings.overlaps:
            return
        option = "SelectorStrategy.pace"
        if traits.trees:
            hint = "A stale tree cannot be moved to another version."
            raise bad(
                option, f"one whose rounds do not overlap for {name}, which trains trees", pace.settings.kind, hint
            )
        if traits.replies_for_noise:
            hint = "Its noise is computed for a fixed number of fresh updates."
            raise bad(option, f"one whose rounds do not overlap for {name}", pace.settings.kind, hint)
        if pace.settings.refill != "step":
            hint = "Flower's strategies write their messages once a round."
            raise bad("pace.refill", "'step' in Flower", pace.settings.refill, hint)
        if pace.settings.normalise == "count" and not traits.linear:
            raise bad("pace.normalise", f"'mass' for {name}, which rescales weights to 1", "count")
        if pace.least_updates < traits.least_updates:
            requirement = f"such that a step has {traits.least_updates} updates: {name} makes no model of fewer"
            raise bad(option, requirement, pace.least_updates)

    def __getattr__(self, name: str) -> Any:
        """Return what only the user's own strategy has: an app goes on calling it where it did before."""
        if name.startswith("_") or "user_strategy" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no {name!r}")
        return getattr(self.user_strategy.strategy, name)

    def __setattr__(self, name: str, value: object) -> None:
        """Set what only the user's own strategy has there, where it is read."""
        ours = not self._ready or name in self.__dict__ or hasattr(type(self), name)
        if not ours and not name.startswith("_") and hasattr(self.user_strategy.strategy, name):
            setattr(self.user_strategy.strategy, name, value)
        else:
            super().__setattr__(name, value)

    @property
    def registrar(self) -> Registrar | None:
        """The registrar of this run; None before its first round."""
        return self.federation.registrar

    @property
    def history(self) -> list[RoundRecord]:
        """The records of all rounds."""
        return self.files.history

    def summary(self) -> None:
        """Log who chooses, and what it learns of clients; then the strategy's own summary."""
        needs = self.selector.needs
        log(INFO, "\t├──> Selection: %s", self.selector)
        facts = _needed_and_wanted(needs.reads, needs.optional, "if all nodes give it")
        answers = _needed_and_wanted(_names(needs.asks), _names(needs.may_ask), "of nodes that can answer")
        reports = _needed_and_wanted(_names(needs.reports), _names(needs.may_report), "depending on the facts")
        log(INFO, "\t│\t├── reads %s", facts)
        log(INFO, "\t│\t├── asks %s", answers)
        log(INFO, "\t│\t└── has reported %s", reports)
        if self.combining.own:
            log(INFO, "\t├──> Updates are combined by %s", self.combining.rule.name)
        log(INFO, "\t├──> Server step: %s", type(self.user_strategy.strategy).__name__)
        if not self.user_strategy.traits.weighs:
            log(WARNING, "%s does not use the selector's weights.", type(self.user_strategy.strategy).__name__)
        log_ignored_options(self.user_strategy.inner)
        self.user_strategy.original("summary")()

    # -- a run ---------------------------------------------------------------------------------------------------------

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float | None = NOT_GIVEN,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
        **options: Any,
    ) -> Result:
        """Run the strategy's own ``start`` from the first round, or go on from ``resume`` as if nothing had stopped.

        ``timeout`` is the deadline of a round in seconds, its questions included (default: 1,800); None waits for
        everybody. It must be left out where the pace has a deadline, which then decides.
        """
        self.user_strategy.check_model(initial_arrays)
        self._set_up(
            replace(
                self.options,
                seed=self.seed,
                horizon=self.options.horizon or num_rounds,
                deadline=_deadline(timeout, Pace.of(self.options.pace_option, CLASS_NAME)),
                least_online=self.user_strategy.least_online,
            )
        )
        self.engine.set_model(initial_arrays)
        self.transport.grid = grid
        with ExitStack() as stack:
            rounds_before_restart = self.federation.open_and_restore(stack)
            if rounds_before_restart:
                initial_arrays = codec.to_record(self.engine.model)
            self._replace_loop_methods(stack)
            rounds_left = max(num_rounds - rounds_before_restart, 0)
            arguments: dict[str, object] = {**options, "num_rounds": rounds_left}
            if timeout is not NOT_GIVEN:
                arguments["timeout"] = timeout
            if train_config is not None:
                arguments["train_config"] = train_config
            if evaluate_config is not None:
                arguments["evaluate_config"] = evaluate_config
            if evaluate_fn is not None:
                arguments["evaluate_fn"] = lambda number, arrays: evaluate_fn(number + rounds_before_restart, arrays)
            result: Result = self.user_strategy.strategy.start(
                cast(Grid, PacedGrid(grid, self)), initial_arrays, **arguments
            )
            self.federation.end()
        self._check_end(rounds_left)
        if isinstance(result, Result):
            complete_result(result, rounds_before_restart, initial_arrays)
        return result

    def _replace_loop_methods(self, stack: ExitStack) -> None:
        """Let the strategy's own start() call these methods, for as long as it runs."""
        stack.enter_context(self.user_strategy.replaced(**{name: getattr(self, name) for name in LOOP_METHODS}))
        self._running = True
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
        self.engine.set_model(arrays)
        self.engine.server_round = server_round + self.files.played
        self.transport.round = FlowerRound(self.engine.server_round, arrays, config, self.engine.model)
        opened = self.federation.open_round()
        method_name = type(self.selector).__name__
        log(INFO, "configure_train: %s chose %d of %d", method_name, opened.cohort.ids.size, opened.available)
        check_mass(opened.cohort, self.engine, method_name)
        if not self.driver.pace.settings.overlaps:
            self._check_cohort(opened.cohort, opened.available)
        messages = self.transport.write_training(self.messenger.orders(opened.turn, opened.cohort))
        self.engine.config = train_config(self.transport.written, self.user_strategy.config)
        return messages

    def exchange_training(self, opened: OpenRound) -> list[Message]:
        """Send the train messages of the open round, wait until it is over, and return all replies that came."""
        self.driver.dispatch()
        if isinstance(self.messenger, OverlappingMessenger):
            self.driver.await_step()
            return [landed.reply.native for landed in self.messenger.landed.values()]
        self.messenger.wait_for_training(opened.cohort)
        return [reply.native for reply in self.messenger.training.replies.values()]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return the strategy's aggregate of the usable replies, in the cohort's order, by the cohort's weights."""
        opened = self.driver.round
        if opened is None:
            raise bad("aggregate_train", "called after configure_train", "a call without")
        if isinstance(self.messenger, OverlappingMessenger):
            self.federation.close_round()
            return self.engine.result
        if not self.messenger.training.asks:
            self.messenger.dispatched_by_others(opened.turn, opened.cohort)
        self.messenger.hand_over(self.transport.replies_to_training(replies))
        if opened.turn.index == 0:
            log_other_examples(self.messenger.training.replies, self.members, self.user_strategy)
        self.federation.close_round()
        return self.engine.result

    # -- evaluation is the strategy's own ------------------------------------------------------------------------------

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Let the strategy choose among idle nodes; with fewer of them than it wants, nobody evaluates."""
        busy = {int(session) for session in self.messenger.busy_sessions()}
        return self.user_strategy.configure_evaluation(server_round + self.files.played, arrays, config, grid, busy)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Let the strategy aggregate the replies that can be averaged."""
        return self.user_strategy.aggregate_evaluation(server_round + self.files.played, replies)

    # -- whether a run leads anywhere ----------------------------------------------------------------------------------

    def _check_cohort(self, cohort: Cohort, available: int) -> None:
        """Refuse a selector that keeps choosing fewer clients than the strategy needs, before they train."""
        least_updates = self.user_strategy.traits.least_updates
        size = cohort.ids.size
        if not size or size >= least_updates or available < least_updates:
            self._too_small = 0
            return
        self._too_small += 1
        method_name = type(self.selector).__name__
        why = (
            f"{method_name} chose {size} of {available} clients, and {type(self.user_strategy.strategy).__name__} "
            f"makes no model of fewer than {least_updates} updates."
        )
        if self.messenger.has_moved_model or self._too_small < MOST_SMALL_COHORTS:
            log(WARNING, "This round leaves the model as it is: %s", why)
            return
        raise InputError(
            f"{why} Let {method_name} choose more at a time (a larger cohort, or fewer groups of clients), or use "
            "another strategy."
        )

    def _check_end(self, rounds: int) -> None:
        """Raise where none of these rounds moved the model: such a run must not look like success."""
        if self.messenger.has_moved_model or not rounds:
            return
        history = self.history[self.files.played :]
        strategy = type(self.user_strategy.strategy).__name__
        most_answers = max((len(record["answered"] or ()) for record in history), default=0)
        least_updates = self.user_strategy.traits.least_updates
        why = "The log says of every round who was left out and why."
        if not history:
            why = f"{strategy}.start must call self.configure_train, where the selector chooses."
        if 0 < most_answers < least_updates:
            why = f"{strategy} needs {least_updates} usable updates in a round, and at most {most_answers} came. "
            why += "Let the selector choose more clients at a time, or use another strategy."
        raise InputError(
            f"None of {rounds} rounds brought an update that could be used: the model is the one that was given. {why}"
        )


class PacedGrid:
    """The grid that a strategy's loop is given: rounds of training close by the driver's pace.

    Evaluation ends at the deadline, too. Everything else is the grid's own.
    """

    def __init__(self, grid: Grid, strategy: SelectorStrategy) -> None:
        self._grid = grid
        self._strategy = strategy

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Send messages and wait for their replies."""
        messages = list(messages)
        strategy = self._strategy
        train_messages = strategy.transport.written.values()
        opened = strategy.driver.round
        if opened is not None and list(map(id, messages)) == list(map(id, train_messages)):
            return strategy.exchange_training(opened)
        seconds = strategy.driver.pace.deadline
        if timeout is not None:
            seconds = min(seconds, timeout)
        return collect(self._grid, messages, seconds)


def _deadline(timeout: float | None, pace: Pace) -> float | None:
    """Turn start()'s ``timeout`` into a deadline: infinite for None; None if it was not given, so the pace decides."""
    if timeout is NOT_GIVEN:
        return None
    if pace.deadline is not None:
        raise bad(
            f"{CLASS_NAME}.start(timeout)", f"left out where the pace has a deadline ({pace.deadline} s)", timeout
        )
    if timeout is None:
        return math.inf
    if not (is_number(timeout) and timeout > 0):
        raise bad(f"{CLASS_NAME}.start(timeout)", "seconds > 0, or None", timeout, "None waits for everybody.")
    return timeout


def complete_result(result: Result, rounds_before_restart: int, initial: ArrayRecord) -> None:
    """Count the rounds of a result from the very first, and give it the initial model where it has none."""
    if not result.arrays:
        result.arrays = initial
    for name in ("train_metrics_clientapp", "evaluate_metrics_clientapp", "evaluate_metrics_serverapp"):
        values = getattr(result, name)
        setattr(result, name, {number + rounds_before_restart: value for number, value in values.items()})


def log_privacy(selector: AnySelector, cohort: int, guards: Guards, traits: StrategyTraits) -> None:
    """Log what ``sortition lint`` would find; whether secure aggregation is used cannot be seen here."""
    promises = Promises()
    if traits.replies_for_noise:
        promises = Promises(differential_privacy="central")
    for finding in lint(selector, promises, Deployment(cohort=cohort, guards=guards)):
        log(WARNING, "privacy: %s", finding)


def _names(signals: Iterable[Signal]) -> list[str]:
    return [signal.name for signal in signals]


def _needed_and_wanted(needed: Sequence[str], wanted: Sequence[str], condition: str) -> str:
    """List what a method cannot do without, then what it takes under a condition."""
    listed = [*needed, *(f"{name} ({condition})" for name in wanted)]
    return ", ".join(listed) or "nothing"
