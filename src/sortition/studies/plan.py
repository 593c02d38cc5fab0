"""From a study's file to its runs: settings × methods × seeds, all checked before anything runs."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from sortition.aggregation import ServerRule
from sortition.core.errors import InputError, StorageError, bad, unknown
from sortition.core.guards.common_weights import check_weighing
from sortition.core.guards.settings import Guards
from sortition.core.storage.safe_files import read_regular
from sortition.core.validation import translate_error
from sortition.learning.rule import LocalRule
from sortition.results.comparisons import Criteria, check_baseline
from sortition.results.reference_lines import REFERENCES
from sortition.results.schema import MOST_LEVELS, is_too_deep
from sortition.studies import method_entries
from sortition.studies.config import Federation, Method, Named, RunConfig, validated
from sortition.studies.folder_names import can_name_folder, check_distinct
from sortition.studies.overlay import (
    SweptValues,
    combinations,
    label_of,
    merged,
    read_sweep,
    with_assignment,
    with_value_at,
)
from sortition.studies.study_table import Study
from sortition.studies.types import AnySelector, ReadOnlyTable, TomlTable

Rule = TypeVar("Rule", LocalRule, ServerRule, Guards)
SHARED_KEYS = tuple(Federation.model_fields)
ONLY_SETTING = "main"  # the name of the setting in a study that has none
MAX_RUNS = 1_000_000  # of a study
MAX_BYTES = 16 << 20  # of a study's file
DEMO = Path(__file__).parent / "demo.toml"
TEMPLATE = Path(__file__).parent / "template.toml"  # what ``sortition init`` writes
_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)  # making one takes milliseconds


@dataclass(frozen=True)
class StudyPlan:
    """The runs of a study, in the order in which they are played: seed by seed, so that early tables are paired.

    Attributes:
        title: the study's title.
        runs: the configuration of every run.
        track: the trackers that follow the runs.
        criteria: by what methods are judged.
        lockstep: whether runs of small models train together.
    """

    title: str
    runs: tuple[RunConfig, ...]
    track: tuple[Named, ...] = ()
    criteria: Criteria = Criteria()
    lockstep: bool = True

    @property
    def settings(self) -> list[str]:
        """Return the settings' names, in order."""
        return list(dict.fromkeys(run.setting for run in self.runs))

    @property
    def labels(self) -> list[str]:
        """Return the methods' labels, in order."""
        return list(dict.fromkeys(run.method.label for run in self.runs))

    def only(self, runs: Iterable[RunConfig]) -> StudyPlan:
        """Return the same plan with fewer runs."""
        return replace(self, runs=tuple(runs))


def read(path: str | Path) -> TomlTable:
    """Read a TOML file as a table."""
    try:
        table = tomllib.loads(read_regular(Path(path), MAX_BYTES).decode())
    except FileNotFoundError:
        raise bad("The study's file", "one that exists", str(path)) from None
    except (ValueError, RecursionError) as error:  # also numbers of thousands of digits, and tables without end
        raise InputError(f"{path} must be valid TOML; got {error}.") from None
    except StorageError as error:
        raise InputError(str(error)) from None
    if not table:
        raise InputError(f"{path} must hold a study; got an empty file. 'sortition init' writes one to begin with.")
    return table


def plan(table: ReadOnlyTable, sets: Iterable[str] = (), *, subject: str = "study") -> StudyPlan:
    """Resolve a study's table and the ``--set`` options into runs; messages call the study ``subject``."""
    study_table = _with_method_tables(table)
    if is_too_deep(study_table):
        raise bad("study", f"of at most {MOST_LEVELS} tables within each other", "more")
    shared_assignments = []
    for text in sets:
        if text.startswith(("setting.", "sweep.")):
            study_table = with_assignment(study_table, text)
        else:
            shared_assignments.append(text)
    study_by_setting = [
        (name, _validated(setting, subject)) for name, setting in _expand_settings(study_table, shared_assignments)
    ]
    studies = [study for _, study in study_by_setting]
    check_distinct("setting.name", [name for name, _ in study_by_setting])
    if sum(len(study.seeds) * len(study.method) for study in studies) > MAX_RUNS:
        raise bad("study", f"of at most {MAX_RUNS:,} runs", "more", "Split it, or take fewer seeds.")
    runs = [run for name, study in study_by_setting for run in _runs_of_setting(name, study)]
    return StudyPlan(
        title=str(study_table.get("title", "")),
        runs=tuple(sorted(runs, key=lambda run: run.seed)),
        track=tuple(studies[0].track),
        criteria=_common_criteria(studies),
        lockstep=studies[0].lockstep,
    )


def _with_method_tables(table: ReadOnlyTable) -> TomlTable:
    """Return a study's table in which a method that is given by its name alone is a table, as the others are."""
    study_table: TomlTable = dict(table)
    methods = study_table.get("method")
    if isinstance(methods, list):
        study_table["method"] = [{"name": method} if isinstance(method, str) else method for method in methods]
    return study_table


