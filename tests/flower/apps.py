"""The federation's Flower apps: a ServerApp that plays methods one after the other, and its ClientApp."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from tests.flower import federation
from tests.flower.processes import LONGEST
from tests.simulation.small import data, parts

from sortition.clients.named_arrays import as_vector
from sortition.clients.pytorch import PyTorch, TorchClient
from sortition.flower import SelectorStrategy, answer, codec, pytorch
from sortition.selectors.hics import ROW_MEANS


def load_data(context: Context) -> tuple[Any, Any, Any]:
    """The model and the examples of one node."""
    own = parts()[int(context.node_config["partition-id"])]
    return federation.model(), data().x_train[own], data().y_train[own]


def resources(context: Context) -> tuple[float, float]:
    """What the simulator says of the node."""
    return tuple(federation.world().costs.resources(int(context.node_config["partition-id"]), 0).tolist())


class Timed(PyTorch):
    """Durations as the simulator has them, not those of this machine, so that a method that learns them can agree."""

    def __call__(self, received: Any) -> TorchClient:
        client = super().__call__(received)
        train = client.train

        def timed() -> Any:
            result = train()
            result.duration = float(federation.world().costs.seconds(np.array([received.client]), received.t)[0])
            return result

        client.train = timed  # type: ignore[method-assign]
        return client


def client_app() -> ClientApp:
    """The ClientApp."""
    app = ClientApp()
    maker = pytorch(load_data, federation.RULE, seed=federation.SEED, resources=resources)
    answer(app, Timed(**{k: v for k, v in vars(maker).items() if k != "trains"}), signals=[ROW_MEANS])
    return app


def quiet() -> FedAvg:
    """FedAvg without evaluation by clients."""
    return FedAvg(fraction_evaluate=0.0)


def strategy(selector: Any, **options: Any) -> SelectorStrategy:
    """A strategy without evaluation."""
    # on a busy machine Ray's workers take long to come up: nobody's first answer is to be late for that
    options = {
        "cohort": federation.COHORT,
        "seed": federation.SEED,
        "answer_timeout": float(LONGEST),
        "profile_timeout": float(LONGEST),
        **options,
    }
    stock = options.pop("strategy", None) or quiet()
    return SelectorStrategy(selector, strategy=stock, **options)


def played(grid: Grid, selector: Any, rounds: int = federation.ROUNDS, **options: Any) -> dict[str, Any]:
    """Play one method; its history and final model."""
    timeout = options.pop("timeout", LONGEST)
    run = strategy(selector, **options)
    result = run.start(grid, ArrayRecord(federation.model().state_dict()), rounds, timeout=timeout)
    vector = as_vector(codec.to_arrays(result.arrays))
    return {
        "cohorts": [record["cohort"] for record in run.history],
        "model": vector.tolist(),
        "hash": federation.digest(vector),
        "history": run.history,
    }


def every_method(only: list[str] | None = None) -> ServerApp:
    """A ServerApp that plays the methods and writes to $RESULT."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        chosen = {k: v for k, v in federation.methods().items() if only is None or k in only}
        told = {label: played(grid, selector) for label, selector in chosen.items()}
        Path(os.environ["RESULT"]).write_text(json.dumps(told))

    return app


def simulation(server: ServerApp, client: ClientApp) -> None:
    """Flower's simulation on Ray: ten nodes, two of them at a time."""
    from flwr.simulation import run_simulation

    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0}, "init_args": {"num_cpus": 2}}
    run_simulation(server, client, num_supernodes=10, backend_config=resources)


if __name__ == "__main__":
    import sys

    from tests.flower import apps  # by this name, workers can import it too

    apps.simulation(apps.every_method(sys.argv[1:] or None), apps.client_app())
