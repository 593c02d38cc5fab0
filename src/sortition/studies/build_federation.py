"""From a configuration to the federation that a run is played in: data, partition, model, availability, population."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from sortition import availability, data
from sortition.availability import Availability
from sortition.core.arrays import Array, Ids
from sortition.core.errors import InputError, bad
from sortition.core.inputs import shape_of
from sortition.core.population import Population
from sortition.core.round_record import RoundRecord
from sortition.core.streams import stream
from sortition.data import Dataset, partitions
from sortition.data.client_skew import add_label_noise, apply_styles
from sortition.data.partitions import Partition
from sortition.learning import build
from sortition.simulation import FaultDraws, Faults, Habits, Setup, World
from sortition.simulation.task_data import data_for, outputs_for
from sortition.studies import method_entries
from sortition.studies.config import Data, RunConfig
from sortition.studies.types import TomlTable

T = TypeVar("T")
VALIDATION_SHARE = 0.05  # of each client's data, where the server is asked itself and the study does not say how much
MAX_ROWS = 300_000_000  # that a cohort trains on in a round: their indices are drawn at once, 8 bytes each


@dataclass(frozen=True, eq=False)
class Split:
    """A data set and who holds what of it under one seed.

    Attributes:
        dataset: the data set.
        train: the rows that each client trains on.
        holdout: the rows of each client that are kept out of its training; None where there are none.
        validation: the rows that the server has itself; None where it has none.
    """

    dataset: Dataset
    train: Partition
    holdout: Partition | None
    validation: Ids | None = None

    @property
    def clients(self) -> int:
        """Return the number of clients, N."""
        return len(self.train)


@dataclass(frozen=True, eq=False)
class BuiltFederation:
    """Everything that the methods of one setting and seed share."""

    split: Split
    world: World
    population: Population
    availability: Availability


def split_data(config: Data, seed: int) -> Split:
    """Split the data set over clients; one with clients of its own keeps them unless another partition is given."""
    dataset = raw_dataset(config) if _is_skewed(config) else dataset_of(config)
    released_holdout: Partition | None = None
    if config.partition is not None and config.partition.name != partitions.NATURAL:
        train = _new_partition(config, dataset, seed)
    elif dataset.clients is None:
        raise InputError(f"data.partition must be given for {config.name}; got nothing. Try partition = 'iid'.")
    else:
        train, released_holdout = _natural_partition(config, dataset, seed)
    if _is_skewed(config):
        dataset = _with_skew(config, dataset, train, seed)
    if dataset.notes:
        train = replace(train, notes=(*dataset.notes, *train.notes))
    validation: Ids | None = None
    if config.validation:
        train, server_parts = train.holdout(config.validation, stream(seed, "server validation"))
        validation = np.concatenate(server_parts.indices)
    holdout = released_holdout
    if config.holdout:
        train, holdout = train.holdout(config.holdout, stream(seed, "holdout"))
    return Split(dataset=dataset, train=train, holdout=holdout, validation=validation)


def _new_partition(config: Data, dataset: Dataset, seed: int) -> Partition:
    if config.partition is None or config.clients is None:
        raise InputError("data.clients must be given where there is a partition; got nothing.")
    rng = stream(seed, "partition")
    return partitions.split_dataset(config.partition.name, dataset, config.clients, rng, **config.partition.options)


def _natural_partition(config: Data, dataset: Dataset, seed: int) -> tuple[Partition, Partition | None]:
    """Return the data set's own clients with enough examples, or ``data.clients`` of them, drawn by the seed.

    The second value is what the released split holds back of each client; None where it holds nothing back.
    """
    client_rows = dataset.clients or ()
    if config.partition:
        minimum_size = int(config.partition.options.get("least", 1))
    else:
        minimum_size = 0
    chosen = np.flatnonzero([len(rows) >= minimum_size for rows in client_rows])
    if config.clients is None:
        n_clients = chosen.size
    else:
        n_clients = config.clients
    if config.partition is None and n_clients != len(client_rows):
        requirement = f"{len(client_rows)}, as {config.name} comes split, or given with a partition"
        raise bad("data.clients", requirement, n_clients)
    if n_clients > chosen.size:
        requirement = f"at most {chosen.size}, the clients of {config.name} with {minimum_size} examples"
        raise bad("data.clients", requirement, n_clients)
    if n_clients < chosen.size:
        chosen = np.sort(stream(seed, "natural clients").choice(chosen, n_clients, replace=False))
    train = Partition(tuple(client_rows[client] for client in chosen), dataset.client_notes)
    if not dataset.validation:
        return train, None
    return train, Partition(tuple(dataset.validation[client] for client in chosen))


def _as_key(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)


class Cache(Generic[T]):
    """Keeps the values that were used last, each under a key that says everything it depends on."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._values: dict[str, T] = {}

    def get(self, key: str, make: Callable[[], T]) -> T:
        """Return the value under a key; it is made now where the cache does not have it."""
        value = self._values.pop(key) if key in self._values else make()
        self._values[key] = value  # the newest is last
        while len(self._values) > self.size:
            oldest_key = next(iter(self._values))
            del self._values[oldest_key]
        return value

    def clear(self) -> None:
        """Let all values go."""
        self._values.clear()


_datasets: Cache[Dataset] = Cache(2)
_federations: Cache[BuiltFederation] = Cache(1)


def dataset_of(config: Data) -> Dataset:
    """Return the data set as worlds take it; it is read once a process, and all share the same arrays."""
    key = _as_key({**_load_key(config), "standardise": config.standardise})
    return _datasets.get(key, lambda: _load(config).prepared(standardise=config.standardise))


