"""What both federations of the soak share: devices, policies, shadows, and what is written where."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sortition import Policy, load
from sortition.core import Cohort, Round, Selector, State, method
from sortition.federation import Metrics

DEVICES = 14
COHORT = 3
LEAST_BATTERY = 0.3
FAILING = 0.02  # of the trainings raise
SCRAPED_WITHIN = 120.0  # seconds that Prometheus has for the last round
POLICIES = (
    Policy(separation="2 rounds", participations=4, window="8 rounds"),
    Policy(separation="1 second"),  # of both federations together: they share a ledger
    Policy(lifetime=60, only=("device-0", "device-1")),
    Policy(participations=11, window="4 rounds", per="owner"),
    Policy(battery=LEAST_BATTERY),
)


@dataclass(frozen=True)
class Settings:
    """What the process of one federation must know.

    Attributes:
        name: ``flower`` or ``server``.
        folder: of all files of the soak.
        rounds: to play in all.
        metrics_port: that Prometheus scrapes.
        device_port: where devices call; of the own server alone.
    """

    name: str
    folder: str
    rounds: int
    metrics_port: int
    device_port: int = 0

    @property
    def checkpoint(self) -> Path:
        """Of the federation."""
        return Path(self.folder) / f"{self.name}.npz"

    @property
    def history(self) -> Path:
        """Its records."""
        return Path(self.folder) / f"{self.name}.npz.history.jsonl"

    @property
    def audit(self) -> Path:
        """Its audit log."""
        return Path(self.folder) / f"{self.name}.audit.jsonl"

    @property
    def ledger(self) -> Path:
        """Of both federations."""
        return Path(self.folder) / "devices.sqlite"

    @property
    def diary(self) -> Path:
        """What its devices were asked for, in the order in which they were asked."""
        return Path(self.folder) / f"{self.name}.devices.jsonl"

    def write(self) -> Path:
        """Write the file that the federation's process reads."""
        path = Path(self.folder) / f"{self.name}.settings.json"
        path.write_text(json.dumps(asdict(self)))
        return path

    @classmethod
    def read(cls, path: str | Path) -> Settings:
        """Read what :meth:`write` wrote."""
        return cls(**json.loads(Path(path).read_text()))


def options(settings: Settings) -> dict[str, Any]:
    """What ``Federation`` and ``SelectorStrategy`` are given alike."""
    return {
        "cohort": COHORT,
        "overselect": 1.3,
        "policy": POLICIES,
        "ledger": settings.ledger,
        "owner_of": owner_of,
        "shadow": {"oort": load("oort"), "raising": Raising()},
        "checkpoint": settings.checkpoint,
        "resume": True,
        "audit": settings.audit,
        "metrics": Metrics(settings.metrics_port, linger=SCRAPED_WITHIN),
        "patience": 30.0,
    }


def owner_of(device: str) -> str:
    """Even and odd devices belong to two owners."""
    return "even" if int(device.removeprefix("device-")) % 2 == 0 else "odd"


@method
class Raising(Selector[State]):
    """A shadow that raises in every third round."""

    def select(self, state: State, round: Round) -> Cohort:
        """Choose the first clients, or raise."""
        if round.index % 3 == 0:
            raise RuntimeError("a shadow's own mistake")
        return Cohort.uniform(round.available[: round.budget])


# -- devices -----------------------------------------------------------------------------------------------------------


class Diary:
    """Where devices note what they were asked for; any number of processes write to it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def note(self, **entry: Any) -> None:
        """Append one line, in one call of the system."""
        line = json.dumps({"when": time.time(), **entry}) + "\n"
        file = os.open(self.path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)

    def entries(self) -> Iterator[dict[str, Any]]:
        """All lines, in the order of writing."""
        for line in self.path.read_text().splitlines():
            yield json.loads(line)


def first_model() -> dict[str, np.ndarray]:
    """A model that knows nothing."""
    return {"w": np.zeros(8, np.float32)}


def goal_of(device: str) -> np.ndarray:
    """Where a device wants the model to be."""
    return np.random.default_rng(int(device.removeprefix("device-"))).normal(size=8)


def loss_of(model: np.ndarray, device: str) -> float:
    """How far the model is from there."""
    return float(((model - goal_of(device)) ** 2).mean())


def facts_of(device: str, diary: Diary) -> dict[str, Any]:
    """What a device says of itself; its battery is another one every three seconds."""
    number = int(device.removeprefix("device-"))
    battery = float(np.random.default_rng([number, int(time.time() / 3)]).uniform(0.1, 1.0))
    diary.note(device=device, battery=battery)
    label_counts = np.bincount([number % 3, (number + 1) % 3], minlength=3) * 5
    return {"sizes": 10 + number, "label_counts": label_counts, "battery": battery}


def trained(model: np.ndarray, device: str, round_index: int, diary: Diary) -> np.ndarray:
    """The model after half the way to the device's goal; now and then a device fails."""
    diary.note(device=device, round=round_index)
    if np.random.default_rng().random() < FAILING:
        raise RuntimeError("the device ran out of memory")
    return (model + 0.5 * (goal_of(device) - model)).astype(np.float32)
