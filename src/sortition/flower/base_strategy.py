"""The user's own strategy: it configures the chosen clients, aggregates their replies and evaluates, as it always does.

Only the choice is ours. The strategy is shown the chosen nodes as if they were all, and the replies that can be used,
in the cohort's order, with the cohort's weights as their ``num-examples``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from logging import WARNING
from typing import Any, cast

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.common.logger import log
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Strategy

from sortition.core.arrays import Array
from sortition.core.errors import InputError
from sortition.flower import codec
from sortition.flower.averaged_metrics import Metrics, first_metrics, is_amount, shared_metrics, usable_metrics
from sortition.flower.strategy_traits import innermost, traits_of

Aggregate = tuple[ArrayRecord | None, MetricRecord | None]


class BaseStrategy:
    """A strategy of Flower's or one's own, and what is known of its kind."""

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy
        self.traits = traits_of(strategy)
        self.inner = innermost(strategy)
        self.model: str = getattr(self.inner, "arrayrecord_key", "arrays")
        self.config: str = getattr(self.inner, "configrecord_key", "config")
        self.weighted: str = getattr(self.inner, "weighted_by_key", "num-examples")
        self._assigned: dict[str, object] = {}  # methods that were assigned to the object itself, while ours are there

    @property
    def least_online(self) -> int:
        """Nodes that the strategy wants online before it samples."""
        return int(getattr(self.inner, "min_available_nodes", 1))

    def check_model(self, arrays: ArrayRecord) -> None:
        """Refuse a model that the strategy cannot aggregate."""
        dtypes = {name: value.dtype for name, value in codec.view_arrays(arrays).items()}
        integer_names = [name for name, dtype in dtypes.items() if dtype.kind in "iub"]
        strange_names = [name for name, dtype in dtypes.items() if dtype.kind not in "fiub"]
        if strange_names:
            name = strange_names[0]
            raise InputError(
                f"initial_arrays must hold real numbers; {name!r} is of type {dtypes[name]}. Send a complex "
                "array as its real and its imaginary part, and another type as float32."
            )
        if self.traits.only_floats and integer_names:
            raise InputError(
                f"{type(self.strategy).__name__} cannot aggregate whole numbers, and the model has "
                f"{integer_names[0]!r}. Send "
                "the other arrays alone, or choose another strategy."
            )

    def original(self, method: str) -> Callable[..., Any]:
        """Return the strategy's own method, though ours stands in its place while it runs."""
        method_of_class = getattr(type(self.strategy), method).__get__(self.strategy)
        return cast(Callable[..., Any], self._assigned.get(method, method_of_class))

    @contextmanager
    def replaced(self, **methods: Callable[..., Any]) -> Iterator[None]:
        """Let the strategy's ``start`` call these in place of its own methods."""
        attributes = vars(self.strategy)
        self._assigned = {name: attributes[name] for name in methods if name in attributes}
        attributes.update(methods)
        try:
            yield
        finally:
            for name in methods:
                del attributes[name]
            attributes.update(self._assigned)
            self._assigned = {}

    # -- training ------------------------------------------------------------------------------------------------------

    def configure(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid, nodes: Sequence[int]
    ) -> dict[int, Message]:
        """Let the strategy write its train messages to exactly these nodes; return them by node."""
        if not nodes:
            return {}
        view = NodesView(grid, nodes)
        samples_all = {"fraction_train": 1.0, "min_train_nodes": len(nodes), "min_available_nodes": len(nodes)}
        with _with_settings(self.inner, **samples_all):
            messages = list(self.original("configure_train")(server_round, arrays, config, view))
        message_by_node = {message.metadata.dst_node_id: message for message in messages}
        if messages:
            self._learn_names(messages[0].content, arrays)
        if message_by_node.keys() != set(nodes) or len(messages) != len(nodes):
            raise InputError(
                f"{type(self.strategy).__name__}.configure_train must write once to each of the {len(nodes)} nodes "
                f"that the grid shows it; it wrote {len(messages)} messages to {len(message_by_node)}. Leave the "
                "choice to the selector; of a strategy that takes one client at a time, use cohort=1."
            )
        return {node: message_by_node[node] for node in nodes}

    def _learn_names(self, content: RecordDict, arrays: ArrayRecord) -> None:
        """Note under which names a strategy of one's own sends model and config, where these are not Flower's."""
        if self.model not in content.array_records:
            record_names = list(content.array_records)
            like_the_model = [name for name in record_names if content[name].keys() == arrays.keys()]
            self.model = next(iter(like_the_model or record_names), self.model)
        if self.config not in content.config_records:
            self.config = next(iter(content.config_records), self.config)

    def aggregate(
        self,
        server_round: int,
        replies: Mapping[int, Message],
        weights: Mapping[int, float],
        errors: Sequence[Message] = (),
    ) -> Aggregate:
        """Let the strategy aggregate these replies, in the cohort's order; our weights replace the clients' examples.

        ``errors`` are shown to it too, as Flower does; but noise that counts on all replies has them all.
        """
        weights = self._in_examples(replies, weights)
        left_out: list[RecordDict] = []
        if self.traits.is_custom and not isinstance(self.inner, FedAvg):  # it may average metrics in its own way
            for client, message in replies.items():
                key, sent_metrics = first_metrics(message.content)
                values = {**sent_metrics, self.weighted: weights[client]}
                _keep_only_metrics(message.content, key, values, extra=message.content.metric_records)
        else:
            left_out = self._share_metrics(replies, weights)
        messages = list(replies.values())
        if not self.traits.replies_for_noise:
            messages.extend(errors)
        with _averages(self.inner, left_out):
            return cast(Aggregate, self.original("aggregate_train")(server_round, messages))

    def _in_examples(self, replies: Mapping[int, Message], weights: Mapping[int, float]) -> dict[int, float]:
        """Return the weights times the examples that these clients report together; as they are where none does."""
        reported = [first_metrics(message.content)[1].get(self.weighted) for message in replies.values()]
        total = float(sum(examples for examples in reported if is_amount(examples))) or 1.0
        return {client: float(weight) * total for client, weight in weights.items()}

    def _share_metrics(self, replies: Mapping[int, Message], weights: Mapping[int, float]) -> list[RecordDict]:
        """Leave the metrics that all replies have, as Flower wants it; the replies whose metrics cannot be averaged."""
        contents = {client: message.content for client, message in replies.items()}
        metrics_by_client, faults = usable_metrics(contents, ignored=[self.weighted])
        log_faults(faults)
        shared_names = next(iter(metrics_by_client.values()), {})
        key, _ = first_metrics(next(iter(contents.values())))
        extra: set[str] = set()
        if self.traits.is_custom:
            extra = shared_metrics(contents.values())
        usable_contents = [contents[client] for client in metrics_by_client]
        log_unshared(usable_contents, names={self.weighted, *shared_names}, records={key, *extra})
        for client, message in replies.items():
            _, sent_metrics = first_metrics(message.content)
            values = {name: sent_metrics.get(name, math.nan) for name in shared_names}
            values[self.weighted] = weights[client]
            _keep_only_metrics(message.content, key, values, extra=extra)
        return [replies[client].content for client in replies if client not in metrics_by_client]

    def step(
        self,
        server_round: int,
        target: Mapping[str, Array],
        replies: Mapping[int, Message],
        weights: Mapping[int, float],
    ) -> Aggregate:
        """Let the strategy step to w + Σ a_k Δ_k, where it would rescale the weights; metrics have the same weights."""
        contents = {client: message.content for client, message in replies.items()}
        metrics = RecordDict({"metrics": MetricRecord({self.weighted: 1.0})})
        one_reply = Message(RecordDict({self.model: codec.to_record(target), **metrics}), 1, MessageType.TRAIN)
        with _averages(self.inner, [one_reply.content]):
            arrays, _ = self.original("aggregate_train")(server_round, [one_reply])
        metrics_by_client, faults = usable_metrics(contents, ignored=[self.weighted])
        log_faults(faults)
        examples = self._in_examples(replies, weights)
        weighed_contents = []
        for client, values in metrics_by_client.items():
            key, _ = first_metrics(contents[client])
            weighed = {**values, self.weighted: examples[client]}
            _keep_only_metrics(contents[client], key, weighed)
            weighed_contents.append(contents[client])
        with _averages(self.inner, []):
            return arrays, self.inner.train_metrics_aggr_fn(weighed_contents, self.weighted)

    # -- evaluation ----------------------------------------------------------------------------------------------------

    def configure_evaluation(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid, busy: Collection[int] = ()
    ) -> Iterable[Message]:
        """Let the strategy ask idle nodes to evaluate; nobody where fewer are idle than it wants."""
        online = [node for node in grid.get_node_ids() if node not in busy]
        if not self._can_evaluate(len(online)):
            log(WARNING, "Evaluation of round %d is skipped: %d nodes online", server_round, len(online))
            return []
        view = NodesView(grid, online)
        return cast(Iterable[Message], self.original("configure_evaluate")(server_round, arrays, config, view))

    def _can_evaluate(self, online: int) -> bool:
        """Tell whether so many nodes suffice: the strategy would wait for more without end."""
        share = getattr(self.inner, "fraction_evaluate", 1.0)
        if not share:
            return True
        minimum = getattr(self.inner, "min_evaluate_nodes", 1)
        return bool(online >= max(self.least_online, int(online * share), minimum))

    def aggregate_evaluation(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Let the strategy average evaluation metrics by the examples that clients report, as Flower does."""
        messages = dict(enumerate(replies))
        if self.traits.own_evaluation:
            return self._evaluated(server_round, list(messages.values()))
        contents = {row: message.content for row, message in messages.items() if not message.has_error()}
        metrics_by_row, faults = usable_metrics(contents, weight=self.weighted)
        log_faults({messages[row].metadata.src_node_id: reason for row, reason in faults.items()}, "node")
        record_names = {first_metrics(contents[row])[0] for row in metrics_by_row}
        shared_names = next(iter(metrics_by_row.values()), {})
        log_unshared([contents[row] for row in metrics_by_row], names=shared_names, records=record_names)
        for row, values in metrics_by_row.items():
            key, _ = first_metrics(contents[row])
            _keep_only_metrics(contents[row], key, values)
        if metrics_by_row and not any(values[self.weighted] for values in metrics_by_row.values()):
            log(WARNING, "Evaluation is left out: nobody evaluated an example")
            metrics_by_row = {}
        usable = [message for row, message in messages.items() if row in metrics_by_row or row not in contents]
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
        """Return these nodes."""
        return list(self._nodes)

    def get_nodes(self) -> list[NodeInfo]:
        """Return what is known of these nodes."""
        return [info for info in self._grid.get_nodes() if info.node_id in self._nodes]


def _keep_only_metrics(content: RecordDict, key: str, values: Metrics, extra: Collection[str] = ()) -> None:
    """Edit a reply in place: its metric records are ``key``, with these values alone, and those that ``extra`` names.

    The rows of signals, which the strategy does not know, are removed. A metric is assigned only where it is another
    object (``is not``): NaN is not equal to itself, 1 equals 1.0, and Flower checks every value that is assigned.
    """
    for name in [*(content.metric_records.keys() - {key, *extra}), codec.ROWS]:
        content.pop(name, None)
    record = content.get(key)
    if not isinstance(record, MetricRecord) or record.keys() != values.keys():
        content[key] = MetricRecord(dict(values))
        return
    for name, value in values.items():
        if record[name] is not value:
            record[name] = value


def log_faults(faults: Mapping[int, str], whose: str = "client") -> None:
    """Say whose metrics are left out."""
    for sender, reason in faults.items():
        log(WARNING, "Metrics of %s %s are left out: %s", whose, sender, reason)


def log_unshared(contents: Iterable[RecordDict], names: Collection[str], records: Collection[str]) -> None:
    """Say which metrics, and which records of metrics, are left out because not all replies have them."""
    replies = list(contents)
    unshared_metrics = {name for content in replies for name in first_metrics(content)[1]} - set(names)
    unshared_records = {name for content in replies for name in content.metric_records} - set(records)
    if unshared_metrics or unshared_records:
        words = [f"metric {name!r}" for name in sorted(unshared_metrics)]
        words += [f"MetricRecord {name!r}" for name in sorted(unshared_records)]
        log(WARNING, "Left out, as replies must all have the same metrics in one record: %s", ", ".join(words[:8]))


@contextmanager
def _with_settings(strategy: Strategy, **settings: object) -> Iterator[None]:
    """Let a strategy have these attributes in place of its own, those that it has at all, for one call."""
    original_settings = {name: getattr(strategy, name) for name in settings if hasattr(strategy, name)}
    for name in original_settings:
        setattr(strategy, name, settings[name])
    try:
        yield
    finally:
        for name, value in original_settings.items():
            setattr(strategy, name, value)


def _averages(strategy: Strategy, left_out: Sequence[RecordDict]) -> AbstractContextManager[None]:
    """Let the strategy's average of metrics see only replies that can be averaged; a failure of it ends nothing."""
    average = getattr(strategy, "train_metrics_aggr_fn", None)
    odd = {id(content) for content in left_out}

    def cautious(records: list[RecordDict], weighted: str) -> MetricRecord | None:
        usable = [record for record in records if id(record) not in odd]
        if average is None or not usable:
            return MetricRecord()
        try:
            return cast(MetricRecord | None, average(usable, weighted))
        except Exception as error:  # an app's own function, on what clients sent
            log(WARNING, "Metrics are left out: averaging them fails with %s: %s", type(error).__name__, error)
            return MetricRecord()

    return _with_settings(strategy, train_metrics_aggr_fn=cautious)
