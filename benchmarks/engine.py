"""The training engine against a plain PyTorch loop, side by side in one run; results stand in docs/engine.md.

    python benchmarks/engine.py            # everything, some minutes
    python benchmarks/engine.py --quick    # a look, less exact
    python benchmarks/engine.py --write    # the tables of docs/engine.md made anew; with --only those of one part

Both sides alternate. With one thread the CPU time of the process is taken, with several the time on the wall: so other
work on the machine disturbs least. Of most tables the fastest of the repetitions counts. Where engines are compared, a
ratio is taken within each repetition, and the median of these ratios counts.
"""

from __future__ import annotations

import argparse
import copy
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from sortition.core.errors import DataError
from sortition.data import Dataset, load
from sortition.learning import Learner, LocalRule, build
from sortition.selectors import load as selector
from sortition.simulation import Setup, Simulation, World, run, start

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "engine.md"
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def fastest(functions: list[Callable[[], object]], repeats: int) -> list[float]:
    """Milliseconds of the fastest call of each, taken in turn."""
    best, clock = [float("inf")] * len(functions), time.process_time
    if torch.get_num_threads() > 1:
        clock = time.perf_counter
    for _ in range(repeats + 1):
        for i, function in enumerate(functions):
            begun = clock()
            function()
            best[i] = min(best[i], 1e3 * (clock() - begun))
    return best


LINES: list[str] = []  # of the part that is measured


def say(line: str) -> None:
    """Print a line, and keep it for the page."""
    print(line, flush=True)
    LINES.append(line)


def table(title: str, header: list[str], rows: list[list[object]], *, level: str = "### ", end: str = "") -> None:
    say(f"\n{level}{title}{end}\n")
    say("| " + " | ".join(header) + " |")
    say("|" + "---|" * len(header))
    for row in rows:
        say("| " + " | ".join(milliseconds(cell) if isinstance(cell, float) else str(cell) for cell in row) + " |")


def milliseconds(value: float) -> str:
    """Three digits, and thousands apart."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def examples(n: int, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, *shape), dtype=np.float32), rng.integers(0, 10, n)


def plain_loop(model: nn.Module, x: np.ndarray, y: np.ndarray, members: list[np.ndarray], rule: LocalRule) -> Callable:
    """What most research code does: a model copy per client, ``optim.SGD``, tensors in memory."""
    data, labels, own = torch.from_numpy(x), torch.from_numpy(y), [torch.from_numpy(m) for m in members]

    def train() -> list[nn.Module]:
        trained = []
        for indices in own:
            net = copy.deepcopy(model).train()
            optimiser = torch.optim.SGD(net.parameters(), lr=rule.lr)
            done = 0
            while done < (rule.steps or 0):
                for batch in indices[torch.randperm(len(indices))].split(rule.batch):
                    if done == rule.steps:
                        break
                    optimiser.zero_grad()
                    nn.functional.cross_entropy(net(data[batch]), labels[batch]).backward()
                    optimiser.step()
                    done += 1
            trained.append(net)
        return trained

    return train


FMNIST = LocalRule(lr=0.005, steps=20, batch=64)
SYNTHETIC = LocalRule(lr=0.1, steps=10, batch=10)
CIFAR = LocalRule(lr=0.01, steps=40, batch=50)
CASES = {  # model, its options, input shape, examples, clients, cohort, local rule, goal
    "FedCor's FMNIST MLP, 5 × 20 × 64": ("mlp", {}, (784,), 60_000, 100, 5, FMNIST, 2.0),
    "the same with dropout 0.5": ("mlp", {"dropout": 0.5}, (784,), 60_000, 100, 5, FMNIST, 2.0),
    "softmax on Synthetic, 6 × 10 × 10": ("softmax", {}, (60,), 20_000, 30, 6, SYNTHETIC, 5.0),
    "FedCor's CIFAR CNN, 5 × 40 × 50": ("cnn", {}, (3, 32, 32), 10_000, 20, 5, CIFAR, 1.3),
}


def linear_flops(model: nn.Module, examples: int) -> float:
    """Multiply-adds × 2, forward and backward; the input layer needs no input gradient."""
    sizes = [m.weight.numel() for m in model.modules() if isinstance(m, nn.Linear)]
    return 2.0 * examples * (3 * sum(sizes) - sizes[0])


def training(quick: bool) -> None:
    for threads in sorted({1, CORES}):
        torch.set_num_threads(threads)
        square = torch.randn(1024, 1024)
        limit = 2 * 1024**3 / fastest([lambda s=square: s @ s], 20)[0] / 1e6
        rows: list[list[object]] = []
        for name, (kind, options, shape, n, clients, k, rule, goal) in CASES.items():
            x, y = examples(n, shape)
            members = np.array_split(np.random.default_rng(1).permutation(n), clients)[:k]
            model = build(kind, shape, 10, **options)
            own = Learner(model, x, y, rule)
            ours = lambda o=own, m=members, k=k: o.train(o.initial, m, np.arange(k), seed=0, t=0)  # noqa: E731
            repeats = 1 if kind == "cnn" else (10 if quick else 30)
            slow, fast = fastest([plain_loop(model, x, y, members, rule), ours], repeats)
            flops = linear_flops(model, k * (rule.steps or 0) * (rule.batch or 0))
            rate: object = flops / fast / 1e6 if kind != "cnn" else "–"
            rows.append([name, slow, fast, f"{slow / fast:.2f}×", f"≥ {goal}×", rate])
        title = f"One round of local training, {threads} thread{'s' * (threads > 1)} (GEMM limit {limit:.0f} GFLOP/s)"
        table(title, ["setting", "plain loop, ms", "Sortition, ms", "faster", "goal", "GFLOP/s"], rows)
    torch.set_num_threads(1)


class TokenAttention(nn.Module):
    """One block of attention over tokens, and a perceptron, each beside a short cut."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(TOKENS, width)
        self.positions = nn.Parameter(0.1 * torch.randn(length, width))
        self.norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)
        self.perceptron = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.tokens(x) + self.positions
        query, key, value = self.query_key_value(self.norm(h)).chunk(3, dim=-1)
        h = h + self.mix(nn.functional.scaled_dot_product_attention(query, key, value))
        h = h + self.perceptron(self.norm(h))
        return self.head(h.mean(1))


