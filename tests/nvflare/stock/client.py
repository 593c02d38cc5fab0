"""The script of every site: a small network on its share of the digits."""

import numpy as np
import nvflare.client as flare
import torch
from model import Net
from sklearn.datasets import load_digits

SITES, BATCH, RATE = 6, 16, 0.1


def data_of(site):
    """Each site holds a few labels only: digits sorted by label and dealt in shards."""
    x, y = load_digits(return_X_y=True)
    shards = np.array_split(np.argsort(y, kind="stable"), 2 * SITES)
    number = int(site.split("-")[1]) - 1
    own = np.concatenate([shards[number], shards[number + SITES]])
    return torch.tensor(x[own] / 16, dtype=torch.float32), torch.tensor(y[own])


def train(model, x, y):
    """One epoch; the mean loss, and the number of steps."""
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=RATE), []
    for rows in torch.randperm(len(y)).split(BATCH):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return sum(losses) / len(losses), len(losses)


def main():
    flare.init()
    x, y = data_of(flare.get_site_name())
    model = Net()
    while flare.is_running():
        received = flare.receive()
        model.load_state_dict(received.params)
        with torch.inference_mode():
            accuracy = float((model(x).argmax(1) == y).float().mean())
        loss, steps = train(model, x, y)
        params = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
        metrics = {"accuracy": accuracy, "train_loss": loss, "lr": RATE, "steps": steps}
        flare.send(flare.FLModel(params=params, metrics=metrics, meta={"NUM_STEPS_CURRENT_ROUND": steps}))


if __name__ == "__main__":
    main()
