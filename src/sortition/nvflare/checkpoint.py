"""Selection, sites and model in one file after a round: what a server needs to go on after it died."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sortition.aggregation.step import StepState
from sortition.clients.models import Model
from sortition.core.arrays import Array
from sortition.core.errors import StorageError
from sortition.core.storage import snapshot
from sortition.nvflare.returned import model_fault
from sortition.nvflare.selection import Selection


def save(
    path: Path, selection: Selection, model: Model, step: StepState, options: Mapping[str, Any] | None = None
) -> None:
    """Write it, atomically; before the first round there is nothing to write."""
    if selection.registrar is None:
        return
    if selection.log_file is not None:
        selection.log_file.sync()
    arrays, about = selection.registrar.export()
    facts, names = selection.sites.export()
    parts = {"registrar": arrays, "facts": facts, "step": step}
    flat = {f"{part}.{name}": value for part, table in parts.items() for name, value in table.items()}
    flat |= {f"model.{row}": value for row, value in enumerate(model.values())}
    salt = "" if selection.log_file is None else selection.log_file.salt.hex()
    about_run = {"salt": salt, "history": selection.history, "options": _identity(selection, options)}
    nvflare = {"names": names, "model": list(model), **about_run}
    snapshot.save(path, flat, {"registrar": about, "nvflare": nvflare})


def load(path: Path, selection: Selection, options: Mapping[str, Any] | None = None) -> tuple[Model, StepState]:
    """Restore the selection and its sites; the model and the memory of the server's step.

    Refused, naming the difference, if cohort or ``options`` are others than those of the job that wrote it.
    """
    arrays, header = snapshot.load(path)
    try:
        nvflare, about = header["nvflare"], header["registrar"]
        before = nvflare.get("options", {})  # none in checkpoints of earlier versions
        snapshot.check_options(path, before, _identity(selection, options))
        selection.sites.restore(_part(arrays, "facts."), nvflare["names"])
        model = {str(name): arrays[f"model.{row}"] for row, name in enumerate(nvflare["model"])}
        selection.history = list(nvflare["history"])
        salt = bytes.fromhex(nvflare["salt"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StorageError(f"{path} is not a checkpoint of an NVFlare selection: {error!r}.") from None
    registrar = selection.new_registrar(model).restore(_part(arrays, "registrar."), about)
    if selection.log_file is not None:
        selection.log_file.salt = salt or selection.log_file.salt
        selection.log_file.watch(registrar)
    selection.registrar = registrar
    return model, _part(arrays, "step.")


def check_model(path: Path, saved: Model, given: Model) -> None:
    """Refuse to go on with another model than the one that is to be trained."""
    if fault := model_fault(saved, given):
        raise StorageError(f"{path} holds another model than the one that is to be trained: {fault}.")


def _identity(selection: Selection, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """What must be the same when a job goes on, beside the registrar's own parameters."""
    settings = selection.settings
    return {"cohort": settings.cohort, "overselect": float(settings.overselect), **(options or {})}


def _part(arrays: Mapping[str, Array], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