def _common_criteria(studies: Sequence[Study]) -> Criteria:
    """Return the criteria of all settings, which must be the same: verdicts of a study must mean the same."""
    for key in ("margin", "baseline", "all_pairs", "cost"):
        values = {getattr(study, key) for study in studies}
        if len(values) > 1:
            raise bad(key, "the same in all settings", ", ".join(sorted(str(value) for value in values)))
    first = studies[0]
    check_baseline(first.baseline, [{method.label: method.name for method in study.method} for study in studies])
    return Criteria(margin=first.margin, baseline=first.baseline, all_pairs=first.all_pairs, cost=first.cost)


def _validated(table: TomlTable, subject: str) -> Study:
    if not table.get("method"):
        raise InputError(f"{subject} must have at least one [[method]]; got none. 'sortition list' names them.")
    checked_methods = [
        validated(Method, method, _name_in_messages(subject, number, method))
        for number, method in enumerate(_tables(table, "method"), 1)
    ]
    return validated(Study, {**table, "method": checked_methods}, subject)


def _name_in_messages(subject: str, number: int, method: TomlTable) -> str:
    """Return what messages call a method: its number, from 1, and its label."""
    label = label_of(method)
    if not label:
        return f"{subject}: method {number}"
    return f"{subject}: method {number} ({label})"


def _tables(table: TomlTable, key: str) -> list[TomlTable]:
    """Return the tables of ``[[key]]``."""
    _check_tables(table, key)
    return list(table.get(key, []))


def _check_tables(table: TomlTable, key: str) -> None:
    """Refuse what is not a list of tables under a key."""
    tables = table.get(key, [])
    if not isinstance(tables, list) or not all(isinstance(inner_table, dict) for inner_table in tables):
        raise bad(key, f"a list of tables, [[{key}]]", tables)


# -- settings and sweeps --------------------------------------------------------------------------------------------


def _expand_settings(study_table: TomlTable, assignments: list[str]) -> Iterable[tuple[str, TomlTable]]:
    """Yield the name and the whole table of each setting, once for each combination of the federation's swept values.

    ``assignments`` are the texts of ``--set``, which override settings and sweeps.
    """
    base = {key: value for key, value in study_table.items() if key not in ("setting", "sweep")}
    settings = _tables(study_table, "setting")
    for table in (study_table, *settings):
        _check_tables(table, "method")
    swept_values = _swept_values(study_table, settings, assignments)
    federation_values = {key: values for key, values in swept_values.items() if not key.startswith("method.")}
    for setting in settings or [{"name": ONLY_SETTING}]:
        name = _setting_name(setting)
        changes = {key: value for key, value in setting.items() if key != "name"}
        table = merged(base, changes)
        for text in assignments:
            table = with_assignment(table, text)
        table = _with_chosen_methods(table, name)
        table = _with_swept_methods(table, swept_values)
        for suffix, values in combinations(federation_values):
            if suffix and not settings:
                swept_name = _swept_name("", suffix)
            else:
                swept_name = _swept_name(name, suffix)
            yield swept_name, _with_values(table, values)


def _setting_name(table: TomlTable) -> str:
    name = table.get("name")
    if not isinstance(name, str) or not can_name_folder(name):
        raise bad("setting.name", "a text that can name a folder", name)
    return name


def _swept_name(name: str, suffix: str) -> str:
    """Return a setting's name with what a sweep adds to it."""
    swept_name = ",".join(part for part in (name, suffix) if part)
    if swept_name and not can_name_folder(swept_name):
        raise bad("setting.name and what a sweep adds to it", "a text that can name a folder", swept_name)
    return swept_name


def _swept_values(study_table: TomlTable, settings: list[TomlTable], assignments: list[str]) -> SweptValues:
    """Return the keys that ``[sweep]`` varies and their values, without those that ``--set`` fixes."""
    fixed_keys = [text.partition("=")[0].strip() for text in assignments]
    swept = read_sweep(study_table.get("sweep", {}))
    values_by_key = {key: values for key, values in swept.items() if key not in fixed_keys}
    labels = {label_of(method): None for table in (study_table, *settings) for method in table.get("method", [])}
    for key in values_by_key:
        if key.startswith("method.") and not any(label in labels for label, _ in _labels_and_parameters(key)):
            raise unknown("method", key.split(".")[1], labels, "sweep: the study")
    for key in ("seeds", "name"):
        if key in values_by_key:
            raise bad("sweep", "over keys of the federation or of methods", key)
    return values_by_key


def _labels_and_parameters(key: str) -> list[tuple[str, str]]:
    """Return how ``method.label.parameter`` may fall into a label, which may hold dots, and a parameter."""
    parts = key.split(".")[1:]
    return [(".".join(parts[:length]), ".".join(parts[length:])) for length in range(1, len(parts))]


