"""A stock ServerApp with another strategy."""

from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from quickstart.task import initial
from sortition.flower import SelectorStrategy
from sortition.selectors import load

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for some rounds."""
    config = context.run_config
    strategy = SelectorStrategy(
        load(config["method"]),
        cohort=config["cohort"],
        strategy=FedAvg(fraction_evaluate=0.0),
        checkpoint=config["checkpoint"] or None,
    )
    strategy.start(
        grid,
        ArrayRecord(initial()),
        num_rounds=config["num-server-rounds"],
        train_config=ConfigRecord({"lr": config["lr"]}),
    )
