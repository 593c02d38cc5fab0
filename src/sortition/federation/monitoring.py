"""Numbers of a running federation for those who operate it: an HTTP endpoint for Prometheus, or an experiment tracker.

::

    Federation(mailbox, model, "fedgs", cohort=10, metrics=9464)               # http://127.0.0.1:9464/metrics
    Federation(mailbox, model, "fedgs", cohort=10, metrics=[Metrics(9464, address="0.0.0.0"), track.TensorBoard()])

What is shown is in :mod:`~sortition.federation.metric_series`; here it is gathered when a round is over, and handed on.
"""

from __future__ import annotations

import importlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import numpy as np

from sortition import __version__
from sortition.clients.named_arrays import Model
from sortition.core.arrays import Ids
from sortition.core.errors import InputError, bad
from sortition.core.population import Population
from sortition.core.round_record import RoundRecord
from sortition.core.validation import is_number
from sortition.federation.driver import Driver
from sortition.federation.members import Members
from sortition.federation.messages import Ask, Handle, Peer, Reply, Transport
from sortition.federation.metric_series import Now, SelectionSeries, Series

if TYPE_CHECKING:
    from prometheus_client.core import Metric as PrometheusMetric

PREFIX = "sortition"
LOOPBACK = "127.0.0.1"
HIGHEST_PORT = 65_535
LINGER = 60.0  # seconds; by default Prometheus scrapes once a minute
LONGEST_LINGER = 3600.0  # seconds


@runtime_checkable
class MetricsSink(Protocol):
    """Shows the numbers of a running federation somewhere."""

    def begin(self, series: SelectionSeries, played: int) -> None:
        """Begin, after so many rounds before a restart; the series say what is run."""
        ...

    def show(self, series: SelectionSeries) -> None:
        """Show the federation after a round."""
        ...

    def end(self, completed: bool) -> None:
        """End: all rounds are over (``completed``), or the federation has stopped or failed."""
        ...


MetricsOption = int | MetricsSink | Sequence[int | MetricsSink] | None


class Metrics:
    """An HTTP endpoint that Prometheus scrapes, in the text format of Prometheus or OpenMetrics.

    When all rounds are over, the endpoint stays open until the last round has been scraped, if anybody ever scraped it.
    When the federation was stopped or has failed, the endpoint closes at once: the next start shows everything.

    Args:
        port: of the endpoint; 0 for one that is free, which ``port`` then says.
        address: of the interface; the default answers this machine only, ``"0.0.0.0"`` everybody.
        owners: whether a series may name owners.
        clients: whether a series may name clients.
        linger: seconds that the endpoint waits at most for a scrape of the last round.

    Attributes:
        port: that the endpoint listens on, once the federation has begun.
    """

    def __init__(
        self,
        port: int = 9464,
        *,
        address: str = LOOPBACK,
        owners: bool = False,
        clients: bool = False,
        linger: float = LINGER,
    ) -> None:
        if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= HIGHEST_PORT:
            raise bad("Metrics.port", f"a whole number from 0 to {HIGHEST_PORT}", port)
        if not isinstance(address, str) or not address:
            raise bad("Metrics.address", "the address of an interface", address)
        if not is_number(linger) or not 0 <= linger <= LONGEST_LINGER:
            raise bad("Metrics.linger", f"a number of seconds from 0 to {LONGEST_LINGER:g}", linger)
        prometheus_client()
        self.port = port
        self.address = address
        self.owners = owners
        self.clients = clients
        self.linger = float(linger)
        self._series: SelectionSeries | None = None
        self._changed = threading.Condition()
        self._version = 0  # counts what was shown
        self._scraped = 0  # the latest version that somebody was sent
        self._close: Callable[[], object] | None = None

    def begin(self, series: SelectionSeries, played: int) -> None:
        """Open the endpoint, and show the first series."""
        client = prometheus_client()
        registry = client.CollectorRegistry()
        registry.register(self)
        try:
            server, thread = client.start_http_server(self.port, addr=self.address, registry=registry)
        except OSError as error:
            raise InputError(
                f"Metrics.port must be free on {self.address}; got {self.port}, {error.strerror}. Choose another one."
            ) from None
        self.port = int(server.server_port)
        self._scraped = 0
        self.show(series)
        server.set_app(self._counting(server.get_app()))

        def close() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        self._close = close

    def show(self, series: SelectionSeries) -> None:
        """Keep these series as the answer to the next scrape."""
        with self._changed:
            self._series = series
            self._version += 1

    @property
    def awaits_scrape(self) -> bool:
        """Whether somebody scrapes this endpoint and has not been sent the last round."""
        return 0 < self._scraped < self._version

    def end(self, completed: bool) -> None:
        """Stop listening; if all rounds are over, wait until the last one has been scraped."""
        if self._close is None:
            return
        try:
            if completed:
                with self._changed:
                    self._changed.wait_for(lambda: not self.awaits_scrape, self.linger)
        finally:
            self._close()
            self._close = None

    def _counting(self, app: WSGIApplication) -> WSGIApplication:
        """Note of every page which version it shows, when the page is sent."""

        def counting_app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            with self._changed:
                version = self._version
            return SentPage(app(environ, start_response), sent=lambda: self._note_scrape(version))

        return counting_app

    def _note_scrape(self, version: int) -> None:
        with self._changed:
            self._scraped = max(self._scraped, version)
            self._changed.notify_all()

    def describe(self) -> Iterable[PrometheusMetric]:
        """Name nothing beforehand: Prometheus' client asks when it registers this collector."""
        return []

    def collect(self) -> Iterable[PrometheusMetric]:
        """Return all series in the types of Prometheus' client, which asks for them at a scrape."""
        with self._changed:
            series = self._series
        if series is None:
            return []
        with series.lock:
            current = series.series(at=time.time())
        return [_as_metric(one_series) for one_series in current]


