"""What a signal may use of a client. The simulator and the Flower client implement it; selectors never see it."""

from __future__ import annotations

from typing import Protocol

from sortition.core.arrays import Array


class LocalResult(Protocol):
    """The result of one local training; computed on the client, never sent as such."""

    @property
    def update(self) -> Array:
        """Δ_k = w_k − w, all parameters flattened, shape (P,)."""
        ...

    @property
    def output_bias(self) -> Array:
        """The output layer's bias change, shape (C,); the row means of its weight change where it has no bias."""
        ...

    @property
    def output_weight(self) -> Array:
        """The output layer's weight change, shape (C, d)."""
        ...

    @property
    def loss(self) -> float:
        """Mean mini-batch loss along the local path."""
        ...

    @property
    def steps(self) -> int:
        """Local SGD steps made."""
        ...

    @property
    def learning_rate(self) -> float:
        """The rate they were made with."""
        ...

    @property
    def dispersion(self) -> float:
        """Standard deviation of the per-step stochastic gradients: sqrt(Σ_s‖g_s − ḡ‖² / (R − 1))."""
        ...

    def rms_loss(self, part: str) -> float:
        """Return the root mean square of single examples' losses, each under the model that its mini-batch met.

        ``part``: of ``all`` mini-batches, of those of the ``first`` epoch, or of the ``last`` one.
        """
        ...

    @property
    def duration(self) -> float:
        """Seconds from receiving the model to having answered."""
        ...

    def outputs(self, inputs: Array) -> Array:
        """Return the logits of the *locally trained* model, shape (len(inputs), C)."""
        ...


class LocalClient(Protocol):
    """One client in one round: the received model and the local data, behind what signals may ask of them."""

    @property
    def label_counts(self) -> Array:
        """Examples per label, shape (C,)."""
        ...

    def resources(self) -> Array:
        """Return the expected seconds (2,) of training in this round and of sending the model once; needs no model."""
        ...

    def loss(self) -> float:
        """Return F_k(w), the mean loss of the received model on the local data."""
        ...

    def batch_loss(self) -> float:
        """Return the mean loss of the received model on one mini-batch."""
        ...

    def accuracy(self) -> float:
        """Return the share of the local data whose label the received model gives."""
        ...

    def gradient(self) -> Array:
        """Return ∇F_k(w) of the received model on all local data, shape (P,)."""
        ...

    def train(self) -> LocalResult:
        """Return the result of this round's local training; asking twice trains once."""
        ...
