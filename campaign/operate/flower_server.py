"""The process of the Flower federation: a ServerApp and its ClientApps in Flower's simulation on Ray."""

from __future__ import annotations

import os
import sys
from typing import Any

from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from campaign.operate.settings import DEVICES, Diary, Settings, facts_of, first_model, loss_of, options, trained
from sortition.clients import Received
from sortition.flower import SelectorStrategy, answer, codec

SETTINGS = "SOAK_SETTINGS"  # names the file of settings; Ray's workers inherit it
DEADLINE = 60.0  # seconds of a round; on a busy machine Ray starts its workers slowly
OBJECT_STORE = 100_000_000  # bytes


def name_of(context: Context) -> str:
    """The stable name of a node."""
    return f"device-{context.node_config['partition-id']}"


def diary() -> Diary:
    """Where the nodes of this federation note what they were asked for."""
    return Diary(Settings.read(os.environ[SETTINGS]).diary)


class Client:
    """Answers the questions of selectors."""

    def __init__(self, received: Received) -> None:
        self._model = received.model["w"]
        self._device = name_of(received.context)

    def loss(self) -> float:
        """The loss of the model on the node."""
        return loss_of(self._model, self._device)


def client_app() -> ClientApp:
    """The app of all nodes."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        device = name_of(context)
        model = codec.to_arrays(message.content["arrays"])["w"]
        round_index = int(message.content["config"]["server-round"]) - 1
        moved = trained(model, device, round_index, diary())
        metrics: dict[str, Any] = {"num-examples": 1, "train_loss": loss_of(model, device)}
        content = RecordDict({"arrays": codec.to_record({"w": moved}), "metrics": MetricRecord(metrics)})
        return Message(content, reply_to=message)

    answer(app, Client, facts=lambda context: facts_of(name_of(context), diary()), name=name_of)
    return app


def server_app() -> ServerApp:
    """The app of the server, which goes on from its checkpoint."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        settings = Settings.read(os.environ[SETTINGS])
        strategy = SelectorStrategy(
            "fedgs",
            strategy=FedAvg(fraction_evaluate=0.0),
            wait_for=DEVICES,
            **options(settings),
        )
        strategy.start(grid, codec.to_record(first_model()), settings.rounds, timeout=DEADLINE)

    return app


def main() -> None:
    """Play the rounds that are left."""
    from flwr.simulation import run_simulation

    from campaign.operate import flower_server  # by this name, workers can import it, too

    os.environ[SETTINGS] = sys.argv[1]
    backend = {
        "client_resources": {"num_cpus": 1, "num_gpus": 0},
        "init_args": {"num_cpus": 2, "object_store_memory": OBJECT_STORE},
    }
    run_simulation(
        flower_server.server_app(), flower_server.client_app(), num_supernodes=DEVICES, backend_config=backend
    )


if __name__ == "__main__":
    main()
