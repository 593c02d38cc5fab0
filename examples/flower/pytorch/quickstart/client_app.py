"""A stock ClientApp with one more line, the last."""

import time

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from quickstart.task import Net, evaluate, load_data, train
from sortition.flower import answer, pytorch

app = ClientApp()


def local(context: Context):
    """The model and the data of this node."""
    return Net(), *load_data(int(context.node_config["partition-id"]), int(context.node_config["num-partitions"]))


def wait_as_slow_nodes_do(context: Context):
    """Take the seconds of a training on this node: the first nodes may be slow."""
    seconds = float(context.run_config["seconds"])
    if int(context.node_config["partition-id"]) < int(context.run_config["slow-nodes"]):
        seconds = 10 * seconds
    time.sleep(seconds)


@app.train()
def train_model(message: Message, context: Context):
    """Train the received model on the local data."""
    model, x, y = local(context)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    config = message.content["config"]
    loss, steps = train(model, x, y, context.run_config["local-epochs"], config["lr"], config["server-round"])
    wait_as_slow_nodes_do(context)
    metrics = MetricRecord({"train_loss": loss, "steps": steps, "num-examples": len(y)})
    return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate_model(message: Message, context: Context):
    """Evaluate the received model on the local data."""
    model, x, y = local(context)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    loss, accuracy = evaluate(model, x, y)
    metrics = MetricRecord({"loss": loss, "accuracy": accuracy, "num-examples": len(y)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)


answer(app, pytorch(local))  # the line that lets selectors ask
