"""A ServerApp whose clients are chosen by a selector."""

import json
from pathlib import Path

from flwr.app import Array, ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from quickstart.task import initial
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
    strategy = SelectorStrategy(
        load(config["method"], **json.loads(config["parameters"])),
        cohort=config["cohort"],
        seed=config["seed"],
        strategy=FedAvg(fraction_evaluate=0.0),  # its server step, and evaluation by clients
        wait_for=config["wait-for"],
        answer_timeout=config["answer-timeout"],
        checkpoint=config["checkpoint"] or None,
        resume=config["checkpoint"] or None,
        on_round=remember(config["history"]),
    )
    strategy.start(
        grid,
        ArrayRecord({name: Array(value) for name, value in initial().items()}),
        num_rounds=config["num-server-rounds"],
        timeout=config["timeout"],
    )
