"""The ServerApp."""

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from numpyexample.task import get_dummy_model

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for some rounds."""
    config = context.run_config
    strategy = FedAvg(fraction_train=config["fraction-train"])
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord([get_dummy_model()]),
        num_rounds=config["num-server-rounds"],
    )
