"""The default selector in Flower's simulation: first all clients give label counts, then one does not."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from tests.flower import apps, federation
from tests.flower.processes import LONGEST

from sortition.flower import SelectorStrategy, answer, pytorch

ROUNDS, SHY = 2, 4  # the partition that keeps its label counts to itself when it is asked a second time


def client_app() -> ClientApp:
    """The federation's ClientApp."""
    app, maker = ClientApp(), pytorch(apps.load_data, federation.RULE, seed=federation.SEED)

    def facts(context: Context) -> Mapping[str, Any]:
        held, before = maker.facts(context), "enrolled" in context.state
        context.state["enrolled"] = ConfigRecord({"before": before})
        shy = before and context.node_config["partition-id"] == SHY
        return {"sizes": held["sizes"]} if shy else held

    answer(app, maker, facts=facts)
    return app


def server_app() -> ServerApp:
    """Plays twice with the default selector, and writes what it was resolved to, to $RESULT."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        found = {}
        for name in ("labels", "sketches"):
            path = Path(os.environ["RESULT"]).with_name(f"{name}.npz")
            run = SelectorStrategy(
                cohort=3, strategy=apps.quiet(), checkpoint=path, answer_timeout=LONGEST, profile_timeout=LONGEST
            )
            run.start(grid, ArrayRecord(federation.model().state_dict()), ROUNDS)
            selector: Any = run.registrar and run.registrar.selector
            found[name] = {"by": selector.by, "reads": list(selector.needs.reads), "history": run.history}
            found[name]["reports"] = [signal.name for signal in selector.needs.reports]
        Path(os.environ["RESULT"]).write_text(json.dumps(found))

    return app


if __name__ == "__main__":
    from tests.flower import automatic

    apps.simulation(automatic.server_app(), automatic.client_app())
