"""Check 4: a server that is killed in the middle of a round and started again."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAdam
from tests.flower import apps, federation

from sortition.federation.server_checkpoint import RunFiles


def dying(save: Callable[[RunFiles], None]) -> Callable[[RunFiles], None]:
    """Saving that kills this process with kill -9 in the given round, after training and before the checkpoint."""

    def dies(files: RunFiles) -> None:
        if files.history and str(files.history[-1]["round"]) == os.environ.get("DIES_IN"):
            os.kill(os.getpid(), signal.SIGKILL)
        save(files)

    return dies


def server_app() -> ServerApp:
    """FedCor with Adam on the server; checkpoints to $CHECKPOINT and goes on from there."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        RunFiles.save = dying(RunFiles.save)
        told = apps.played(
            grid,
            federation.methods()["fedcor"],
            strategy=FedAdam(fraction_evaluate=0.0, eta=0.05, beta_1=0.9, beta_2=0.99),
            checkpoint=os.environ["CHECKPOINT"],
            resume=os.environ["CHECKPOINT"],
        )
        Path(os.environ["RESULT"]).write_text(json.dumps(told))

    return app


if __name__ == "__main__":
    from tests.flower import resumed

    apps.simulation(resumed.server_app(), apps.client_app())
