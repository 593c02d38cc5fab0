"""Oort's training selector with loops and the paper's symbols; draws are given from outside."""

from __future__ import annotations

import math


def quantile(values, q):
    """Linear between order statistics."""
    ordered = sorted(values)
    at = q * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


class Oort:
    def __init__(self, B, settings):
        self.B, self.s = B, settings
        self.E = set()  # explored
        self.U, self.L, self.D = {}, {}, {}
        self.picks = [0] * len(B)
        self.R, self.T_steps, self.achieved = 0, 0, []

    def T(self, K):
        if not self.D:
            return math.inf
        if self.s["delta"] is not None:
            T = self.s["delta"]
            for _ in range(self.T_steps):
                T += self.s["delta"]
            return T
        fastest = sorted(self.D.values())
        covered = self.s["W"] * K
        for _ in range(self.T_steps):
            covered += self.s["W"] * K
        return fastest[min(covered, len(fastest)) - 1]

    def blacklist(self):
        if self.s["most"] is None:
            return set()
        often = [i for i in range(len(self.B)) if self.picks[i] > self.s["most"]]
        often.sort(key=lambda i: (-self.picks[i], i))
        return set(often[: int(0.3 * len(self.B))])

    def utilities(self, candidates, K):
        """Util(i) of explored candidates."""
        if not candidates:
            return {}
        cap = quantile([self.U[i] for i in candidates], self.s["clip"])
        clipped = {i: min(self.U[i], cap) for i in candidates}
        low, high = 0.999 * min(clipped.values()), max(clipped.values())
        util = {}
        for i in candidates:
            u = (clipped[i] - low) / max(high - low, 1e-4) if self.s["normalise"] else clipped[i]
            u += math.sqrt(0.1 * math.log(self.R) / max(self.L[i], 1))  # temporal uncertainty
            if i in self.D and self.D[i] > self.T(K):
                u *= (self.T(K) / self.D[i]) ** self.s["alpha"]  # global system utility
            if self.s["f"]:
                most = max(*self.picks, 1)
                u = (1 - self.s["f"]) * u + self.s["f"] * (most - self.picks[i]) / most
            util[i] = u
        return util

    def select(self, A, K, draw):
        """The participants; ``draw(ids, weights, k)`` draws without replacement."""
        self.R += 1
        K = min(K, len(A))
        blocked = self.blacklist()
        explored = [i for i in A if i in self.E and i not in blocked]
        new = [i for i in A if i not in self.E]
        epsilon = self.s["epsilon"]
        for _ in range(self.R - 1):
            if epsilon > self.s["least"]:
                epsilon = max(epsilon * self.s["decay"], self.s["least"])
        explore = min(math.floor(epsilon * K + 0.5), len(new))
        exploit = min(K - explore, len(explored))
        util = self.utilities(explored, K=self.K)
        chosen = []
        self.pool = []
        if exploit:
            ranked = sorted(util.values(), reverse=True)
            cut = self.s["c"] * ranked[exploit - 1]
            self.pool = [i for i in explored if util[i] >= cut * (1 - 1e-9)]
            chosen = draw(self.pool, [util[i] for i in self.pool], exploit)
        participants = list(chosen) + list(draw(new, [1.0] * len(new), min(K - exploit, len(new))))
        removed = sorted((i for i in A if i in self.E and i in blocked), key=lambda i: (self.picks[i], i))
        while len(participants) < K and removed:
            participants.append(removed.pop(0))
        return participants

    def feedback(self, cohort, done, rms, durations):
        for i in cohort:
            self.picks[i] += 1
        total = 0.0
        for i in done:
            self.E.add(i)
            self.U[i] = self.B[i] * rms[i]
            self.L[i], self.D[i] = self.R, durations[i]
            total += self.U[i]
        for i in cohort:
            if i not in self.E:  # picked, and has never answered
                self.E.add(i)
                self.U[i] = 0.0
                self.L[i] = self.R
                if done:  # slower than the slowest
                    self.D[i] = max(durations[j] for j in done)
        self.achieved.append(total)
        W, past = self.s["W"], self.achieved
        if len(past) >= 2 * W and sum(past[-2 * W : -W]) > sum(past[-W:]) * (1 + 1e-9):
            self.T_steps += 1
