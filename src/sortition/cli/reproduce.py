"""``sortition reproduce``: a published table or figure, paper beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sortition.cli.options import Allow, Jobs, On, Quiet, allowing, console
from sortition.cli.run import finish

if TYPE_CHECKING:
    from sortition.reproduction.page import ReproductionPage
    from sortition.reproduction.preset import Preset
    from sortition.reproduction.reproduce import Cuts
    from sortition.studies.runs.runner import Execution


def _names(incomplete: str) -> list[str]:
    from sortition.reproduction.preset import preset_names

    return [name for name in preset_names() if name.startswith(incomplete)]


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="presets, or TOML files of that form; none: list them", autocompletion=_names),
    ] = None,
    out: Annotated[Path, typer.Option("-o", "--out", help="folder of runs and pages")] = Path("reproduction"),
    page: Annotated[Path | None, typer.Option(help="where the page goes", show_default="OUT/NAME/NAME.md")] = None,
    only: Annotated[list[str] | None, typer.Option(help="a setting, a method or setting/method; repeatable")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="fewer seeds")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="fewer rounds")] = None,
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
    from sortition.reproduction.page import write_pages
    from sortition.reproduction.reproduce import Cuts, cut
    from sortition.studies.runs import runner

    screen = console()
    cuts = Cuts(tuple(only or ()), seeds, rounds)
    with allowing(allow):
        loaded, total, pages = [preset.load_preset(name) for name in names], runner.Execution(out), []
        for one in loaded if len(loaded) > 1 else []:  # what the last one lacks is reported before the first one runs
            runner.check(cut(one, cuts).runs)
        for one in loaded:
            pages.append(_reproduced(one, total, page, cuts, jobs, on, quiet))
            if total.interrupted:
                break
        if page:
            write_pages(page, pages)
            screen.print(f"page: {page}", soft_wrap=True)
    finish(total, "the same command goes on.")


def _print_index() -> None:
    from sortition.reproduction.index import extents, index_lines

    for line in index_lines(extents()):
        typer.echo(line)


def _reproduced(
    preset: Preset, total: Execution, page: Path | None, cuts: Cuts, jobs: int | None, on: str | None, quiet: bool
) -> ReproductionPage:
    """Run and show one preset, write its page where it has one of its own, and add to what failed."""
    from sortition.reproduction.page import write_pages
    from sortition.reproduction.reproduce import reproduce
    from sortition.studies.runs.progress import showing

    screen, folder = console(), total.out / preset.name
    say = (lambda text: None) if quiet else (lambda text: screen.print(text, highlight=False))
    place, shown = page.parent if page else folder, showing(screen, quiet=quiet)
    made = reproduce(preset, folder, cuts, folder=place, jobs=jobs, on=on, progress=shown, say=say)
    for table in [] if quiet else made.page.tables:
        screen.print(table)
    if not page:
        write_pages(folder / f"{preset.name}.md", [made.page])
        screen.print(f"page: {folder / preset.name}.md", soft_wrap=True)
    if made.outcome:
        total.failed |= made.outcome.failed
        total.interrupted |= made.outcome.interrupted
    return made.page


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(reproduce)
