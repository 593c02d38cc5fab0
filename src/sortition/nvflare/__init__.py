"""The same selector in NVIDIA FLARE: controllers for the server, and a client module that answers questions.

Server: ``SelectorController`` runs whole jobs; ``SelectedFedAvg`` is NVFlare's own FedAvg with another selection.
Client script: ``from sortition.nvflare import client as flare`` in place of ``import nvflare.client as flare``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sortition._lazy import exports

if TYPE_CHECKING:
    from sortition.nvflare.controller import SelectorController
    from sortition.nvflare.fedavg import SelectedFedAvg
    from sortition.nvflare.job import select_clients, selector_job

__all__ = ["SelectedFedAvg", "SelectorController", "select_clients", "selector_job"]
__getattr__ = exports(
    __name__,
    {
        "SelectedFedAvg": "sortition.nvflare.fedavg",
        "SelectorController": "sortition.nvflare.controller",
        "select_clients": "sortition.nvflare.job",
        "selector_job": "sortition.nvflare.job",
    },
)
