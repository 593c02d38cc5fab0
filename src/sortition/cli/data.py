"""``sortition data``: fetch data sets, look at how they are split, at who is reachable and how fast clients are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from sortition.cli.commands import Commands
from sortition.cli.shared_options import Allow, console
from sortition.cli.shared_options import Set as StudySet

if TYPE_CHECKING:
    from sortition.core.registry import Family
    from sortition.results.table import Table
    from sortition.studies.types import TomlTable

app = Commands(help="Data sets, partitions, availability and devices.", no_args_is_help=True)

Clients = Annotated[int, typer.Option(help="number of clients")]
Seed = Annotated[int, typer.Option(help="seed of the split and of all draws")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="a parameter, such as per_client=1, or a data option, such as data.label=y; may be repeated"
    ),
]
Plot = Annotated[Path | None, typer.Option(help="draw it: a .png, .svg, .pdf or .html file")]
Split = Annotated[str, typer.Option(help="how the data are split over clients")]


@app.command("list")
def list_() -> None:
    """List data sets, partitions, availability modes and their parameters."""
    from sortition import availability
    from sortition.data import fetch, partitions
    from sortition.data.catalogue import ENTRIES
    from sortition.data.natural_sets import SETS
    from sortition.results.table import Table

    columns = ["data set", "what it is", "where"]
    table = Table("Data sets", columns, prose=tuple(columns))
    table.rows.append(["digits", "handwritten digits, 8×8 grey, 1,797 of them", "embedded"])
    table.rows.append(["synthetic", "Synthetic(α, β) of Li et al., as FedGS uses it", "generated when used"])
    for entry in (*ENTRIES.values(), *SETS.values()):
        place = f"sortition data get {entry.name}"
        if fetch.find_stored(entry.name) is not None:
            place = "fetched"
        table.rows.append([entry.name, entry.title, place])
    table.notes.append(f"Fetched data sets are in {fetch.directory()}.")
    natural = [partitions.NATURAL, "least=1 (the data set's own clients that have so many examples)"]
    screen = console()
    screen.print(table)
    screen.print(_rules_table(partitions.FAMILY, "Partitions", natural))
    screen.print(_rules_table(availability.FAMILY, "Availability"))


@app.command()
def get(
    names: Annotated[
        list[str],
        typer.Argument(help="mnist, fashion-mnist, cifar10, cifar100, flights, shakespeare, chem97, movielens"),
    ],
    again: Annotated[bool, typer.Option("--again", help="fetch even what is already there")] = False,
) -> None:
    """Fetch real data sets, verify them and keep them in the data directory."""
    from rich.text import Text

    from sortition import data

    screen = console(stderr=True)
    for name in names:
        if name in ("digits", "synthetic"):
            typer.echo(f"{name}: nothing to fetch")
            continue
        if screen.is_terminal:
            with screen.status(Text(name)) as status:
                path = data.get(name, report=lambda line: status.update(Text(line)), refresh=again)
        else:
            path = data.get(name, report=_download_reporter(screen), refresh=again)
        typer.echo(f"{name}: {path}")


@app.command()
def where(
    name: Annotated[str | None, typer.Argument(help="a data set; without one, the data directory")] = None,
) -> None:
    """Print the data directory (SORTITION_DATA, else the user's cache), or the file of one data set."""
    from sortition import data
    from sortition.data import fetch

    if name is None:
        typer.echo(str(fetch.directory()))
        return
    if name not in data.names():
        data.load(name)  # raises, with the nearest name
    place = fetch.find_stored(name)
    if place is None:
        typer.echo(f"{name} is not in {fetch.directory()}")
    else:
        typer.echo(str(place))


@app.command()
def describe(
    name: Annotated[str, typer.Argument(help="a data set, or a file or folder of your own")] = "digits",
    partition: Split = "shards",
    clients: Clients = 100,
    seed: Seed = 0,
    set_: Set = None,
    plot: Plot = None,
    save: Annotated[Path | None, typer.Option(help="keep the partition as a .npz file")] = None,
) -> None:
    """Split a data set and print how skewed the split is; draw it, keep it."""
    from sortition import data
    from sortition.cli import previews
    from sortition.data import charts
    from sortition.data.describe import describe as skew

    options, parameters = _split_parameters(set_)
    dataset = data.load(name, **options)
    parts = previews.split_dataset(dataset, partition, clients, seed=seed, parameters=parameters)
    split_name = partition if dataset.clients is None else "as it comes"
    title = f"{name}, {split_name}"
    description = skew(parts, dataset.y_train, dataset.classes)
    description = replace(description, notes=(*dataset.notes, *description.notes))
    typer.echo(str(description))
    if save is not None:
        parts.save(save)
    if plot is not None:
        chart = charts.partition_chart(description, title, width=800, height=300)
        typer.echo(f"picture: {charts.write(chart, plot)}")


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="a data set, or a file or folder of your own")] = "digits",
    set_: Set = None,
) -> None:
    """Print what models get of a data set: types and shapes of inputs and targets, and how many there are."""
    from sortition import data
    from sortition.data.describe import describe_data

    options, parameters = _split_parameters(set_)
    if parameters:
        from sortition.core.errors import bad

        raise bad("--set", "an option of the data, such as data.label=y", next(iter(parameters)))
    typer.echo(describe_data(data.load(name, **options)))


