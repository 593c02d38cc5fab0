"""A study's whole file as a typed model: the federation, its methods, seeds, settings, sweeps and trackers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import Field, StrictBool, field_validator

from sortition.core.cost import Currency
from sortition.core.errors import bad
from sortition.results.schema import Seed
from sortition.results.statistics import LARGEST_MARGIN, MARGIN
from sortition.studies.config import Federation, Method, Named
from sortition.studies.folder_names import check_distinct, check_honest
from sortition.studies.types import TomlTable

Seeds = Annotated[list[Annotated[Seed, Field(strict=True)]], Field(min_length=1)]
MOST_SEEDS = 100_000
SeedCount = Annotated[int, Field(ge=1, le=MOST_SEEDS)]


class Study(Federation):
    """A study's file. Settings, and what they override, are resolved before this model sees them.

    Attributes:
        title: heads tables and the report.
        seeds: a number of seeds, or a list; each is one partition, initial model and availability.
        method: the methods that are compared, one table each.
        methods: labels of the methods that run, where not all do.
        setting: variants of the study, one table each: keys that differ, and a name.
        sweep: keys that take several values each; all combinations become settings.
        margin: a difference up to here is practically none, in points of accuracy (% of the baseline's loss where
            the target is a loss); tables and the report judge by it.
        baseline: the method that others are compared with, by label or name; by default the method ``uniform``.
        cost: in what methods are compared at equal cost, and what curves are drawn against; by default what runs end by
            (``until``), else seconds where devices differ, else rounds.
        all_pairs: whether every pair of methods is compared, all of them as one family of tests.
        track: trackers that follow the runs, such as ``tensorboard``.
        lockstep: whether runs of small models train together in one process, which is faster; records are the same.
    """

    title: str = ""
    seeds: Seeds = list(range(10))
    method: Annotated[list[Method], Field(min_length=1)]
    methods: list[str] | None = None
    setting: list[TomlTable] = []
    sweep: TomlTable = {}
    margin: Annotated[float, Field(gt=0, le=LARGEST_MARGIN)] = MARGIN
    baseline: str = ""
    cost: Currency | None = None
    all_pairs: StrictBool = False
    track: list[Named] = []
    lockstep: StrictBool = True

    @field_validator("track", mode="before", json_schema_input_type=Named | list[Named])
    @classmethod
    def _as_list(cls, value: object) -> object:
        if isinstance(value, str | dict):
            return [value]
        return value

    @field_validator("seeds", mode="before", json_schema_input_type=SeedCount | Seeds)
    @classmethod
    def _expand_number_of_seeds(cls, value: object) -> object:
        if isinstance(value, int) and not isinstance(value, bool):
            if value < 1:
                raise bad("seeds", "a number of seeds ≥ 1 or a list of whole numbers", value)
            if value > MOST_SEEDS:
                raise bad("seeds", f"at most {MOST_SEEDS:,}", value)
            return list(range(value))
        if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
            raise bad("seeds", "a number of seeds or a list of whole numbers", value)
        return value

    @field_validator("seeds")
    @classmethod
    def _check_seeds_are_distinct(cls, value: list[int]) -> list[int]:
        if len(set(value)) < len(value):
            raise bad("seeds", "distinct", value)
        return value

    @field_validator("method")
    @classmethod
    def _check_labels(cls, value: list[Method]) -> list[Method]:
        check_distinct("method.label", [method.label for method in value])
        check_honest({method.label: method.name for method in value})
        return value
