"""What Microcosm gains, where it gains nothing, and what explains it: the tables of docs/methods/microcosm.md.

Settings and seeds are no cells of a leaderboard. ``python -m campaign microcosm natural --out natural.jsonl`` plays one
part; runs that the file holds are not played again, and ``--show`` prints the tables of what is there.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from campaign.oracle import likeness, oracle_run
from sortition.core.arrays import worst_tenth
from sortition.data import load
from sortition.simulation import run
from sortition.studies.build_federation import setup
from sortition.studies.config import RunConfig
from sortition.studies.plan import plan
from sortition.studies.types import TomlTable

Settings = dict[str, TomlTable]  # federations by name


@dataclass(frozen=True)
class LongTail:
    """A data set whose labels are unequally frequent in training, and equally frequent in the test.

    Attributes:
        data: the data set that it is drawn from.
        most: training examples of label 0.
        ratio: how many times as many examples label 0 has as label 9.
        test: test examples of each label.
    """

    data: str
    most: int
    ratio: float
    test: int


class Part(NamedTuple):
    """Federations, and the methods that are played in each of them."""

    settings: Settings
    methods: list[TomlTable]


ORACLE = "oracle"
BASELINE = "uniform"
LONG_TAIL = "long-tail"  # files that are made, of these data sets
LONG_TAIL_DIGITS = "long-tail-digits"
LAST = 0.1  # the share of the rounds that is the end
DIGITS: TomlTable = {
    "rounds": 100,
    "cohort": 10,
    "evaluate_every": 2,
    "data": {"name": "digits", "clients": 100},
    "model": {"name": "mlp", "hidden": [32]},
    "local": {"steps": 5, "batch": 10, "lr": 0.1},
}
FLIGHTS: TomlTable = {
    "rounds": 80,
    "cohort": 12,
    "evaluate_every": 2,
    "data": {
        "name": "flights",
        "clients": 300,
        "partition": {"name": "natural", "least": 30},
        "subset": {"test": 3000},
    },
    "model": "softmax",
    "local": {"steps": 8, "batch": 16, "lr": 0.05},
}
SHAKESPEARE: TomlTable = {
    "rounds": 40,
    "cohort": 8,
    "evaluate_every": 2,
    "data": {"name": "shakespeare", "window": 20, "step": 40, "subset": {"test": 500}},
    "model": {"name": "char-lstm", "tokens": 77, "hidden": 32},
    "local": {"steps": 5, "batch": 16, "lr": 1.5},
}
SYNTHETIC: TomlTable = {
    **DIGITS,
    "data": {"name": "synthetic", "clients": 100, "alpha": 1.0, "beta": 1.0, "seed": 11},
    "model": "softmax",
}


def digits(**data: Any) -> TomlTable:
    """Return the federation on digits with these keys of ``data``."""
    return {**DIGITS, "data": {**DIGITS["data"], **data}}


LONG_TAILS = {
    LONG_TAIL: LongTail(data="mnist", most=1000, ratio=100, test=200),
    LONG_TAIL_DIGITS: LongTail(data="digits", most=140, ratio=28, test=30),
}
TWO_LABELS = {"name": "labels", "per_client": 2}
NATURAL: Settings = {
    "flights": FLIGHTS,
    "shakespeare": SHAKESPEARE,
    "digits, 2 labels": digits(partition=TWO_LABELS),
}
ABLATED: Settings = {
    "2 labels, diurnal": {**digits(partition=TWO_LABELS), "availability": "diurnal"},
    "Dirichlet 0.3": digits(partition={"name": "dirichlet", "alpha": 0.3}),
    "synthetic(1, 1)": SYNTHETIC,
}
VARP = {"combine": "fedvarp"}
RIVALS: list[TomlTable] = [
    {"name": "uniform"},
    {"name": "auto"},
    {"name": "uniform", "label": "uniform + FedVARP", "server": VARP},
    {"name": "auto", "label": "auto + FedVARP", "server": VARP},
    *(
        {"name": name, "label": f"{name}{suffix}", **weights}
        for name in ("fed-cbs", "flips", "fedgs")
        for suffix, weights in (("", {}), (" fitted", {"reweight": "fitted"}))
    ),
]
TAILED: Settings = {
    "Dirichlet 0.5": digits(name=LONG_TAIL, partition={"name": "dirichlet", "alpha": 0.5}),
    "2 shards": digits(name=LONG_TAIL, partition={"name": "shards", "per_client": 2}),
    "digits, Dirichlet 0.5": digits(name=LONG_TAIL_DIGITS, partition={"name": "dirichlet", "alpha": 0.5}),
    "digits, 2 shards": digits(name=LONG_TAIL_DIGITS, partition={"name": "shards", "per_client": 2}),
}
TARGETS: list[TomlTable] = [
    {"name": "uniform"},
    {"name": "auto"},
    {"name": "auto", "label": "auto balanced", "by": "labels", "target": "balanced"},
    {"name": "power-of-choice"},
    {"name": "fed-cbs"},
]
LAGGING: Settings = {
    "10 % rotated": digits(partition={"name": "dirichlet", "alpha": 0.5}, styles=["plain"] * 9 + ["rotated-90"]),
    "10 % rotated, IID": digits(partition={"name": "iid"}, styles=["plain"] * 9 + ["rotated-90"]),
    "30 % of clients, half of the labels wrong": digits(
        partition={"name": "dirichlet", "alpha": 0.5}, label_noise={"share": 0.3, "flip": 0.5}
    ),
}
LOSSES: list[TomlTable] = [
    {"name": "uniform"},
    {"name": "auto"},
    {"name": "auto", "label": "auto, losses", "losses": True},
    {"name": "power-of-choice"},
]
ONE_SHARD = {"name": "shards", "per_client": 1}
TWO_SHARDS = {"name": "shards", "per_client": 2}
INSURED: Settings = {
    **ABLATED,
    "2 shards, diurnal": {**digits(partition=TWO_SHARDS), "availability": "diurnal"},
    "2 labels": digits(partition=TWO_LABELS),
}
LEDGERS: list[TomlTable] = [
    {"name": "uniform"},
    {"name": "auto"},
    {
        "name": "microcosm",
        "label": "portrait only",
        "by": "labels",
        "estimate": False,
        "trade_off": 0.01,
        "forgetting": 1.0,
    },
    {
        "name": "microcosm",
        "label": "first edition",
        "estimate": False,
        "repay_mixture": False,
        "learn_ledger": False,
        "seconds": "ignored",
    },
]
SMALL: Settings = {
    f"{title}, cohort {cohort}": {**digits(partition=partition), "cohort": cohort}
    for title, partition in (("1 shard", ONE_SHARD), ("2 shards", TWO_SHARDS))
    for cohort in (2, 3, 4, 5)
}
SMALL_RIVALS: list[TomlTable] = [{"name": "uniform"}, {"name": "auto"}, {"name": "flips"}, {"name": "fed-cbs"}]
PARTS: dict[str, Part] = {
    "natural": Part(NATURAL, [{"name": "uniform"}, {"name": "auto"}, {"name": "full"}]),
    "rivals": Part(ABLATED, RIVALS),
    "targets": Part(TAILED, TARGETS),
    "losses": Part(LAGGING, LOSSES),
    "ledger": Part(INSURED, LEDGERS),
    "small": Part(SMALL, SMALL_RIVALS),
}


@dataclass(frozen=True)
class Outcome:
    """What became of one run.

    Attributes:
        part: of this campaign.
        setting: the federation.
        method: the label of the method.
        seed: of data, model and draws.
        area: mean test accuracy over all rounds, in %.
        end: the same over the last tenth of the rounds.
        worst: mean accuracy of the worst tenth of the clients after the last round, in %.
        seconds: of computing.
    """

    part: str
    setting: str
    method: str
    seed: int
    area: float
    end: float
    worst: float
    seconds: float


def played(part: str, config: RunConfig, method: str) -> Outcome:
    """Play one run, of a method or of the oracle."""
    begun = time.process_time()
    _, prepared = setup(config)
    world = prepared.world
    accuracies: list[float] = []
    params = world.initial
    rounds = config.most_rounds

    def keep(t: int, model: Any) -> None:
        nonlocal params
        params = model
        if (t + 1) % config.evaluate_every == 0:
            accuracies.append(100 * world.evaluator.score(model)["accuracy"])

    if method == ORACLE:
        oracle_run(prepared, rounds, keep)
    else:
        run(prepared, on_record=lambda simulation, record: keep(record["round"], simulation.params))
    n_last = max(1, round(LAST * len(accuracies)))
    return Outcome(
        part=part,
        setting=config.setting,
        method=method,
        seed=config.seed,
        area=float(np.mean(accuracies)),
        end=float(np.mean(accuracies[-n_last:])),
        worst=100 * float(worst_tenth(world.evaluator.client_scores(params)).mean()),
        seconds=time.process_time() - begun,
    )


def configurations(part: str, seeds: Iterable[int], folder: Path) -> Iterator[tuple[str, RunConfig]]:
    """Yield the label and the configuration of every run of a part; the oracle's is that of uniform."""
    for setting, federation in PARTS[part].settings.items():
        data = federation["data"]
        if data["name"] in LONG_TAILS:
            federation = {**federation, "data": {**data, "name": str(long_tailed(folder, data["name"]))}}
        study = {**federation, "method": PARTS[part].methods, "seeds": list(seeds)}
        for config in plan(study).runs:
            named = config.model_copy(update={"setting": setting})
            yield config.method.label, named
            if part == "natural" and config.method.label == BASELINE:
                yield ORACLE, named


