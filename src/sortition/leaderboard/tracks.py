"""Suite 2: frozen cells in tracks that are never mixed, and the study that runs methods in them.

The rules are in docs/leaderboard-rules.md. Suite 1 is in :mod:`sortition.leaderboard.suite`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from sortition.core.errors import bad, unknown
from sortition.core.storage.snapshot import digest
from sortition.studies.config import validated
from sortition.studies.overlay import merged
from sortition.studies.plan import StudyPlan, plan, read
from sortition.studies.types import ReadOnlyTable, TomlTable

SUITE_FILE = Path(__file__).parent / "suite-2.toml"
TRACKS = ("rounds", "seconds", "overlap", "adversaries")
MAIN_TRACKS = ("rounds", "seconds")
TIMED = ("seconds", "overlap")  # tracks whose cells are judged by time
FAMILIES = ("labels", "sizes", "features", "noise", "natural")
HALVES = ("tuning", "held-out")
Track = Literal["rounds", "seconds", "overlap", "adversaries"]
Family = Literal["labels", "sizes", "features", "noise", "natural"]
Half = Literal["tuning", "held-out"]


class TrackCell(BaseModel):
    """One federation of a track.

    Attributes:
        name: unique in the suite.
        track: the question that it belongs to.
        half: methods may be tuned on "tuning"; they are judged on "held-out".
        family: what makes its clients differ.
        base: key of the suite's table ``base``.
        study: keys of a study that differ from the base; ``local`` replaces that of the base.
        seconds: the time budget T of a cell that is judged by time; None where it is not, or not yet measured.
        quick: whether ``--quick`` runs this cell.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    track: Track
    half: Half
    family: Family
    base: str
    study: TomlTable
    seconds: Annotated[float, Field(gt=0)] | None = None
    quick: bool = False

    @property
    def is_timed(self) -> bool:
        """Whether methods are compared at equal time."""
        return self.track in TIMED


class TrackSuite(BaseModel):
    """Cells in tracks, and what those of one base share.

    Attributes:
        name: of the suite, without the digest.
        seeds: paired seeds of a cell and method.
        cnn_seeds: the same in cells whose model is a CNN.
        longest_run: CPU seconds after which a run has failed.
        most_rounds: how many times the base's rounds a run that is judged by time may have at most.
        base: by name, the study keys that its cells share.
        cell: the cells, in order.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    seeds: Annotated[int, Field(ge=2)]
    cnn_seeds: Annotated[int, Field(ge=2)]
    longest_run: Annotated[float, Field(gt=0)]
    most_rounds: Annotated[int, Field(ge=1)]
    base: dict[str, TomlTable]
    cell: Annotated[list[TrackCell], Field(min_length=1)]

    @cached_property
    def version(self) -> str:
        """The suite's name with a digest of all that it fixes, so that a changed suite has another name."""
        return f"{self.name}-{digest(self.model_dump(mode='json'))[:8]}"

    def cells(self, track: str | None = None, half: str | None = None, *, quick: bool = False) -> list[TrackCell]:
        """Return the cells of a track and half, or of all; with ``quick`` only those that run in seconds."""
        if track is not None and track not in TRACKS:
            raise unknown("track", track, TRACKS, "--track")
        if half is not None and half not in HALVES:
            raise bad("--half", " or ".join(HALVES), half)
        return [
            cell
            for cell in self.cell
            if track in (None, cell.track) and half in (None, cell.half) and (cell.quick or not quick)
        ]

    def cell_named(self, name: str) -> TrackCell:
        """Return the cell of this name."""
        for cell in self.cell:
            if cell.name == name:
                return cell
        raise unknown("cell", name, [cell.name for cell in self.cell], self.name)

    def has_cnn(self, cell: TrackCell) -> bool:
        """Tell whether a cell trains a CNN: methods are not tuned there, and it has fewer seeds."""
        return bool(self.setting(cell)["model"]["name"] == "cnn")

    def seeds_of(self, cell: TrackCell) -> range:
        """Return the seeds of a cell."""
        return range(self.cnn_seeds if self.has_cnn(cell) else self.seeds)

    def data_of(self, cell: TrackCell) -> str:
        """Return the name of a cell's data set."""
        return str(self.setting(cell)["data"]["name"])

    def setting(self, cell: TrackCell) -> TomlTable:
        """Return a cell as a setting of a study."""
        if cell.base not in self.base:
            raise unknown("base", cell.base, list(self.base), f"cell {cell.name}")
        setting = merged(self.base[cell.base], cell.study)
        if "local" in cell.study:
            setting["local"] = dict(cell.study["local"])
        if cell.seconds is not None:
            setting["until"] = {"seconds": cell.seconds}
            setting["rounds"] = self.most_rounds * int(setting["rounds"])
        return {"name": cell.name, **setting}

    def study(self, cell: TrackCell, methods: Sequence[ReadOnlyTable], seeds: Sequence[int]) -> StudyPlan:
        """Plan the runs of these methods in one cell."""
        setting = self.setting(cell)
        study = {
            "title": self.version,
            "seeds": list(seeds),
            "method": [dict(method) for method in methods],
            "audit": False,
            **{key: value for key, value in setting.items() if key != "name"},
            "setting": [{"name": cell.name}],
        }
        return plan(study, subject="leaderboard")


def load_tracks(path: str | Path = SUITE_FILE) -> TrackSuite:
    """Load suite 2, or one of the same form."""
    suite = validated(TrackSuite, read(path), "suite")
    names = [cell.name for cell in suite.cell]
    for name in names:
        if names.count(name) > 1:
            raise bad("cell.name", "unique in the suite", name)
    return suite
