"""Model, data and training: a convolutional network on small images."""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader


class Net(nn.Module):
    """Two convolutions and two linear layers; images are flattened with view."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(4, 8, 2)
        self.fc1 = nn.Linear(8 * 2 * 2, 16)
        self.fc2 = nn.Linear(16, 10)

    def forward(self, x):
        x = self.pool(functional.relu(self.conv1(x)))
        x = functional.relu(self.conv2(x))
        x = x.view(-1, 8 * 2 * 2)
        return self.fc2(functional.relu(self.fc1(x)))


class Images:
    """A data set whose items are dicts."""

    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, row):
        return {"img": self.images[row], "label": self.labels[row]}


def load_data(partition_id, num_partitions):
    """Train and test loaders of one partition: images of a few labels each."""
    digits = load_digits()
    order = np.argsort(digits.target, kind="stable")
    own = np.concatenate(np.array_split(order, 2 * num_partitions)[partition_id::num_partitions])[::5]
    images = torch.tensor(digits.images[own] / 16, dtype=torch.float32)[:, None]
    labels = torch.tensor(digits.target[own])
    cut = len(own) * 4 // 5
    mixed = torch.randperm(len(own), generator=torch.Generator().manual_seed(42))
    first, second = mixed[:cut], mixed[cut:]
    train = DataLoader(Images(images[first], labels[first]), batch_size=16, shuffle=True)
    return train, DataLoader(Images(images[second], labels[second]), batch_size=16)


def train(net, trainloader, epochs, lr, device):
    """Train the model, and give the mean loss."""
    net.to(device).train()
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    running = 0.0
    for _ in range(epochs):
        for batch in trainloader:
            optimizer.zero_grad()
            loss = functional.cross_entropy(net(batch["img"].to(device)), batch["label"].to(device))
            loss.backward()
            optimizer.step()
            running += loss.item()
    return running / (epochs * len(trainloader))


def test(net, testloader, device):
    """Loss and accuracy."""
    net.to(device).eval()
    correct, loss = 0, 0.0
    with torch.no_grad():
        for batch in testloader:
            outputs, labels = net(batch["img"].to(device)), batch["label"].to(device)
            loss += functional.cross_entropy(outputs, labels).item()
            correct += (outputs.argmax(1) == labels).sum().item()
    return loss / len(testloader), correct / len(testloader.dataset)