def _with_values(table: TomlTable, values: ReadOnlyTable) -> TomlTable:
    """Return the table with each value at its dotted key."""
    for key, value in values.items():
        table = with_value_at(table, key.split("."), value)
    return table


def _with_chosen_methods(table: TomlTable, setting: str) -> TomlTable:
    """Return the table with only those methods that its ``methods`` names, where it has that key."""
    labels = {label_of(method): None for method in _tables(table, "method")}
    chosen_labels = table.pop("methods", list(labels))
    if not isinstance(chosen_labels, list) or not all(isinstance(label, str) for label in chosen_labels):
        raise bad("methods", "a list of labels", chosen_labels, "Methods themselves are tables [[method]].")
    for label in chosen_labels:
        if label not in labels:
            raise unknown("method", label, labels, f"setting {setting!r}")
    chosen = set(chosen_labels)
    return {**table, "method": [method for method in table.get("method", []) if label_of(method) in chosen]}


def _with_swept_methods(table: TomlTable, values_by_key: Mapping[str, list[Any]]) -> TomlTable:
    """Return the table with each method that a sweep names once per combination, with a label of its own."""
    if "method" not in table:
        return table
    values_by_label: dict[str, SweptValues] = {}
    for key, values in values_by_key.items():
        if key.startswith("method."):
            for label, parameter in _labels_and_parameters(key):
                values_by_label.setdefault(label, {})[parameter] = values
    swept_methods = []
    for method in table["method"]:
        label = label_of(method)
        for suffix, parameters in combinations(values_by_label.get(label, {})):
            variant = _with_values(dict(method), parameters)
            if suffix:
                variant["label"] = f"{label},{suffix}"
            swept_methods.append(variant)
    return {**table, "method": swept_methods}


# -- runs -----------------------------------------------------------------------------------------------------------


def _runs_of_setting(setting: str, study: Study) -> list[RunConfig]:
    """Return one setting's runs; every method is loaded once, so that a wrong parameter is reported now."""
    clients = study.data.clients
    _check_reference_lines_end(study)
    runs = []
    for method in study.method:
        cohort = method.cohort or study.cohort
        if clients is not None and cohort > clients:
            raise bad("cohort", f"at most the number of clients, {clients}", cohort)
        guards = _with_changes(study.guards, _guard_changes(method), f"{method.label}.guards")
        federation = {
            **{key: getattr(study, key) for key in SHARED_KEYS},
            "cohort": cohort,
            "local": _with_changes(study.local, method.local, f"{method.label}.local"),
            "server": _with_changes(study.server, method.server, f"{method.label}.server"),
            "guards": guards,
        }
        needs = _load_selector(method).needs
        check_weighing(guards, (*needs.reads, *needs.optional), method.label)
        resolved = Method(name=method.name, label=method.label, **method.options)
        runs += [RunConfig(**federation, setting=setting, seed=seed, method=resolved) for seed in study.seeds]
    return runs


def _check_reference_lines_end(study: Study) -> None:
    """Refuse a reference line that would never end: outside a federation there is no cost that a limit counts."""
    for method in study.method:
        if method.name in REFERENCES and study.rounds is None:
            hint = f"{method.name} has no federation's costs, and plays all its rounds."
            raise bad("rounds", f"given beside until where {method.name} is a method", None, hint)


def _load_selector(method: Method) -> AnySelector:
    """Return the method with its parameters; a key of the study among them stands below ``[[method]]`` by mistake."""
    try:
        return method_entries.make_selector(method.name, method.options)
    except InputError as error:
        for key in method.options:
            if key in Study.model_fields and f"{key!r};" in str(error):
                raise InputError(f"{error} It is a key of the study: write it above the first [[method]].") from None
        raise


def _guard_changes(method: Method) -> TomlTable:
    """Return what a method changes of the guards."""
    if method.reweight is None:
        return method.guards
    return {**method.guards, "reweight": method.reweight}


def _with_changes(rule: Rule, changes: ReadOnlyTable, subject: str) -> Rule:
    """Return a rule with some of its fields changed; steps replace epochs, and epochs replace steps."""
    if not changes:
        return rule
    names = [field.name for field in fields(rule)]
    values: TomlTable = {name: getattr(rule, name) for name in names}
    if "step" in changes:
        changes = {"name": changes["step"], **{key: value for key, value in changes.items() if key != "step"}}
    if "name" in changes and changes["name"] != values.get("name"):
        if isinstance(rule, ServerRule):
            values = rule.without_step()
        else:
            values = {}
    if "steps" in changes:
        values["epochs"] = None
    if "epochs" in changes:
        values["steps"] = None
    try:
        changed: Rule = _adapter(type(rule)).validate_python({**values, **changes})
    except ValidationError as error:
        raise translate_error(error, subject, names) from None
    return changed
