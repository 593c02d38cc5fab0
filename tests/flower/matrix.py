"""Every method with every kind of model and every strategy: what runs, and in what words the rest is refused."""

from __future__ import annotations

import argparse
import logging
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from flwr.common.logger import FLOWER_LOGGER
from flwr.serverapp.exception import AggregationError
from flwr.serverapp.strategy import (
    Bulyan,
    DifferentialPrivacyServerSideFixedClipping,
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedMedian,
    FedProx,
    FedTrimmedAvg,
    FedYogi,
    Krum,
    MultiKrum,
    QFedAvg,
)
from tests.flower.in_process import grid_of
from tests.flower.kinds import KINDS, config, read_digits
from workshop.marks import fill_marks

from sortition.core.errors import SortitionError
from sortition.flower import SelectorStrategy, codec
from sortition.selectors import discover, load

COHORT, ROUNDS = 3, 2
PARTS = 4  # tasks for each kind of model
QUIET: dict[str, Any] = {"fraction_evaluate": 0.0}
SMALL = {"power-of-choice": {"d": 4}, "hics": {"clusters": 2}, "fedcor": {"warmup": 1, "steps": 5, "dimension": 2}}
SMALL |= {"tifl": {"tiers": 2}, "batch-partitioning": {"batch": 3}}  # else fewer clients a round than Bulyan needs


class Mine(FedAvg):
    """A rule of one's own."""

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        """Count them."""
        self.replies = len(replies := list(replies))
        return super().aggregate_train(server_round, replies)


STRATEGIES: dict[str, Callable[[], Any]] = {
    "FedAvg": lambda: FedAvg(**QUIET),
    "FedProx": lambda: FedProx(**QUIET, proximal_mu=0.1),
    "FedAvgM": lambda: FedAvgM(**QUIET, server_momentum=0.9),
    "FedAdam": lambda: FedAdam(**QUIET, eta=0.01),
    "FedAdagrad": lambda: FedAdagrad(**QUIET, eta=0.01),
    "FedYogi": lambda: FedYogi(**QUIET, eta=0.01),
    "FedMedian": lambda: FedMedian(**QUIET),
    "FedTrimmedAvg": lambda: FedTrimmedAvg(**QUIET),
    "Krum": lambda: Krum(**QUIET),
    "MultiKrum": lambda: MultiKrum(**QUIET, num_nodes_to_select=2),
    "Bulyan": lambda: Bulyan(**QUIET),
    "QFedAvg": lambda: QFedAvg(**QUIET, client_learning_rate=0.1),
    "a subclass of one's own": lambda: Mine(**QUIET),
    "server-side DP inside": lambda: DifferentialPrivacyServerSideFixedClipping(FedAvg(**QUIET), 0.1, 1.0, COHORT),
}


def methods() -> list[str]:
    """All methods that are there."""
    return list(discover())


def outcome(method: str, kind: str, strategy: str, app: Any) -> str:
    """Empty if the federation ran and its model moved; else the sentence with which it was refused."""
    try:
        selector = load(method, **SMALL.get(method, {}))
        made = SelectorStrategy(selector, cohort=COHORT, strategy=STRATEGIES[strategy](), seed=1)
        start = KINDS[kind].initial()
        result = made.start(grid_of(app), start, ROUNDS, train_config=config())
    except (SortitionError, AggregationError) as error:  # QFedAvg without the metric that it reads fails in Flower
        return " ".join(str(error).split())
    except Exception as error:
        raise RuntimeError(f"{method}, {kind}, {strategy}") from error
    before, after = codec.to_arrays(KINDS[kind].initial()), codec.to_arrays(result.arrays)
    still = all(np.array_equal(before[name], after[name]) for name in before if name in after)
    bad = not all(np.isfinite(value).all() for value in after.values() if value.dtype.kind == "f")
    left = {reason for record in made.history for reason in {**record["left_out"], **record["failed"]}.values()}
    assert not still, f"{method}, {kind}, {strategy}: the model is unchanged"
    assert not bad, f"{method}, {kind}, {strategy}: the model is not finite"
    assert not left, f"{method}, {kind}, {strategy}: {left}"
    return ""


