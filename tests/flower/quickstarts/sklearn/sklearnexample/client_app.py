"""The ClientApp."""

import warnings

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from sklearn.metrics import log_loss

from sklearnexample.task import create_model, get_model_params, load_data, set_model_params

app = ClientApp()


@app.train()
def train(msg: Message, context: Context):
    """Train the model on local data."""
    model = create_model(context.run_config["local-epochs"])
    set_model_params(model, msg.content["arrays"].to_numpy_ndarrays())
    x, _, y, _ = load_data(context.node_config["partition-id"], context.node_config["num-partitions"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(x, y)
    loss = log_loss(y, model.predict_proba(x), labels=model.classes_)
    arrays = ArrayRecord(get_model_params(model))
    metrics = MetricRecord({"num-examples": len(x), "train_logloss": loss})
    return Message(content=RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context):
    """Evaluate the model on local data."""
    model = create_model(context.run_config["local-epochs"])
    set_model_params(model, msg.content["arrays"].to_numpy_ndarrays())
    _, x, _, y = load_data(context.node_config["partition-id"], context.node_config["num-partitions"])
    metrics = MetricRecord({"num-examples": len(x), "test_accuracy": float(model.score(x, y))})
    return Message(content=RecordDict({"metrics": metrics}), reply_to=msg)