class SentPage:
    """The parts of a page; ``sent`` is called when all of them are written.

    Its length lets the HTTP server state the length of a page of one part.
    """

    def __init__(self, parts: Iterable[bytes], sent: Callable[[], object]) -> None:
        self._parts = list(parts)
        self._sent = sent

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[bytes]:
        yield from self._parts
        self._sent()


def prometheus_client() -> ModuleType:
    """Import Prometheus' client; where it is missing, say how to install it."""
    try:
        return importlib.import_module("prometheus_client")
    except ModuleNotFoundError as error:
        if error.name != "prometheus_client":
            raise
        raise InputError("metrics needs prometheus_client. Try: pip install 'sortition[metrics]'.") from None


def _as_metric(series: Series) -> PrometheusMetric:
    families = importlib.import_module("prometheus_client.core")
    name = f"{PREFIX}_{series.name}"
    label_names = list(series.samples[0].labels) if series.samples else []
    kinds = {
        "counter": families.CounterMetricFamily,
        "gauge": families.GaugeMetricFamily,
        "histogram": families.HistogramMetricFamily,
    }
    family: Any = kinds[series.kind](name, series.help, labels=label_names)
    for sample in series.samples:
        values = [sample.labels[label] for label in label_names]
        if series.kind == "histogram":
            buckets = [(_bound(bound), count) for bound, count in sample.buckets]
            family.add_metric(values, buckets, sample.value)
        else:
            family.add_metric(values, sample.value)
    metric: PrometheusMetric = family
    return metric


def _bound(bound: float) -> str:
    return "+Inf" if np.isinf(bound) else str(float(bound))


def sinks(who: str, given: MetricsOption) -> tuple[MetricsSink, ...]:
    """Return the sinks that an option names: a port, a sink, or several of them."""
    if given is None:
        return ()
    several = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    return tuple(_sink(who, option) for option in several)


def _sink(who: str, option: object) -> MetricsSink:
    if isinstance(option, int) and not isinstance(option, bool):
        return Metrics(option)
    if isinstance(option, MetricsSink):
        return option
    hint = "Write metrics=9464, or metrics=[Metrics(9464), track.TensorBoard()]."
    raise bad(f"{who}.metrics", "a port, a Metrics, a tracker or a list of these", option, hint)


