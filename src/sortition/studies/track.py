"""Experiment trackers that follow runs: TensorBoard, MLflow and Weights & Biases, each an optional package.

In Python ``callbacks=[track.TensorBoard("logs")]``, in a study's file ``track = "tensorboard"`` or a table with
options. Every run is one run of the tracker, tagged with its setting, method and seed; figures go by round.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

from sortition.core.errors import InputError, unknown
from sortition.core.record import RoundRecord
from sortition.studies.config import Named, RunConfig
from sortition.studies.runs.callback import Callback
from sortition.studies.types import ReadOnlyTable, RunSummary

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

__all__ = ["MLflow", "TensorBoard", "WandB", "trackers"]

LONGEST_PARAMETER = 500  # characters that MLflow keeps of a parameter
TrackedValue = str | int | float | bool


def figures(record: RoundRecord) -> dict[str, float]:
    """Return the numbers of a round that trackers show: test figures, training loss, cohort, bytes, simulated time."""
    values: dict[str, float | None] = {}
    for name, value in (record.get("test") or {}).items():
        values[f"test/{name}"] = value
    for name, value in (record.get("clients") or {}).items():
        values[f"clients/{name}"] = value
    values["train/loss"] = record.get("train_loss")
    values["cost/clock"] = record.get("clock")
    values["selection/cohort"] = len(record.get("cohort") or ())
    values["selection/available"] = record.get("available")
    values["cost/bytes"] = sum((record.get("bytes") or {}).values())
    return {name: float(value) for name, value in values.items() if value is not None}


def tags(run: RunConfig) -> dict[str, str]:
    """Return what distinguishes a run."""
    return {"setting": run.setting, "method": run.method.label, "seed": str(run.seed)}


def options(run: RunConfig) -> dict[str, TrackedValue]:
    """Return the configuration of a run, flat: ``local.lr`` and so on."""
    flat: dict[str, TrackedValue] = {}

    def add(table: ReadOnlyTable, prefix: str) -> None:
        for key, value in table.items():
            if isinstance(value, Mapping):
                add(value, f"{prefix}{key}.")
            elif isinstance(value, TrackedValue):
                flat[f"{prefix}{key}"] = value
            else:
                flat[f"{prefix}{key}"] = str(value)

    add(run.table(), "")
    return flat


def _package(name: str) -> ModuleType:
    """Return a tracker's package, or raise how to install it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise InputError(f"track {name} needs {name}. Try: pip install 'sortition[{name}]'.") from None


class TensorBoard(Callback):
    """Writes event files under ``folder/setting/method/seed-k``; show them with ``tensorboard --logdir folder``."""

    def __init__(self, folder: str | Path = "tensorboard") -> None:
        self.folder = Path(folder)
        self._writer: SummaryWriter | None = None

    def check(self) -> None:
        """Raise where its package is not installed."""
        _package("tensorboard")

    def on_start(self, run: RunConfig, folder: Path, played: int) -> None:
        """Open the event file; a resumed run goes on after its last round."""
        _package("tensorboard")
        from torch.utils.tensorboard import SummaryWriter

        event_folder = self.folder / run.setting / run.method.label / f"seed-{run.seed}"
        self._writer = SummaryWriter(str(event_folder), purge_step=played + 1 if played else None)
        rows = "\n".join(f"| {key} | {value} |" for key, value in options(run).items())
        self._writer.add_text("configuration", f"| key | value |\n|---|---|\n{rows}", 0)

    def on_round(self, run: RunConfig, record: RoundRecord) -> None:
        """Write one scalar for each figure."""
        if self._writer is not None:
            for name, value in figures(record).items():
                self._writer.add_scalar(name, value, record["round"] + 1)

    def on_end(self, run: RunConfig, summary: RunSummary) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()
        self._writer = None


class MLflow(Callback):
    """Makes one MLflow run of each run, in the experiment ``experiment`` of the store at ``uri``."""

    def __init__(self, uri: str | None = None, experiment: str = "sortition") -> None:
        self.uri = uri
        self.experiment = experiment

    def check(self) -> None:
        """Raise where its package is not installed."""
        _package("mlflow")

    def on_start(self, run: RunConfig, folder: Path, played: int) -> None:
        """Begin an MLflow run with the configuration as its parameters."""
        mlflow = _package("mlflow")
        if self.uri is not None:
            mlflow.set_tracking_uri(self.uri)
        mlflow.set_experiment(self.experiment)
        name = "/".join(tags(run).values())
        mlflow.start_run(run_name=name, tags={**tags(run), "folder": str(folder)})
        mlflow.log_params({key: str(value)[:LONGEST_PARAMETER] for key, value in options(run).items()})

    def on_round(self, run: RunConfig, record: RoundRecord) -> None:
        """Log one metric for each figure."""
        _package("mlflow").log_metrics(figures(record), step=record["round"] + 1)

    def on_end(self, run: RunConfig, summary: RunSummary) -> None:
        """End the MLflow run; one that was stopped or failed is marked as killed."""
        _package("mlflow").end_run("FINISHED" if summary else "KILLED")


class _WandBRun(Protocol):
    """What is used of a run of Weights & Biases."""

    def log(self, data: dict[str, float], step: int) -> None:
        """Log the figures of a step."""

    def finish(self, exit_code: int) -> None:
        """End the run."""


class WandB(Callback):
    """Makes one Weights & Biases run of each run, in ``project``; ``mode="offline"`` writes files only."""

    def __init__(
        self, project: str = "sortition", *, mode: str | None = None, folder: str | Path | None = None
    ) -> None:
        self.project = project
        self.mode = mode
        self.folder = folder
        self._run: _WandBRun | None = None

    def check(self) -> None:
        """Raise where its package is not installed."""
        _package("wandb")

    def on_start(self, run: RunConfig, folder: Path, played: int) -> None:
        """Begin a run with the configuration."""
        self._run = _package("wandb").init(
            project=self.project,
            mode=self.mode,
            dir=None if self.folder is None else str(self.folder),
            name="/".join(tags(run).values()),
            group=f"{run.setting}/{run.method.label}",
            tags=[f"{key}:{value}" for key, value in tags(run).items()],
            config=options(run),
        )

    def on_round(self, run: RunConfig, record: RoundRecord) -> None:
        """Log one step with all figures."""
        if self._run is not None:
            self._run.log(figures(record), step=record["round"] + 1)

    def on_end(self, run: RunConfig, summary: RunSummary) -> None:
        """Finish the run."""
        if self._run is not None:
            self._run.finish(0 if summary else 1)
        self._run = None


TRACKERS: dict[str, type[Callback]] = {"tensorboard": TensorBoard, "mlflow": MLflow, "wandb": WandB}


def trackers(chosen: Iterable[Named]) -> list[Callback]:
    """Make the trackers that a study's file names; a missing package or a wrong option is an error at once."""
    callbacks: list[Callback] = []
    for tracker in chosen:
        if tracker.name not in TRACKERS:
            raise unknown("tracker", tracker.name, TRACKERS)
        cls = TRACKERS[tracker.name]
        allowed = list(inspect.signature(cls).parameters)
        for key in tracker.options:
            if key not in allowed:
                raise unknown("key", key, allowed, f"track {tracker.name}")
        _package(tracker.name)
        callbacks.append(cls(**tracker.options))
    return callbacks
