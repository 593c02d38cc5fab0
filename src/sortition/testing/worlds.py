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
KINDS = 4  # of clients in the scripted world
REHEARSED = 100_003  # rounds by which the script of a rehearsal is ahead


class ScriptedWorld:
    """N clients of four kinds, whose answers are read from a script.

    Args:
        n_clients: N.
        seed: of the script.
        same: all clients give the same answers and have the same facts, so that everything ties.
        width: how many numbers a vector has whose signal does not say.
    """

    def __init__(self, n_clients: int = 40, *, seed: int = 0, same: bool = False, width: int = LABELS) -> None:
        self.n_clients = n_clients
        self.seed = seed
        self.same = same
        self.width = width
        rng = stream(seed, "scripted facts")
        sizes = np.floor(rng.lognormal(4.0, 0.8, n_clients)).astype(np.int64) + 5
        counts = rng.integers(0, 5, (n_clients, LABELS))
        counts[np.arange(n_clients), np.arange(n_clients) % LABELS] += 30
        if same:
            sizes[:] = sizes[0]
            counts[:] = counts[0]
        self.population = Population(
            sizes,
            counts,
            features=np.round(counts / counts.sum(axis=1, keepdims=True), 6),
            groups=np.arange(n_clients) % 5,
        )

    def rows(self, signal: Signal, ids: Ids, t: int) -> Array:
        """Return the script's lines, rounded so that they are the same on every machine."""
        if signal.of == "pairs":
            features = np.asarray(self.population.label_counts, np.float64)[ids]
            return features @ features.T
        rng = stream(self.seed, f"script {signal.name}", t)
        kind = ids % KINDS
        if signal.scalar:
            if self.same:
                return np.full(ids.size, 1.5)
            return np.round(rng.random(self.n_clients)[ids] * 2 + 0.1 + kind * 0.2, 6)
        width = signal.dimension(None) or self.width
        if self.same:
            return np.full((ids.size, width), 0.5)
        centres = stream(self.seed, "script centres").normal(size=(KINDS, width))
        noise = rng.random((self.n_clients, width))[ids] - 0.5
        rows = np.round(centres[kind] + 0.2 * noise, 6)
        if signal.nonnegative:
            return np.abs(rows)
        return rows

    def measure(self, question: Measure, t: int) -> Reading:
        """Answer a question; a rehearsal is answered from a later round of the script."""
        if question.after is not None:
            t += REHEARSED
        return Reading(question.ids, self.rows(question.signal, question.ids, t))

    def train(self, cohort: Cohort, signals: tuple[Signal, ...], t: int) -> dict[str, Reading]:
        """Return what the cohort reports."""
        return {signal.name: Reading(cohort.ids, self.rows(signal, cohort.ids, t)) for signal in signals}


@dataclass
class QuadraticResult:
    """One client's training on ½‖w − c‖².

    Attributes:
        update: Δ_k (P,).
        loss: mean loss of the steps.
        path: the losses of the steps.
        steps: how many steps were made.
        learning_rate: the rate they were made with.
        dispersion: standard deviation of the steps' gradients.
        duration: seconds that it took.
        model: the trained model (P,).
        classes: C, rows of the output layer.
    """

    update: Floats
    loss: float
    path: list[float]
    steps: int
    learning_rate: float
    dispersion: float
    duration: float
    model: Floats
    classes: int

    def rms_loss(self, part: str) -> float:
        """Return the root mean square of the losses of all steps, or of the first or last one."""
        losses = {"all": self.path, "first": self.path[:1], "last": self.path[-1:]}[part]
        return float(np.sqrt(np.mean(np.square(losses))))

    @property
    def output_bias(self) -> Array:
        """Return the last C parameters."""
        return self.update[-self.classes :]

    @property
    def output_weight(self) -> Array:
        """Return the parameters before the last C, a row a class."""
        return self.update[: -self.classes].reshape(self.classes, -1)

    def outputs(self, inputs: Array) -> Array:
        """Return logits that are linear in the inputs' leading coordinates."""
        weight = self.model[: -self.classes].reshape(self.classes, -1)
        flat = np.asarray(inputs, np.float64).reshape(len(inputs), -1)[:, : weight.shape[1]]
        return np.asarray(flat @ weight[:, : flat.shape[1]].T + self.model[-self.classes :])


