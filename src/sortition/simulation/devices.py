"""How fast clients compute and send, who drops out, when the server stops waiting: simulated seconds, by streams."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from sortition.core.arrays import Floats, Ids
from sortition.core.errors import bad
from sortition.core.streams import stream
from sortition.core.validation import is_number, known_keys_only
from sortition.federation.pace import first_come

FORWARD = 1 / 3  # of a training pass: backward costs about two forward passes


@known_keys_only
@dataclass(frozen=True)
class Devices:
    """The clients' hardware and the server's patience.

    Attributes:
        speed: median examples per second in training; a forward pass costs a third.
        speed_spread: standard deviation of log speed over clients (lognormal; 0: all alike).
        bandwidth: median bytes per second, each way.
        bandwidth_spread: standard deviation of log bandwidth over clients.
        jitter: standard deviation of the log of a per-round factor on all of a client's times.
        dropout: probability that a selected client falls silent in a round.
        deadline: seconds after which the server closes a round; without it, the server waits for everybody.
        overselect: factor on the cohort size; the round closes when the size itself has answered.
    """

    speed: float = 1000.0
    speed_spread: float = 0.0
    bandwidth: float = math.inf
    bandwidth_spread: float = 0.0
    jitter: float = 0.0
    dropout: float = 0.0
    deadline: float | None = None
    overselect: float = 1.0

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if not (is_number(value) or (item.name == "deadline" and value is None)):
                raise bad(f"Devices.{item.name}", "a number", value)
        for name in ("speed", "bandwidth"):
            if not getattr(self, name) > 0:
                raise bad(f"Devices.{name}", "> 0", getattr(self, name))
        for name in ("speed_spread", "bandwidth_spread", "jitter"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise bad(f"Devices.{name}", "finite and ≥ 0", getattr(self, name))
        if not 0 <= self.dropout <= 1:
            raise bad("Devices.dropout", "in [0, 1]", self.dropout)
        if self.deadline is not None and not self.deadline > 0:
            raise bad("Devices.deadline", "> 0 or None", self.deadline)
        if not (math.isfinite(self.overselect) and self.overselect >= 1):
            raise bad("Devices.overselect", "finite and ≥ 1", self.overselect)


@dataclass(frozen=True)
class RoundEnd:
    """How a round ended: masks over the selected, and the seconds it took."""

    answered: npt.NDArray[np.bool_]
    late: npt.NDArray[np.bool_]
    seconds: float


class Fleet:
    """The devices of N clients under one seed."""

    def __init__(self, devices: Devices, n_clients: int, seed: int) -> None:
        self.devices, self.n_clients, self.seed = devices, n_clients, seed
        self.speed = devices.speed * self._spread("device speeds", devices.speed_spread)
        self.bandwidth = devices.bandwidth * self._spread("device bandwidths", devices.bandwidth_spread)

    def _spread(self, purpose: str, sigma: float, t: int = 0) -> Floats:
        if sigma == 0:
            return np.ones(self.n_clients)
        return np.exp(sigma * stream(self.seed, purpose, t).standard_normal(self.n_clients))

    def seconds(self, ids: Ids, t: int, examples: npt.ArrayLike, sent: npt.ArrayLike) -> Floats:
        """Time of each client for training passes over so many examples and for so many bytes down and up."""
        time = np.asarray(examples) / self.speed[ids] + np.asarray(sent) / self.bandwidth[ids]
        if self.devices.jitter:
            time *= self._spread("device jitter", self.devices.jitter, t)[ids]
        return np.asarray(time, np.float64)

    def close(
        self, ids: Ids, seconds: Floats, target: int, t: int, silent: npt.NDArray[np.bool_] | None = None
    ) -> RoundEnd:
        """Who of the selected answers in time, when the server stops at ``target`` answers or at the deadline."""
        arrival = seconds.copy()
        if silent is not None:
            arrival[silent] = math.inf
        if self.devices.dropout:
            silent = stream(self.seed, "device dropouts", t).random(self.n_clients)[ids] < self.devices.dropout
            arrival[silent] = math.inf
        limit = math.inf if self.devices.deadline is None else self.devices.deadline
        answered = first_come(ids, arrival, target, limit)
        late = np.isfinite(arrival) & ~answered
        if answered.sum() < min(target, ids.size) and limit < math.inf:
            return RoundEnd(answered, late, limit)
        waited = arrival[answered] if answered.any() else seconds
        return RoundEnd(answered, late, float(waited.max()) if waited.size else 0.0)
