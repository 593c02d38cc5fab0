"""What metrics cost a round: the same federation with an endpoint and without, its rounds played in turn.

    python benchmarks/metrics.py [--clients 1000] [--rounds 60]

Clients train a linear model of 100,000 numbers in this process, one after the other; the cohort is 10. A scraper reads
the endpoint after every tenth round. Shown are the medians of a round in milliseconds of the clock, of the time that
metrics themselves take (records, bytes, figures), and their share; and how long one scrape takes.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

import numpy as np

from sortition.federation import Metrics
from sortition.federation.arrangement import arranged
from sortition.federation.live import LiveFederation
from sortition.federation.messages import Ask, Peer, Profile, Reply
from sortition.federation.model_engine import ModelEngine
from sortition.federation.monitoring import MeteredTransport, MetricsSink
from sortition.federation.options import Options

SIZE = 100_000
EXAMPLES = 64
COHORT = 10


class InProcess:
    """A transport whose clients do their work when they are looked at."""

    def __init__(self, clients: int) -> None:
        self.peers = {str(client): Peer(name=f"client-{client}") for client in range(clients)}
        rng = np.random.default_rng(0)
        self.data = rng.normal(size=(EXAMPLES, SIZE)).astype(np.float32)
        self.waiting: list[tuple[str, Ask]] = []
        self.sent = 0

    def online(self) -> Mapping[str, Peer]:
        return self.peers

    def post(self, asks: Sequence[Ask]) -> Sequence[str]:
        handles = [str(self.sent + number) for number in range(len(asks))]
        self.sent += len(asks)
        self.waiting += zip(handles, asks, strict=True)
        return handles

    def poll(self, wait: float) -> Sequence[Reply]:
        replies = [self.answer(handle, ask) for handle, ask in self.waiting]
        self.waiting = []
        return replies

    def answer(self, handle: str, ask: Ask) -> Reply:
        if ask.kind == "profile":
            return Reply(handle, profile=Profile(f"client-{ask.session}", {"sizes": np.asarray(EXAMPLES)}, ()))
        w = ask.model["w"]
        for _ in range(5):
            w = w - 1e-6 * (self.data @ w - 1.0) @ self.data
        return Reply(handle, model={"w": w})

    def cancel(self, handles: Sequence[str]) -> Sequence[str]:
        return ()


def timed(function: Callable[..., object], seconds: list[float]) -> Callable[..., object]:
    """The same function; how long its calls take is kept."""

    def call(*arguments: object) -> object:
        began = time.perf_counter()
        result = function(*arguments)
        seconds[-1] += time.perf_counter() - began
        return result

    return call


def federation(clients: int, metrics: tuple[MetricsSink, ...]) -> LiveFederation:
    options = Options(arrangement=arranged("benchmark", "uniform"), cohort=COHORT, wait_for=clients, metrics=metrics)
    engine = ModelEngine({"w": np.zeros(SIZE, np.float32)})
    logger = logging.getLogger("benchmark")
    logger.setLevel(logging.ERROR)
    return LiveFederation(InProcess(clients), engine, options, "server", logger=logger)


def metered(live: LiveFederation, seconds: list[float]) -> None:
    """Keep how long the parts of metrics take: folding a record, and counting bytes beside the transport's own work."""
    if live.metrics is None:
        raise RuntimeError("a federation without metrics")
    *others, update = live.driver.sinks
    live.driver.sinks = (*others, timed(update, seconds))
    counting = live.messenger.transport
    if not isinstance(counting, MeteredTransport):
        raise TypeError("a transport that counts nothing")
    inner: list[float] = [0.0]
    for verb in ("post", "poll"):
        setattr(counting.transport, verb, timed(getattr(counting.transport, verb), inner))
        outer = timed(getattr(counting, verb), seconds)

        def call(*arguments: object, outer: Callable[..., object] = outer) -> object:
            inner[-1] = 0.0
            result = outer(*arguments)
            seconds[-1] -= inner[-1]
            return result

        setattr(counting, verb, call)


def scrape(port: int) -> float:
    """Seconds of one scrape."""
    began = time.perf_counter()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
        response.read()
    return time.perf_counter() - began


def measure(clients: int, rounds: int) -> str:
    endpoint = Metrics(0)
    plain = federation(clients, ())
    watched = federation(clients, (endpoint,))
    inside: list[float] = [0.0]
    metered(watched, inside)
    times: dict[str, list[float]] = {"plain": [], "watched": []}
    shares: list[float] = []
    scrapes: list[float] = []
    with ExitStack() as stack:
        plain.open_and_restore(stack)
        watched.open_and_restore(stack)
        for index in range(rounds):
            for name, live in (("plain", plain), ("watched", watched)):
                inside.append(0.0)
                began = time.perf_counter()
                live.driver.play_round()
                times[name].append(time.perf_counter() - began)
            shares.append(inside[-1] / times["watched"][-1])
            if index % 10 == 9:
                scrapes.append(scrape(endpoint.port))
    without, with_metrics = (1000 * statistics.median(times[name][1:]) for name in ("plain", "watched"))
    share = statistics.median(shares[1:])
    return (
        f"{clients:>9,}{without:>12.1f}{with_metrics:>12.1f}{share * with_metrics:>12.3f}{share:>10.2%}"
        f"{1000 * statistics.median(scrapes):>12.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--rounds", type=int, default=60)
    given = parser.parse_args()
    print(f"{'clients':>9}{'without ms':>12}{'with ms':>12}{'metrics ms':>12}{'share':>10}{'scrape ms':>12}")
    for clients in given.clients:
        print(measure(clients, given.rounds), flush=True)


if __name__ == "__main__":
    main()
