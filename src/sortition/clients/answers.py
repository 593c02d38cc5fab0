"""Which questions a client can answer, and the answers: rows of signals, and facts of the node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from sortition.clients.received import MakeClient
from sortition.core.arrays import Array
from sortition.core.client import LocalClient
from sortition.core.errors import InputError, bad
from sortition.core.signals import SIGNALS, Payload, Signal, find_signal

Facts = Callable[[Any], Mapping[str, npt.ArrayLike]]  # from the framework's context to facts by name
METHODS = {  # of a client, by signal of the model or of the device
    "loss": "loss",
    "batch-loss": "batch_loss",
    "accuracy": "accuracy",
    "gradient": "gradient",
    "resources": "resources",
}


# signals of training that are read from the metrics that an app's train function returns
METRICS = ("training-loss", "rms-loss", "rms-loss-first", "rms-loss-last", "step-gradient", "dispersion")


class Answers:
    """What one app can answer.

    Args:
        make_client: from what was received to a client; None for an app that only trains.
        facts: the node's static facts; default: ``make_client.facts``, if it has them.
        signals: further signals, such as a method's own; one of a known name replaces it.
        app_trains: whether the app has a training function of its own.
    """

    def __init__(
        self,
        make_client: MakeClient | None = None,
        facts: Facts | None = None,
        signals: Iterable[Signal] = (),
        *,
        app_trains: bool = True,
    ) -> None:
        if make_client is not None and not callable(make_client):
            raise bad("answer(client)", "a class or function from Received to a client, or None", make_client)
        self.make_client, self.app_trains = make_client, app_trains
        self.facts = facts or getattr(make_client, "facts", None)
        given = tuple(signals)
        self.known = {s.name: s for s in (*SIGNALS, *given) if s.of != "pairs" and (s in given or self._can(s))}

    def _can(self, signal: Signal) -> bool:
        """Whether a signal of ours can be computed, as far as that is seen before a client is made."""
        if signal.of == "training":
            return self.app_trains or self._has("train")
        return self._has(METHODS[signal.name])

    def _has(self, method: str) -> bool:
        """A class shows its methods; what a function will make is known only when it is made, unless it says so."""
        if self.make_client is None or method in getattr(self.make_client, "lacks", ()):
            return False
        return hasattr(self.make_client, method) if isinstance(self.make_client, type) else True

    @property
    def names(self) -> list[str]:
        """The signals that can be answered."""
        return sorted(self.known)

    @property
    def unsure(self) -> list[str]:
        """Those of which only a training shows whether they can be: they are metrics of the app's train function."""
        return sorted(name for name in METRICS if name in self.known) if self.app_trains else []

    def signal(self, name: str) -> Signal:
        """The signal of this name, a sketch included."""
        found = find_signal(name, self.known)
        if found is None:
            raise bad("signal", f"one of {', '.join(self.names)}", name, "Pass it to answer(signals=…).")
        return found

    def row(self, name: str, client: LocalClient, payload: Payload | None = None) -> Array:
        """One client's answer; ``payload`` came with the question."""
        signal = self.signal(name)
        return np.asarray(signal.compute(client, signal.payload if payload is None else payload), np.float64)

    def facts_of(self, context: Any, wanted: Iterable[str], optional: Iterable[str] = ()) -> dict[str, Array]:
        """The wanted facts of a node, those of the optional ones that it has, and no others."""
        wanted, more = list(wanted), list(optional)
        held = self.facts(context) if (wanted or more) and self.facts is not None else {}
        if missing := [name for name in wanted if name not in held]:
            raise bad("answer(facts)", f"a function that gives {', '.join(missing)}", sorted(held))
        found = {name: np.asarray(held[name]) for name in wanted}
        for name in more:
            with suppress(KeyError, InputError):  # not given, or it cannot be: a regression has no labels to count
                found[name] = np.asarray(held[name])
        return found