class BagOfTokens(nn.Module):
    """The mean of embeddings, and a perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(TOKENS, 16)
        self.perceptron = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.perceptron(self.tokens(x).mean(1))


class ResidualPerceptron(nn.Module):
    """Linear layers with a norm and a short cut, which no chain has."""

    def __init__(self, numbers: int, width: int = 32) -> None:
        super().__init__()
        self.first = nn.Linear(numbers, width)
        self.norm = nn.LayerNorm(width)
        self.body = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        return self.head(h + self.body(self.norm(h)))


class UnrolledLSTM(nn.Module):
    """The network of ``char-lstm`` written in operations that can be mapped over clients."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.width = hidden
        self.embedding = nn.Embedding(TOKENS, 8)
        self.from_input = nn.Linear(8, 4 * hidden)
        self.from_hidden = nn.Linear(hidden, 4 * hidden, bias=False)
        self.head = nn.Linear(hidden, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inputs = self.from_input(self.embedding(x))
        hidden = inputs.new_zeros(len(x), self.width)
        cell = inputs.new_zeros(len(x), self.width)
        for step_inputs in inputs.unbind(1):
            entry, forget, candidate, exit_ = (step_inputs + self.from_hidden(hidden)).chunk(4, dim=-1)
            cell = torch.sigmoid(forget) * cell + torch.sigmoid(entry) * torch.tanh(candidate)
            hidden = torch.sigmoid(exit_) * torch.tanh(cell)
        return self.head(hidden)


def two_convolutions(depth: int, size: int, *, norm: bool = False) -> nn.Module:
    """3 × 3 convolutions of 8 and 16 channels, each pooled, with group norm or without."""
    layers: list[nn.Module] = []
    for channels in (8, 16):
        layers.append(nn.Conv2d(depth, channels, 3, padding=1))
        if norm:
            layers.append(nn.GroupNorm(4, channels))
        layers += [nn.ReLU(), nn.MaxPool2d(2)]
        depth = channels
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(16 * (size // 4) ** 2, 10))


TOKENS = 64
GAINS = {"attention over 20 tokens", "CNN on 8 × 8 images", "CNN on 8 × 8 images, group norm"}  # goal: twice the loop
CHOICES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], bool]] = {  # model, shape of an example, tokens?
    "softmax, 60 numbers": (lambda: build("softmax", (60,), 10), (60,), False),
    "MLP 64-32-10": (lambda: build("mlp", (64,), 10, hidden=(32,)), (64,), False),
    "residual perceptron, 64 numbers": (lambda: ResidualPerceptron(64), (64,), False),
    "residual perceptron, 784 numbers": (lambda: ResidualPerceptron(784), (784,), False),
    "residual perceptron, 784 numbers, width 64": (lambda: ResidualPerceptron(784, 64), (784,), False),
    "residual perceptron, 784 numbers, width 128": (lambda: ResidualPerceptron(784, 128), (784,), False),
    "bag of 20 tokens": (BagOfTokens, (20,), True),
    "attention over 20 tokens": (lambda: TokenAttention(20, 32), (20,), True),
    "attention over 40 tokens": (lambda: TokenAttention(40, 32), (40,), True),
    "attention over 80 tokens, width 64": (lambda: TokenAttention(80, 64), (80,), True),
    "CNN on 8 × 8 images": (lambda: two_convolutions(1, 8), (1, 8, 8), False),
    "CNN on 8 × 8 images, group norm": (lambda: two_convolutions(1, 8, norm=True), (1, 8, 8), False),
    "CNN on 14 × 14 images": (lambda: two_convolutions(1, 14), (1, 14, 14), False),
    "CNN on 28 × 28 images": (lambda: two_convolutions(1, 28), (1, 28, 28), False),
    "CNN on 28 × 28 images, group norm": (lambda: two_convolutions(1, 28, norm=True), (1, 28, 28), False),
    "McMahan's MNIST CNN": (lambda: build("cnn", (1, 28, 28), 10, preset="mcmahan-mnist"), (1, 28, 28), False),
    "ResNet with group norm, 8 × 8 images": (lambda: build("resnet", (1, 8, 8), 10, width=8), (1, 8, 8), False),
    "char-lstm, 40 characters, hidden 64": (lambda: build("char-lstm", (40,), 10, hidden=64), (40,), True),
    "the same, unrolled": (lambda: UnrolledLSTM(64), (40,), True),
}


