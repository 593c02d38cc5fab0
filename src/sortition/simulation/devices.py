"""How fast clients compute and send, and who drops out: simulated seconds, by streams.

Speeds are drawn (lognormal, or by quantiles of a table), or stated per client (a table or a trace of real devices).
They can go with the data, so that a method that prefers the fast misses some data, and fall at busy hours.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.errors import bad, unknown
from sortition.core.streams import stream
from sortition.core.validation import is_number, refuse_unknown_keys
from sortition.federation.pace import first_come
from sortition.simulation.device_tables import devices_of, read_devices

FORWARD = 1 / 3  # of a training pass: backward costs about two forward passes
SLOW = ("rare labels", "high labels", "large")
ADDED = {  # configurations leave out these keys where they have these values
    "speed_quantiles": None,
    "bandwidth_quantiles": None,
    "table": None,
    "trace": None,
    "slow": None,
    "correlation": 1.0,
    "busy": None,
}
Quantiles = Sequence[tuple[float, float]]


@refuse_unknown_keys
@dataclass(frozen=True)
class Busy:
    """Hours at which devices compute more slowly, since their owners use them; a run begins at midnight.

    The hour at which a client's work begins counts for all of it.

    Attributes:
        hours: the first hour of the day that is busy, and the first that is not; [22, 6] goes over midnight.
        factor: what is left of a device's speed at these hours.
        shift: hours by which a client's busy hours begin earlier or later at most, drawn uniformly.
    """

    hours: tuple[float, float]
    factor: float
    shift: float = 0.0

    def __post_init__(self) -> None:
        hours = tuple(self.hours)
        if len(hours) != 2 or not all(is_number(hour) and 0 <= hour <= 24 for hour in hours) or hours[0] == hours[1]:
            raise bad("Devices.busy.hours", "two different hours in [0, 24]", list(hours))
        if not (is_number(self.factor) and 0 < self.factor <= 1):
            raise bad("Devices.busy.factor", "in (0, 1]", self.factor)
        if not (is_number(self.shift) and 0 <= self.shift <= 12):
            raise bad("Devices.busy.shift", "hours in [0, 12]", self.shift)
        object.__setattr__(self, "hours", hours)

    def is_busy(self, hour: Floats) -> npt.NDArray[np.bool_]:
        """Return a mask of the hours of the day that are busy."""
        first, end = self.hours
        if first < end:
            return np.asarray((hour >= first) & (hour < end))
        return np.asarray((hour >= first) | (hour < end))


@refuse_unknown_keys
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
        speed_quantiles: pairs of a share and the speed that this share of clients does not exceed, in place of
            ``speed`` and its spread; between two of them the logarithm of speed is interpolated.
        bandwidth_quantiles: the same for bandwidths, each way.
        table: rows of ``client``, ``examples_per_second``, ``bandwidth_down`` and ``bandwidth_up`` (bytes per second),
            whose devices are not drawn; other clients and bandwidths that are left out are.
        trace: a CSV or Parquet file with these columns, in place of ``table``.
        slow: who gets the slow end of the drawn speeds: clients whose examples have "rare labels" (in the whole
            federation) or "high labels", or "large" clients, with many examples.
        correlation: rank correlation between that and slowness, in [−1, 1]; 1: exactly in that order.
        busy: hours at which devices are slower.
    """

    speed: float = 1000.0
    speed_spread: float = 0.0
    bandwidth: float = math.inf
    bandwidth_spread: float = 0.0
    jitter: float = 0.0
    dropout: float = 0.0
    speed_quantiles: Quantiles | None = None
    bandwidth_quantiles: Quantiles | None = None
    table: Sequence[Mapping[str, Any]] | None = None
    trace: str | None = None
    slow: str | None = None
    correlation: float = 1.0
    busy: Busy | None = None

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name not in ADDED and not is_number(value):
                raise bad(f"Devices.{item.name}", "a number", value)
        for name in ("speed", "bandwidth"):
            if not getattr(self, name) > 0:
                raise bad(f"Devices.{name}", "> 0", getattr(self, name))
        for name in ("speed_spread", "bandwidth_spread", "jitter"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise bad(f"Devices.{name}", "finite and ≥ 0", getattr(self, name))
        if not 0 <= self.dropout <= 1:
            raise bad("Devices.dropout", "in [0, 1]", self.dropout)
        self._check_quantiles("speed")
        self._check_quantiles("bandwidth")
        self._check_stated()
        self._check_slow()
        self._check_busy()

    def _check_busy(self) -> None:
        """Read a table of busy hours, and refuse what is none."""
        if isinstance(self.busy, Mapping):
            names = [item.name for item in fields(Busy)]
            for key in self.busy:
                if key not in names:
                    raise unknown("key", str(key), names, "Devices.busy")
            for key in ("hours", "factor"):
                if key not in self.busy:
                    raise bad(f"Devices.busy.{key}", "given", None)
            object.__setattr__(self, "busy", Busy(**self.busy))
        if self.busy is not None and not isinstance(self.busy, Busy):
            raise bad("Devices.busy", "a table such as { hours = [18, 23], factor = 0.3 }", self.busy)

    def _check_quantiles(self, name: str) -> None:
        """Refuse quantiles that are not such, and those beside a median or a spread."""
        key = f"{name}_quantiles"
        pairs = getattr(self, key)
        if pairs is None:
            return
        requirement = (
            "pairs such as [[0.1, 20.0], [0.9, 500.0]], shares in [0, 1] that grow, values > 0 that do not fall"
        )
        try:
            points = np.asarray(pairs, np.float64)
        except (ValueError, TypeError):
            raise bad(f"Devices.{key}", requirement, pairs) from None
        if points.ndim != 2 or points.shape[1] != 2 or not len(points):
            raise bad(f"Devices.{key}", requirement, pairs)
        shares, values = points.T
        in_range = np.isfinite(values).all() and values.min() > 0 and shares.min() >= 0 and shares.max() <= 1
        if not (in_range and (np.diff(shares) > 0).all() and (np.diff(values) >= 0).all()):
            raise bad(f"Devices.{key}", requirement, pairs)
        object.__setattr__(self, key, tuple(zip(shares.tolist(), values.tolist(), strict=True)))
        for replaced_key in (name, f"{name}_spread"):
            if getattr(self, replaced_key) != getattr(Devices, replaced_key):
                raise bad(f"Devices.{replaced_key}", f"left out where {key} are given", getattr(self, replaced_key))

    def _check_stated(self) -> None:
        """Refuse a table with wrong rows, and a table beside a trace."""
        if self.table is not None:
            if isinstance(self.table, str | Mapping) or not all(isinstance(row, Mapping) for row in self.table):
                raise bad("Devices.table", "rows such as { client = 0, examples_per_second = 50.0 }", self.table)
            devices_of(self.table, "Devices.table")
            object.__setattr__(self, "table", tuple(dict(row) for row in self.table))
        if self.trace is not None and (not isinstance(self.trace, str) or not self.trace):
            raise bad("Devices.trace", "the path of a file", self.trace)
        if self.table is not None and self.trace is not None:
            raise bad("Devices", "given either table or trace", "both")

    def _check_slow(self) -> None:
        """Refuse speeds that should go with data and cannot."""
        if self.slow is not None and self.slow not in SLOW:
            raise unknown("slow", str(self.slow), SLOW, "Devices")
        if not (is_number(self.correlation) and -1 <= self.correlation <= 1):
            raise bad("Devices.correlation", "in [-1, 1]", self.correlation)
        if self.slow is None:
            if self.correlation != 1:
                raise bad("Devices.correlation", "left out where slow is not given", self.correlation)
            return
        if self.table is not None or self.trace is not None:
            hint = "A table or trace says whose device is slow."
            raise bad("Devices.slow", "left out where devices are stated", self.slow, hint)
        if self.speed_spread == 0 and self.speed_quantiles is None:
            hint = "Give speed_spread or speed_quantiles."
            raise bad("Devices.slow", "left out where all devices are equally fast", self.slow, hint)

    def changed(self, table: Mapping[str, Any]) -> dict[str, Any]:
        """Return a table of these devices without the keys of ``ADDED`` that change nothing."""
        return {key: value for key, value in table.items() if key not in ADDED or ADDED[key] != value}


@dataclass(frozen=True)
class ClientData:
    """Holds what the speed of clients' devices can depend on.

    Attributes:
        sizes: (N,) training examples of each client.
        label_counts: (N, classes) how many of them have each label; None where there are no labels.
    """

    sizes: Ids
    label_counts: Array | None = None

    def score(self, slow: str) -> Floats:
        """Return what the slow have much of (N,): size, mean label, or how rare their labels are on average.

        The rarity of a label is −ln of its share in all clients' examples together.
        """
        if slow == "large":
            return np.asarray(self.sizes, np.float64)
        if self.label_counts is None:
            raise bad("Devices.slow", "'large' where examples have no labels", slow)
        counts = np.asarray(self.label_counts, np.float64)
        value_of_label = np.arange(counts.shape[1], dtype=np.float64)
        if slow == "rare labels":
            share = counts.sum(axis=0) / max(counts.sum(), 1.0)
            value_of_label = -np.log(np.maximum(share, np.finfo(float).tiny))
        return np.asarray(counts @ value_of_label / np.maximum(counts.sum(axis=1), 1.0))


@dataclass(frozen=True)
class RoundEnd:
    """Says who answered a selection in time, and when the round was closed.

    Attributes:
        answered: (m,) a mask of the selected whose answers came in time.
        late: (m,) a mask of those whose answers come after that.
        seconds: how long the server waited.
    """

    answered: npt.NDArray[np.bool_]
    late: npt.NDArray[np.bool_]
    seconds: float


class Fleet:
    """The devices of N clients under one seed.

    Args:
        devices: how they are.
        n_clients: N.
        seed: of everything that is drawn.
        data: what clients hold, where devices go with it.

    Attributes:
        speed: (N,) examples per second in training, at hours that are not busy.
        bandwidth_down: (N,) bytes per second from the server.
        bandwidth_up: (N,) bytes per second to the server.
        notes: what a reader may want to know.
    """

    def __init__(self, devices: Devices, n_clients: int, seed: int, data: ClientData | None = None) -> None:
        self.devices = devices
        self.n_clients = n_clients
        self.seed = seed
        self.notes: list[str] = []
        self.clock = 0.0  # at which work begins
        self.speed = self._speeds(data)
        self.bandwidth_down = self._bandwidths()
        self.bandwidth_up = self.bandwidth_down
        self._state_devices()
        self._shift = self._busy_shifts()

    def _speeds(self, data: ClientData | None) -> Floats:
        """Draw the speeds (N,); the slow end goes to those whose data say so."""
        devices = self.devices
        if devices.speed_quantiles is not None:
            speed = self._by_quantiles("device speeds", devices.speed_quantiles)
        else:
            speed = devices.speed * self._spread("device speeds", devices.speed_spread)
        if devices.slow is None:
            return speed
        if data is None:
            raise bad("Devices.slow", "left out where nothing is known of the clients' data", devices.slow)
        return self._with_data(speed, data.score(devices.slow))

    def _with_data(self, speed: Floats, score: Floats) -> Floats:
        """Deal the same speeds out anew, such that slowness has the wanted rank correlation with the scores.

        Each client has a normal number of its own and one by the rank of its score (ties by id); they are mixed with
        the correlation of normal numbers that gives the wanted rank correlation (2 sin(π ρ / 6)). The k-th smallest
        mixture gets the k-th largest speed.
        """
        n = self.n_clients
        rank = np.empty(n)
        rank[np.argsort(score, kind="stable")] = np.arange(n)
        from scipy.special import ndtri

        of_data = ndtri((rank + 0.5) / n)
        of_client = stream(self.seed, "device speeds by data").standard_normal(n)
        weight = 2 * math.sin(math.pi * self.devices.correlation / 6)
        slowness = weight * of_data + math.sqrt(max(0.0, 1 - weight**2)) * of_client
        dealt = np.empty(n)
        dealt[np.argsort(slowness, kind="stable")] = -np.sort(-speed)
        return dealt

    def _bandwidths(self) -> Floats:
        devices = self.devices
        if devices.bandwidth_quantiles is not None:
            return self._by_quantiles("device bandwidths", devices.bandwidth_quantiles)
        return devices.bandwidth * self._spread("device bandwidths", devices.bandwidth_spread)

    def _by_quantiles(self, purpose: str, quantiles: Quantiles) -> Floats:
        """Draw by the inverse of a distribution, with the numbers that a lognormal one would use."""
        shares, values = np.asarray(quantiles, np.float64).T
        from scipy.special import ndtr

        ranks = ndtr(stream(self.seed, purpose).standard_normal(self.n_clients))
        return np.asarray(np.exp(np.interp(ranks, shares, np.log(values))))

    def _state_devices(self) -> None:
        """Replace what was drawn by what a table or a trace says of a client."""
        devices = self.devices
        if devices.trace is not None:
            stated = read_devices(Path(devices.trace).expanduser())
        elif devices.table is not None:
            stated = devices_of(devices.table, "devices.table")
        else:
            return
        source = "devices.table" if devices.trace is None else "devices.trace"
        self.bandwidth_up = self.bandwidth_up.copy()
        for device in stated:
            if device.client >= self.n_clients:
                hint = f"There are {self.n_clients} clients, from 0 on."
                raise bad(source, "of clients that exist", f"client {device.client}", hint)
            self.speed[device.client] = device.examples_per_second
            if device.bandwidth_down is not None:
                self.bandwidth_down[device.client] = device.bandwidth_down
            if device.bandwidth_up is not None:
                self.bandwidth_up[device.client] = device.bandwidth_up
        n_drawn = self.n_clients - len(stated)
        if n_drawn:
            self.notes.append(f"{n_drawn} of {self.n_clients} clients are not in {source}; their devices are drawn.")

    def _busy_shifts(self) -> Floats:
        """Draw by how many hours each client's busy hours begin later (N,)."""
        busy = self.devices.busy
        if busy is None or not busy.shift:
            return np.zeros(self.n_clients)
        return busy.shift * (2 * stream(self.seed, "device busy hours").random(self.n_clients) - 1)

    @property
    def speeds_differ(self) -> bool:
        """Tell whether some clients compute faster than others."""
        return bool(self.devices.speed_spread or np.ptp(self.speed) > 0)

    @cached_property
    def devices_differ(self) -> bool:
        """Tell whether, at some moment, some clients compute or send faster than others."""
        if self.speeds_differ or self.devices.jitter or self._shift.any():
            return True
        return not (self._is_equal(self.bandwidth_down) and self._is_equal(self.bandwidth_up))

    @staticmethod
    def _is_equal(values: Floats) -> bool:
        return bool((values == values[0]).all())

    def at(self, clock: float) -> Fleet:
        """Return the same devices for work that begins at this second of the clock."""
        if self.devices.busy is None or clock == self.clock:
            return self
        fleet = copy.copy(self)
        fleet.clock = clock
        return fleet

    def _spread(self, purpose: str, sigma: float, t: int = 0) -> Floats:
        if sigma == 0:
            return np.ones(self.n_clients)
        return np.exp(sigma * stream(self.seed, purpose, t).standard_normal(self.n_clients))

    def speed_now(self, ids: Ids) -> Floats:
        """Return the examples per second of these clients (k,) at the hour at which their work begins."""
        busy = self.devices.busy
        if busy is None:
            return self.speed[ids]
        hour = (self.clock / 3600 - self._shift[ids]) % 24
        return np.where(busy.is_busy(hour), busy.factor, 1.0) * self.speed[ids]

    def seconds(
        self, ids: Ids, t: int, examples: npt.ArrayLike, down: npt.ArrayLike = 0, up: npt.ArrayLike = 0
    ) -> Floats:
        """Return the seconds (k,) that clients take to train on so many examples and to move so many bytes."""
        sending = np.asarray(down) / self.bandwidth_down[ids] + np.asarray(up) / self.bandwidth_up[ids]
        time = np.asarray(examples) / self.speed_now(ids) + sending
        if self.devices.jitter:
            time *= self._spread("device jitter", self.devices.jitter, t)[ids]
        return np.asarray(time, np.float64)

    def dropouts(self, ids: Ids, t: int) -> npt.NDArray[np.bool_]:
        """Return a mask (k,) of the clients that fall silent after selection t."""
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
        """Close selection ``t``: find out which clients answer in time, which come late, and how long the round takes.

        The server stops at ``target`` answers or after ``limit`` seconds. ``silent`` is a mask of clients that fail.
        """
        arrival = seconds.copy()
        if silent is not None:
            arrival[silent] = math.inf
        arrival[self.dropouts(ids, t)] = math.inf
        in_time = first_come(ids, arrival, target, limit)
        late = np.isfinite(arrival) & ~in_time
        if in_time.sum() < min(target, ids.size) and limit < math.inf:
            return RoundEnd(answered=in_time, late=late, seconds=limit)
        waited = seconds  # where nobody answers, until the slowest should have
        if in_time.any():
            waited = arrival[in_time]
        return RoundEnd(answered=in_time, late=late, seconds=float(waited.max(initial=0.0)))
