"""The user's own strategy: it configures the chosen clients, aggregates their replies and evaluates, as it always does.

Only the choice is ours. The strategy is shown the chosen nodes as if they were all, and the replies that can be used,
in the cohort's order, with the cohort's weights as their ``num-examples``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from logging import WARNING
from typing import Any, cast

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.common.logger import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Strategy

from sortition.core.arrays import Array
from sortition.core.errors import InputError
from sortition.flower import wire
from sortition.flower.metrics import first_metrics, is_amount, shared_metrics, usable_metrics
from sortition.flower.strategy_kinds import innermost, kind_of

Aggregate = tuple[ArrayRecord | None, MetricRecord | None]


class BaseStrategy:
    """A strategy of Flower's or one's own, and what is known of its kind."""

    def __init__(self, strategy: Strategy) -> None:
        self.strategy, self.kind, self.inner = strategy, kind_of(strategy), innermost(strategy)
        self.model: str = getattr(self.inner, "arrayrecord_key", "arrays")
        self.config: str = getattr(self.inner, "configrecord_key", "config")
        self.weighted: str = getattr(self.inner, "weighted_by_key", "num-examples")
        self._assigned: dict[str, Any] = {}  # methods that were assigned to the object itself, while ours stand there

    @property
    def least_online(self) -> int:
        """Nodes that the strategy wants online before it samples."""
        return int(getattr(self.inner, "min_available_nodes", 1))

    def check_model(self, arrays: ArrayRecord) -> None:
        """Refuse a model that the strategy cannot aggregate."""
        kinds = {name: value.dtype for name, value in wire.view_arrays(arrays).items()}
        whole = [name for name, kind in kinds.items() if kind.kind in "iub"]
        strange = [name for name, kind in kinds.items() if kind.kind not in "fiub"]
        if strange:
            raise InputError(
                f"initial_arrays must hold real numbers; {strange[0]!r} is of type {kinds[strange[0]]}. Send a complex "
                "array as its real and its imaginary part, and another type as float32."
            )
        if self.kind.only_floats and whole:
            raise InputError(
                f"{type(self.strategy).__name__} cannot aggregate whole numbers, and the model has {whole[0]!r}. Send "
                "the other arrays alone, or choose another strategy."
            )

    def original(self, method: str) -> Callable[..., Any]:
        """The strategy's own method, though ours stands in its place while it runs."""
        bound = getattr(type(self.strategy), method).__get__(self.strategy)
        return cast(Callable[..., Any], self._assigned.get(method, bound))

    @contextmanager
    def replaced(self, **methods: Callable[..., Any]) -> Iterator[None]:
        """Let the strategy's ``start`` call these in place of its own methods."""
        held = vars(self.strategy)
        self._assigned = {name: held[name] for name in methods if name in held}
        held.update(methods)
        try:
            yield
        finally:
            for name in methods:
                del held[name]
            held.update(self._assigned)
            self._assigned = {}

    # -- training ------------------------------------------------------------------------------------------------------

    def question_config(self, server_round: int, config: ConfigRecord) -> ConfigRecord:
        """The config beside a question, for which the strategy configures nobody."""
        return ConfigRecord({**config, "server-round": server_round})

    def configure(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid, nodes: Sequence[int]
    ) -> dict[int, Message]:
        """The strategy's train messages to exactly these nodes, each with the config that it has for it."""
        if not nodes:
            return {}
        view = NodesView(grid, nodes)
        with _samples_all(self.inner, len(nodes)):
            made = list(self.original("configure_train")(server_round, arrays, config, view))
        found = {message.metadata.dst_node_id: message for message in made}
        self._learn_names(made[0].content if made else RecordDict(), arrays)
        if found.keys() != set(nodes) or len(made) != len(nodes):
            raise InputError(
                f"{type(self.strategy).__name__}.configure_train must write once to each of the {len(nodes)} nodes "
                f"that the grid shows it; it wrote {len(made)} messages to {len(found)}. Leave the choice to the "
                "selector; of a strategy that takes one client at a time, use cohort=1."
            )
        return {node: found[node] for node in nodes}

    def _learn_names(self, content: RecordDict, arrays: ArrayRecord) -> None:
        """How a strategy of one's own calls model and config in its messages, where not as Flower's do."""
        if self.model not in content.array_records:
            held = list(content.array_records)
            same = [name for name in held if content[name].keys() == arrays.keys()]
            self.model = next(iter(same or held), self.model)
        if self.config not in content.config_records:
            self.config = next(iter(content.config_records), self.config)

    def aggregate(
        self,
        server_round: int,
        replies: Mapping[int, Message],
        weights: Mapping[int, float],
        errors: Sequence[Message] = (),
    ) -> Aggregate:
        """The strategy's aggregate of these replies, by client in the cohort's order; weights replace their own.

        ``errors`` are shown to it too, as Flower does; but noise that counts on all replies has them all.
        """
        weights = self._in_examples(replies, weights)
        if self.kind.own and not isinstance(self.inner, FedAvg):  # it averages metrics in a way of its own, or not
            left_out = []
            for client, message in replies.items():
                key, sent = first_metrics(message.content)
                values, extra = {**sent, self.weighted: weights[client]}, message.content.metric_records
                message.content = _with_metrics(message.content, key, values, extra)
        else:
            left_out = self._share_metrics(replies, weights)
        shown = [*replies.values(), *(() if self.kind.equal else errors)]
        with _averages(self.inner, left_out):
            return cast(Aggregate, self.original("aggregate_train")(server_round, shown))

    def _in_examples(self, replies: Mapping[int, Message], weights: Mapping[int, float]) -> dict[int, float]:
        """The same weights, in parts of the examples that these clients report together; of 1 where none does."""
        said = [first_metrics(message.content)[1].get(self.weighted) for message in replies.values()]
        total = float(sum(value for value in said if is_amount(value))) or 1.0
        return {client: float(weight) * total for client, weight in weights.items()}

    def _share_metrics(self, replies: Mapping[int, Message], weights: Mapping[int, float]) -> list[RecordDict]:
        """Leave the metrics that all replies have, as Flower wants it; the replies whose metrics cannot be averaged."""
        contents = {client: message.content for client, message in replies.items()}
        kept, faults = usable_metrics(contents, ignored=[self.weighted])
        log_faults(faults)
        names = next(iter(kept.values()), {})
        key = first_metrics(next(iter(contents.values())))[0]
        extra = shared_metrics(contents.values()) if self.kind.own else set()
        log_unshared([contents[client] for client in kept], {self.weighted, *names}, {key, *extra})
        for client, message in replies.items():
            sent = first_metrics(message.content)[1]
            values = {name: sent.get(name, math.nan) for name in names} | {self.weighted: weights[client]}
            message.content = _with_metrics(message.content, key, values, extra)
        return [replies[client].content for client in replies if client not in kept]

    def step(
        self,
        server_round: int,
        target: Mapping[str, Array],
        replies: Mapping[int, Message],
        weights: Mapping[int, float],
    ) -> Aggregate:
        """The strategy's step from w + Σ a_k Δ_k, where it would rescale the weights; metrics by the same weights."""
        contents = {client: message.content for client, message in replies.items()}
        metrics = RecordDict({"metrics": MetricRecord({self.weighted: 1.0})})
        whole = Message(RecordDict({self.model: wire.to_record(target), **metrics}), 1, MessageType.TRAIN)
        with _averages(self.inner, [whole.content]):
            arrays, _ = self.original("aggregate_train")(server_round, [whole])
        kept, faults = usable_metrics(contents, ignored=[self.weighted])
        log_faults(faults)
        weights, weighed = self._in_examples(replies, weights), []
        for client, values in kept.items():
            key = first_metrics(contents[client])[0]
            weighed.append(_with_metrics(contents[client], key, {**values, self.weighted: weights[client]}))
        with _averages(self.inner, []):
            return arrays, self.inner.train_metrics_aggr_fn(weighed, self.weighted)

    def odd_metrics(self, contents: Mapping[int, RecordDict]) -> dict[int, str]:
        """Whose metrics cannot be used, or are missing, and why: for rules that compute the model from them."""
        return usable_metrics(contents, ignored=[self.weighted], complete=True)[1]

    # -- evaluation ----------------------------------------------------------------------------------------------------

    def configure_evaluation(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid, busy: Collection[int] = ()
    ) -> Iterable[Message]:
        """As the strategy does, without busy nodes; with fewer nodes idle than it wants, nobody evaluates."""
        online = [node for node in grid.get_node_ids() if node not in busy]
        if not self._can_evaluate(len(online)):
            log(WARNING, "Evaluation of round %d is skipped: %d nodes online", server_round, len(online))
            return []
        view = NodesView(grid, online)
        return cast(Iterable[Message], self.original("configure_evaluate")(server_round, arrays, config, view))

    def _can_evaluate(self, online: int) -> bool:
        """Whether so many nodes suffice: the strategy would wait for more without end."""
        share, least = getattr(self.inner, "fraction_evaluate", 1.0), getattr(self.inner, "min_evaluate_nodes", 1)
        return not share or online >= max(self.least_online, int(online * share), least)

    def aggregate_evaluation(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """The strategy's average of evaluation metrics, by the examples that clients report, as Flower does."""
        messages = dict(enumerate(replies))
        if self.kind.own_evaluation:
            return self._evaluated(server_round, list(messages.values()))
        found = {row: message.content for row, message in messages.items() if not message.has_error()}
        kept, faults = usable_metrics(found, weight=self.weighted)
        log_faults({messages[row].metadata.src_node_id: reason for row, reason in faults.items()}, "node")
        key = {first_metrics(found[row])[0] for row in kept}
        log_unshared([found[row] for row in kept], next(iter(kept.values()), {}), key)
        for row, values in kept.items():
            messages[row].content = _with_metrics(found[row], first_metrics(found[row])[0], values)
        if kept and not sum(values[self.weighted] for values in kept.values()):
            log(WARNING, "Evaluation is left out: nobody evaluated an example")
            kept = {}
        usable = [message for row, message in messages.items() if row in kept or row not in found]
        return self._evaluated(server_round, usable)

    def _evaluated(self, server_round: int, replies: Sequence[Message]) -> MetricRecord | None:
        try:
            return cast(MetricRecord | None, self.original("aggregate_evaluate")(server_round, replies))
        except Exception as error:  # an app's own average that cannot cope with what clients sent
            log(WARNING, "Metrics are left out: averaging them fails with %s: %s", type(error).__name__, error)
            return None


class NodesView:
    """A grid with just these nodes: the chosen ones, or those that were online at one moment."""

    def __init__(self, grid: Grid, nodes: Collection[int]) -> None:
        self._grid = grid
        self._nodes = list(nodes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)

    def get_node_ids(self) -> list[int]:
        """These nodes."""
        return list(self._nodes)

    def get_nodes(self) -> list[Any]:
        """What is known of these nodes."""
        return [info for info in self._grid.get_nodes() if info.node_id in self._nodes]


def _with_metrics(content: RecordDict, key: str, values: Mapping[str, Any], extra: Collection[str] = ()) -> RecordDict:
    """The records of a reply, without ours, and with these metrics and those of the ``extra`` records alone."""
    for name in [*(content.metric_records.keys() - {key, *extra}), wire.ROWS]:
        content.pop(name, None)
    record = content.get(key)
    if not isinstance(record, MetricRecord) or record.keys() != values.keys():
        content[key] = MetricRecord(dict(values))
        return content
    for name, value in values.items():
        if record[name] is not value:
            record[name] = value
    return content


def log_faults(faults: Mapping[int, str], whose: str = "client") -> None:
    """Say whose metrics are left out."""
    for sender, reason in faults.items():
        log(WARNING, "Metrics of %s %s are left out: %s", whose, sender, reason)


def log_unshared(contents: Iterable[RecordDict], names: Collection[str], records: Collection[str]) -> None:
    """Say which metrics, and which records of metrics, are left out because not all replies have them."""
    sent = list(contents)
    lone = {name for content in sent for name in first_metrics(content)[1]} - set(names)
    more = {name for content in sent for name in content.metric_records} - set(records)
    if lone or more:
        words = [f"metric {name!r}" for name in sorted(lone)] + [f"MetricRecord {name!r}" for name in sorted(more)]
        log(WARNING, "Left out, as replies must all have the same metrics in one record: %s", ", ".join(words[:8]))


@contextmanager
def _samples_all(strategy: Any, nodes: int) -> Iterator[None]:
    """Let a strategy of the FedAvg family sample every node that it is shown, for one call."""
    wanted = {"fraction_train": 1.0, "min_train_nodes": nodes, "min_available_nodes": nodes}
    before = {name: getattr(strategy, name) for name in wanted if hasattr(strategy, name)}
    for name in before:
        setattr(strategy, name, wanted[name])
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(strategy, name, value)


@contextmanager
def _averages(strategy: Any, left_out: Sequence[RecordDict]) -> Iterator[None]:
    """Let the strategy's average of metrics see only replies that can be averaged; a failure of it ends nothing."""
    average = getattr(strategy, "train_metrics_aggr_fn", None)
    if average is None:
        yield
        return
    odd = {id(content) for content in left_out}

    def cautious(records: list[RecordDict], weighted: str) -> MetricRecord | None:
        usable = [record for record in records if id(record) not in odd]
        try:
            return cast(MetricRecord | None, average(usable, weighted)) if usable else MetricRecord()
        except Exception as error:  # an app's own function, on what clients sent
            log(WARNING, "Metrics are left out: averaging them fails with %s: %s", type(error).__name__, error)
            return MetricRecord()

    strategy.train_metrics_aggr_fn = cautious
    try:
        yield
    finally:
        strategy.train_metrics_aggr_fn = average