COHORTS = {  # clients of a round, and the local rule
    10: LocalRule(lr=0.05, steps=8, batch=10),
    5: LocalRule(lr=0.05, steps=8, batch=20),
    4: LocalRule(lr=0.05, steps=8, batch=10),
    2: LocalRule(lr=0.05, steps=8, batch=10),
}
SLOWER = 1.03  # than the better of the stacked and the sequential engine: no model may be, under the rule
SECONDS_OF_A_MODEL = 1.5  # that its repetitions take together
LEAST_REPETITIONS = 4
MOST_REPETITIONS = 20


@dataclass(frozen=True)
class Times:
    """CPU milliseconds of all repetitions (repetitions,) of the loop and of each engine, taken in turn."""

    of: Mapping[str, np.ndarray]

    @property
    def repetitions(self) -> int:
        return len(self.of["loop"])

    def median(self, way: str) -> float | str:
        """The median of one way; a dash where it was not taken."""
        return float(np.median(self.of[way])) if way in self.of else "–"

    def ratios(self, way: str, others: list[str]) -> np.ndarray:
        """Of each repetition: the time of one way by that of the other, of several the one with the least median."""
        better = min(others, key=lambda other: float(np.median(self.of[other])))
        return self.of[way] / self.of[better]


def in_turn(functions: Mapping[str, Callable[[], object]], seconds: float) -> Times:
    """Call all functions in turn, in changing order, for about so many seconds; the first turn warms up."""
    names = list(functions)
    taken: dict[str, list[float]] = {name: [] for name in names}
    begun = time.process_time()
    for name in names:
        functions[name]()
    turn_seconds = time.process_time() - begun
    repetitions = int(min(max(seconds / turn_seconds, LEAST_REPETITIONS), MOST_REPETITIONS))
    for repetition in range(repetitions):
        for name in names if repetition % 2 else reversed(names):
            begun = time.process_time()
            functions[name]()
            taken[name].append(1e3 * (time.process_time() - begun))
    return Times({name: np.array(values) for name, values in taken.items()})


