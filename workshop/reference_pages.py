"""Reference pages and tables made from the code: study keys, the command line, files of a run, signals."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import typer
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from sortition import core
from sortition.cli import app
from sortition.core import round_record
from sortition.results import schema
from sortition.studies.study_table import Study

RECORDS = {
    "A record of `rounds.jsonl` and `NAME.history.jsonl`": round_record.RoundRecord,
    "A question in a record": round_record.QuestionRecord,
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
    "`[task]`": "Losses, metrics and the targets that they take: [tasks](../tasks.md).",
    "`[server]`": "What each rule does: [aggregation](../aggregation.md).",
    "`[availability]`": f"Other keys are options of the mode. Modes: {LISTED}",
    "`[devices]`": "Speed and bandwidth set the simulated clock; they do not slow down the simulation.",
    "`[pace]`": "What each pace is good for: [time](../time.md).",
    "`[until]`": "One of the three, in place of `rounds` or beside it: [studies](../studies.md).",
    "`[policy]`": "What each rule means, and what it costs: [operate](../operate.md#policies).",
    "`[habits]`": "How simulated devices are used, for rules of a policy: [operate](../operate.md#what-a-rule-costs).",
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
MARKUP = re.compile(r"\[/?[a-z ]+\]")  # of rich, in help texts
TYPES = {
    "int": "whole number",
    "Whole": "whole number",
    "float": "number",
    "Number": "number",
    "str": "text",
    "bool": "true or false",
    "Path": "path",
    "Any": "any",
}


class Key(NamedTuple):
    """One key of a study's table, as its reference page shows it."""

    name: str
    type: str
    default: str
    meaning: str


def attribute_meanings(cls: type) -> dict[str, str]:
    """Return what the docstrings of a class and its bases say of each attribute."""
    meaning_by_name: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        text = inspect.cleandoc(base.__doc__ or "")
        attributes = text.partition("Attributes:")[2] or text.partition("Args:")[2]
        for name, words in ATTRIBUTE.findall(attributes):
            meaning_by_name[name] = ROLE.sub("", " ".join(words.split())).replace("``", "`")
    return meaning_by_name


# -- study keys -----------------------------------------------------------------------------------------------------


def study_keys_page() -> str:
    """Return the page on every key of a study's file: type, default and meaning."""
    lines = [
        "# Every key of a study",
        "",
        "Made from the schema that checks study files; `sortition schema` prints the same for editors.",
        "How they are used: [studies](../studies.md).",
    ]
    for title, cls in study_tables():
        lines += ["", f"## {title}", "", ABOUT[title], "", "| key | meaning | type | default |", "|---|---|---|---|"]
        lines += [f"| `{key.name}` | {key.meaning} | {key.type} | {key.default} |" for key in table_keys(cls)]
    return "\n".join(lines) + "\n"


def study_tables() -> Iterator[tuple[str, type[Any]]]:
    """Yield the tables of a study, with their headings."""
    yield "The study", Study
    for name, field in Study.model_fields.items():
        title = "`[[method]]`" if name == "method" else f"`[{name}]`"
        for cls in [field.annotation, *getattr(field.annotation, "__args__", ())]:
            if hasattr(cls, "model_fields") or is_dataclass(cls):
                yield title, cls
                break


def table_keys(cls: type[Any]) -> Iterator[Key]:
    """Yield the keys of one table."""
    if is_dataclass(cls):
        yield from _dataclass_keys(cls)
    else:
        yield from _model_keys(cls)


def _dataclass_keys(cls: type[Any]) -> Iterator[Key]:
    meaning_by_name = attribute_meanings(cls)
    hints = typing.get_type_hints(cls)
    for field in fields(cls):
        yield Key(
            name=field.name,
            type=_type_text(hints.get(field.name, field.type)),
            default="required" if field.default is MISSING else _default_text(field.default),
            meaning=meaning_by_name.get(field.name, ""),
        )


def _model_keys(cls: type[BaseModel]) -> Iterator[Key]:
    meaning_by_name = attribute_meanings(cls)
    input_types = {}  # of keys that take more than their field's type
    for validator in cls.__pydantic_decorators__.field_validators.values():
        if validator.info.mode == "before":
            input_types.update(dict.fromkeys(validator.info.fields, validator.info.json_schema_input_type))
    for name, field in cls.model_fields.items():
        annotation = input_types.get(name, PydanticUndefined)
        if annotation is PydanticUndefined:
            annotation = field.annotation
        default = "required"
        if not field.is_required():
            default = _default_text(field.get_default(call_default_factory=True))
        yield Key(name=name, type=_type_text(annotation), default=default, meaning=meaning_by_name.get(name, ""))


def _default_text(default: Any) -> str:
    """Write a default as a reader of the table sees it; a table's own keys follow below."""
    if default is None or default in ([], (), {}):
        return "none"
    if type(default).__module__.startswith("sortition"):
        return "see below"
    return f"`{toml_value(default)}`"


