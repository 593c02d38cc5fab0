"""python job.py [--method NAME] [--rounds N]: NVFlare's FedAvg recipe, with two of six sites chosen by a selector.

With ``--export --export-dir FOLDER`` it writes a job for ``nvflare simulator -n 6 FOLDER/digits`` or for POC mode.
"""

import argparse
from pathlib import Path

from model import Net
from nvflare.app_opt.pt.recipes.fedavg import FedAvgRecipe
from nvflare.recipe import SimEnv

from sortition.nvflare import select_clients

HERE = Path(__file__).parent


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workspace", default="workspace")
    parser.add_argument("--method", default="fedgs")
    args = parser.parse_args()
    recipe = FedAvgRecipe(
        name="digits", model=Net(), min_clients=2, num_rounds=args.rounds, train_script=str(HERE / "client.py")
    )
    select_clients(recipe, args.method, cohort=2, wait_for=6, checkpoint=str(Path(args.workspace, "run.npz").resolve()))
    run = recipe.execute(SimEnv(num_clients=6, workspace_root=args.workspace, log_config="concise"))
    print("Result in", run.get_result())


if __name__ == "__main__":
    main()
