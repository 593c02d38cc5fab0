"""From a configuration to the federation that a run is played in: data, partition, model, availability, population."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np

from sortition import availability, data
from sortition.availability import Availability
from sortition.core.arrays import Ids
from sortition.core.errors import InputError, bad
from sortition.core.rounds import Population
from sortition.core.streams import stream
from sortition.data import Dataset, partitions
from sortition.data.partitions import Partition
from sortition.learning import build
from sortition.simulation import FaultDraws, Faults, Setup, World
from sortition.studies import methods
from sortition.studies.config import Data, RunConfig

T = TypeVar("T")
VALIDATION = 0.05  # of each client's data, where the server is asked itself and the study does not say how much
MOST_ROWS = 300_000_000  # that a cohort trains on in a round: their indices are drawn at once, 8 bytes each


@dataclass(frozen=True, eq=False)
class Split:
    """A data set and who holds what of it under one seed."""

    dataset: Dataset
    train: Partition
    holdout: Partition | None
    validation: Ids | None = None  # the server's own examples

    @property
    def clients(self) -> int:
        """N."""
        return len(self.train)


@dataclass(frozen=True, eq=False)
class BuiltFederation:
    """Everything that the methods of one setting and seed share."""

    split: Split
    world: World
    population: Population
    availability: Availability


def split(config: Data, seed: int) -> Split:
    """The data set, split over clients; one with clients of its own keeps them unless another partition is given."""
    dataset = dataset_of(config)
    if config.partition is not None and config.partition.name != partitions.NATURAL:
        parts, released = _partitioned(config, dataset, seed), None
    elif dataset.clients is None:
        raise InputError(f"data.partition must be given for {config.name}; got nothing. Try partition = 'iid'.")
    else:
        parts, released = _natural(config, dataset, seed)
    if dataset.notes:
        parts = replace(parts, notes=(*dataset.notes, *parts.notes))
    validation: Ids | None = None
    if config.validation:
        parts, server = parts.holdout(config.validation, stream(seed, "server validation"))
        validation = np.concatenate(server.indices)
    if config.holdout:
        return Split(dataset, *parts.holdout(config.holdout, stream(seed, "holdout")), validation)
    return Split(dataset, parts, released, validation)


def _partitioned(config: Data, dataset: Dataset, seed: int) -> Partition:
    if config.partition is None or config.clients is None:
        raise InputError("data.clients must be given where there is a partition; got nothing.")
    rule, draws = config.partition, stream(seed, "partition")
    return partitions.split_dataset(rule.name, dataset, config.clients, draws, **rule.options)


def _natural(config: Data, dataset: Dataset, seed: int) -> tuple[Partition, Partition | None]:
    """The data set's own clients with enough examples, or ``data.clients`` of them, drawn by the seed."""
    own = dataset.clients or ()
    least = int(config.partition.options.get("least", 1)) if config.partition else 0
    known = np.flatnonzero([len(one) >= least for one in own])
    wanted = known.size if config.clients is None else config.clients
    if config.partition is None and wanted != len(own):
        raise bad("data.clients", f"{len(own)}, as {config.name} comes split, or given with a partition", wanted)
    if wanted > known.size:
        raise bad("data.clients", f"at most {known.size}, the clients of {config.name} with {least} examples", wanted)
    if wanted < known.size:
        known = np.sort(stream(seed, "natural clients").choice(known, wanted, replace=False))
    train, released = (tuple(part[k] for k in known) if part else () for part in (own, dataset.validation))
    return Partition(train, dataset.client_notes), Partition(released) if released else None


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


