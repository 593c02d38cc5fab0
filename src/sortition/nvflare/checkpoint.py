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
from sortition.nvflare.selection import Selection


def save(path: Path, selection: Selection, model: Model, step: StepState) -> None:
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
    nvflare = {"names": names, "model": list(model), "salt": salt, "history": selection.history}
    snapshot.save(path, flat, {"registrar": about, "nvflare": nvflare})


def load(path: Path, selection: Selection) -> tuple[Model, StepState]:
    """Restore the selection and its sites; the model and the memory of the server's step."""
    arrays, header = snapshot.load(path)
    try:
        nvflare, about = header["nvflare"], header["registrar"]
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


def _part(arrays: Mapping[str, Array], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
