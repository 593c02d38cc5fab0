"""FedAU as its paper says it, with loops: one client's intervals, and the step of the model."""

from __future__ import annotations


class Client:
    def __init__(self, K: int) -> None:
        self.K, self.M, self.S, self.omega = K, 0, 0, 1.0

    def after(self, took_part: bool) -> None:
        """The end of a round."""
        self.S += 1
        if took_part or self.S == self.K:
            self.omega = self.S if self.M == 0 else (self.M * self.omega + self.S) / (self.M + 1)
            self.M += 1
            self.S = 0


def weights(clients: list[Client], S: list[int]) -> list[float]:
    """The factors of Δ_n, n ∈ S: ω_n / N."""
    return [clients[n].omega / len(clients) for n in S]
