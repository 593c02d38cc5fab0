"""REFL's selection in loops: who is least likely to be there in the next window goes first, and rests afterwards."""

from __future__ import annotations


class REFL:
    def __init__(self, n, cooldown):
        self.cooldown = cooldown
        self.last = [None] * n
        self.history = []  # the sets of available clients, round by round; None for a round that nobody saw

    def probability(self, k):
        """(stays + 1) / (steps + 2) of the client's own history."""
        stays = steps = 0
        for before, after in zip(self.history, self.history[1:], strict=False):
            if before is not None and after is not None and k in before:
                steps += 1
                stays += k in after
        return (stays + 1) / (steps + 2)

    def ranks(self, available, t):
        """The eligible clients with their probabilities, least likely first."""
        self.history.append(set(available) if available else None)
        rested = [k for k in available if self.last[k] is None or t - self.last[k] > self.cooldown]
        return sorted((round(self.probability(k), 12), k) for k in rested)

    def chose(self, ids, t):
        for k in ids:
            self.last[k] = t