@app.command("availability")
def availability_(
    mode: Annotated[str, typer.Argument(help="a mode or a paper's alias, such as LN")] = "lognormal",
    name: Annotated[str, typer.Option("--data", help="data set whose sizes and labels the mode may need")] = "digits",
    partition: Split = "dirichlet-sizes",
    clients: Clients = 50,
    rounds: Annotated[int, typer.Option(help="rounds to look at")] = 100,
    seed: Seed = 0,
    set_: Set = None,
    plot: Plot = None,
) -> None:
    """Print how many clients are reachable under a mode; draw it."""
    from sortition import data
    from sortition.availability._pictures import availability_chart
    from sortition.cli import previews
    from sortition.core.errors import bad
    from sortition.data.charts import write

    if rounds < 1:
        raise bad("--rounds", "≥ 1", rounds)
    options, parameters = _split_parameters(set_)
    dataset = data.load(name, **options)
    parts = previews.split_dataset(dataset, partition, clients, seed=seed, parameters={})
    availability = previews.build_mode(mode, dataset, parts, seed=seed, parameters=parameters)
    reachable = previews.reachable_by_round(availability, rounds)
    for line in previews.availability_lines(availability, reachable):
        typer.echo(line)
    if plot is not None:
        typer.echo(f"picture: {write(availability_chart(reachable, mode, width=800, height=300), plot)}")


@app.command("devices")
def devices_(
    study: Annotated[Path, typer.Argument(help="a study's TOML file", show_default=False)],
    setting: Annotated[str | None, typer.Option(help="one of the study's settings", show_default="the first")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="seed", show_default="the study's first")] = None,
    set_: StudySet = None,
    allow: Allow = None,
    plot: Plot = None,
) -> None:
    """Print how fast the clients of a study are, how that goes with their data, and who misses the deadline; draw it.

    Example: sortition data devices study.toml --set 'devices.slow="rare labels"' --plot devices.svg
    """
    from sortition.cli import previews
    from sortition.cli.shared_options import allowing_imports, naming_file_in_errors
    from sortition.data.charts import write
    from sortition.simulation.device_description import describe_devices, devices_chart

    with allowing_imports(allow), naming_file_in_errors(study):
        config = previews.first_run(study, set_ or [], setting, seed)
        setup = previews.build_setup(config)
    described = describe_devices(setup.world)
    deadline = setup.cohort_pace.deadline
    title = f"{study.stem}, {config.setting}, seed {config.seed}"
    console().print(previews.device_table(described, title, deadline))
    if plot is not None:
        chart = devices_chart(described, title, slow=config.devices.slow, deadline=deadline)
        typer.echo(f"picture: {write(chart, plot)}")


def _split_parameters(assignments: list[str] | None) -> tuple[TomlTable, TomlTable]:
    """Return what ``--set`` gives: options of the data set, named as in a study, and the other parameters."""
    from sortition.core.errors import bad
    from sortition.studies.overlay import with_assignment

    table: TomlTable = {"data": {}}
    for text in assignments or ():
        table = with_assignment(table, text)
    options = table.pop("data")
    if not isinstance(options, dict):
        raise bad("--set data", "given as data.key=value", options)
    return options, table


def _rules_table(family: Family[Any], title: str, *more: list[str]) -> Table:
    """Return a row for each rule of a family, with its parameters and their defaults."""
    from sortition.results.table import Table

    columns = ["name", "parameters and defaults"]
    table = Table(title, columns, prose=tuple(columns))
    for name in family.discover():
        fields = family.find(name).model_fields
        table.rows.append([name, ", ".join(f"{key}={field.default!r}" for key, field in fields.items())])
    table.rows.extend(more)
    return table


def _download_reporter(screen: Console) -> Callable[[str], None]:
    """Return a function that prints lines of a download where there is no terminal, without its ticking."""

    def report(line: str) -> None:
        if "trying" in line:
            screen.print(line, highlight=False)

    return report
