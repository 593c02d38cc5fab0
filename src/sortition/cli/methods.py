"""``sortition list``, ``show``, ``cite`` and ``check``: what methods there are, what they need, what they cost."""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
import traceback
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sortition.cli.exit_codes import FAILED
from sortition.cli.prose import print_prose, strip_markup
from sortition.cli.shared_options import Allow, allowing_imports, console

if TYPE_CHECKING:
    from sortition.core.signals import Signal
    from sortition.results.table import Table
    from sortition.studies.types import AnySelector, SelectorClass, TomlTable


def _complete_method(incomplete: str) -> list[str]:
    from sortition.selectors import ALIASES, discover

    return [name for name in [*discover(), *ALIASES] if name.startswith(incomplete)]


Name = Annotated[str, typer.Argument(help="a method's name, or package.module:Class", autocompletion=_complete_method)]

COLUMNS = (
    "reads: known of each client once (with ? only if all give it). asks: of clients while choosing. reports: what the "
    "cohort returns beside its update. scales: to a million clients. secure: works under secure aggregation."
)


def list_() -> None:
    """List all methods: what they know of clients, ask them and want reported, and whether they scale to a million."""
    from sortition.selectors import ALIASES

    screen = console()
    screen.print(methods_table())
    for alias, name in ALIASES.items():
        screen.print(f"{alias}: another name of {name}.")
    screen.print('Other weights: reweight = "size", "uniform", "fitted" or "fedau".')


def methods_table() -> Table:
    """Return all methods by name, with what each needs to know under its default parameters."""
    from sortition import selectors
    from sortition.results.table import Table

    columns = ["method", "reads", "asks", "reports", "scales", "secure"]
    table = Table("", columns, notes=[COLUMNS], prose=tuple(columns))
    for name in [*selectors.ALIASES, *selectors.discover()]:
        method = default_instance(selectors.find(name))
        needs = method.needs
        table.rows.append(
            [
                name,
                ", ".join([*needs.reads, *(f"{fact}?" for fact in needs.optional)]) or "–",
                ", ".join([*(signal.name for signal in needs.asks), *(f"{s.name}?" for s in needs.may_ask)]) or "–",
                ", ".join([*map(_signal_kind, needs.reports), *(f"{_signal_kind(s)}?" for s in needs.may_report)])
                or "–",
                "yes" if method.scales else "no",
                "no" if needs.individual else "yes",
            ]
        )
    return table


def _signal_kind(signal: Signal) -> str:
    """Return a signal's name, of a sketch without its length."""
    return re.sub(r"-sketch\d+$", "-sketch", signal.name)


def default_instance(cls: SelectorClass) -> AnySelector:
    """Return an instance with default parameters, or with its first example where some have no default."""
    from sortition.core.errors import SortitionError

    try:
        return cls.load()
    except SortitionError:
        return cls.load(**cls.examples()[0])


def show(
    name: Name,
    set_: Annotated[list[str] | None, typer.Option("--set", help="a parameter of the method, such as d=20")] = None,
    model: Annotated[
        str | None, typer.Option(help="also print the traffic of this model: softmax, mlp, cnn or an import path")
    ] = None,
    inputs: Annotated[str, typer.Option(help="shape of one example")] = "1,28,28",
    classes: Annotated[int, typer.Option(min=2, help="number of labels")] = 10,
    clients: Annotated[int, typer.Option(min=1, help="clients, all available")] = 100,
    cohort: Annotated[int, typer.Option(min=1, help="clients a round")] = 10,
    rounds: Annotated[int, typer.Option(min=1, help="rounds over which the traffic is averaged")] = 30,
) -> None:
    """Describe a method: its paper, parameters, what it needs to know and how to cite it.

    With --model, also the bytes a round that it exchanges for such a model.

    Example: sortition show fedcor --model mlp
    """
    from sortition.studies.overlay import with_assignment

    cls = _find_method(name)
    parameters: TomlTable = {}
    for text in set_ or ():
        parameters = with_assignment(parameters, text)
    if parameters:
        selector = cls.load(**parameters)
    else:
        selector = default_instance(cls)
    module_text = inspect.getdoc(sys.modules[cls.__module__]) or ""
    screen = console()
    print_prose(module_text.strip() or inspect.getdoc(cls) or "", screen)
    screen.print(_parameters_table(cls, selector))
    screen.print(_needs_table(selector))
    if model is not None:
        table = _traffic_table(
            selector,
            model,
            inputs=_parse_shape(inputs),
            classes=classes,
            clients=clients,
            cohort=cohort,
            rounds=rounds,
        )
        screen.print(table)
    screen.print()
    screen.print(selector.cite.strip(), highlight=False, markup=False, soft_wrap=True)


