"""A transformers ClientApp with LoRA adapters, and one more line, the last."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from quickstart.task import MODULES, build, load_data, train, travelling
from sortition.flower import answer, pytorch

app = ClientApp()


def local(context: Context):
    """The model and the data of this node."""
    return build(), *load_data(int(context.node_config["partition-id"]), int(context.node_config["num-partitions"]))


@app.train()
def train_model(message: Message, context: Context):
    """Train the received adapters on the local data."""
    model, inputs, labels = local(context)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict(), strict=False)
    config = message.content["config"]
    epochs = context.run_config["local-epochs"]
    loss, steps = train(model, inputs, labels, epochs, config["lr"], config["server-round"])
    metrics = MetricRecord({"train_loss": loss, "steps": steps, "num-examples": len(labels)})
    return Message(RecordDict({"arrays": ArrayRecord(travelling(model)), "metrics": metrics}), reply_to=message)


answer(app, pytorch(local, classes=len(MODULES)))  # the line that lets selectors ask
