"""The same selector in NVIDIA FLARE: controllers for the server, and a client module that answers questions.

Server: ``SelectorController`` runs whole jobs; ``SelectedFedAvg`` is NVFlare's own FedAvg with another selection.
Client script: ``from sortition.nvflare import client as flare`` in place of ``import nvflare.client as flare``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sortition.nvflare.controller import SelectorController
    from sortition.nvflare.fedavg import SelectedFedAvg
    from sortition.nvflare.job import select_clients, selector_job

__all__ = ["SelectedFedAvg", "SelectorController", "select_clients", "selector_job"]

_MODULE = {
    "SelectedFedAvg": "fedavg",
    "SelectorController": "controller",
    "select_clients": "job",
    "selector_job": "job",
}


def __getattr__(name: str) -> Any:
    """A public name, imported when it is first used."""
    if name not in _MODULE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE[name]}"), name)