def choice(quick: bool) -> None:
    """The engines side by side for models of all kinds, and which one the rule takes."""
    ways = ["loop", "sequential", "vmapped", "stacked"]
    header = ["model", "work of a step", *ways, "rule", "rule / better", "loop / rule"]
    compared = 0
    slower: list[str] = []
    for n_clients, rule in COHORTS.items():
        rows: list[list[object]] = []
        for name, (make, shape, takes_tokens) in CHOICES.items():
            x, y = examples(2_000, shape)
            if takes_tokens:
                x = np.random.default_rng(0).integers(0, TOKENS, (2_000, *shape))
            torch.manual_seed(0)
            cells, ratio = engine_row(make(), x, y, rule, n_clients, seconds=0.3 if quick else SECONDS_OF_A_MODEL)
            rows.append([name, *cells])
            if name in GAINS and n_clients == 10:
                rows[-1][-1] = f"{rows[-1][-1]} (goal ≥ 2×)"
            compared += 1
            if ratio > SLOWER:
                slower.append(f"{name} with {n_clients} clients ({ratio:.2f})")
        title = f"**A round of {n_clients} clients × {rule.steps} steps × {rule.batch} examples, 1 thread**"
        table(title, header, rows, level="")
    say(
        f"\nSlower than the better of the stacked and the sequential engine by more than 3 %: "
        f"{len(slower)} of {compared} rows{': ' * bool(slower)}{', '.join(slower)}."
    )


def engine_row(
    model: nn.Module, x: np.ndarray, y: np.ndarray, rule: LocalRule, n_clients: int, *, seconds: float
) -> tuple[list[object], float]:
    """Return the cells of one model, and the ratio of the rule's engine to the better of the two older ones."""
    members = np.array_split(np.random.default_rng(1).permutation(len(y)), 100)[:n_clients]
    chosen = Learner(model, x, y, rule)
    chosen_engine = chosen.engine_choice.engine_for(rule, n_clients)
    engines = ["sequential"]
    if not Learner(model, x, y, rule, engine="sequential").engine_choice.vmap_fault:
        engines.append("vmapped")
    if chosen.is_stacked:
        engines.append("stacked")
    functions: dict[str, Callable[[], object]] = {"loop": plain_loop(model, x, y, members, rule)}
    for engine in engines:
        learner = Learner(model, x, y, rule, engine=engine)
        functions[engine] = lambda o=learner: o.train(o.initial, members, np.arange(n_clients), seed=0, t=0)
    times = in_turn(functions, seconds)
    to_better = times.ratios(chosen_engine, [engine for engine in engines if engine != "vmapped"])
    to_loop = times.ratios("loop", [chosen_engine])
    low, high = np.quantile(to_better, [0.25, 0.75])
    spread = "" if chosen_engine != "vmapped" else f" ({low:.2f} to {high:.2f})"
    multiplications = chosen.engine_choice.example_cost.multiplications
    work = f"{multiplications * (rule.batch or 0) / 1e6:.2f} M" if multiplications else "–"
    cells = [
        work,
        *(times.median(way) for way in ("loop", "sequential", "vmapped", "stacked")),
        chosen_engine,
        f"{np.median(to_better):.2f}{spread}",
        f"{np.median(to_loop):.2f}×",
    ]
    return cells, float(np.median(to_better))


CHARACTERS = {  # characters, hidden units, batch
    "20 characters, hidden 32, batch 16 (suite 2)": (20, 32, 16),
    "20 characters, hidden 64, batch 10": (20, 64, 10),
    "40 characters, hidden 64, batch 10": (40, 64, 10),
}


