"""The ClientApp."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from pytorchexample.task import Net, load_data
from pytorchexample.task import test as test_fn
from pytorchexample.task import train as train_fn

app = ClientApp()


@app.train()
def train(msg: Message, context: Context):
    """Train the model on local data."""
    model = Net()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    node = context.node_config
    trainloader, _ = load_data(node["partition-id"], node["num-partitions"])
    epochs, lr = context.run_config["local-epochs"], msg.content["config"]["lr"]
    train_loss = train_fn(model, trainloader, epochs, lr, "cpu")
    metrics = {"train_loss": train_loss, "num-examples": len(trainloader.dataset)}
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord(metrics)})
    return Message(content=content, reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context):
    """Evaluate the model on local data."""
    model = Net()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    node = context.node_config
    _, valloader = load_data(node["partition-id"], node["num-partitions"])
    loss, accuracy = test_fn(model, valloader, "cpu")
    metrics = {"eval_loss": loss, "eval_acc": accuracy, "num-examples": len(valloader.dataset)}
    return Message(content=RecordDict({"metrics": MetricRecord(metrics)}), reply_to=msg)