USUAL, ASKS, STOCK = "FedAvg", "power-of-choice", next(iter(KINDS))


def combinations(extent: str) -> Iterator[tuple[str, str, str]]:
    """``few``: methods × kinds. ``pairs``: with strategies × methods and strategies × kinds. ``all``: the product."""
    for method in methods():
        for kind in KINDS:
            for strategy in STRATEGIES:
                few = strategy == USUAL
                if extent == "all" or few or (extent == "pairs" and (kind == STOCK or method == ASKS)):
                    yield method, kind, strategy


def run(extent: str, kind: str, part: int = 0, parts: int = 1) -> dict[str, str]:
    """The outcome of the combinations with one kind of model, or of a part of them, in this process."""
    own = [(method, strategy) for method, of, strategy in combinations(extent) if of == kind]
    with tempfile.TemporaryDirectory() as folder:
        app = KINDS[kind].make(Path(folder))
        return {f"{m} | {kind} | {s}": outcome(m, kind, s, app) for m, s in own[part::parts]}


def _alone(extent: str, kind: str, part: int) -> dict[str, str]:
    """The same in a process of its own, which Flower's messages ask who it is."""
    import sklearn.datasets
    import torch
    from flwr.supercore.task_identity import TaskIdentity

    torch.set_num_threads(1)
    sklearn.datasets.load_digits = read_digits
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
    FLOWER_LOGGER.setLevel(logging.CRITICAL)
    return run(extent, kind, part, PARTS)


def tables(found: dict[str, str]) -> str:
    """Methods × kinds of models, strategies × kinds, strategies × methods; a note says why something does not run."""
    notes: list[str] = []

    def cell(method: str, kind: str, strategy: str) -> str:
        sentence = found[f"{method} | {kind} | {strategy}"]
        if sentence and (note := _general(sentence)) not in notes:
            notes.append(note)
        return f"[{notes.index(_general(sentence)) + 1}]" if sentence else "✓"

    parts = [
        _table("method, with FedAvg", methods(), KINDS, lambda row, column: cell(row, column, USUAL)),
        _table(f"strategy, with {ASKS}", STRATEGIES, KINDS, lambda row, column: cell(ASKS, column, row)),
        _table("method, on the stock network", methods(), STRATEGIES, lambda row, column: cell(row, STOCK, column)),
    ]
    said = [f"{number}. *{note}*" for number, note in enumerate(notes, 1)]
    return "\n\n".join([*parts, "\n".join(said)])


def _table(corner: str, rows: Iterable[str], columns: Iterable[str], cell: Callable[[str, str], str]) -> str:
    columns = list(columns)
    lines = [f"| {corner} | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    lines += [f"| {row} | " + " | ".join(cell(row, column) for column in columns) + " |" for row in rows]
    return "\n".join(lines)


def _general(sentence: str) -> str:
    """A sentence without the names of single nodes and strategies, and without the weights of one cohort."""
    sentence = re.sub(r"node \d+", "node …", sentence)
    weighed = r"weighs this cohort [\d.]+ in all, and \w+ rescales"
    sentence = re.sub(weighed, "weighs this cohort … in all, and … rescales", sentence)
    return re.sub(r"client \d+", "client …", sentence).replace("|", "/")


def main() -> None:
    """Run, and write the table to standard output and, where asked, between two marks of a page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--all", action="store_true", help="the whole product, in place of all pairs; takes hours")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--page", type=Path, help="a page with the marks of a part named matrix")
    options, begun = parser.parse_args(), time.monotonic()
    with ProcessPoolExecutor(options.workers, get_context("spawn")) as pool:
        tasks = [("all" if options.all else "pairs", kind, part) for kind in KINDS for part in range(PARTS)]
        parts = list(pool.map(_alone, *zip(*tasks, strict=True)))
    found = {key: sentence for part in parts for key, sentence in part.items()}
    good = sum(not sentence for sentence in found.values())
    text = f"{len(found):,} combinations, of which {good:,} run.\n\n{tables(found)}"
    print(f"{text}\n\n{time.monotonic() - begun:.0f} s")
    if options.page:
        options.page.write_text(fill_marks(options.page.read_text(), {"matrix": text}))


if __name__ == "__main__":
    main()
