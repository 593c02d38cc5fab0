"""A stock strategy's share of the work: what it puts into train messages, its server step, its metrics, its memory.

Selection and aggregation weights are the selector's; the stock strategy is given one reply that carries the aggregate,
so FedAvgM's momentum and FedAdam's moments are applied to w + Σ a_k Δ_k.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from logging import WARNING
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.common.logger import FLOWER_LOGGER, log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg

from sortition.core.arrays import Array
from sortition.core.errors import bad
from sortition.flower import metrics, wire

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

    # -- metrics: strangers' words, none of which can stop the server --------------------------------------------------

    def metrics(
        self, contents: Sequence[RecordDict], weights: Sequence[float], names: Sequence[str] = ()
    ) -> MetricRecord:
        """The strategy's average of the metrics that all sound replies have, by the cohort's weights."""
        kept, faults = metrics.sound(dict(enumerate(contents)), ignored=[self.weighted])
        _tell(faults, names)
        if not any(kept.values()) or sum(weights[row] for row in kept) <= 0:
            return MetricRecord()
        whole = [
            RecordDict({"metrics": MetricRecord({**values, self.weighted: float(weights[row])})})
            for row, values in kept.items()
        ]
        return _averaged(lambda: self.strategy.train_metrics_aggr_fn(whole, self.weighted)) or MetricRecord()

    def evaluated(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """The strategy's average of evaluation metrics, by the examples that clients tell, as Flower does."""
        messages = dict(enumerate(replies))
        found = {row: message.content for row, message in messages.items() if not message.has_error()}
        kept, faults = metrics.sound(found, weight=self.weighted)
        _tell(faults, [f"node {message.metadata.src_node_id}" for message in messages.values()])
        for row, values in kept.items():
            rest = {name: record for name, record in found[row].items() if not isinstance(record, MetricRecord)}
            messages[row].content = RecordDict({**rest, "metrics": MetricRecord(values)})
        if kept and not sum(values[self.weighted] for values in kept.values()):
            log(WARNING, "Evaluation is left out: nobody evaluated an example")
            kept = {}
        usable = [message for row, message in messages.items() if row in kept or row not in found]
        return _averaged(lambda: self.strategy.aggregate_evaluate(server_round, usable))

    def enough(self, online: int) -> bool:
        """Whether so many nodes suffice for an evaluation: the strategy would wait for more without end."""
        wanted = max(int(online * self.strategy.fraction_evaluate), self.strategy.min_evaluate_nodes)
        return not self.strategy.fraction_evaluate or online >= max(self.strategy.min_available_nodes, wanted)

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
            now = getattr(self.strategy, name, None)
            if now is not None and not isinstance(now, dict | list | ArrayRecord):
                raise ValueError(f"{name} of {type(self.strategy).__name__} is no memory")
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


def _tell(faults: Mapping[int, str], names: Sequence[str]) -> None:
    for row, reason in faults.items():
        log(WARNING, "Metrics of %s are left out: %s", names[row] if names else f"reply {row}", reason)


def _averaged(average: Callable[[], MetricRecord | None]) -> MetricRecord | None:
    """The average; an app's own function that cannot cope with what clients sent costs these metrics, not the run."""
    try:
        told = average()
    except Exception as error:
        log(WARNING, "Metrics are left out: averaging them fails with %s: %s", type(error).__name__, error)
        return None
    return told if isinstance(told, MetricRecord) else None


@contextmanager
def _quiet() -> Iterator[None]:
    """The stock strategy would tell of a sample that nobody uses."""
    before, FLOWER_LOGGER.disabled = FLOWER_LOGGER.disabled, True
    try:
        yield
    finally:
        FLOWER_LOGGER.disabled = before
