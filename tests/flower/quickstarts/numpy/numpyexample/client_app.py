"""The ClientApp."""

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(msg: Message, context: Context):
    """Move the model a little."""
    model = msg.content["arrays"].to_numpy_ndarrays()[0]
    model = model + np.random.default_rng(context.node_config["partition-id"]).normal(size=model.shape)
    content = RecordDict({"arrays": ArrayRecord([model]), "metrics": MetricRecord({"num-examples": 1})})
    return Message(content=content, reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context):
    """Say something of the model."""
    model = msg.content["arrays"].to_numpy_ndarrays()[0]
    metrics = MetricRecord({"mean": float(model.mean()), "num-examples": 1})
    return Message(content=RecordDict({"metrics": metrics}), reply_to=msg)
