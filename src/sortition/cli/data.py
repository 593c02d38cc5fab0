"""``sortition data``: fetch data sets, look at how they are split and at who is reachable."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from sortition import availability, data
from sortition.core.errors import bad
from sortition.core.registry import Family
from sortition.core.streams import stream
from sortition.data import fetch, partitions
from sortition.data.catalogue import ENTRIES
from sortition.data.sources import Tell
from sortition.studies.overlay import assign

Parameters = dict[str, Any]
app = typer.Typer(help="Data sets, partitions and availability.", no_args_is_help=True)

Clients = Annotated[int, typer.Option(help="number of clients")]
Seed = Annotated[int, typer.Option(help="seed of the split and of all draws")]
Set = Annotated[list[str] | None, typer.Option("--set", help="a parameter, such as per_client=1; may be repeated")]
Plot = Annotated[Path | None, typer.Option(help="draw it: a .png, .svg, .pdf or .html file")]
Split = Annotated[str, typer.Option(help="how the data are split over clients")]


@app.command("list")
def list_() -> None:
    """What there is: data sets, partitions, availability modes and their parameters."""
    console = Console()
    table = Table("data set", "what it is", "where", title="Data sets", title_justify="left")
    table.add_row("digits", "handwritten digits, 8×8 grey, 1,797 of them", "embedded")
    table.add_row("synthetic", "Synthetic(α, β) of Li et al., as FedGS uses it", "made on the spot")
    for entry in ENTRIES.values():
        place = fetch.kept(entry.name)
        table.add_row(entry.name, entry.title, str(place) if place else f"sortition data get {entry.name}")
    console.print(table)
    console.print(_rules(partitions.FAMILY, "Partitions"))
    console.print(_rules(availability.FAMILY, "Availability"))


@app.command()
def get(
    names: Annotated[list[str], typer.Argument(help="mnist, fashion-mnist, cifar10, cifar100")],
    again: Annotated[bool, typer.Option("--again", help="fetch even what is already there")] = False,
) -> None:
    """Fetch real data sets, verify them and keep them in the data directory."""
    console = Console(stderr=True)
    for name in names:
        if name in ("digits", "synthetic"):
            typer.echo(f"{name}: nothing to fetch")
            continue
        if console.is_terminal:
            with console.status(name) as status:
                path = fetch.get(name, tell=status.update, again=again)
        else:
            path = fetch.get(name, tell=_plain(console), again=again)
        typer.echo(f"{name}: {path}")


@app.command()
def where(
    name: Annotated[str | None, typer.Argument(help="a data set; without one, the data directory")] = None,
) -> None:
    """The data directory (SORTITION_DATA, else the user's cache), or the file of one data set."""
    if name is None:
        typer.echo(str(fetch.directory()))
        return
    if name not in data.names():
        data.load(name)  # raises, with the nearest name
    place = fetch.kept(name)
    typer.echo(str(place) if place else f"{name} is not in {fetch.directory()}")


@app.command()
def describe(
    name: Annotated[str, typer.Argument(help="a data set, an npz file or a folder of npy files")] = "digits",
    partition: Split = "shards",
    clients: Clients = 100,
    seed: Seed = 0,
    set_: Set = None,
    plot: Plot = None,
    save: Annotated[Path | None, typer.Option(help="keep the partition as a .npz file")] = None,
) -> None:
    """Split a data set and tell how skewed the split is; draw it, keep it."""
    from sortition.data.charts import partition_chart, write
    from sortition.data.describe import describe as described

    loaded = data.load(name)
    made = _split(loaded, partition, clients, seed, _parameters(set_))
    title = f"{name}, {partition if loaded.clients is None else 'as it comes'}"
    told = described(made, loaded.y_train, loaded.classes)
    typer.echo(str(told))
    if save is not None:
        made.save(save)
    if plot is not None:
        typer.echo(f"picture: {write(partition_chart(told, title, width=800, height=300), plot)}")


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
    """Tell how many clients are reachable under a mode; draw it."""
    from sortition.availability._pictures import availability_chart
    from sortition.data.charts import write

    if rounds < 1:
        raise bad("--rounds", "≥ 1", rounds)
    loaded = data.load(name)
    bound = _bound(mode, loaded, _split(loaded, partition, clients, seed, {}), seed, _parameters(set_))
    masks = np.stack([bound.at(t) for t in range(rounds)])
    counts, shares = masks.sum(axis=1), masks.mean(axis=0)
    typer.echo(f"reachable per round   {counts.min()} … {counts.max()}, mean {counts.mean():.1f} of {masks.shape[1]}")
    typer.echo(f"share of rounds       {shares.min():.2f} … {shares.max():.2f} per client, mean {shares.mean():.2f}")
    for note in bound.notes:
        typer.echo(f"note                  {note}")
    if plot is not None:
        typer.echo(f"picture: {write(availability_chart(masks, mode, width=800, height=300), plot)}")


@app.command()
def gallery(
    folder: Annotated[Path, typer.Argument(help="where partitions.png and availability.png go")],
    name: Annotated[str, typer.Option("--data", help="data set that is split")] = "fashion-mnist",
    seed: Seed = 0,
) -> None:
    """Draw every partition and every availability mode: the pictures of the documentation."""
    import altair as alt

    from sortition.availability._pictures import availability_chart
    from sortition.data.charts import partition_gallery, write

    loaded = data.load(name)
    typer.echo(str(write(partition_gallery(loaded, seed=seed), folder / "partitions.png")))
    names = {target: alias for alias, target in availability.ALIASES.items()}
    charts = []
    for mode in availability.discover():
        split = _split(loaded, "dirichlet-sizes" if mode.endswith("data-first") else "labels", 50, seed, {})
        bound = _bound(mode, loaded, split, seed, {"matrix": _shifts(50)} if mode == "trace" else {})
        masks = np.stack([bound.at(t) for t in range(120)])
        masks = masks[:, np.lexsort(_columns(bound, 120))]
        charts.append(availability_chart(masks, f"{mode} ({names[mode]})" if mode in names else mode))
    typer.echo(str(write(alt.concat(*charts, columns=3, spacing=24), folder / "availability.png")))


def _split(
    loaded: data.Dataset, partition: str, clients: int, seed: int, parameters: Parameters
) -> partitions.Partition:
    """The data set's own split where it comes with one."""
    if loaded.clients is not None:
        return partitions.Partition(loaded.clients)
    return partitions.split(partition, loaded.y_train, clients, stream(seed, "partition"), **parameters)


def _bound(
    mode: str, loaded: data.Dataset, made: partitions.Partition, seed: int, parameters: Parameters
) -> availability.Availability:
    """The mode over this federation."""
    counts = made.label_counts(loaded.y_train, loaded.classes)
    return availability.make(mode, clients=len(made), seed=seed, sizes=made.sizes, label_counts=counts, **parameters)


def _columns(bound: availability.Availability, rounds: int) -> np.ndarray:
    """(rounds, clients) sort keys that put clients of like rates side by side; the first round counts most."""
    rates = [bound.rates(t) for t in range(rounds)]
    return np.stack([np.zeros(bound.clients) if rate is None else rate for rate in reversed(rates)])


def _shifts(clients: int) -> list[list[int]]:
    """A trace to look at: three shifts of eight rounds that relieve each other."""
    return [[int(client * 3 // clients == t // 8) for client in range(clients)] for t in range(24)]


def _parameters(assignments: list[str] | None) -> Parameters:
    table: Parameters = {}
    for text in assignments or ():
        table = assign(table, text)
    return table


def _rules(family: Family[Any], title: str) -> Table:
    table = Table("name", "parameters and defaults", title=title, title_justify="left")
    for name in family.discover():
        fields = family.find(name).model_fields
        table.add_row(name, ", ".join(f"{key} = {field.default!r}" for key, field in fields.items()))
    return table


def _plain(console: Console) -> Tell:
    """Plain lines where there is no terminal; the ticking of a download is left out."""
    return lambda line: console.print(line, highlight=False) if "trying" in line else None