def long_tailed(folder: Path, name: str) -> Path:
    """Write a data set in which each label has fewer training examples than the one before; return the file."""
    path = folder / f"{name}.npz"
    if path.exists():
        return path
    tail = LONG_TAILS[name]
    whole = load(tail.data).scaled()  # a file's pixels would count as 0 to 255, and those of digits are 0 to 16
    rng = np.random.default_rng(7)
    per_label = np.rint(tail.most * tail.ratio ** (-np.arange(10) / 9)).astype(int)
    train = [rng.permutation(np.flatnonzero(whole.y_train == label))[:n] for label, n in enumerate(per_label)]
    test = [rng.permutation(np.flatnonzero(whole.y_test == label))[: tail.test] for label in range(10)]
    train_rows = rng.permutation(np.concatenate(train))
    test_rows = np.concatenate(test)
    np.savez(
        path,
        x_train=np.asarray(whole.x_train)[train_rows],
        y_train=whole.y_train[train_rows],
        x_test=np.asarray(whole.x_test)[test_rows],
        y_test=whole.y_test[test_rows],
    )
    return path


def read(path: Path) -> list[Outcome]:
    """Return the outcomes of a file."""
    if not path.exists():
        return []
    return [Outcome(**json.loads(line)) for line in path.read_text().splitlines()]


