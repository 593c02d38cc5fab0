"""Reference pages and tables made from the code: study keys, the command line, files of a run, signals."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

import typer
from pydantic_core import PydanticUndefined

from sortition import core
from sortition.cli import app as command
from sortition.core import record
from sortition.results import schema
from sortition.studies.study_table import Study

RECORDS = {
    "A record of `rounds.jsonl` and `NAME.history.jsonl`": record.RoundRecord,
    "A question in a record": record.QuestionRecord,
    "`config.toml`": schema.Config,
    "`manifest.json`": schema.Manifest,
    "`summary.json`": schema.Summary,
    "`study.json`": schema.Index,
    "`NAME.about.json`": schema.About,
}
LISTED = "`sortition data list` prints all with their parameters; [data](../data.md) describes them."
ABOUT = {  # what stands above the keys of a table
    "The study": 'A table is a section of its own, or stands in one line: `data = { name = "digits", clients = 50 }`. '
    "`so.compare` has defaults for keys that a file must give: [studies](../studies.md#from-python).",
    "`[data]`": "Other keys are options of the data set, such as `client` and `label` of a table. "
    f"Data sets and partitions: {LISTED}",
    "`[model]`": "Other keys are options of the model: `sortition models` lists the models with their options.",
    "`[local]`": "Give either `steps` or `epochs`. The learning rate of round t, counted from 0, is "
    "lr · decay^⌊t / decay_every⌋ · drop^(number of milestones ≤ t).",
    "`[server]`": "What each rule does: [aggregation](../aggregation.md).",
    "`[availability]`": f"Other keys are options of the mode. Modes: {LISTED}",
    "`[devices]`": "Speed and bandwidth set the simulated clock; they do not slow down the simulation.",
    "`[guards]`": "What each guard is good for: [guards](../guards.md).",
    "`[faults]`": "Probabilities, per client and round unless the table says otherwise: [faults](../faults.md).",
    "`[attacks]`": "What the attacks achieve against each method: [faults](../faults.md).",
    "`[privacy]`": "The simulator computes nothing of this; `sortition lint` checks the methods against it: "
    "[privacy](../privacy.md).",
    "`[target]`": "Give either `accuracy` or `loss`.",
    "`[[method]]`": "Other keys are parameters of the method, such as `alpha` of `fedgs`: each method has "
    "[a page](../methods/index.md) that lists them.",
    "`[track]`": "Other keys are options of the tracker: [studies](../studies.md).",
}
ROLE = re.compile(r" ?\(?:\w+:`[^`]*`\)?")  # a cross-reference of reStructuredText
ATTRIBUTE = re.compile(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


def meanings(cls: type) -> dict[str, str]:
    """What the docstrings of a class and its bases say of each attribute."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        text = inspect.cleandoc(base.__doc__ or "")
        part = text.partition("Attributes:")[2] or text.partition("Args:")[2]
        found |= {
            name: ROLE.sub("", " ".join(words.split())).replace("``", "`") for name, words in ATTRIBUTE.findall(part)
        }
    return found


# -- study keys -----------------------------------------------------------------------------------------------------


def study_keys() -> str:
    """Every key of a study's file: type, default and meaning."""
    lines = [
        "# Every key of a study",
        "",
        "Made from the schema that checks study files; `sortition schema` prints the same for editors.",
        "How they are used: [studies](../studies.md).",
    ]
    for title, cls in tables():
        lines += ["", f"## {title}", "", ABOUT[title], "", "| key | meaning | type | default |", "|---|---|---|---|"]
        lines += [f"| `{key}` | {words} | {kind} | {default} |" for key, kind, default, words in rows(cls)]
    return "\n".join(lines) + "\n"


def tables() -> Iterator[tuple[str, type]]:
    """The tables of a study, with their headings."""
    yield "The study", Study
    for name, field in Study.model_fields.items():
        for cls in [field.annotation, *getattr(field.annotation, "__args__", ())]:
            if hasattr(cls, "model_fields") or is_dataclass(cls):
                yield f"`[{name}]`" if name != "method" else "`[[method]]`", cls
                break


def rows(cls: type) -> Iterator[tuple[str, str, str, str]]:
    """Key, type, default and meaning of each field."""
    words = meanings(cls)
    if is_dataclass(cls):
        hints = typing.get_type_hints(cls)
        for item in fields(cls):
            default = "required" if item.default is MISSING else _default(item.default)
            yield item.name, _kind(hints.get(item.name, item.type)), default, words.get(item.name, "")
        return
    validators = [one.info for one in cls.__pydantic_decorators__.field_validators.values()]
    given = {name: one.json_schema_input_type for one in validators if one.mode == "before" for name in one.fields}
    for name, field in cls.model_fields.items():
        default = "required" if field.is_required() else _default(field.get_default(call_default_factory=True))
        kind = given.get(name, PydanticUndefined)
        yield name, _kind(field.annotation if kind is PydanticUndefined else kind), default, words.get(name, "")


