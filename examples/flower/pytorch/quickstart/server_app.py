"""A stock ServerApp with another strategy."""

import json
from pathlib import Path

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from quickstart.task import Net
from sortition.flower import SelectorStrategy
from sortition.selectors import load

app = ServerApp()


def remember(path: str):
    """Append each round's record to a file, if one is given."""

    def write(record: dict) -> None:
        if path:
            with Path(path).open("a") as file:
                file.write(json.dumps(record) + "\n")

    return write


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for some rounds."""
    config = context.run_config
    with torch.random.fork_rng():
        torch.manual_seed(int(config["seed"]))
        model = Net()
    strategy = SelectorStrategy(  # the line that was FedAvg(fraction_train=0.5)
        load(config["method"], **json.loads(config["parameters"])),
        cohort=config["cohort"],
        seed=config["seed"],
        pace=json.loads(config["pace"]),
        strategy=FedAvg(fraction_evaluate=0.0),  # its server step, and evaluation by clients
        wait_for=config["wait-for"],
        answer_timeout=config["answer-timeout"],
        checkpoint=config["checkpoint"] or None,
        resume=config["checkpoint"] or None,
        on_round=remember(config["history"]),
    )
    strategy.start(
        grid,
        ArrayRecord(model.state_dict()),
        num_rounds=config["num-server-rounds"],
        timeout=config["timeout"],
        train_config=ConfigRecord({"lr": config["lr"]}),
    )
