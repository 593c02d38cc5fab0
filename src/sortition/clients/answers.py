"""Which questions a client can answer, and the answers: rows of signals, and facts of the node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from sortition.clients.received_model import Context, MakeClient
from sortition.core.arrays import Array
from sortition.core.errors import InputError, bad
from sortition.core.local_client import LocalClient
from sortition.core.signals import SIGNALS, Payload, Signal, find_signal

Facts = Callable[[Context], Mapping[str, npt.ArrayLike]]  # from the framework's context to facts by name
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

    Attributes:
        known: the signals that can be answered, by name.
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
        self.make_client = make_client
        self.app_trains = app_trains
        self.facts: Facts | None = facts or getattr(make_client, "facts", None)
        further_signals = tuple(signals)
        answerable = [signal for signal in SIGNALS if signal in further_signals or self._can_answer(signal)]
        self.known = {signal.name: signal for signal in (*answerable, *further_signals) if signal.of != "pairs"}

    def _can_answer(self, signal: Signal) -> bool:
        """Tell whether a signal of ours can be computed, as far as that is seen before a client is made."""
        if signal.of == "training":
            return self.app_trains or self._has_method("train")
        return self._has_method(METHODS[signal.name])

    def _has_method(self, method: str) -> bool:
        """Tell whether the client has a method; of a function's client that is assumed unless the function denies it.

        A class shows its methods; what a function makes is known only when it is made.
        """
        if self.make_client is None or method in getattr(self.make_client, "lacks", ()):
            return False
        return hasattr(self.make_client, method) or not isinstance(self.make_client, type)

    @property
    def names(self) -> list[str]:
        """The names of the signals that can be answered."""
        return sorted(self.known)

    @property
    def unsure(self) -> list[str]:
        """The names of those signals of which only a training shows whether they can be answered.

        They are metrics of the app's train function, or attributes of what the client's own ``train()`` returns. A
        client of this package, whose maker says what it ``lacks``, has them all.
        """
        if not self.app_trains and hasattr(self.make_client, "lacks"):
            return []
        return sorted(name for name in METRICS if name in self.known)

    def signal(self, name: str) -> Signal:
        """Return the signal of this name, a sketch included."""
        signal = find_signal(name, self.known)
        if signal is None:
            raise bad("signal", f"one of {', '.join(self.names)}", name, "Pass it to answer(signals=…).")
        return signal

    def row(self, name: str, client: LocalClient, payload: Payload | None = None) -> Array:
        """Compute one client's answer; ``payload`` came with the question."""
        signal = self.signal(name)
        if payload is None:
            payload = signal.payload
        return np.asarray(signal.compute(client, payload), np.float64)

    def facts_of(self, context: Context, wanted: Iterable[str], optional: Iterable[str] = ()) -> dict[str, Array]:
        """Return the wanted facts of a node, those of the optional ones that it has, and no others."""
        wanted_names = list(wanted)
        optional_names = list(optional)
        node_facts: Mapping[str, npt.ArrayLike] = {}
        if (wanted_names or optional_names) and self.facts is not None:
            node_facts = self.facts(context)
        missing_names = [name for name in wanted_names if name not in node_facts]
        if missing_names:
            raise bad("answer(facts)", f"a function that gives {', '.join(missing_names)}", sorted(node_facts))
        facts = {name: np.asarray(node_facts[name]) for name in wanted_names}
        for name in optional_names:
            with suppress(KeyError, InputError):  # not given, or it cannot be: a regression has no labels to count
                facts[name] = np.asarray(node_facts[name])
        return facts
