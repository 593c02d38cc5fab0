"""Who takes part in suite 2: one row per method and information class, and what each may be tuned over."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from sortition import selectors
from sortition.core.errors import InputError, bad, unknown
from sortition.core.selector import Needs
from sortition.studies import method_entries
from sortition.studies.config import validated
from sortition.studies.plan import read
from sortition.studies.types import TomlTable

TUNING_FILE = Path(__file__).parent / "suite-2-tuning.toml"
BASELINE = "uniform"
MOST_CONFIGURATIONS = 4  # of a method, its default included
FACTS = ("sizes", "label_counts")  # that clients of every cell give
CLASSES = ("scalars", "labels", "updates")
PUBLIC = "public"


@dataclass(frozen=True)
class Entrant:
    """A row of the board: a method in one configuration.

    Attributes:
        label: what tables call it; unique.
        name: the method, by name or import path.
        parameters: its hyper-parameters, where they are not the defaults.
        row: the label of the default row that it belongs to; its own, unless it is a configuration for tuning.
    """

    label: str
    name: str
    parameters: TomlTable = field(default_factory=dict)
    row: str = ""

    def __post_init__(self) -> None:
        if not self.row:
            object.__setattr__(self, "row", self.label)

    @property
    def entry(self) -> TomlTable:
        """The entry of a study's list ``method``."""
        return {"name": self.name, "label": self.label, **self.parameters}

    @property
    def configuration(self) -> str:
        """Name and parameters as text, the same for equal ones."""
        return json.dumps({"name": self.name, **self.parameters}, sort_keys=True)

    @property
    def is_default(self) -> bool:
        """Whether it is a default row."""
        return self.row == self.label

    @property
    def information(self) -> str:
        """The information class of the row."""
        return information_class(self.needs)

    @property
    def needs(self) -> Needs:
        """What it needs to know where clients give their sizes and label counts."""
        return method_entries.make_selector(self.name, self.parameters).resolve(FACTS).needs


def parse_entrant(label: str, configuration: str, row: str) -> Entrant:
    """Return the entrant that stored results state."""
    try:
        parameters = json.loads(configuration)
        name = str(parameters.pop("name"))
    except (TypeError, ValueError, KeyError, AttributeError):
        raise InputError(f"the configuration must be a table with a name; got {configuration!r}.") from None
    return Entrant(label=label, name=name, parameters=parameters, row=row)


def information_class(needs: Needs) -> str:
    """Return what a method knows beyond sizes and its own choices: ``public``, or some of scalars, labels, updates."""
    signals = (*needs.questions, *needs.reports)
    is_known = {
        "scalars": any(not signal.exact and signal.of != "pairs" for signal in signals),
        "labels": "label_counts" in needs.reads or any(signal.of == "pairs" for signal in signals),
        "updates": any(signal.exact for signal in signals),
    }
    return ", ".join(kind for kind in CLASSES if is_known[kind]) or PUBLIC


class Configurations(BaseModel):
    """The file of entries and configurations.

    Attributes:
        entry: by row, the method and parameters of default rows that are not a method without parameters.
        alternatives: by row, parameters that compete with the default in tuning.
        absent: methods without a row, with the reason.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    entry: dict[str, TomlTable] = {}
    alternatives: dict[str, list[TomlTable]] = {}
    absent: dict[str, str] = {}

    def merge(self, other: Configurations) -> Configurations:
        """Return these with the rows and alternatives of another file, which replace those of the same row."""
        return Configurations(
            entry={**self.entry, **other.entry},
            alternatives={**self.alternatives, **other.alternatives},
            absent={**self.absent, **other.absent},
        )

    def defaults(self) -> list[Entrant]:
        """Return the default rows: the baseline first, then every method of the catalogue, then further rows."""
        names = [BASELINE, *(name for name in selectors.discover() if name not in (BASELINE, *self.absent))]
        rows = dict.fromkeys((*names, *self.entry))
        return [self._default(row) for row in rows]

    def _default(self, row: str) -> Entrant:
        """Return the default row of a method or of a further row."""
        parameters = dict(self.entry.get(row, {}))
        name = str(parameters.pop("name", row))
        return Entrant(label=row, name=name, parameters=parameters)

    def candidates(self, default: Entrant) -> list[Entrant]:
        """Return the configurations of a row, its default first."""
        candidates = [default]
        for alternative in self.alternatives.get(default.label, []):
            suffix = ",".join(f"{key}={value}" for key, value in alternative.items())
            candidates.append(
                Entrant(
                    label=f"{default.label},{suffix}",
                    name=default.name,
                    parameters={**default.parameters, **alternative},
                    row=default.label,
                )
            )
        if len(candidates) > MOST_CONFIGURATIONS:
            rule = f"at most {MOST_CONFIGURATIONS - 1}, beside the default"
            raise bad(f"alternatives.{default.label}", rule, len(candidates) - 1)
        for candidate in candidates[1:]:
            if candidate.information != default.information:
                rule = f"given the same information as the default ({default.information})"
                raise bad(candidate.label, rule, candidate.information)
        return candidates


def load_configurations(path: str | Path = TUNING_FILE) -> Configurations:
    """Load the file that comes with Sortition, or one of the same form."""
    return validated(Configurations, read(path), "configurations")


def chosen_entrants(configurations: Configurations, texts: Sequence[str]) -> list[Entrant]:
    """Return the baseline and the entrants that ``--method`` names: a row, or ``package.module:Class``."""
    default_by_label = {entrant.label: entrant for entrant in configurations.defaults()}
    chosen = {BASELINE: default_by_label[BASELINE]}
    for text in texts:
        if text in configurations.absent:
            raise bad("--method", "one that takes part", text, f"It does not: {configurations.absent[text]}.")
        if text in default_by_label:
            chosen[text] = default_by_label[text]
        elif ":" in text:
            label = text.rpartition(":")[2]
            chosen[label] = Entrant(label=label, name=text)
        else:
            raise unknown("method", text, default_by_label, "--method")
    return list(chosen.values())


def entrants_by_label(entrants: Sequence[Entrant]) -> Mapping[str, Entrant]:
    """Return the entrants by their labels."""
    return {entrant.label: entrant for entrant in entrants}