class Cache(Generic[T]):
    """The values that were used last, each under a key that says everything it depends on."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._held: dict[str, T] = {}

    def get(self, key: str, make: Callable[[], T]) -> T:
        """The value under a key; made now where it is not held."""
        value = self._held.pop(key) if key in self._held else make()
        self._held[key] = value  # the newest is last
        while len(self._held) > self.most:
            del self._held[next(iter(self._held))]
        return value

    def clear(self) -> None:
        """Let all values go."""
        self._held.clear()


_datasets: Cache[Dataset] = Cache(2)
_federations: Cache[BuiltFederation] = Cache(1)


def dataset_of(config: Data) -> Dataset:
    """Read once a process, and kept as worlds take it: all of the process share the same arrays."""
    options = dict(config.options)
    if config.name == "synthetic" and config.clients is not None:
        options.setdefault("clients", config.clients)
    key = _key({"name": config.name, "standardise": config.standardise, "options": options})
    return _datasets.get(key, lambda: data.load(config.name, **options).prepared(standardise=config.standardise))


def build_federation(config: RunConfig) -> BuiltFederation:
    """The federation of a run; shared between the methods of one setting and seed that a process plays."""
    depends_on = {"data", "model", "devices", "availability", "attacks", "seed", "device", "engine"}
    return _federations.get(_key(config.model_dump(include=depends_on)), lambda: _built(config))


def _built(config: RunConfig) -> BuiltFederation:
    parts = split(config.data, config.seed)
    dataset = parts.dataset
    model = build(
        config.model.name, dataset.inputs[0].shape[1:], dataset.classes, seed=config.seed, **config.model.options
    )
    world = World(
        dataset,
        parts.train.indices,
        model,
        config.local,
        holdout=None if parts.holdout is None else parts.holdout.indices,
        validation=parts.validation,
        measured_on=config.data.measured_on,
        seed=config.seed,
        device=config.device,
        engine=config.engine,
        devices=config.devices,
        attacks=config.attacks,
    )
    facts = {} if dataset.features is None or len(dataset.features) != parts.clients else {"features": dataset.features}
    if config.devices is not None and config.devices.speed_spread:
        facts["speed"] = world.fleet.speed  # examples a second; clients know their devices
    reachable = availability.make(
        config.availability.name,
        clients=parts.clients,
        seed=config.seed,
        sizes=world.holdings.sizes,
        label_counts=world.label_counts,
        **config.availability.options,
    )
    return BuiltFederation(parts, world, world.population(**facts), reachable)


def _with_validation(config: RunConfig) -> RunConfig:
    """The same run with examples of the server's own, where the study does not say how many."""
    share = config.data.validation or VALIDATION
    return config.model_copy(update={"data": config.data.model_copy(update={"validation": share})})


def forget() -> None:
    """Let go of the data and worlds that are kept between runs."""
    _federations.clear()
    _datasets.clear()


def setup(config: RunConfig) -> tuple[BuiltFederation, Setup]:
    """What the engine plays."""
    selector = methods.selector(config.method.name, config.method.options)
    shared = build_federation(_with_validation(config) if selector.needs.of_server else config)
    clients = shared.split.clients
    if config.cohort > clients:
        raise bad("cohort", f"at most the number of clients, {clients}", config.cohort)
    largest = int(shared.world.holdings.sizes.max())
    rows = config.local.steps_of(largest) * config.local.rows(largest) * config.cohort
    if rows > MOST_ROWS:
        raise bad("local", f"such that a cohort trains on at most {MOST_ROWS:,} rows a round", f"{rows:,}")
    return shared, Setup(
        world=shared.world.variant(rule=config.local),
        selector=selector,
        cohort=config.cohort,
        horizon=config.rounds,
        population=shared.population,
        availability=shared.availability,
        combine=config.server.combine_rule,
        step=config.server,
        evaluate_every=config.evaluate_every,
        clients_every=config.clients_every,
        seed=config.seed,
        guards=config.guards,
        pace=config.pace,
        faults=FaultDraws(config.faults or Faults(), clients, config.seed),
    )


def availability_bits(setup: Setup, rounds: int) -> np.ndarray:
    """(rounds, ⌈N/8⌉) packed: who was reachable when."""
    return np.stack([np.packbits(setup.reachable(t)) for t in range(rounds)])
