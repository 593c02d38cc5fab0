"""A federation on a server of one's own: who chooses, who keeps the model and who writes the files, put together.

::

    mailbox = Mailbox()
    federation = Federation(mailbox, {"weight": weight, "bias": bias}, "power-of-choice", cohort=10, deadline=600)
    federation.run(rounds=100)          # while your server calls mailbox.check_in and mailbox.deliver
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Unpack

import numpy as np
import numpy.typing as npt

from sortition.aggregation import CombineRule, StepRule
from sortition.clients.named_arrays import Model
from sortition.core.errors import InputError, bad
from sortition.core.round_record import answered_ids
from sortition.core.selector import AnySelector
from sortition.core.validation import is_whole
from sortition.federation.live import LiveFederation
from sortition.federation.messages import Transport
from sortition.federation.messenger import StoppedError
from sortition.federation.model_engine import Combining, ModelEngine
from sortition.federation.options import FederationOptions, Options

CLASS_NAME = "Federation"
VERBS = ("online", "post", "poll", "cancel")  # of a transport


class Federation(LiveFederation):
    """Trains one model on the clients that a transport reaches.

    Args:
        transport: moves messages, such as a :class:`~sortition.federation.Mailbox`.
        model: the first model, arrays by name.
        selector: the method, such as ``sortition.load("fedgs")``, or its name. ``"auto"`` is Microcosm with label
            counts where all clients of the first round give them, else with sketches of updates.
        cohort: clients a round.
        deadline: seconds of a round, from its first question on; questions get at most a quarter of it; default:
            those of the pace, or 1,800. ``math.inf`` waits for everybody.
        step: the server's step, a ``sortition.aggregation.StepRule`` or its name; default: w + Σ a_k Δ_k.
        combine: how updates become one, a ``sortition.aggregation.CombineRule`` or its name; default: the weighted sum.
        least_online: clients that must be online before every round.
        options: ``overselect``, ``pace``, ``guards``, ``checkpoint``, ``resume``, ``audit``, ``on_round``, ``metrics``,
            ``shadow``, ``policy``, ``eligible`` and others, each as
            :class:`~sortition.federation.options.FederationOptions` describes it.
    """

    def __init__(
        self,
        transport: Transport,
        model: Mapping[str, npt.ArrayLike],
        selector: AnySelector | str = "auto",
        *,
        cohort: int,
        deadline: float | None = None,
        step: StepRule | str | None = None,
        combine: CombineRule | str = "mean",
        least_online: int = 1,
        **options: Unpack[FederationOptions],
    ) -> None:
        settings = Options.read(
            CLASS_NAME, selector, cohort=cohort, deadline=deadline, least_online=least_online, **options
        )
        self._stopping = threading.Event()
        self._has_run = threading.Lock()  # taken by the first run, and never given back
        super().__init__(
            _checked_transport(transport),
            ModelEngine(_checked_model(model), _step_rule(step), Combining.by(combine, CLASS_NAME)),
            settings,
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
            for _ in range(self.open_and_restore(stack), rounds):
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