def recurrent(quick: bool) -> None:
    """The character model by torch's kernel, client by client, and the same network written so that it maps."""
    rows: list[list[object]] = []
    for name, (length, hidden, batch) in CHARACTERS.items():
        rule = LocalRule(lr=0.05, steps=5, batch=batch)
        x = np.random.default_rng(0).integers(0, TOKENS, (2_000, length))
        y = np.random.default_rng(1).integers(0, 10, 2_000)
        members = np.array_split(np.random.default_rng(1).permutation(len(y)), 100)[:10]
        kernel = build("char-lstm", (length,), 10, tokens=TOKENS, hidden=hidden)
        functions: dict[str, Callable[[], object]] = {"loop": plain_loop(kernel, x, y, members, rule)}
        for way, model, engine in (("kernel", kernel, "sequential"), ("mapped", UnrolledLSTM(hidden), "vmapped")):
            learner = Learner(model, x, y, rule, engine=engine)
            functions[way] = lambda o=learner, m=members: o.train(o.initial, m, np.arange(10), seed=0, t=0)
        times = in_turn(functions, 0.5 if quick else 3.0)
        ratios = times.ratios("mapped", ["kernel"])
        low, high = np.quantile(ratios, [0.25, 0.75])
        ratio = f"{np.median(ratios):.2f} ({low:.2f} to {high:.2f})"
        rows.append([name, *(times.median(way) for way in ("loop", "kernel", "mapped")), ratio])
    header = ["net", "loop", "torch's kernel, client by client", "mapped over clients", "mapped / kernel"]
    table("**A round of 10 clients × 5 steps, CPU ms, 1 thread**", header, rows, level="")


def products(quick: bool) -> None:
    """A round of the MLP beside nothing but its batched products, on batches that lie ready."""
    name = "FedCor's FMNIST MLP, 5 × 20 × 64"
    kind, _, shape, n, clients, k, rule, _ = CASES[name]
    x, y = examples(n, shape)
    members = np.array_split(np.random.default_rng(1).permutation(n), clients)[:k]
    own = Learner(build(kind, shape, 10), x, y, rule)
    weights = [torch.randn(k, layer.out_features, layer.in_features) for layer in own.model if hasattr(layer, "weight")]
    batches = torch.randn(rule.steps or 0, k, rule.batch or 0, *shape)
    hidden = [torch.randn(k, rule.batch or 0, w.shape[2]) for w in weights[1:]]
    gradients = [torch.randn(k, rule.batch or 0, w.shape[1]) for w in weights]

    @torch.inference_mode()
    def bare() -> None:
        for batch in batches:
            for at, (w, h, g) in enumerate(zip(weights, [batch, *hidden], gradients, strict=True)):
                torch.bmm(h, w.transpose(1, 2))
                if at:
                    torch.bmm(g, w)
                w.baddbmm_(g.transpose(1, 2), h, alpha=-1e-9)

    ours = lambda: own.train(own.initial, members, np.arange(k), seed=0, t=0)  # noqa: E731
    rows: list[list[object]] = []
    for _ in range(2 if quick else 6):
        low, high = fastest([bare, ours], 10 if quick else 15)
        rows.append([low, high, f"{high / low:.2f}×"])
    table(f"{name}: products and the whole round, 1 thread", ["products, ms", "round, ms", "ratio"], rows)


def losses(quick: bool) -> None:
    x, y = examples(60_000, (784,))
    model = build("mlp", (784,), 10)
    parts = np.array_split(np.random.default_rng(1).permutation(60_000), 100)
    world = World(_dataset(x, y), parts, model, LocalRule(lr=0.1, steps=1))
    from sortition.core.questions import Measure
    from sortition.core.signals import LOSS

    data, labels = torch.from_numpy(x), torch.from_numpy(y)

    def loader() -> list[float]:
        whole = torch.utils.data.TensorDataset(data, labels)
        found = []
        with torch.inference_mode():
            for part in parts:
                total = 0.0
                for bx, by in torch.utils.data.DataLoader(torch.utils.data.Subset(whole, part.tolist()), batch_size=64):
                    total += nn.functional.cross_entropy(model(bx), by, reduction="sum").item()
                found.append(total / len(part))
        return found

    def one_pass() -> torch.Tensor:
        with torch.inference_mode():
            return nn.functional.cross_entropy(model(data), labels, reduction="none")

    question = Measure(LOSS, np.arange(100))
    ours = lambda: world.measure(world.initial, question, 0)  # noqa: E731
    slow, (big, fast) = fastest([loader], 1)[0], fastest([one_pass, ours], 3 if quick else 20)
    rows: list[list[object]] = [
        ["DataLoader per client, batches of 64", slow, f"{slow / fast:.1f}×", "≥ 5×"],
        ["one big pass, no client means", big, f"{big / fast:.2f}×", "≥ 1×"],
        ["Sortition, mean loss of each client", fast, "", ""],
    ]
    table("Losses of all 100 clients (60,000 × 784, MLP), 1 thread", ["way", "ms", "Sortition is faster", "goal"], rows)


