"""How fast clients compute and send, and who drops out: simulated seconds, by streams."""

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
    """The clients' hardware. How long the server waits for them is the pace's matter.

    Attributes:
        speed: median examples per second in training; a forward pass costs a third.
        speed_spread: standard deviation of log speed over clients (lognormal; 0: all alike).
        bandwidth: median bytes per second, each way.
        bandwidth_spread: standard deviation of log bandwidth over clients.
        jitter: standard deviation of the log of a per-round factor on all of a client's times.
        dropout: probability that a selected client falls silent in a round.
    """

    speed: float = 1000.0
    speed_spread: float = 0.0
    bandwidth: float = math.inf
    bandwidth_spread: float = 0.0
    jitter: float = 0.0
    dropout: float = 0.0

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if not is_number(value):
                raise bad(f"Devices.{item.name}", "a number", value)
        for name in ("speed", "bandwidth"):
            if not getattr(self, name) > 0:
                raise bad(f"Devices.{name}", "> 0", getattr(self, name))
        for name in ("speed_spread", "bandwidth_spread", "jitter"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise bad(f"Devices.{name}", "finite and ≥ 0", getattr(self, name))
        if not 0 <= self.dropout <= 1:
            raise bad("Devices.dropout", "in [0, 1]", self.dropout)


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

    def dropouts(self, ids: Ids, t: int) -> npt.NDArray[np.bool_]:
        """A mask of the clients that fall silent after selection t."""
        if not self.devices.dropout:
            return np.zeros(ids.size, bool)
        draws = stream(self.seed, "device dropouts", t).random(self.n_clients)[ids]
        return np.asarray(draws < self.devices.dropout)

    def close(
        self,
        ids: Ids,
        seconds: Floats,
        target: int,
        t: int,
        silent: npt.NDArray[np.bool_] | None = None,
        limit: float = math.inf,
    ) -> RoundEnd:
        """Who of the selected answers in time; the server stops at ``target`` answers or after ``limit`` seconds."""
        arrival = seconds.copy()
        if silent is not None:
            arrival[silent] = math.inf
        arrival[self.dropouts(ids, t)] = math.inf
        answered = first_come(ids, arrival, target, limit)
        late = np.isfinite(arrival) & ~answered
        if answered.sum() < min(target, ids.size) and limit < math.inf:
            return RoundEnd(answered, late, limit)
        waited = arrival[answered] if answered.any() else seconds
        return RoundEnd(answered, late, float(waited.max()) if waited.size else 0.0)
