"""Experiment trackers that follow runs: TensorBoard, MLflow and Weights & Biases, each an optional package.

In Python ``callbacks=[track.TensorBoard("logs")]``, in a study's file ``track = "tensorboard"`` or a table with
options. Every run is one run of the tracker, tagged with its setting, method and seed; figures go by round. A running
federation is followed in the same way: ``Federation(metrics=track.TensorBoard("logs"))``.
"""

from __future__ import annotations

import importlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar, Protocol

from sortition.core.errors import InputError, unknown
from sortition.core.round_record import RoundRecord
from sortition.federation.metric_series import SelectionSeries
from sortition.studies.config import Named, RunConfig
from sortition.studies.runs.callback import Callback
from sortition.studies.types import ReadOnlyTable, RunSummary

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

__all__ = ["MLflow", "TensorBoard", "WandB", "make_trackers"]

LONGEST_PARAMETER = 500  # characters that MLflow keeps of a parameter
TrackedValue = str | int | float | bool


def round_figures(record: RoundRecord) -> dict[str, float]:
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
    if "bytes" in record:
        values["cost/bytes"] = sum((record["bytes"] or {}).values())
    return {name: float(value) for name, value in values.items() if value is not None}


def run_tags(run: RunConfig) -> dict[str, str]:
    """Return what distinguishes a run."""
    return {"setting": run.setting, "method": run.method.label, "seed": str(run.seed)}


def flat_options(run: RunConfig) -> dict[str, TrackedValue]:
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


def _import_package(name: str) -> ModuleType:
    """Return a tracker's package, or raise how to install it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise InputError(f"track {name} needs {name}. Try: pip install 'sortition[{name}]'.") from None


class Tracker(Callback, ABC):
    """Follows the runs of a study (``callbacks=``) or a running federation (``metrics=``)."""

    package: ClassVar[str]

    def check(self) -> None:
        """Raise where its package is not installed."""
        _import_package(self.package)

    def on_start(self, run: RunConfig, folder: Path, played: int) -> None:
        """Open the tracker's run with the configuration; a resumed run goes on after its last round."""
        self.open(run_tags(run), {**flat_options(run), "folder": str(folder)}, played)

    def on_round(self, run: RunConfig, record: RoundRecord) -> None:
        """Log the figures of a round."""
        self.log(round_figures(record), record["round"] + 1)

    def on_end(self, run: RunConfig, summary: RunSummary) -> None:
        """Close the tracker's run; a summary is there where the run is complete."""
        self.close(completed=bool(summary))

    def begin(self, series: SelectionSeries, played: int) -> None:
        """Open the tracker's run for a federation that begins or goes on."""
        about = series.about
        self.open({"backend": about["backend"], "method": about["method"]}, dict(about), played)

    def show(self, series: SelectionSeries) -> None:
        """Log the figures of a federation's last round."""
        if series.last is not None:
            with series.lock:
                values = round_figures(series.last) | series.figures()
            self.log(values, series.last["round"] + 1)

    def end(self, completed: bool) -> None:
        """Close the tracker's run of a federation."""
        self.close(completed)

    @abstractmethod
    def open(self, tags: Mapping[str, str], options: Mapping[str, TrackedValue], played: int) -> None:
        """Open one run of the tracker, named by its tags."""

    @abstractmethod
    def log(self, values: Mapping[str, float], step: int) -> None:
        """Log the figures of a step."""

    @abstractmethod
    def close(self, completed: bool) -> None:
        """Close the run."""


