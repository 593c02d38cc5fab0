"""From a study's file to its runs: settings × methods × seeds, all checked before anything runs."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sortition.aggregation import ServerRule
from sortition.core.errors import InputError, StorageError, bad, unknown
from sortition.core.storage.safe_files import read_regular
from sortition.core.validation import translated
from sortition.results.comparisons import Criteria, check_baseline
from sortition.results.schema import DEEPEST, too_deep
from sortition.studies import methods
from sortition.studies.config import Federation, Method, Named, RunConfig, validated
from sortition.studies.labels import check_distinct, names_folder
from sortition.studies.overlay import Table, assign, combinations, label_of, merged, placed, sweep
from sortition.studies.study_table import Study

SHARED = tuple(Federation.model_fields)
ALONE = "main"  # the setting of a study that has none
SEVERAL = ("setting.", "sweep.")
MOST = 1_000_000  # runs of a study
LONGEST = 16 << 20  # bytes of a study's file
DEMO = Path(__file__).parent / "demo.toml"
_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)  # making one takes milliseconds
TEMPLATE = Path(__file__).parent / "template.toml"  # what ``sortition init`` writes


@dataclass(frozen=True)
class StudyPlan:
    """The runs of a study, in the order in which they are played: seed by seed, so that early tables are paired."""

    title: str
    runs: tuple[RunConfig, ...]
    track: tuple[Named, ...] = ()  # the trackers that follow the runs
    criteria: Criteria = Criteria()  # by what methods are judged
    lockstep: bool = True  # whether runs of small models train together

    @property
    def settings(self) -> list[str]:
        """The settings' names, in order."""
        return list(dict.fromkeys(run.setting for run in self.runs))

    @property
    def labels(self) -> list[str]:
        """The methods' labels, in order."""
        return list(dict.fromkeys(run.method.label for run in self.runs))

    def only(self, keep: Iterable[RunConfig]) -> StudyPlan:
        """The same plan with fewer runs."""
        return replace(self, runs=tuple(keep))


def read(path: str | Path) -> Table:
    """A TOML file as a table."""
    try:
        table = tomllib.loads(read_regular(Path(path), LONGEST).decode())
    except FileNotFoundError:
        raise bad("The study's file", "one that exists", str(path)) from None
    except (ValueError, RecursionError) as error:  # also numbers of thousands of digits, and tables without end
        raise InputError(f"{path} must be valid TOML; got {error}.") from None
    except StorageError as error:
        raise InputError(str(error)) from None
    if not table:
        raise InputError(f"{path} must hold a study; got an empty file. 'sortition init' writes one to begin with.")
    return table


def plan(table: Mapping[str, Any], sets: Iterable[str] = (), *, owner: str = "study") -> StudyPlan:
    """Resolve a study's table and the ``--set`` options into runs."""
    raw: Table = dict(table)
    if too_deep(raw):
        raise bad("study", f"of at most {DEEPEST} tables within each other", "more")
    shared = [text for text in sets if not text.startswith(SEVERAL)]
    for text in sets:
        raw = raw if text in shared else assign(raw, text)
    studies = [(name, _validated(resolved, owner)) for name, resolved in _settings(raw, shared)]
    check_distinct("setting.name", [name for name, _ in studies])
    if sum(len(study.seeds) * len(study.method) for _, study in studies) > MOST:
        raise bad("study", f"of at most {MOST:,} runs", "more", "Split it, or take fewer seeds.")
    runs = [run for name, study in studies for run in _runs(name, study)]
    ordered = tuple(sorted(runs, key=lambda run: run.seed))
    first = studies[0][1]
    return StudyPlan(
        title=str(raw.get("title", "")),
        runs=ordered,
        track=tuple(first.track),
        criteria=_criteria([study for _, study in studies]),
        lockstep=first.lockstep,
    )


def _criteria(studies: Sequence[Study]) -> Criteria:
    """The criteria of all settings, which are the same: verdicts of a study must mean the same."""
    for key in ("margin", "baseline", "all_pairs"):
        values = {getattr(study, key) for study in studies}
        if len(values) > 1:
            raise bad(key, "the same in all settings", ", ".join(sorted(str(value) for value in values)))
    first = studies[0]
    check_baseline(first.baseline, [{method.label: method.name for method in study.method} for study in studies])
    return Criteria(margin=first.margin, baseline=first.baseline, all_pairs=first.all_pairs)


def _validated(table: Table, owner: str) -> Study:
    if not table.get("method"):
        raise InputError(f"{owner} must have at least one [[method]]; got none. 'sortition list' names them.")
    tables = _listed(table, "method")
    checked = [validated(Method, method, _called(owner, place, method)) for place, method in enumerate(tables, 1)]
    return validated(Study, {**table, "method": checked}, owner)


def _called(owner: str, place: int, method: Table) -> str:
    """What messages call a method: its place, from 1, and its label."""
    label = label_of(method)
    return f"{owner}: method {place}" + (f" ({label})" if label else "")


def _settings(raw: Table, sets: list[str]) -> Iterable[tuple[str, Table]]:
    """Each setting's name and its whole table, swept; what the command line sets wins over settings and sweeps."""
    base = {key: value for key, value in raw.items() if key not in ("setting", "sweep")}
    given = _listed(raw, "setting")
    for table in (raw, *given):
        _listed(table, "method")
    values = _swept_values(raw, given, sets)
    shared = {key: found for key, found in values.items() if not key.startswith("method.")}
    for one in given or [{"name": ALONE}]:
        name = _setting_name(one)
        table = merged(base, {k: v for k, v in one.items() if k != "name"})
        for text in sets:
            table = assign(table, text)
        table = _swept_methods(_kept(table, name), values)
        for suffix, pairs in combinations(shared):
            yield _label(name if given else "", suffix) or name, _with_values(table, pairs)