def _parse_shape(inputs: str) -> tuple[int, ...]:
    """Return the shape of inputs that a text such as ``1,28,28`` gives."""
    from sortition.core.errors import unknown

    shape = tuple(int(part) for part in inputs.split(",") if part.strip().isdigit())
    if not shape:
        raise unknown("shape", inputs, ["1,28,28", "3,32,32", "60"])
    return shape


def _traffic_table(
    selector: AnySelector,
    model: str,
    *,
    inputs: tuple[int, ...],
    classes: int,
    clients: int,
    cohort: int,
    rounds: int,
) -> Table:
    """Return the mean bytes a round by kind, and their sum beside that of plain averaging."""
    from sortition.results.table import Table
    from sortition.studies.estimate import measure_traffic

    size, lanes = measure_traffic(
        selector, model, {}, inputs=inputs, classes=classes, clients=clients, cohort=cohort, rounds=rounds
    )
    table = Table(f"Traffic: {model}, {size:,} numbers; {cohort} of {clients} clients", ["direction", "bytes a round"])
    table.rows = [[lane.replace("_", " "), f"{value:,.0f}"] for lane, value in lanes.items() if value]
    total = sum(lanes.values())
    plain_averaging = 2 * 4 * size * cohort  # the model down and up, 4 bytes a number
    table.rows.append(["in all", f"{total:,.0f}"])
    table.notes.append(f"{total / plain_averaging:.2f} × plain averaging.")
    return table


def _parameters_table(cls: SelectorClass, selector: AnySelector) -> Table:
    """Return a row for each parameter of a method: its value and its meaning."""
    from sortition.results.table import Table

    meanings = dict(_documented_attributes(inspect.getdoc(cls) or ""))
    columns = ["parameter", "value", "meaning"]
    rows = [
        [item.name, repr(getattr(selector, item.name)), strip_markup(meanings.get(item.name, ""))]
        for item in fields(cls)  # type: ignore[arg-type]
    ]
    return Table(f"Parameters of {cls.__name__}", columns, rows, prose=tuple(columns))


def _documented_attributes(doc: str) -> list[tuple[str, str]]:
    """Return the name and the meaning of each of the docstring's ``Attributes:``."""
    meanings: list[tuple[str, str]] = []
    for line in doc.partition("Attributes:")[2].splitlines():
        name, colon, meaning = line.strip().partition(":")
        if colon and name.isidentifier():
            meanings.append((name, meaning.strip()))
        elif meanings and line.strip():
            last_name, last_meaning = meanings[-1]
            meanings[-1] = (last_name, f"{last_meaning} {line.strip()}")
    return meanings


def _needs_table(selector: AnySelector) -> Table:
    """Return what the server learns of clients under a method, and what that rules out."""
    from sortition.results.table import Table

    needs = selector.needs
    columns = ["the server", "what"]
    rows = [["reads, once per client", ", ".join(needs.reads) or "nothing"]]
    if needs.optional:
        rows.append(["reads if all clients give it", ", ".join(needs.optional)])
    lists = [("asks while choosing", needs.asks), ("has reported by the cohort", needs.reports)]
    if needs.may_ask:
        lists.insert(1, ("asks those who can answer", needs.may_ask))
    if needs.may_report:
        lists.append(("may have reported, depending on the facts", needs.may_report))
    for title, signals in lists:
        names = ", ".join(_signal_text(signal) for signal in signals)
        rows.append([title, names or "nothing"])
    rows.append(["secure aggregation", "impossible: sees single updates" if needs.individual else "possible"])
    rows.append(["a million clients", "possible" if selector.scales else "not meant for more than some thousand"])
    rows.append(["number of rounds", "must be known" if needs.horizon else "need not be known"])
    return Table("Privacy label: what the server learns", columns, rows, prose=tuple(columns))


def _signal_text(signal: Signal) -> str:
    """Return a signal's name, with its summary where it has one."""
    if not signal.summary:
        return signal.name
    return f"{signal.name} ({signal.summary})"


def _find_method(name: str) -> SelectorClass:
    """Return the class of a method by its name or import path; the current folder may hold it."""
    from sortition.studies.method_entries import selector_class

    sys.path.insert(0, str(Path.cwd()))
    return selector_class(name)


