"""Two small federations, in numpy alone.

:class:`ScriptedWorld` answers every signal from a script that depends on (signal, round, client) only: no float of a
training engine enters, and a million clients answer at once. :class:`QuadraticWorld` really trains: client k minimises
½‖w − c_k‖², so losses, gradients and updates mean something and can be computed by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sortition.core import LOSS, Cohort, Measure, Population, Reading, Signal, stream
from sortition.core.arrays import Array, Floats, Ids

LABELS = 10


class ScriptedWorld:
    """N clients of four kinds, whose answers are read from a script.

    Args:
        n_clients: N.
        seed: of the script.
        same: all clients give the same answers and have the same facts, so that everything ties.
        width: how many numbers a vector has whose signal does not say.
    """

    def __init__(self, n_clients: int = 40, *, seed: int = 0, same: bool = False, width: int = LABELS) -> None:
        self.n_clients, self.seed, self.same, self.width = n_clients, seed, same, width
        rng = stream(seed, "scripted facts")
        sizes = np.floor(rng.lognormal(4.0, 0.8, n_clients)).astype(np.int64) + 5
        counts = rng.integers(0, 5, (n_clients, LABELS))
        counts[np.arange(n_clients), np.arange(n_clients) % LABELS] += 30
        if same:
            sizes[:], counts[:] = sizes[0], counts[0]
        self.population = Population(
            sizes,
            counts,
            features=np.round(counts / counts.sum(axis=1, keepdims=True), 6),
            groups=np.arange(n_clients) % 5,
        )

    def rows(self, signal: Signal, ids: Ids, t: int) -> Array:
        """The script's lines: rounded, so that they are the same on every machine."""
        if signal.of == "pairs":
            features = np.asarray(self.population.label_counts, np.float64)[ids]
            return features @ features.T
        rng, width = stream(self.seed, f"script {signal.name}", t), signal.length(None) or self.width
        if self.same:
            return np.full(ids.size, 1.5) if signal.scalar else np.full((ids.size, width), 0.5)
        if signal.scalar:
            return np.round(rng.random(self.n_clients)[ids] * 2 + 0.1 + (ids % 4) * 0.2, 6)
        centres = stream(self.seed, "script centres").normal(size=(4, width))
        noise = rng.random((self.n_clients, width))[ids] - 0.5
        rows = np.round(centres[ids % 4] + 0.2 * noise, 6)
        return np.abs(rows) if signal.nonnegative else rows

    def measure(self, question: Measure, t: int) -> Reading:
        """The answer to a question; a rehearsal shifts the round that is read."""
        return Reading(
            question.ids, self.rows(question.signal, question.ids, t + (question.after is not None) * 100_003)
        )

    def train(self, cohort: Cohort, signals: tuple[Signal, ...], t: int) -> dict[str, Reading]:
        """What the cohort reports."""
        return {signal.name: Reading(cohort.ids, self.rows(signal, cohort.ids, t)) for signal in signals}


@dataclass
class QuadraticResult:
    """One client's training on ½‖w − c‖²."""

    update: Floats
    loss: float
    path: list[float]  # the losses of the steps
    steps: int
    learning_rate: float
    dispersion: float
    duration: float
    model: Floats
    classes: int

    def rms_loss(self, part: str) -> float:
        """Of all steps, or of the first or last one: a step sees one example."""
        losses = {"all": self.path, "first": self.path[:1], "last": self.path[-1:]}[part]
        return float(np.sqrt(np.mean(np.square(losses))))

    @property
    def output_bias(self) -> Array:
        """The last C parameters."""
        return self.update[-self.classes :]

    @property
    def output_weight(self) -> Array:
        """The others, a row a class."""
        return self.update[: -self.classes].reshape(self.classes, -1)

    def outputs(self, inputs: Array) -> Array:
        """Linear in the inputs' leading coordinates."""
        weight = self.model[: -self.classes].reshape(self.classes, -1)
        flat = np.asarray(inputs, np.float64).reshape(len(inputs), -1)[:, : weight.shape[1]]
        return np.asarray(flat @ weight[:, : flat.shape[1]].T + self.model[-self.classes :])


