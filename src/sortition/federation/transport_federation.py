"""A federation on a server of one's own: who chooses, who keeps the model and who writes the files, put together.

::

    mailbox = Mailbox()
    federation = Federation(mailbox, {"weight": weight, "bias": bias}, "power-of-choice", cohort=10, deadline=600)
    federation.run(rounds=100)          # while your server calls mailbox.check_in and mailbox.deliver
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sortition.aggregation import CombineRule, StepRule
from sortition.clients.named_arrays import Model
from sortition.core.errors import InputError, bad
from sortition.core.guards.settings import Guards
from sortition.core.policy import Policy
from sortition.core.round_record import RoundRecord, answered_ids
from sortition.core.selector import AnySelector
from sortition.core.validation import is_whole
from sortition.federation.arrangement import ShadowOption, arranged
from sortition.federation.deadline import DEADLINE
from sortition.federation.live import LiveFederation
from sortition.federation.members import Owner, Refresh
from sortition.federation.messages import Transport
from sortition.federation.messenger import StoppedError
from sortition.federation.model_engine import Combining, ModelEngine
from sortition.federation.monitoring import MetricsOption, sinks
from sortition.federation.options import Eligible, Options, checkpoint_paths, optional_path
from sortition.federation.pace import Pace

WHO = "Federation"
VERBS = ("online", "post", "poll", "cancel")  # of a transport


class Federation(LiveFederation):
    """Trains one model on the clients that a transport reaches.

    Args:
        transport: moves messages, such as a :class:`~sortition.federation.Mailbox`.
        model: the first model, arrays by name.
        selector: the method, such as ``sortition.load("fedgs")``, or its name. ``"auto"`` is Microcosm with label
            counts where all clients of the first round give them, else with sketches of updates.
        cohort: clients a round.
        overselect: factor on the cohort; a round closes when ``cohort`` clients have answered, or at its deadline.
        deadline: seconds of a round, from its first question on; questions get at most a quarter of it.
        pace: quorums, late updates, buffered steps: a :class:`~sortition.federation.Pace` or a table of its keys
            (docs/time.md); default: rounds.
        step: the server's step, a ``sortition.aggregation.StepRule`` or its name; default: w + Σ a_k Δ_k.
        combine: how updates become one, a ``sortition.aggregation.CombineRule`` or its name; default: the weighted sum.
        guards: how far clients are trusted; the defaults reject only broken values.
        checkpoint: file that model, selection and members are written to; an old one is never overwritten unasked.
        checkpoint_every: rounds between two checkpoints.
        resume: checkpoint to go on from, True for ``checkpoint``; a file that does not exist yet means a fresh start.
        audit: file of the audit log; seed and salt are revealed beside it (``….reveal.json``) after the last round.
        on_round: called with the record of each round, when it is kept; what it raises is logged.
        metrics: a port of an HTTP endpoint that Prometheus scrapes, a ``sortition.federation.Metrics``, an experiment
            tracker, or a list of these.
        shadow: methods that choose beside the live one and send nothing: names, Selectors, or a table by labels.
        promote: the label of a shadow that takes the live method's place, with its state, when the federation goes on.
        policy: how often and when devices may be used: a ``sortition.Policy``, or several that hold together.
        ledger: file in which several federations share what devices were used for; default: one beside the checkpoint.
        eligible: who may be chosen: names and tags, or a function of a client's name and facts.
        facts: facts that clients are asked for beside those that the selector reads, for ``eligible``.
        refresh: how long each of these facts stays true: ``{"battery": "selection", "place": 86400}``; default: they
            are asked before every selection.
        horizon: rounds that the selector plans for; default: those of :meth:`run`.
        seed: of the selector's draws; it stays on the server.
        owner_of: from a client's name to its owner, for ``Guards.quota``.
        bind_names: a name belongs to the key that first had it, where the transport knows keys.
        answer_timeout: seconds that clients have for a question.
        profile_timeout: seconds that a client has to say who it is; it is waited for only before the first round.
        wait_for: clients that must be online before the first round.
        least_online: clients that must be online before every round.
        patience: seconds with too few clients after which a round is skipped; before the first round, the run ends.
    """

    def __init__(
        self,
        transport: Transport,
        model: Mapping[str, npt.ArrayLike],
        selector: AnySelector | str = "auto",
        *,
        cohort: int,
        overselect: float = 1.0,
        deadline: float = DEADLINE,
        pace: Pace | Mapping[str, Any] | str | None = None,
        step: StepRule | str | None = None,
        combine: CombineRule | str = "mean",
        guards: Guards | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 1,
        resume: str | Path | bool | None = None,
        audit: str | Path | None = None,
        on_round: Callable[[RoundRecord], object] | None = None,
        metrics: MetricsOption = None,
        shadow: ShadowOption = None,
        promote: str | None = None,
        policy: Policy | Sequence[Policy] | None = None,
        ledger: str | Path | None = None,
        eligible: Eligible | None = None,
        facts: Sequence[str] = (),
        refresh: Mapping[str, Refresh] | None = None,
        horizon: int | None = None,
        seed: int = 0,
        owner_of: Owner | None = None,
        bind_names: bool = False,
        answer_timeout: float = 60.0,
        profile_timeout: float = 120.0,
        wait_for: int = 1,
        least_online: int = 1,
        patience: float = 600.0,
    ) -> None:
        arrangement = arranged(WHO, selector, shadow, promote)
        checkpoint_path, resume_path = checkpoint_paths(WHO, checkpoint, resume)
        if guards is None:
            guards = Guards()
        options = Options(
            selector=arrangement.live,
            cohort=cohort,
            overselect=overselect,
            deadline=deadline,
            rule=pace,
            horizon=horizon,
            seed=seed,
            guards=guards,
            owner_of=owner_of,
            bind_names=bind_names,
            policy=policy,
            ledger=optional_path(WHO, "ledger", ledger),
            eligible=eligible,
            facts=facts,
            refresh=refresh or {},
            answer_timeout=answer_timeout,
            profile_timeout=profile_timeout,
            wait_for=wait_for,
            least_online=least_online,
            patience=patience,
            checkpoint=checkpoint_path,
            checkpoint_every=checkpoint_every,
            resume=resume_path,
            audit=optional_path(WHO, "audit", audit),
            on_round=on_round,
            metrics=sinks(WHO, metrics),
            arrangement=arrangement,
            who=WHO,
        )
        self._stopping = threading.Event()
        self._has_run = threading.Lock()  # taken by the first run, and never given back
        super().__init__(
            _checked_transport(transport),
            ModelEngine(_checked_model(model), _step_rule(step), Combining.by(combine, WHO)),
            options,
            "server",
            stopping=self._stopping.is_set,
        )

    @property
    def model(self) -> Model:
        """The model now, arrays by name."""
        return self.engine.model

    def stop(self) -> None:
        """Let :meth:`run` return after the round that is under way; for another thread or a signal's handler.

        A round without a deadline is closed at once, with those who have answered.
        """
        self._stopping.set()

    def run(self, rounds: int) -> Model:
        """Play rounds until there are so many, those before a restart included, and return the model.

        A federation is run once, in any thread. Another one, with ``resume=True``, goes on where it ended.
        """
        if not is_whole(rounds, 1):
            raise bad("Federation.run(rounds)", "a whole number ≥ 1", rounds)
        if not self._has_run.acquire(blocking=False):
            raise InputError(
                "Federation.run must be called once; got a second call. Make another Federation, with resume=True "
                "where it is to go on."
            )
        self.driver.selection = replace(self.driver.selection, horizon=self.options.horizon or rounds)
        with ExitStack() as stack:
            for _ in range(self.open(stack), rounds):
                if self._stopping.is_set() or not self._play_round():
                    break
            if self._stopping.is_set():
                self.files.save()
            else:
                self.end()
        return self.model

    def _play_round(self) -> bool:
        """Play one round; return False where the federation was stopped before it was over."""
        try:
            self.open_round()
            self.driver.dispatch()
            record = self.close_round()
        except StoppedError:
            return False
        self.logger.info(
            "Round %d: %s chose %d of %d, and %d answered",
            record["round"],
            type(self.options.selector).__name__,
            len(record["cohort"] or ()),
            record["available"],
            len(answered_ids(record)),
        )
        return True


def _checked_transport(transport: Transport) -> Transport:
    """Return the transport; refuse one that lacks a verb."""
    if not all(callable(getattr(transport, verb, None)) for verb in VERBS):
        rule = f"a transport, with {', '.join(VERBS)}"
        raise bad("Federation.transport", rule, transport, "Use a sortition.federation.Mailbox.")
    return transport


def _checked_model(model: Mapping[str, npt.ArrayLike]) -> Model:
    """Return the model as arrays; refuse one that cannot be trained."""
    if not isinstance(model, Mapping):
        raise bad("Federation.model", "a table from names to arrays", model)
    arrays = {str(name): np.asarray(value) for name, value in model.items()}
    for name, array in arrays.items():
        if array.dtype.kind not in "fiub":
            raise bad(f"Federation.model[{name!r}]", "an array of numbers", array)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise bad(f"Federation.model[{name!r}]", "finite", array)
    if not any(array.dtype.kind == "f" and array.size for array in arrays.values()):
        raise bad("Federation.model", "a table with at least one array of floats", sorted(arrays))
    return arrays


def _step_rule(step: StepRule | str | None) -> StepRule:
    """Return the server's step, or the one that has this name."""
    if step is None:
        return StepRule()
    if isinstance(step, str):
        return StepRule(step)
    if not isinstance(step, StepRule):
        raise bad("Federation.step", "a StepRule, its name or None", step)
    return step