def _default(given: Any) -> str:
    """A default as a reader of the table sees it; a table's own keys follow below."""
    if given is None or given in ([], (), {}):
        return "none"
    return "see below" if type(given).__module__.startswith("sortition") else f"`{value(given)}`"


def _kind(annotation: Any) -> str:
    """A type as a reader of TOML would write it."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Annotated, typing.NotRequired):
        return _kind(parts[0])
    if origin is typing.Literal:
        return " or ".join(f'"{part}"' for part in parts)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_kind(part) for part in parts if part is not type(None))
    if origin in (list, tuple):
        return f"list of {_kind(parts[0])}s"
    if (
        origin in (dict, Mapping)
        or hasattr(annotation, "__total__")
        or hasattr(annotation, "model_fields")
        or is_dataclass(annotation)
    ):
        return "table"
    words = {"int": "whole number", "float": "number", "str": "text", "bool": "true or false", "Whole": "whole number"}
    words |= {"Number": "number", "Path": "path", "Any": "any"}
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return " or ".join(words.get(part, part) for part in name.split(" | ") if part != "None")


def value(value: Any) -> str:
    """A default as TOML would show it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, float) and value >= 1e6:
        return f"{value:g}"
    if type(value).__module__.startswith("sortition"):
        return "…"
    return repr(value).replace("|", r"\|")


# -- the command line -----------------------------------------------------------------------------------------------


def command_line() -> str:
    """Every command with its help and options."""
    root = typer.main.get_command(command)
    lines = ["# The command line", "", "```", "sortition COMMAND --help", "```"]
    for path, one in walk(root, []):
        lines += ["", f"## `sortition {' '.join(path)}`", "", _help(one.help or "")]
        if one.params:
            lines += ["", "| argument or option | meaning | default |", "|---|---|---|"]
        for parameter in one.params:
            names = [*parameter.opts, *parameter.secondary_opts]
            shown = ", ".join(f"`{name if name.startswith('-') else name.upper()}`" for name in names)
            lines.append(f"| {shown} | {_cell(getattr(parameter, 'help', None) or '')} | {_initial(parameter)} |")
    return "\n".join(lines) + "\n"


def _initial(parameter: Any) -> str:
    """The default of an argument or option, in words where it has no fixed value."""
    if parameter.required:
        return "required"
    if isinstance(parameter.show_default, str):
        return _cell(parameter.show_default)
    given = parameter.default
    return "" if given is None or isinstance(given, bool) or given == [] else f"`{given}`"


def walk(group: Any, path: list[str]) -> Iterator[tuple[list[str], Any]]:
    """All commands, with the words that call them."""
    for name, one in sorted(group.commands.items()):
        if hasattr(one, "commands"):
            yield from walk(one, [*path, name])
        elif not one.hidden:
            yield [*path, name], one


def _help(text: str) -> str:
    text = re.sub(r"\[/?[a-z ]+\]", "", inspect.cleandoc(text))
    return re.sub(r"(?m)^Example: (.*)$", r"```\n\1\n```", text)


def _cell(text: str) -> str:
    return re.sub(r"\[/?[a-z ]+\]", "", text).replace("|", r"\|").replace("\n", " ")


# -- the files of a run ---------------------------------------------------------------------------------------------


def record_tables() -> str:
    """Every key of a run folder's files that readers rely on: type and meaning."""
    lines: list[str] = []
    for title, cls in RECORDS.items():
        words, hints = meanings(cls), typing.get_type_hints(cls)
        first = inspect.cleandoc(cls.__doc__ or "").split("\n")[0]
        lines += ["", f"### {title}", "", first, "", "| key | meaning | type |", "|---|---|---|"]
        for key, hint in hints.items():
            if not key.startswith("model_"):
                lines.append(f"| `{key}` | {words.get(key, '')} | {_kind(hint)} |")
    return "\n".join(lines) + "\n"


def signal_table() -> str:
    """Every signal that methods of one's own can ask for."""
    signals = {name: one for name, one in vars(core).items() if isinstance(one, core.Signal)}
    lines = ["| in `sortition.core` | name | of | value of a client |", "|---|---|---|---|"]
    lines += [f"| `{name}` | `{one.name}` | {one.of} | {one.summary} |" for name, one in sorted(signals.items())]
    return "\n".join(lines) + "\n"


# -- Sphinx ---------------------------------------------------------------------------------------------------------


def write(path: Path, text: str) -> None:
    """Write a page where its text changed, so that an unchanged one is not built again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def generate(docs: Path) -> None:
    """Write the project's own files as pages."""
    for name in ("CONTRIBUTING", "CHANGELOG"):
        text = (docs.parent / f"{name}.md").read_text()
        write(docs / f"{name.lower()}.md", re.sub(r"\]\(docs/", "](", text))


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("builder-inited", lambda app: generate(Path(app.srcdir)))
    return {"version": "1", "parallel_read_safe": True}
