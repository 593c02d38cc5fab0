"""python job.py [--rounds N] [--workspace FOLDER] [--export --export-dir FOLDER]: FedAvg on the digits of six sites."""

import argparse
from pathlib import Path

from model import Net
from nvflare.app_opt.pt.recipes.fedavg import FedAvgRecipe
from nvflare.recipe import SimEnv

HERE = Path(__file__).parent


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workspace", default="workspace")
    args = parser.parse_args()
    recipe = FedAvgRecipe(
        name="digits", model=Net(), min_clients=2, num_rounds=args.rounds, train_script=str(HERE / "client.py")
    )
    run = recipe.execute(SimEnv(num_clients=6, workspace_root=args.workspace, log_config="concise"))
    print("Result in", run.get_result())


if __name__ == "__main__":
    main()