def _setting_name(table: Table) -> str:
    name = table.get("name")
    if not isinstance(name, str) or not names_folder(name):
        raise bad("setting.name", "a text that can name a folder", name)
    return name


def _label(name: str, suffix: str) -> str:
    """A setting's name with what a sweep adds to it."""
    label = ",".join(part for part in (name, suffix) if part)
    if label and not names_folder(label):
        raise bad("setting.name and what a sweep adds to it", "a text that can name a folder", label)
    return label


def _swept_values(raw: Table, given: list[Table], sets: list[str]) -> dict[str, list[Any]]:
    """The keys that ``[sweep]`` varies and their values, without those that ``--set`` fixes."""
    fixed = [text.partition("=")[0].strip() for text in sets]
    values = {key: found for key, found in sweep(raw.get("sweep", {})).items() if key not in fixed}
    known = {label_of(one): None for table in (raw, *given) for one in table.get("method", [])}
    for key in values:
        if key.startswith("method.") and not any(label in known for label, _ in _splits(key)):
            raise unknown("method", key.split(".")[1], known, "sweep: the study")
    for key in ("seeds", "name"):
        if key in values:
            raise bad("sweep", "over keys of the federation or of methods", key)
    return values


def _splits(key: str) -> Iterable[tuple[str, str]]:
    """How ``method.label.parameter`` may fall into a label, which may hold dots, and a parameter."""
    parts = key.split(".")[1:]
    return [(".".join(parts[:at]), ".".join(parts[at:])) for at in range(1, len(parts))]


def _with_values(table: Table, pairs: Mapping[str, Any]) -> Table:
    """The table with each value at its dotted key."""
    for key, value in pairs.items():
        table = placed(table, key.split("."), value)
    return table


def _listed(table: Table, key: str) -> list[Table]:
    """The tables of ``[[key]]``."""
    given = table.get(key, [])
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise bad(key, f"a list of tables, [[{key}]]", given)
    return given


def _kept(table: Table, setting: str) -> Table:
    """The table with only those methods that its ``methods`` names, where it has them."""
    labels = {label_of(method): None for method in _listed(table, "method")}
    chosen = table.pop("methods", list(labels))
    if not isinstance(chosen, list) or not all(isinstance(label, str) for label in chosen):
        raise bad("methods", "a list of labels", chosen, "Methods themselves are tables [[method]].")
    for label in chosen:
        if label not in labels:
            raise unknown("method", label, labels, f"setting {setting!r}")
    kept = set(chosen)
    return {**table, "method": [one for one in table.get("method", []) if label_of(one) in kept]}


def _swept_methods(table: Table, values: Mapping[str, list[Any]]) -> Table:
    """Each method that a sweep names, once per combination, with a label of its own."""
    result = []
    own: dict[str, dict[str, list[Any]]] = {}
    for key, found in values.items():
        for label, parameter in _splits(key) if key.startswith("method.") else ():
            own.setdefault(label, {})[parameter] = found
    for method in table.get("method", []):
        for suffix, pairs in combinations(own.get(label_of(method), {})):
            one = _with_values(dict(method), pairs)
            result.append({**one, "label": f"{label_of(method)},{suffix}"} if suffix else one)
    return {**table, "method": result} if "method" in table else table


def _runs(setting: str, study: Study) -> list[RunConfig]:
    """One setting's runs; every method is loaded once, so that a wrong parameter is reported now."""
    clients, runs = study.data.clients, []
    for method in study.method:
        cohort = method.cohort or study.cohort
        if clients is not None and cohort > clients:
            raise bad("cohort", f"at most the number of clients, {clients}", cohort)
        federation = {
            **{key: getattr(study, key) for key in SHARED},
            "cohort": cohort,
            "local": _overridden(study.local, method.local, f"{method.label}.local"),
            "server": _overridden(study.server, method.server, f"{method.label}.server"),
            "guards": _overridden(study.guards, _guards(method), f"{method.label}.guards"),
        }
        _check_parameters(method)
        resolved = Method(name=method.name, label=method.label, **method.options)
        runs += [RunConfig(**federation, setting=setting, seed=seed, method=resolved) for seed in study.seeds]
    return runs


def _check_parameters(method: Method) -> None:
    """Load the method; a key of the study among its parameters stands below ``[[method]]`` by mistake."""
    try:
        methods.selector(method.name, method.options)
    except InputError as error:
        for key in method.options:
            if key in Study.model_fields and f"{key!r};" in str(error):
                raise InputError(f"{error} It is a key of the study: write it above the first [[method]].") from None
        raise


def _guards(method: Method) -> dict[str, Any]:
    """What a method changes of the guards."""
    return method.guards if method.reweight is None else {**method.guards, "reweight": method.reweight}


def _overridden(rule: Any, over: Mapping[str, Any], owner: str) -> Any:
    """A rule with some of its fields changed; steps given for epochs, or the reverse, take their place."""
    if not over:
        return rule
    names = [field.name for field in fields(rule)]
    under = {name: getattr(rule, name) for name in names}
    if "step" in over:
        over = {"name": over["step"], **{key: value for key, value in over.items() if key != "step"}}
    if "name" in over and over["name"] != under.get("name"):
        under = rule.without_step() if isinstance(rule, ServerRule) else {}
    under |= {other: None for key, other in (("steps", "epochs"), ("epochs", "steps")) if key in over}
    try:
        return _adapter(type(rule)).validate_python({**under, **over})
    except ValidationError as error:
        raise translated(error, owner, names) from None