def cite(
    what: Annotated[
        str,
        typer.Argument(
            help="a folder of runs, a pack, a study's TOML file, or a method", autocompletion=_complete_method
        ),
    ],
    paragraph: Annotated[
        bool,
        typer.Option(
            "--paragraph", help="for runs: also print the methods paragraph of a paper, and answers to checklists"
        ),
    ] = False,
    latex: Annotated[
        bool, typer.Option("--latex", help="print only the paragraph, for LaTeX; use it with --paragraph")
    ] = False,
    allow: Allow = None,
) -> None:
    """Print the BibTeX of a method or of all methods of a study; for its runs, also a paragraph for the paper.

    Example: sortition cite runs/first --paragraph
    """
    from sortition.core.errors import bad
    from sortition.results.pack import is_pack
    from sortition.selectors import ALIASES, discover

    if latex and not paragraph:
        raise bad("--latex", "given with --paragraph", "--latex alone")
    is_method = what in ALIASES or what in discover()  # though a folder may have its name
    is_of_runs = not is_method and (Path(what).is_dir() or is_pack(what))
    if paragraph and not is_of_runs:
        raise bad("--paragraph", "given a folder of runs or a pack", what, "Hashes, hardware and hours are of runs.")
    if is_of_runs:
        typer.echo(_citation_of_runs(Path(what), paragraph=paragraph, latex=latex))
        return
    if what.endswith(".toml"):
        classes = _methods_of_file(what, allow)
    else:
        classes = [_find_method(what)]
    entries = dict.fromkeys(cls.cite.strip() for cls in classes)
    typer.echo("\n\n".join(entry for entry in entries if entry))


def _citation_of_runs(source: Path, *, paragraph: bool, latex: bool) -> str:
    """Return the BibTeX of the methods of runs, or the paragraph of a paper."""
    from sortition.report.gather import gather
    from sortition.report.methods_paragraph import write_methods_paragraph
    from sortition.report.pack_with_page import DOCUMENTS
    from sortition.results.pack import unpacked

    with unpacked([source], DOCUMENTS) as folders:
        described = write_methods_paragraph(gather(folders))
    if latex:
        return described.latex
    if paragraph:
        return str(described)
    return described.bibtex


def _methods_of_file(path: str, allow: list[str] | None) -> list[SelectorClass]:
    """Return the classes of the methods that a study's file lists."""
    from sortition.studies.method_entries import selector_class
    from sortition.studies.plan import read

    with allowing_imports(allow):
        tables = read(path).get("method", [])
        if not isinstance(tables, list):
            tables = []
        return [selector_class(str(table.get("name", ""))) for table in tables if isinstance(table, dict)]


def check(name: Name) -> None:
    """Check a method against the contract that every method keeps, point by point."""
    from sortition.testing import ContractError, contract

    messages: list[str] = []  # what each broken point said
    lines: list[str] = []  # where it raised
    cls = _find_method(name)
    for title, point in contract(cls):
        try:
            point()
        except ContractError as error:
            line = _raising_line(error, cls)
            message = f"{_failure_text(error)}{line}"
            if message in messages:
                typer.echo(f"BROKEN  {title}\n        The same error as above.")
            elif line in lines:
                typer.echo(f"BROKEN  {title}\n        {message}")
            else:
                typer.echo(f"BROKEN  {title}\n        {message}{_traceback_text(error)}")
            messages.append(message)
            lines.append(line)
        else:
            typer.echo(f"kept    {title}")
    if messages:
        raise typer.Exit(FAILED)


def _failure_text(error: BaseException) -> str:
    """Return what a method raised, or how it chose wrongly in silence."""
    cause = error.__cause__
    if cause is None:
        return str(error)
    return f"{type(cause).__name__}: {cause}"


def _raising_line(error: BaseException, cls: SelectorClass) -> str:
    """Return the line of the method's file, else of any, where it raised; nothing where it chose wrongly in silence."""
    cause = error.__cause__
    if cause is None:
        return ""
    frames = traceback.extract_tb(cause.__traceback__)
    last = next((frame for frame in reversed(frames) if frame.filename == inspect.getfile(cls)), frames[-1])
    return f"\n        at {last.filename}:{last.lineno}"


def _traceback_text(error: BaseException) -> str:
    """Return the traceback of what a method raised; nothing where the message says what the method must not do."""
    from sortition.core.errors import SortitionError

    cause = error.__cause__
    if cause is None or isinstance(cause, SortitionError):
        return ""
    text = "".join(traceback.format_exception(cause)).rstrip()
    return "\n" + textwrap.indent(text, " " * 8)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("list")(list_)
    for command in (show, cite, check):
        app.command()(command)
