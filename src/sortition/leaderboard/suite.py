"""The frozen suite of federations: its cells, and the study that runs methods in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from sortition.core.errors import bad
from sortition.core.storage.snapshot import digest
from sortition.studies.config import validated
from sortition.studies.plan import StudyPlan, plan, read
from sortition.studies.types import ReadOnlyTable, TomlTable

SUITE_FILE = Path(__file__).parent / "suite.toml"
HALVES = ("tuning", "held-out")
Half = Literal["tuning", "held-out"]


class Cell(BaseModel):
    """One federation of the suite.

    Attributes:
        name: unique in the suite.
        half: methods may be tuned on the half "tuning"; they are judged on "held-out".
        data: key of the suite's table ``data``.
        partition: how the data are split over clients; None keeps the data set's own clients.
        availability: name and options of the availability mode.
        cohort: clients per round.
        dropout: probability that a client is lost before it trains.
        quick: whether ``--quick`` runs this cell.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    half: Half
    data: str
    partition: TomlTable | None = None
    availability: TomlTable
    cohort: Annotated[int, Field(ge=1)]
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    quick: bool = False

    @property
    def families(self) -> dict[str, str]:
        """The kind of scenario this is, in five ways."""
        return {
            "data": self.data,
            "partition": _partition_label(self.partition) if self.partition else "as it comes",
            "availability": self.availability["name"],
            "cohort": f"{self.cohort} a round",
            "dropout": "dropouts" if self.dropout else "no dropouts",
        }


class Suite(BaseModel):
    """Cells, and what those of one data set share.

    Attributes:
        name: of the suite, without the digest.
        seeds: paired seeds per cell and method.
        clients: in every federation.
        data: by data set, the study keys that its cells share.
        cell: the cells, in order.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    seeds: Annotated[int, Field(ge=2)]
    clients: Annotated[int, Field(ge=1)]
    data: dict[str, TomlTable]
    cell: Annotated[list[Cell], Field(min_length=1)]

    @cached_property
    def version(self) -> str:
        """The suite's name with a digest of all that it fixes, so that a changed suite has another name."""
        return f"{self.name}-{digest(self.model_dump(mode='json'))[:8]}"

    def cells(self, half: str | None = None, *, quick: bool = False) -> list[Cell]:
        """Return the cells of one half, or of both; with ``quick`` only those that run in minutes."""
        if half is not None and half not in HALVES:
            raise bad("--half", " or ".join(HALVES), half)
        return [cell for cell in self.cell if half in (None, cell.half) and (cell.quick or not quick)]

    def study(self, cells: Iterable[Cell], methods: Sequence[ReadOnlyTable], seeds: Sequence[int]) -> StudyPlan:
        """Plan the runs of these methods in these cells, seed by seed."""
        settings = [self._setting(cell) for cell in cells]
        study = {
            "title": self.version,
            **{key: settings[0][key] for key in ("rounds", "cohort", "data", "model", "local")},  # a study needs them
            "seeds": list(seeds),
            "method": [dict(method) for method in methods],
            "audit": False,
            "setting": settings,
        }
        return plan(study, subject="leaderboard")

    def _setting(self, cell: Cell) -> TomlTable:
        """Return a cell as a setting of a study."""
        if cell.data not in self.data:
            raise bad(f"cell {cell.name}.data", f"one of {', '.join(self.data)}", cell.data)
        shared = dict(self.data[cell.data])
        data = {**shared.pop("data"), "clients": self.clients}
        if cell.partition is not None:
            data["partition"] = cell.partition
        setting = {
            "name": cell.name,
            "cohort": cell.cohort,
            "availability": cell.availability,
            **shared,
            "data": data,
        }
        if cell.dropout:
            setting["faults"] = {"before": cell.dropout}
        return setting


def _partition_label(partition: TomlTable) -> str:
    options = ", ".join(f"{key} {value:g}" for key, value in partition.items() if key != "name")
    return f"{partition['name']} ({options})" if options else str(partition["name"])


def load_suite(path: str | Path = SUITE_FILE) -> Suite:
    """Load the suite that comes with Sortition, or one of the same form."""
    return validated(Suite, read(path), "suite")