class QuadraticClient:
    """The LocalClient of client k at the model w."""

    def __init__(self, world: QuadraticWorld, w: Floats, k: int, t: int) -> None:
        self._world = world
        self._w = w
        self._k = k
        self._t = t
        self._result: QuadraticResult | None = None

    @property
    def label_counts(self) -> Array:
        """Return the number of examples of each label."""
        return np.asarray(self._world.population.label_counts[self._k])

    def resources(self) -> Array:
        """Return its duration, of which a tenth is sending."""
        return np.asarray(np.array([0.9, 0.1]) * self._world.durations[self._k])

    def loss(self) -> float:
        """Return ½‖w − c_k‖²."""
        return float(0.5 * np.sum((self._w - self._world.centres[self._k]) ** 2))

    def batch_loss(self) -> float:
        """Return the loss with a client's own noise."""
        return self.loss() * (0.9 + 0.2 * stream(self._world.seed, "batch loss", self._t, self._k).random())

    def accuracy(self) -> float:
        """Return 1 at the optimum, and less the larger the loss."""
        return 1.0 / (1.0 + self.loss())

    def gradient(self) -> Array:
        """Return ∇F_k(w) = w − c_k."""
        return np.asarray(self._w - self._world.centres[self._k])

    def train(self) -> QuadraticResult:
        """Make ``steps`` gradient steps with noise, once."""
        if self._result is None:
            self._result = self._trained()
        return self._result

    def _trained(self) -> QuadraticResult:
        world = self._world
        rng = stream(world.seed, "local noise", self._t, self._k)
        model = self._w.copy()
        losses = []
        gradients = []
        for _ in range(world.steps):
            offset = model - world.centres[self._k]
            losses.append(0.5 * float(offset @ offset))
            gradient = offset + world.noise * rng.standard_normal(offset.size)
            gradients.append(gradient)
            model = model - world.rate * gradient
        deviations = np.asarray(gradients) - np.mean(gradients, axis=0)
        return QuadraticResult(
            update=model - self._w,
            loss=float(np.mean(losses)),
            path=losses,
            steps=world.steps,
            learning_rate=world.rate,
            dispersion=float(np.sqrt(np.sum(deviations**2) / max(world.steps - 1, 1))),
            duration=float(world.durations[self._k]),
            model=model,
            classes=world.classes,
        )


class QuadraticModels:
    """The models of parts of a cohort, valued by the mean loss of all clients."""

    def __init__(self, world: QuadraticWorld, cohort: Cohort, t: int) -> None:
        self.ids = cohort.ids
        self.rng = stream(world.seed, "server signals", t)
        self._world = world
        self._cohort = cohort
        self._t = t

    def loss(self, members: Sequence[int]) -> float:
        """Return the mean of ½‖w − c_k‖² over all clients, at the model of these members."""
        ids = np.asarray(members, np.int64)
        weights, *_ = self._cohort.weights_of(ids)
        model = self._world.step(Cohort(ids, weights), self._t)
        return float(0.5 * np.mean(np.sum((model - self._world.centres) ** 2, axis=1)))


class QuadraticWorld:
    """N clients, each with its own optimum c_k; clients of one kind (k mod kinds) lie close together.

    Args:
        n_clients: N.
        kinds: how many kinds there are.
        spread: standard deviation of the optima of one kind.
        noise: standard deviation of the gradients' noise.
        seed: of optima, durations and noise.
    """

    classes = 3
    rate = 0.1
    steps = 3

    def __init__(
        self, n_clients: int = 12, *, kinds: int = 3, spread: float = 0.1, noise: float = 0.0, seed: int = 0
    ) -> None:
        self.n_clients = n_clients
        self.seed = seed
        self.noise = noise
        rng = stream(seed, "quadratic world")
        self.kinds = np.arange(n_clients) % kinds
        size = 4 * self.classes
        kind_centres = rng.normal(size=(kinds, size)) * 3
        self.centres = kind_centres[self.kinds] + spread * rng.normal(size=(n_clients, size))
        self.durations = rng.lognormal(0.0, 0.5, n_clients)
        counts = np.zeros((n_clients, kinds), np.int64)
        counts[np.arange(n_clients), self.kinds] = rng.integers(20, 60, n_clients)
        self.population = Population(counts.sum(axis=1), counts, features=self.centres, groups=self.kinds)
        self.model = np.zeros(self.centres.shape[1])

    def clients(self, ids: Ids, t: int, model: Floats | None = None) -> list[QuadraticClient]:
        """Make these clients, having received the model (default: the current one)."""
        if model is None:
            model = self.model
        return [QuadraticClient(self, model, int(k), t) for k in ids]

    def step(self, cohort: Cohort, t: int, model: Floats | None = None) -> Floats:
        """Return the next model, w + Σ weights_k Δ_k."""
        if model is None:
            model = self.model
        updates = [client.train().update for client in self.clients(cohort.ids, t, model)]
        if not updates:
            return model
        return model + cohort.weights @ np.stack(updates)

    def measure(self, question: Measure, t: int) -> Reading:
        """Answer a question, under a rehearsed model where it asks for one."""
        model = self.model if question.after is None else self.step(question.after, t)
        return Reading(question.ids, question.signal.table(self.clients(question.ids, t, model)))

    def train(self, cohort: Cohort, signals: tuple[Signal, ...], t: int) -> dict[str, Reading]:
        """Return the reports of the cohort, and move the model on."""
        clients = self.clients(cohort.ids, t)
        models = QuadraticModels(self, cohort, t)
        reports = {}
        for signal in signals:
            if not clients:
                continue
            values = signal.of_cohort(models) if signal.of == "server" else signal.table(clients)
            reports[signal.name] = Reading(cohort.ids, values)
        self.model = self.step(cohort, t)
        return reports

    def losses(self) -> Floats:
        """Return F_k(w) of everybody (N,)."""
        everybody = np.arange(self.n_clients)
        return np.asarray(self.measure(Measure(LOSS, everybody), 0).values)