class QuadraticClient:
    """The LocalClient of client k at the model w."""

    def __init__(self, world: QuadraticWorld, w: Floats, k: int, t: int) -> None:
        self._world, self._w, self._k, self._t = world, w, k, t
        self._result: QuadraticResult | None = None

    @property
    def label_counts(self) -> Array:
        """Examples per label."""
        return np.asarray(self._world.population.label_counts[self._k])

    def resources(self) -> Array:
        """Its duration, of which a tenth is sending."""
        return np.asarray(np.array([0.9, 0.1]) * self._world.durations[self._k])

    def loss(self) -> float:
        """½‖w − c_k‖²."""
        return float(0.5 * np.sum((self._w - self._world.centres[self._k]) ** 2))

    def batch_loss(self) -> float:
        """The loss with a client's own noise."""
        return self.loss() * (0.9 + 0.2 * stream(self._world.seed, "batch loss", self._t, self._k).random())

    def accuracy(self) -> float:
        """1 at the optimum, falling with the loss."""
        return 1.0 / (1.0 + self.loss())

    def gradient(self) -> Array:
        """∇F_k(w) = w − c_k."""
        return np.asarray(self._w - self._world.centres[self._k])

    def train(self) -> QuadraticResult:
        """``steps`` gradient steps with noise, once."""
        if self._result is None:
            world, model, losses, gradients = self._world, self._w.copy(), [], []
            rng = stream(world.seed, "local noise", self._t, self._k)
            for _ in range(world.steps):
                offset = model - world.centres[self._k]
                losses.append(0.5 * float(offset @ offset))
                gradients.append(offset + world.noise * rng.standard_normal(offset.size))
                model = model - world.rate * gradients[-1]
            spread = np.asarray(gradients) - np.mean(gradients, axis=0)
            self._result = QuadraticResult(
                model - self._w,
                float(np.mean(losses)),
                losses,
                world.steps,
                world.rate,
                float(np.sqrt(np.sum(spread**2) / max(world.steps - 1, 1))),
                float(world.durations[self._k]),
                model,
                world.classes,
            )
        return self._result


class QuadraticModels:
    """The models of parts of a cohort, valued by the mean loss of all clients."""

    def __init__(self, world: QuadraticWorld, cohort: Cohort, t: int) -> None:
        self.ids, self.rng = cohort.ids, stream(world.seed, "server signals", t)
        self._world, self._cohort, self._t = world, cohort, t

    def loss(self, members: Sequence[int]) -> float:
        """Mean of ½‖w − c_k‖² over all clients, at the model of these members."""
        weights = self._cohort.weights_of(np.asarray(members, np.int64))[0]
        model = self._world.step(Cohort(np.asarray(members, np.int64), weights), self._t)
        return float(0.5 * np.mean(np.sum((model - self._world.centres) ** 2, axis=1)))


class QuadraticWorld:
    """N clients, each with its own optimum c_k; clients of one kind (k mod kinds) lie close together."""

    classes, rate, steps = 3, 0.1, 3

    def __init__(
        self, n_clients: int = 12, *, kinds: int = 3, spread: float = 0.1, noise: float = 0.0, seed: int = 0
    ) -> None:
        self.n_clients, self.seed, self.noise = n_clients, seed, noise
        rng = stream(seed, "quadratic world")
        self.kinds = np.arange(n_clients) % kinds
        heart = rng.normal(size=(kinds, 4 * self.classes)) * 3
        self.centres = heart[self.kinds] + spread * rng.normal(size=(n_clients, 4 * self.classes))
        self.durations = rng.lognormal(0.0, 0.5, n_clients)
        counts = np.zeros((n_clients, kinds), np.int64)
        counts[np.arange(n_clients), self.kinds] = rng.integers(20, 60, n_clients)
        self.population = Population(counts.sum(axis=1), counts, features=self.centres, groups=self.kinds)
        self.model = np.zeros(self.centres.shape[1])

    def clients(self, ids: Ids, t: int, model: Floats | None = None) -> list[QuadraticClient]:
        """These clients, having received the model."""
        return [QuadraticClient(self, self.model if model is None else model, int(k), t) for k in ids]

    def step(self, cohort: Cohort, t: int, model: Floats | None = None) -> Floats:
        """The next model: w + Σ weights_k Δ_k."""
        start = self.model if model is None else model
        updates = [client.train().update for client in self.clients(cohort.ids, t, start)]
        return start + cohort.weights @ np.stack(updates) if updates else start

    def measure(self, question: Measure, t: int) -> Reading:
        """The answer, under a rehearsed model where asked so."""
        model = self.model if question.after is None else self.step(question.after, t)
        return Reading(question.ids, question.signal.table(self.clients(question.ids, t, model)))

    def train(self, cohort: Cohort, signals: tuple[Signal, ...], t: int) -> dict[str, Reading]:
        """Reports of the cohort; then the model moves on."""
        clients = self.clients(cohort.ids, t)
        models = QuadraticModels(self, cohort, t)
        rows = {s.name: s.of_cohort(models) if s.of == "server" else s.table(clients) for s in signals if clients}
        reports = {name: Reading(cohort.ids, values) for name, values in rows.items()}
        self.model = self.step(cohort, t)
        return reports

    def losses(self) -> Floats:
        """F_k(w) of everybody."""
        everybody = np.arange(self.n_clients)
        return np.asarray(self.measure(Measure(LOSS, everybody), 0).values)
