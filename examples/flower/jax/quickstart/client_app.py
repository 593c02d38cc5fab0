"""A JAX ClientApp with a class that answers for it: a loss and a gradient are all that selectors ask."""

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from quickstart.task import CLASSES, gradient, load_data, loss, train
from sortition.flower import answer

app = ClientApp()


def local(context: Context):
    """The data of this node."""
    return load_data(int(context.node_config["partition-id"]), int(context.node_config["num-partitions"]))


@app.train()
def train_model(message: Message, context: Context):
    """Train the received model on the local data."""
    x, y = local(context)
    config = message.content["config"]
    params = message.content["arrays"].to_numpy_ndarrays()
    epochs = context.run_config["local-epochs"]
    params, train_loss, steps = train(params, x, y, epochs, config["lr"], config["server-round"])
    metrics = MetricRecord({"train_loss": train_loss, "steps": steps, "num-examples": len(y)})
    arrays = ArrayRecord([np.asarray(part) for part in params])
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


class Answers:
    """What selectors may ask of this node and the model that it received."""

    def __init__(self, received):
        self.params = list(received.model.values())
        self.x, self.y = local(received.context)

    def loss(self):
        return float(loss(self.params, self.x, self.y))

    def gradient(self):
        return np.concatenate([np.ravel(part) for part in gradient(self.params, self.x, self.y)])


def facts(context: Context):
    """Facts of the data; only what the selector declares is sent."""
    _, y = local(context)
    return {"sizes": len(y), "label_counts": np.bincount(y, minlength=CLASSES)}


answer(app, Answers, facts=facts)  # the line that lets selectors ask
