"""``sortition reproduce``: a published table or figure, paper beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sortition.cli.exit_codes import exit_for
from sortition.cli.shared_options import Allow, Jobs, On, Quiet, allowing_imports, console

if TYPE_CHECKING:
    from sortition.reproduction.preset import Preset
    from sortition.reproduction.preset_page import ReproductionPage
    from sortition.reproduction.run_preset import Cuts
    from sortition.studies.runs.runner import Execution


def _complete_preset(incomplete: str) -> list[str]:
    from sortition.reproduction.preset import preset_names

    return [name for name in preset_names() if name.startswith(incomplete)]


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="presets, or TOML files of that form; none: list them", autocompletion=_complete_preset),
    ] = None,
    out: Annotated[Path, typer.Option("-o", "--out", help="write runs and pages into this folder")] = Path(
        "reproduction"
    ),
    page: Annotated[
        Path | None, typer.Option(help="write the page to this file", show_default="OUT/NAME/NAME.md")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="run only this setting, method or setting/method; may be repeated")
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="use only this many seeds")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="play only this many rounds")] = None,
    jobs: Jobs = None,
    on: On = None,
    allow: Allow = None,
    quiet: Quiet = False,
) -> None:
    """Reproduce published tables and figures: run what is missing, show paper beside ours, write a page.

    Without a name, lists the published tables and figures and how far each was reproduced. After a stop, the same
    command continues with what is there.

    Example: sortition reproduce availability
    """
    if not names:
        _print_index()
        return
    from sortition.reproduction import preset
    from sortition.reproduction.preset_page import write_pages
    from sortition.reproduction.run_preset import Cuts, cut_plan
    from sortition.studies.runs import runner

    screen = console()
    cuts = Cuts(tuple(only or ()), seeds, rounds)
    with allowing_imports(allow):
        presets = [preset.load_preset(name) for name in names]
        if len(presets) > 1:
            for loaded in presets:  # what the last one lacks is reported before the first one runs
                runner.check_runs(cut_plan(loaded, cuts).runs)
        total = runner.Execution(out)
        pages = []
        for loaded in presets:
            pages.append(_reproduce_preset(loaded, total, page=page, cuts=cuts, jobs=jobs, on=on, quiet=quiet))
            if total.interrupted:
                break
        if page:
            write_pages(page, pages)
            screen.print(f"page: {page}", soft_wrap=True)
    exit_for(total, "the same command goes on.")


def _print_index() -> None:
    """Print the presets of each paper, and how far each was run."""
    from sortition.reproduction.index import index_lines, load_extents

    for line in index_lines(load_extents()):
        typer.echo(line)


def _reproduce_preset(
    preset: Preset, total: Execution, *, page: Path | None, cuts: Cuts, jobs: int | None, on: str | None, quiet: bool
) -> ReproductionPage:
    """Run and show one preset, write its page where it has one of its own, and add to what failed."""
    from sortition.reproduction.preset_page import write_pages
    from sortition.reproduction.run_preset import reproduce_preset
    from sortition.studies.runs.progress import showing

    screen = console()
    runs_folder = total.out / preset.name

    def say(text: str) -> None:
        if not quiet:
            screen.print(text, highlight=False)

    reproduction = reproduce_preset(
        preset,
        runs_folder,
        cuts,
        folder=page.parent if page else runs_folder,
        jobs=jobs,
        on=on,
        progress=showing(screen, quiet=quiet),
        say=say,
    )
    if not quiet:
        for table in reproduction.page.tables:
            screen.print(table)
    if not page:
        own_page = runs_folder / f"{preset.name}.md"
        write_pages(own_page, [reproduction.page])
        screen.print(f"page: {own_page}", soft_wrap=True)
    if reproduction.outcome:
        total.failed |= reproduction.outcome.failed
        total.interrupted |= reproduction.outcome.interrupted
    return reproduction.page


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(reproduce)