def evaluation(quick: bool) -> None:
    """Losses and predictions of a test set of bytes, beside a loop that scales and passes 1,024 images at a time."""
    rows: list[list[object]] = []
    for name, kind, options, shape in (
        ("FedCor's FMNIST MLP", "mlp", {}, (1, 28, 28)),
        ("the same with dropout 0.5", "mlp", {"dropout": 0.5}, (1, 28, 28)),
        ("FedSS's CNN, CIFAR-10", "cnn", {"preset": "small"}, (3, 32, 32)),
        ("FedCor's CNN, CIFAR-10", "cnn", {"preset": "fedcor"}, (3, 32, 32)),
    ):
        n = 2_000 if quick and kind == "cnn" else 10_000
        x = np.random.default_rng(0).integers(0, 256, (n, *shape), dtype=np.uint8)
        y = np.random.default_rng(1).integers(0, 10, n)
        model, data, labels = build(kind, shape, 10, **options).eval(), torch.from_numpy(x), torch.from_numpy(y)
        own = Learner(model, x, y, LocalRule(lr=0.1, steps=1), white=255)

        @torch.inference_mode()
        def loop(model: nn.Module = model, data: torch.Tensor = data, labels: torch.Tensor = labels) -> None:
            for images, wanted in zip(data.split(1024), labels.split(1024), strict=True):
                logits = model(images.float() / 255)
                nn.functional.cross_entropy(logits, wanted, reduction="none")
                logits.argmax(1).eq(wanted)

        ours = lambda own=own: own.passes.losses_and_hits(own.initial)  # noqa: E731
        slow, fast = fastest([loop, ours], 2 if quick or kind == "cnn" else 30)
        rows.append([f"{name}, {n:,} images", slow, fast, f"{slow / fast:.2f}×"])
    table("Losses and predictions of a test set, 1 thread", ["net", "plain loop, ms", "Sortition, ms", "faster"], rows)


def _dataset(x: np.ndarray, y: np.ndarray) -> Dataset:
    return Dataset("random", x, y, x[:100], y[:100], 10, digest="none")


def fashion_mnist() -> tuple[Dataset, str]:
    """Fashion-MNIST in [0, 1], and how it is called."""
    try:
        return load("fashion-mnist").scaled(), "Fashion-MNIST"
    except DataError:  # not fetched on this machine: same shapes, random pixels
        x, y = examples(70_000, (1, 28, 28))
        return Dataset("random", x[:60_000], y[:60_000], x[60_000:], y[60_000:], 10, digest="none"), "random images"


def timed(function: Callable, spent: list[float]) -> Callable:
    """The same function, which adds the seconds that it takes to ``spent``."""

    def call(*args: object, **named: object) -> object:
        begun = time.process_time()
        result = function(*args, **named)
        spent[0] += time.process_time() - begun
        return result

    return call


def overhead(quick: bool) -> None:
    """Everything of a round but local training and evaluation."""
    rows: list[list[object]] = []
    x, y = examples(20_000, (60,))
    for clients in (100, 1_000, 10_000, 100_000):
        parts = np.random.default_rng(0).integers(0, 20_000, (clients, 20))
        for method in ("uniform", "power-of-choice"):
            world = World(_dataset(x, y), parts, build("softmax", (60,), 10), LocalRule(lr=0.1, steps=10, batch=10))
            setup = Setup(world, selector(method), 10, 10_000, evaluate_every=0)
            spent = [0.0]
            world.learner.draw_cohort = timed(world.learner.draw_cohort, spent)
            world.learner.train_cohort = timed(world.learner.train_cohort, spent)
            world.measure = timed(world.measure, spent)
            carry, times = start(setup), []
            for _ in range(20 if quick else 100):
                begun, spent[0] = time.process_time(), 0.0
                carry.play_round()
                times.append(1e3 * (time.process_time() - begun - spent[0]))
            rows.append([method, clients, float(np.median(times)), min(times), "< 2" if clients == 100 else ""])
    header = ["method", "clients", "median, ms", "fastest, ms", "goal, ms"]
    table("A round outside training, questions and evaluation", header, rows)


