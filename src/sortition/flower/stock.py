"""A stock strategy's share of the work: what it puts into train messages, its server step, its metrics, its memory.

Selection and aggregation weights are the selector's; the stock strategy is given one reply that carries the aggregate,
so FedAvgM's momentum and FedAdam's moments are applied to w + Σ a_k Δ_k.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.common.logger import FLOWER_LOGGER
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg

from sortition.core.arrays import Array
from sortition.core.errors import bad
from sortition.flower import wire

SINGLE = ("Bulyan", "FedMedian", "FedTrimmedAvg", "FedXgbBagging", "FedXgbCyclic", "Krum", "MultiKrum", "QFedAvg")


class Stock:
    """FedAvg, FedAvgM, FedProx, FedAdam, FedAdagrad, FedYogi or one derived from them."""

    def __init__(self, strategy: FedAvg) -> None:
        family = [cls.__name__ for cls in type(strategy).__mro__]
        if "FedAvg" not in family or any(name in SINGLE for name in family):
            raise bad(
                "SelectorStrategy.strategy",
                "of the FedAvg family (FedAvg, FedAvgM, FedProx, FedAdam, FedAdagrad, FedYogi)",
                type(strategy).__name__,
                "The selector's weights aggregate the replies, so a rule that looks at single ones has nothing to do.",
            )
        self.strategy = strategy
        self.model, self.config, self.weighted = (
            strategy.arrayrecord_key,
            strategy.configrecord_key,
            strategy.weighted_by_key,
        )

    def content(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord) -> RecordDict:
        """The records of a train message: model and config, with what the strategy adds (FedProx's ``proximal-mu``).

        It samples nodes too, from a list just long enough, which is thrown away.
        """
        enough = max(self.strategy.min_available_nodes, self.strategy.min_train_nodes, 1)
        nodes = cast(Grid, SimpleNamespace(get_node_ids=lambda: range(enough)))
        with _quiet():
            messages = list(self.strategy.configure_train(server_round, arrays, config, nodes))
        return messages[0].content if messages else RecordDict({self.model: arrays, self.config: config})

    def step(self, server_round: int, mean: Mapping[str, Array]) -> dict[str, Array]:
        """The next model, from w + Σ a_k Δ_k; every array keeps its type."""
        content = RecordDict({self.model: wire.record(mean), "metrics": MetricRecord({self.weighted: 1.0})})
        with _quiet():
            reply = Message(content, 1, MessageType.TRAIN)
            arrays, _ = self.strategy.aggregate_train(server_round, [reply])
        if arrays is None:
            raise bad("SelectorStrategy.strategy.aggregate_train", "a function that returns the model", None)
        return {name: value.astype(mean[name].dtype) for name, value in wire.tables(arrays).items()}

    def metrics(self, contents: Sequence[RecordDict], weights: Sequence[float]) -> MetricRecord:
        """The strategy's average of the metrics that all replies have; the cohort's weights where clients send none."""
        given = [next(iter(content.metric_records.values()), MetricRecord()) for content in contents]
        shared = set.intersection(*[set(record) for record in given]) if given else set()
        if not shared or sum(weights) <= 0:
            return MetricRecord()
        whole = [
            RecordDict({"metrics": MetricRecord({self.weighted: weight, **{name: record[name] for name in shared}})})
            for record, weight in zip(given, weights, strict=True)
        ]
        return self.strategy.train_metrics_aggr_fn(whole, self.weighted)

    # -- what it remembers from round to round: any attribute made of arrays -------------------------------------------

    def export(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Its memory as named arrays, and a header that says how they were held."""
        arrays: dict[str, Array] = {}
        header: dict[str, Any] = {}
        for name, value in vars(self.strategy).items():
            held = _held(value)
            if held is not None:
                header[name] = {"kind": type(value).__name__, "keys": list(held)}
                arrays |= {f"{name}.{row}": array for row, array in enumerate(held.values())}
        return arrays, header

    def restore(self, arrays: Mapping[str, Array], header: Mapping[str, Any]) -> None:
        """Take over what :meth:`export` gave."""
        for name, told in header.items():
            held = {key: arrays[f"{name}.{row}"] for row, key in enumerate(told["keys"])}
            made: Any = {"list": lambda h: list(h.values()), "ArrayRecord": wire.record}.get(told["kind"], dict)(held)
            setattr(self.strategy, name, made)


def _held(value: object) -> dict[str, Array] | None:
    if isinstance(value, ArrayRecord):
        return wire.tables(value)
    if isinstance(value, list) and value:
        value = {str(row): item for row, item in enumerate(value)}
    if isinstance(value, dict) and value and all(isinstance(item, np.ndarray | np.generic) for item in value.values()):
        return {str(name): np.asarray(item) for name, item in value.items()}  # counters become numpy scalars there
    return None


@contextmanager
def _quiet() -> Iterator[None]:
    """The stock strategy would tell of a sample that nobody uses."""
    before, FLOWER_LOGGER.disabled = FLOWER_LOGGER.disabled, True
    try:
        yield
    finally:
        FLOWER_LOGGER.disabled = before
