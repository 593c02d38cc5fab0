"""The frozen suite: its cells, and the studies that they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from sortition.core.errors import bad
from sortition.core.storage.snapshot import digest
from sortition.studies.config import validated
from sortition.studies.plan import StudyPlan, plan, read

FILE = Path(__file__).parent / "suite.toml"
HALVES = ("tuning", "held-out")
Half = Literal["tuning", "held-out"]
Table = dict[str, Any]


class Cell(BaseModel):
    """One federation of the suite."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    half: Half
    data: str
    partition: Table | None = None
    availability: Table
    cohort: Annotated[int, Field(ge=1)]
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    quick: bool = False

    @property
    def families(self) -> dict[str, str]:
        """What kind of scenario this is, in five ways."""
        return {
            "data": self.data,
            "partition": _called(self.partition) if self.partition else "as it comes",
            "availability": self.availability["name"],
            "cohort": f"{self.cohort} a round",
            "dropout": "dropouts" if self.dropout else "no dropouts",
        }


class Suite(BaseModel):
    """Cells, and what those of one data set share."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    seeds: Annotated[int, Field(ge=2)]
    clients: Annotated[int, Field(ge=1)]
    data: dict[str, Table]
    cell: Annotated[list[Cell], Field(min_length=1)]

    @cached_property
    def version(self) -> str:
        """The suite's name with a digest of all that it fixes: another cell, another name."""
        return f"{self.name}-{digest(self.model_dump(mode='json'))[:8]}"

    def cells(self, half: str | None = None, *, quick: bool = False) -> list[Cell]:
        """The cells of one half, or of both."""
        if half is not None and half not in HALVES:
            raise bad("--half", " or ".join(HALVES), half)
        return [one for one in self.cell if half in (None, one.half) and (one.quick or not quick)]

    def study(self, cells: Iterable[Cell], methods: Sequence[Mapping[str, Any]], seeds: Sequence[int]) -> StudyPlan:
        """The runs of these methods in these cells, seed by seed."""
        settings = [self._setting(cell) for cell in cells]
        first, shared = settings[0], {"seeds": list(seeds), "method": [dict(one) for one in methods], "audit": False}
        required = {key: first[key] for key in ("rounds", "cohort", "data", "model", "local")}
        return plan({"title": self.version, **required, **shared, "setting": settings}, owner="leaderboard")

    def _setting(self, cell: Cell) -> Table:
        if cell.data not in self.data:
            raise bad(f"cell {cell.name}.data", f"one of {', '.join(self.data)}", cell.data)
        common = dict(self.data[cell.data])
        data = {**common.pop("data"), "clients": self.clients}
        data |= {} if cell.partition is None else {"partition": cell.partition}
        lost = {"faults": {"before": cell.dropout}} if cell.dropout else {}
        return {
            "name": cell.name,
            "cohort": cell.cohort,
            "availability": cell.availability,
            **common,
            "data": data,
            **lost,
        }


def _called(partition: Table) -> str:
    options = ", ".join(f"{key} {value:g}" for key, value in partition.items() if key != "name")
    return f"{partition['name']} ({options})" if options else str(partition["name"])


def load_suite(path: str | Path = FILE) -> Suite:
    """The suite that comes with Sortition, or one of the same form."""
    return validated(Suite, read(path), "suite")
