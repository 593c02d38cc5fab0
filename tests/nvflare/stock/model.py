"""The model."""

import torch


class Net(torch.nn.Module):
    """One hidden layer on the pixels of a digit."""

    def __init__(self):
        super().__init__()
        self.hidden = torch.nn.Linear(64, 32)
        self.output = torch.nn.Linear(32, 10)

    def forward(self, x):
        """Logits (n, 10)."""
        return self.output(torch.relu(self.hidden(x)))
