"""Real ClientApps behind a grid without processes, and stock apps to which the two lines are added."""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from tests.flower.loopback import Loopback

STOCK = Path(__file__).parent / "quickstarts"
NODES = 6
RUN = {"local-epochs": 1, "learning-rate": 0.1, "num-server-rounds": 2, "fraction-train": 0.5}

TWO_LINES = {  # what a user adds to a client app, and the line of the server app that changes
    "pytorch": """
answer(app, pytorch(lambda c: (Net(), load_data(c.node_config["partition-id"], c.node_config["num-partitions"])[0])))
""",
    "sklearn": """
def local(c):
    x, _, y, _ = load_data(c.node_config["partition-id"], c.node_config["num-partitions"])
    return create_model(1), x, y


answer(app, scikit_learn(local, set_model_params))
""",
    "numpy": """
class Client:
    batches = 1  # of an epoch, for methods that ask for the number of steps

    def __init__(self, received):
        (self.model,) = received.model.values()
        self.goal = np.random.default_rng(received.context.node_config["partition-id"]).normal(size=self.model.shape)

    def loss(self):
        return float(((self.model - self.goal) ** 2).mean())

    def gradient(self):
        return (2 * (self.model - self.goal) / self.model.size).ravel()


def facts(context):
    return {"sizes": 1, "label_counts": np.eye(3)[context.node_config["partition-id"] % 3]}


answer(app, Client, facts=facts)
""",
}
SERVER_LINE = 'strategy = FedAvg(fraction_train=config["fraction-train"])'


def with_two_lines(name: str, folder: Path, server: str = "") -> Path:
    """A copy of a stock app in which a selector may ask, and, where given, another line makes the strategy."""
    made = folder / name
    shutil.copytree(STOCK / name, made, ignore=shutil.ignore_patterns("__pycache__"))
    client = made / f"{name}example" / "client_app.py"
    asks = "from sortition.flower import answer, pytorch, scikit_learn\n"
    client.write_text(client.read_text().replace("\napp = ClientApp()", f"{asks}\napp = ClientApp()") + TWO_LINES[name])
    if server:
        text = (made / f"{name}example" / "server_app.py").read_text()
        assert SERVER_LINE in text
        imports = "from sortition.flower import SelectorStrategy\nfrom sortition.selectors import load\n"
        text = text.replace(SERVER_LINE, f"strategy = {server}").replace("\napp = ", f"{imports}\napp = ")
        (made / f"{name}example" / "server_app.py").write_text(text)
    return made


def client_app(name: str, folder: Path) -> ClientApp:
    """The client app of a stock app with the two lines, imported."""
    made = with_two_lines(name, folder)
    for module in [module for module in sys.modules if module.partition(".")[0] == f"{name}example"]:
        del sys.modules[module]
    sys.path.insert(0, str(made))
    try:
        importlib.invalidate_caches()
        return importlib.import_module(f"{name}example.client_app").app
    finally:
        sys.path.remove(str(made))


def app_node(app: ClientApp, partition: int, nodes: int = NODES, run: dict[str, Any] | None = None) -> Any:
    """A node of a loopback grid that runs an app."""
    about = {"partition-id": partition, "num-partitions": nodes}
    context = Context(run_id=1, node_id=partition, node_config=about, state=RecordDict(), run_config=run or RUN)

    def answer(message: Message) -> RecordDict:
        before, kind = message.content, message.metadata.message_type
        message.content = RecordDict(dict(before))  # a node has records of its own
        try:
            reply = app(message, context)
        except Exception as error:
            raise RuntimeError(f"{type(error).__name__}: {error}") from error
        finally:
            message.content = before
        assert message.metadata.message_type == kind
        if reply.has_error():
            raise RuntimeError(reply.error.reason)
        return reply.content

    return answer


def grid_of(app: ClientApp, nodes: int = NODES) -> Loopback:
    """A grid whose nodes all run one app."""
    return Loopback({100 + k: app_node(app, k, nodes) for k in range(nodes)})