def table(outcomes: list[Outcome], part: str) -> str:
    """Return gains over uniform in Markdown, by setting: area with its standard error, end, worst tenth."""
    of_part = [outcome for outcome in outcomes if outcome.part == part]
    settings = list(dict.fromkeys(outcome.setting for outcome in of_part))
    methods = list(dict.fromkeys(outcome.method for outcome in of_part))
    found = {(outcome.setting, outcome.method, outcome.seed): outcome for outcome in of_part}
    lines = ["| | " + " | ".join(settings) + " |", "|" + "---|" * (len(settings) + 1)]
    for method in methods:
        cells = [_cell(found, setting, method) for setting in settings]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    minutes = sum(outcome.seconds for outcome in of_part) / 60
    return "\n".join([*lines, "", f"{len(of_part)} runs, {minutes:.1f} core-minutes"])


def _cell(found: dict[tuple[str, str, int], Outcome], setting: str, method: str) -> str:
    """Return area, end and worst tenth of uniform, or the gains of another method over it."""
    pairs = [
        (found[setting, method, seed], found[setting, BASELINE, seed])
        for of_setting, label, seed in found
        if (of_setting, label) == (setting, method) and (setting, BASELINE, seed) in found
    ]
    if not pairs:
        return "–"
    if method == BASELINE:
        figures = [np.mean([getattr(outcome, name) for outcome, _ in pairs]) for name in ("area", "end", "worst")]
        return " / ".join(f"{figure:.1f}" for figure in figures)
    gains = {
        name: [getattr(outcome, name) - getattr(base, name) for outcome, base in pairs]
        for name in ("area", "end", "worst")
    }
    error = np.std(gains["area"], ddof=1) / np.sqrt(len(pairs)) if len(pairs) > 1 else np.nan
    means = {name: float(np.mean(values)) for name, values in gains.items()}
    return f"{means['area']:+z.1f} ± {error:.1f} / {means['end']:+z.1f} / {means['worst']:+z.1f}"


def report(given: argparse.Namespace) -> int:
    """Play what is missing of a part, and print its table."""
    path = Path(given.out)
    seeds = range(given.first, given.first + given.seeds)
    if not given.show:
        done = {(outcome.part, outcome.setting, outcome.method, outcome.seed) for outcome in read(path)}
        with path.open("a") as lines:
            for method, config in configurations(given.of, seeds, path.resolve().parent):
                chosen = not given.methods or method in given.methods
                chosen = chosen and (not given.settings or config.setting in given.settings)
                if chosen and (given.of, config.setting, method, config.seed) not in done:
                    lines.write(json.dumps(asdict(played(given.of, config, method))) + "\n")
                    lines.flush()
    print(table(read(path), given.of))
    if given.of == "natural" and not given.show:
        for method, config in configurations("natural", [given.first], path.resolve().parent):
            if method == BASELINE:
                print(config.setting, likeness(setup(config)[1]))
    return 0