def growth(quick: bool) -> None:
    x, y = examples(60_000, (784,))
    parts = np.array_split(np.random.default_rng(1).permutation(60_000), 200)
    rule, repeats = LocalRule(lr=0.01, steps=20, batch=64), 2 if quick else 4
    rows: list[list[object]] = []
    for hidden in ((64, 30), (200, 200), (512, 256)):
        model = build("mlp", (784,), 10, hidden=hidden)
        own = Learner(model, x, y, rule)
        for k in (1, 5, 10, 50, 100):
            if k * own.layout.size > 30_000_000:
                continue
            ms = fastest([lambda o=own, k=k: o.train(o.initial, parts[:k], np.arange(k), seed=0, t=0)], repeats)[0]
            flops = linear_flops(model, k * 20 * 64)
            rows.append([str(hidden), f"{own.layout.size:,}", k, ms, ms / k, flops / ms / 1e6])
    header = ["hidden", "parameters", "cohort", "ms", "ms per client", "GFLOP/s"]
    table("Growth with cohort and model (20 steps × 64, 1 thread)", header, rows)


def played(setup: Setup) -> tuple[Simulation, list[float]]:
    """A whole run, and its seconds of CPU and on the wall."""
    begun, cpu = time.perf_counter(), time.process_time()
    carry = run(setup)
    return carry, [time.process_time() - cpu, time.perf_counter() - begun]


def whole_runs(quick: bool) -> None:
    rows: list[list[object]] = []
    data = load("synthetic")
    model = build("softmax", (60,), 10, init="zero-bias")
    rule = LocalRule(lr=0.1, steps=10, batch=10, decay=0.998)
    world = World(data, data.clients or [], model, rule, holdout=data.validation)
    rounds = 100 if quick else 1000
    carry, seconds = played(Setup(world, selector("uniform"), 6, rounds))
    rows.append(["FedGS's Synthetic, softmax, uniform", rounds, *seconds, f"loss {carry.test_figures['loss']:.3f}"])
    images, where = fashion_mnist()
    shards = np.random.default_rng(0).permutation(200)
    by_label = np.argsort(images.y_train, kind="stable").reshape(200, -1)
    parts = [np.concatenate(by_label[shards[2 * k : 2 * k + 2]]) for k in range(100)]
    kept = [np.random.default_rng(k).permutation(p) for k, p in enumerate(parts)]
    rule = LocalRule(lr=0.005, steps=20, batch=64, weight_decay=1e-4, milestones=(150, 300))
    world = World(
        images,
        [p[120:] for p in kept],
        build("mlp", (1, 28, 28), 10, hidden=(64, 30), dropout=0.5),
        rule,
        holdout=[p[:120] for p in kept],
        measured_on="holdout",
    )
    rounds = 50 if quick else 200
    for method, options in (("uniform", {"weights": "uniform"}), ("fedcor", {})):
        carry, seconds = played(Setup(world, selector(method, **options), 5, rounds))
        told = f"accuracy {carry.test_figures['accuracy']:.3f}"
        rows.append([f"FedCor's MLP, 2 shards, {where}, {method}", rounds, *seconds, told])
    header = ["run", "rounds", "CPU, s", "wall, s", "ends with"]
    table("Whole runs, evaluation on the test set every round, 1 thread", header, rows)


PARTS = (training, choice, recurrent, products, losses, evaluation, overhead, growth, whole_runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=[part.__name__ for part in PARTS])
    parser.add_argument("--write", action="store_true", help="write the tables into docs/engine.md, too")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    machine = f"torch {torch.__version__}, {CORES} cores, {platform.machine()}"
    print(f"{machine}, load {os.getloadavg()[0]:.1f}")
    for part in PARTS:
        if chosen.only in (None, part.__name__):
            LINES.clear()
            load = os.getloadavg()[0]
            part(chosen.quick)
            if chosen.write and part is not products:  # docs/scale.md says in a sentence what these are
                say(f"\n*{machine}, load {load:.1f} before and {os.getloadavg()[0]:.1f} after.*")
                write_part(part.__name__, "\n".join(LINES))


def write_part(name: str, text: str) -> None:
    """Write the tables of one part between its marks in docs/engine.md."""
    sys.path.insert(0, str(ROOT))
    from workshop.marks import fill_marks

    PAGE.write_text(fill_marks(PAGE.read_text(), {f"engine {name}": text}))


if __name__ == "__main__":
    main()