def _type_text(annotation: Any) -> str:
    """Write a type as a reader of TOML would say it."""
    origin = typing.get_origin(annotation)
    parts = typing.get_args(annotation)
    if origin in (typing.Annotated, typing.NotRequired):
        return _type_text(parts[0])
    if origin is typing.Literal:
        return " or ".join(f'"{part}"' for part in parts)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type_text(part) for part in parts if part is not type(None))
    if origin in (list, tuple):
        return f"list of {_type_text(parts[0])}s"
    is_table_class = hasattr(annotation, "__total__") or hasattr(annotation, "model_fields") or is_dataclass(annotation)
    if origin in (dict, Mapping) or is_table_class:
        return "table"
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return " or ".join(TYPES.get(part, part) for part in name.split(" | ") if part != "None")


def toml_value(value: Any) -> str:
    """Write a default as TOML would show it."""
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


def command_line_page() -> str:
    """Return the page on every command with its help and options."""
    lines = ["# The command line", "", "```", "sortition COMMAND --help", "```"]
    for words, command in walk_commands(typer.main.get_command(app), []):
        lines += ["", f"## `sortition {' '.join(words)}`", "", _help_markdown(command.help or "")]
        if command.params:
            lines += ["", "| argument or option | meaning | default |", "|---|---|---|"]
        for parameter in command.params:
            names = [*parameter.opts, *parameter.secondary_opts]
            labels = ", ".join(f"`{name if name.startswith('-') else name.upper()}`" for name in names)
            meaning = _cell_markdown(getattr(parameter, "help", None) or "")
            lines.append(f"| {labels} | {meaning} | {_parameter_default(parameter)} |")
    return "\n".join(lines) + "\n"


def _parameter_default(parameter: Any) -> str:
    """Write the default of an argument or option, in words where it has no fixed value."""
    if parameter.required:
        return "required"
    if isinstance(parameter.show_default, str):
        return _cell_markdown(parameter.show_default)
    default = parameter.default
    if default is None or isinstance(default, bool) or default == []:
        return ""
    return f"`{default}`"


def walk_commands(group: Any, path: list[str]) -> Iterator[tuple[list[str], Any]]:
    """Yield all commands below a group, each with the words that call it."""
    for name, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from walk_commands(command, [*path, name])
        elif not command.hidden:
            yield [*path, name], command


def _help_markdown(text: str) -> str:
    """Return the help of a command as Markdown, with its examples as code."""
    plain_text = MARKUP.sub("", inspect.cleandoc(text))
    return re.sub(r"(?m)^Example: (.*)$", r"```\n\1\n```", plain_text)


def _cell_markdown(text: str) -> str:
    """Return a text that fits a cell of a Markdown table."""
    return MARKUP.sub("", text).replace("|", r"\|").replace("\n", " ")


# -- the files of a run ---------------------------------------------------------------------------------------------


def record_tables() -> str:
    """Return a table for each file of a run folder: the keys that readers rely on, with type and meaning."""
    lines: list[str] = []
    for title, cls in RECORDS.items():
        meaning_by_key = attribute_meanings(cls)
        first_line = inspect.cleandoc(cls.__doc__ or "").split("\n")[0]
        lines += ["", f"### {title}", "", first_line, "", "| key | meaning | type |", "|---|---|---|"]
        for key, hint in typing.get_type_hints(cls).items():
            if not key.startswith("model_"):
                lines.append(f"| `{key}` | {meaning_by_key.get(key, '')} | {_type_text(hint)} |")
    return "\n".join(lines) + "\n"


def signal_table() -> str:
    """Return a table of the signals that methods of one's own can ask for."""
    signals = {name: value for name, value in vars(core).items() if isinstance(value, core.Signal)}
    lines = ["| in `sortition.core` | name | of | value of a client |", "|---|---|---|---|"]
    for name, signal in sorted(signals.items()):
        lines.append(f"| `{name}` | `{signal.name}` | {signal.of} | {signal.summary} |")
    return "\n".join(lines) + "\n"


# -- Sphinx ---------------------------------------------------------------------------------------------------------


def write_if_changed(path: Path, text: str) -> None:
    """Write a page where its text changed, so that an unchanged one is not built again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def copy_project_files(docs: Path) -> None:
    """Write the project's own files as pages of the site."""
    for name in ("CONTRIBUTING", "CHANGELOG"):
        text = (docs.parent / f"{name}.md").read_text()
        write_if_changed(docs / f"{name.lower()}.md", re.sub(r"\]\(docs/", "](", text))


def setup(app: Any) -> dict[str, Any]:
    """Connect to Sphinx, which calls this function."""
    app.connect("builder-inited", lambda app: copy_project_files(Path(app.srcdir)))
    return {"version": "1", "parallel_read_safe": True}
