"""Experiment trackers that follow runs: TensorBoard, MLflow and Weights & Biases, each an optional package.

In Python ``callbacks=[track.TensorBoard("logs")]``, in a study's file ``track = "tensorboard"`` or a table with
options. Every run is one run of the tracker, tagged with its setting, method and seed; figures go by round.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sortition.core.errors import InputError, unknown
from sortition.studies.config import Named, RunConfig
from sortition.studies.runs.callback import Callback

__all__ = ["MLflow", "TensorBoard", "WandB", "trackers"]


def figures(record: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a round that trackers show: test figures, training loss, cohort, bytes, simulated time."""
    found = {f"test/{name}": value for name, value in (record.get("test") or {}).items()}
    found |= {f"clients/{name}": value for name, value in (record.get("clients") or {}).items()}
    found |= {"train/loss": record.get("train_loss"), "cost/clock": record.get("clock")}
    found["selection/cohort"] = len(record.get("cohort") or ())
    found["selection/available"] = record.get("available")
    found["cost/bytes"] = sum((record.get("bytes") or {}).values())
    return {name: float(value) for name, value in found.items() if value is not None}


def tags(run: RunConfig) -> dict[str, str]:
    """What distinguishes a run."""
    return {"setting": run.setting, "method": run.method.label, "seed": str(run.seed)}


def options(run: RunConfig) -> dict[str, str | int | float | bool]:
    """The configuration of a run, flat: ``local.lr`` and so on."""
    flat: dict[str, Any] = {}

    def add(table: Mapping[str, Any], prefix: str) -> None:
        for key, value in table.items():
            if isinstance(value, Mapping):
                add(value, f"{prefix}{key}.")
            else:
                flat[f"{prefix}{key}"] = value if isinstance(value, str | int | float | bool) else str(value)

    add(run.table(), "")
    return flat


def _package(name: str) -> Any:
    """A tracker's package, or how to install it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise InputError(f"track {name} needs {name}. Try: pip install 'sortition[{name}]'.") from None


class TensorBoard(Callback):
    """Event files under ``folder/setting/method/seed-k``; show them with ``tensorboard --logdir folder``."""

    def __init__(self, folder: str | Path = "tensorboard") -> None:
        self.folder = Path(folder)
        self._writer: Any = None

    def check(self) -> None:
        """Its package is installed."""
        _package("tensorboard")

    def on_start(self, run: RunConfig, folder: Path, played: int) -> None:
        """Open the event file; a resumed run goes on after its last round."""
        _package("tensorboard")
        from torch.utils.tensorboard import SummaryWriter

        place = self.folder / run.setting / run.method.label / f"seed-{run.seed}"
        self._writer = SummaryWriter(str(place), purge_step=played + 1 if played else None)
        rows = "\n".join(f"| {key} | {value} |" for key, value in options(run).items())
        self._writer.add_text("configuration", f"| key | value |\n|---|---|\n{rows}", 0)

    def on_round(self, run: RunConfig, record: Mapping[str, Any]) -> None:
        """One scalar for each figure."""
        for name, value in figures(record).items():
            self._writer.add_scalar(name, value, record["round"] + 1)

    def on_end(self, run: RunConfig, summary: Mapping[str, Any]) -> None:
        """Close the file."""
        self._writer.close()
        self._writer = None


class MLflow(Callback):
    """One MLflow run for each run, in the experiment ``experiment`` of the store at ``uri``."""

    def __init__(self, uri: str | None = None, experiment: str = "sortition") -> None:
        self.uri, self.experiment = uri, experiment

    def check(self) -> None:
        """Its package is installed."""
        _package("mlflow")

    def on_start(self, run: RunConfig, folder: Path, played: int) -> None:
        """Begin an MLflow run with the configuration as its parameters."""
        mlflow = _package("mlflow")
        if self.uri is not None:
            mlflow.set_tracking_uri(self.uri)
        mlflow.set_experiment(self.experiment)
        name = "/".join(tags(run).values())
        mlflow.start_run(run_name=name, tags={**tags(run), "folder": str(folder)})
        mlflow.log_params({key: str(value)[:500] for key, value in options(run).items()})

    def on_round(self, run: RunConfig, record: Mapping[str, Any]) -> None:
        """One metric for each figure."""
        _package("mlflow").log_metrics(figures(record), step=record["round"] + 1)

    def on_end(self, run: RunConfig, summary: Mapping[str, Any]) -> None:
        """End it; a run that was stopped or failed is marked as killed."""
        _package("mlflow").end_run("FINISHED" if summary else "KILLED")


class WandB(Callback):
    """One run for each run, in ``project``; ``mode="offline"`` writes files only."""

    def __init__(
        self, project: str = "sortition", *, mode: str | None = None, folder: str | Path | None = None
    ) -> None:
        self.project, self.mode, self.folder = project, mode, folder
        self._run: Any = None

    def check(self) -> None:
        """Its package is installed."""
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

    def on_round(self, run: RunConfig, record: Mapping[str, Any]) -> None:
        """One step with all figures."""
        self._run.log(figures(record), step=record["round"] + 1)

    def on_end(self, run: RunConfig, summary: Mapping[str, Any]) -> None:
        """Finish it."""
        self._run.finish(0 if summary else 1)
        self._run = None


TRACKERS = {"tensorboard": TensorBoard, "mlflow": MLflow, "wandb": WandB}


def trackers(chosen: Iterable[Named]) -> list[Callback]:
    """The trackers that a study's file names; a missing package or a wrong option is an error at once."""
    made: list[Callback] = []
    for one in chosen:
        if one.name not in TRACKERS:
            raise unknown("tracker", one.name, TRACKERS)
        kind = TRACKERS[one.name]
        known = list(inspect.signature(kind).parameters)
        for key in one.options:
            if key not in known:
                raise unknown("key", key, known, f"track {one.name}")
        _package(one.name)
        made.append(kind(**one.options))
    return made