class MeteredTransport:
    """A transport whose arrays are counted, in bytes; everything else is the transport's own.

    Attributes:
        traffic: bytes of arrays to clients ("down") and from them ("up").
    """

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.traffic = {"down": 0, "up": 0}

    @property
    def takes_replies_after_restart(self) -> bool:
        """Whether work that is in flight at a restart can still be delivered."""
        return bool(getattr(self.transport, "takes_replies_after_restart", False))

    def online(self) -> Mapping[str, Peer]:
        """Return who can be reached now."""
        return self.transport.online()

    def post(self, asks: Sequence[Ask]) -> Sequence[Handle | None]:
        """Send these, and count the models that were sent with them."""
        handles = self.transport.post(asks)
        size_of: dict[int, int] = {}  # a cohort gets one model
        for ask, handle in zip(asks, handles, strict=True):
            if handle is None or ask.model is None:
                continue
            if id(ask.model) not in size_of:
                size_of[id(ask.model)] = array_bytes(ask.model)
            self.traffic["down"] += size_of[id(ask.model)]
        return handles

    def poll(self, wait: float) -> Sequence[Reply]:
        """Take what has come, and count its models and rows."""
        replies = list(self.transport.poll(wait))
        for reply in replies:
            rows = sum(np.asarray(row).nbytes for row in reply.rows.values())
            self.traffic["up"] += array_bytes(reply.model or {}) + rows
        return replies

    def cancel(self, handles: Collection[Handle]) -> Collection[Handle]:
        """Take messages back."""
        return self.transport.cancel(handles)


def array_bytes(model: Model) -> int:
    """Count the bytes of a model's arrays."""
    return sum(array.nbytes for array in model.values())


class LiveMetrics:
    """Gathers the numbers of a federation when a round is over, and shows them in its sinks.

    Args:
        shown_in: the sinks.
        backend: ``flower``, ``nvflare`` or ``server``.
        driver: whose rounds are shown.
        members: who takes part.
        transport: counts bytes.
        checkpoint: when the last checkpoint was written, in seconds of the epoch.
        logger: where it is said that a sink raised, which ends nothing.

    Attributes:
        completed: whether all rounds are over.
    """

    def __init__(
        self,
        shown_in: Sequence[MetricsSink],
        *,
        backend: str,
        driver: Driver,
        members: Members,
        transport: MeteredTransport,
        checkpoint: Callable[[], float | None],
        logger: logging.Logger,
    ) -> None:
        self.completed = False
        self.sinks = tuple(shown_in)
        self._driver = driver
        self._members = members
        self._transport = transport
        self._checkpoint = checkpoint
        self._logger = logger
        self._names_owners = any(getattr(sink, "owners", False) for sink in self.sinks)
        self._names_clients = any(getattr(sink, "clients", False) for sink in self.sinks)
        self._population: Population | None = None
        self._owners: Ids | None = None
        self._owner_names: list[str] = []
        method = type(driver.selection.selector).__name__
        self.series = SelectionSeries({"method": method, "backend": backend, "version": __version__})

    def open(self, stack: ExitStack, history: Sequence[RoundRecord]) -> None:
        """Begin in every sink, from what was played before a restart; they end when the stack closes."""
        for record in history:
            self.series.add(record)
        for sink in self.sinks:
            sink.begin(self.series, len(history))
            stack.callback(self._end, sink)

    def update(self, record: RoundRecord) -> None:
        """Show a round that is over."""
        with self.series.lock:
            self.series.add(record, self._now())
        for sink in self.sinks:
            self._try(sink.show, self.series)

    def _end(self, sink: MetricsSink) -> None:
        """End in a sink; say so if that may take a while."""
        if self.completed and isinstance(sink, Metrics) and sink.awaits_scrape:
            self._logger.info(
                "All rounds are over. Port %d of the metrics stays open until the last one has been scraped, "
                "for %g seconds at most.",
                sink.port,
                sink.linger,
            )
        self._try(sink.end, self.completed)

    def _try(self, step: Callable[[Any], object], argument: object) -> None:
        try:
            step(argument)
        except Exception as error:  # of a tracker: the federation goes on
            name = getattr(step, "__qualname__", repr(step))
            self._logger.warning("%s raised %s: %s", name, type(error).__name__, error)

    def _now(self) -> Now:
        registrar = self._driver.registrar
        if registrar is None:
            return Now()
        self._look_at_owners(registrar.population)
        return Now(
            quarantined=int((registrar.eligibility.quarantined_until > registrar.index).sum()),
            selection_seconds=self._driver.selection_seconds,
            traffic=dict(self._transport.traffic),
            checkpoint=self._checkpoint(),
            owners=self._owners,
            owner_names=self._owner_names,
            client_names=self._members.names if self._names_clients else (),
        )

    def _look_at_owners(self, population: Population) -> None:
        """Note who owns whom, where that is known and has changed."""
        if population is self._population:
            return
        self._population = population
        if "groups" not in population.facts:
            return
        numbers, owners = np.unique(population.groups, return_inverse=True)
        self._owners = owners.astype(np.int64, copy=False)
        if self._names_owners:
            self._owner_names = self._members.owner_names() or [str(number) for number in numbers.tolist()]
