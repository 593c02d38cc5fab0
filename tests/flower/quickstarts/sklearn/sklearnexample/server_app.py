"""The ServerApp."""

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from sklearnexample.task import create_model, get_model_params

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for some rounds."""
    config = context.run_config
    model = create_model(config["local-epochs"])
    strategy = FedAvg(fraction_train=config["fraction-train"])
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(get_model_params(model)),
        num_rounds=config["num-server-rounds"],
    )