def raw_dataset(config: Data) -> Dataset:
    """Return the data set as it was loaded, images as bytes; it is read once a process."""
    return _datasets.get(_as_key({**_load_key(config), "raw": True}), lambda: _load(config))


def _load(config: Data) -> Dataset:
    dataset = data.load(config.name, **_load_options(config))
    if config.subset is None:
        return dataset
    return config.subset.of(dataset)


def _load_key(config: Data) -> TomlTable:
    """Return what the loaded examples depend on."""
    table: TomlTable = {"name": config.name, "options": _load_options(config)}
    if config.subset is not None:
        table["subset"] = [config.subset.train, config.subset.test]
    return table


def _load_options(config: Data) -> TomlTable:
    options = dict(config.options)
    if config.name == "synthetic" and config.clients is not None:
        options.setdefault("clients", config.clients)
    return options


def _is_skewed(config: Data) -> bool:
    return config.styles is not None or config.label_noise is not None


def _with_skew(config: Data, dataset: Dataset, train: Partition, seed: int) -> Dataset:
    """Return the data with the styles and wrong labels of each client, as worlds take them."""
    if config.styles is not None:
        dataset = apply_styles(dataset, train.indices, config.styles, stream(seed, "styles"))
    if config.label_noise is not None:
        dataset = add_label_noise(dataset, train.indices, config.label_noise, stream(seed, "label noise"))
    return dataset.prepared(standardise=config.standardise)


def build_federation(config: RunConfig) -> BuiltFederation:
    """Return the federation of a run; the methods of one setting and seed that a process plays share it."""
    depends_on = {
        "data",
        "model",
        "task",
        "devices",
        "owners",
        "availability",
        "attacks",
        "seed",
        "device",
        "engine",
        "precision",
    }
    return _federations.get(_as_key(config.model_dump(include=depends_on)), lambda: _build(config))


def _build(config: RunConfig) -> BuiltFederation:
    if not _is_skewed(config.data):
        data_for(dataset_of(config.data), config.task)  # unfit targets are refused before they are split
    parts = split_data(config.data, config.seed)
    dataset = data_for(parts.dataset, config.task)
    parts = replace(parts, dataset=dataset)
    model = build(
        config.model.name,
        shape_of(dataset.inputs[0]),
        outputs_for(dataset, config.task),
        seed=config.seed,
        **config.model.options,
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
        precision=config.precision or "float32",
        devices=config.devices,
        attacks=config.attacks,
        task=config.task,
    )
    facts: dict[str, Array] = {}
    if dataset.features is not None and len(dataset.features) == parts.clients:
        facts["features"] = dataset.features
    if world.fleet.speeds_differ:
        facts["speed"] = world.fleet.speed  # examples a second; clients know their devices
    if config.owners is not None:
        if config.owners > parts.clients:
            raise bad("owners", f"at most the number of clients, {parts.clients}", config.owners)
        facts["groups"] = np.arange(parts.clients) % config.owners
    reachable = availability.make(
        config.availability.name,
        clients=parts.clients,
        seed=config.seed,
        sizes=world.training_parts.sizes,
        label_counts=world.label_counts if world.has_label_counts else None,
        **config.availability.options,
    )
    return BuiltFederation(split=parts, world=world, population=world.population(**facts), availability=reachable)


def _with_validation(config: RunConfig) -> RunConfig:
    """Return the same run with examples of the server's own, where the study does not say how many."""
    share = config.data.validation or VALIDATION_SHARE
    return config.model_copy(update={"data": config.data.model_copy(update={"validation": share})})


def forget_federations() -> None:
    """Let go of the data and worlds that are kept between runs."""
    _federations.clear()
    _datasets.clear()


def setup(config: RunConfig) -> tuple[BuiltFederation, Setup]:
    """Return the federation of a run, and what the engine plays in it."""
    selector = method_entries.make_selector(config.method.name, config.method.options)
    built = build_federation(_with_validation(config) if selector.needs.of_server else config)
    clients = built.split.clients
    if config.cohort > clients:
        raise bad("cohort", f"at most the number of clients, {clients}", config.cohort)
    largest = int(built.world.training_parts.sizes.max())
    rows = config.local.steps_of(largest) * config.local.rows_per_batch(largest) * config.cohort
    if rows > MAX_ROWS:
        raise bad("local", f"such that a cohort trains on at most {MAX_ROWS:,} rows a round", f"{rows:,}")
    return built, Setup(
        world=built.world.variant(rule=config.local),
        selector=selector,
        cohort=config.cohort,
        horizon=config.rounds,
        until=config.until,
        population=built.population,
        availability=built.availability,
        combine=config.server.combine_rule,
        step=config.server,
        evaluate_every=config.evaluate_every,
        clients_every=config.clients_every,
        seed=config.seed,
        guards=config.guards,
        shadows=method_entries.make_shadows(config.shadow),
        pace=config.pace,
        policies=config.policy,
        habits=config.habits or Habits(),
        faults=FaultDraws(config.faults or Faults(), clients, config.seed),
    )


def starting_clocks(records: Sequence[RoundRecord]) -> list[float]:
    """Return the simulated second at which each of these rounds began: the clock of the record before it."""
    previous_clocks = [record.get("clock") or 0.0 for record in records[:-1]]
    return [0.0, *previous_clocks][: len(records)]


def availability_bits(setup: Setup, clocks: Sequence[float]) -> Array:
    """Return who was reachable in the rounds that began at these seconds, packed into bits: (rounds, ⌈N/8⌉)."""
    return np.stack([np.packbits(setup.reachable(t, clock)) for t, clock in enumerate(clocks)])