class TensorBoard(Tracker):
    """Writes event files under ``folder/setting/method/seed-k``; show them with ``tensorboard --logdir folder``."""

    package = "tensorboard"

    def __init__(self, folder: str | Path = "tensorboard") -> None:
        self.folder = Path(folder)
        self._writer: SummaryWriter | None = None

    def open(self, tags: Mapping[str, str], options: Mapping[str, TrackedValue], played: int) -> None:
        """Open the event file."""
        _import_package("tensorboard")
        from torch.utils.tensorboard import SummaryWriter

        parts = [f"seed-{value}" if key == "seed" else value for key, value in tags.items()]
        event_folder = self.folder.joinpath(*parts)
        self._writer = SummaryWriter(str(event_folder), purge_step=played + 1 if played else None)
        rows = "\n".join(f"| {key} | {value} |" for key, value in options.items() if key != "folder")
        self._writer.add_text("configuration", f"| key | value |\n|---|---|\n{rows}", 0)

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Write one scalar for each figure."""
        if self._writer is not None:
            for name, value in values.items():
                self._writer.add_scalar(name, value, step)

    def close(self, completed: bool) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()
        self._writer = None


class MLflow(Tracker):
    """Makes one MLflow run of each run, in the experiment ``experiment`` of the store at ``uri``."""

    package = "mlflow"

    def __init__(self, uri: str | None = None, experiment: str = "sortition") -> None:
        self.uri = uri
        self.experiment = experiment

    def open(self, tags: Mapping[str, str], options: Mapping[str, TrackedValue], played: int) -> None:
        """Begin an MLflow run with the configuration as its parameters."""
        mlflow = _import_package("mlflow")
        if self.uri is not None:
            mlflow.set_tracking_uri(self.uri)
        mlflow.set_experiment(self.experiment)
        if "folder" in options:
            folder = {"folder": str(options["folder"])}
        else:
            folder = {}
        mlflow.start_run(run_name="/".join(tags.values()), tags={**tags, **folder})
        parameters = {key: str(value)[:LONGEST_PARAMETER] for key, value in options.items() if key != "folder"}
        mlflow.log_params(parameters)

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Log one metric for each figure."""
        _import_package("mlflow").log_metrics(dict(values), step=step)

    def close(self, completed: bool) -> None:
        """End the MLflow run; one that was stopped or failed is marked as killed."""
        _import_package("mlflow").end_run("FINISHED" if completed else "KILLED")


class _WandBRun(Protocol):
    """What is used of a run of Weights & Biases."""

    def log(self, data: dict[str, float], step: int) -> None:
        """Log the figures of a step."""

    def finish(self, exit_code: int) -> None:
        """End the run."""


class WandB(Tracker):
    """Makes one Weights & Biases run of each run, in ``project``; ``mode="offline"`` writes files only."""

    package = "wandb"

    def __init__(
        self, project: str = "sortition", *, mode: str | None = None, folder: str | Path | None = None
    ) -> None:
        self.project = project
        self.mode = mode
        self.folder = folder
        self._run: _WandBRun | None = None

    def open(self, tags: Mapping[str, str], options: Mapping[str, TrackedValue], played: int) -> None:
        """Begin a run with the configuration."""
        values = list(tags.values())
        self._run = _import_package("wandb").init(
            project=self.project,
            mode=self.mode,
            dir=None if self.folder is None else str(self.folder),
            name="/".join(values),
            group="/".join(values[:2]),
            tags=[f"{key}:{value}" for key, value in tags.items()],
            config={key: value for key, value in options.items() if key != "folder"},
        )

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Log one step with all figures."""
        if self._run is not None:
            self._run.log(dict(values), step=step)

    def close(self, completed: bool) -> None:
        """Finish the run."""
        if self._run is not None:
            self._run.finish(0 if completed else 1)
        self._run = None


TRACKERS: dict[str, type[Tracker]] = {"tensorboard": TensorBoard, "mlflow": MLflow, "wandb": WandB}


def make_trackers(entries: Iterable[Named]) -> list[Callback]:
    """Make the trackers that a study's file names; refuse an unknown name or option, and a package that is missing."""
    trackers: list[Callback] = []
    for entry in entries:
        if entry.name not in TRACKERS:
            raise unknown("tracker", entry.name, TRACKERS)
        tracker_class = TRACKERS[entry.name]
        option_names = list(inspect.signature(tracker_class).parameters)
        for key in entry.options:
            if key not in option_names:
                raise unknown("key", key, option_names, f"track {entry.name}")
        tracker = tracker_class(**entry.options)
        tracker.check()
        trackers.append(tracker)
    return trackers
