"""``sortition reproduce``: a published table or figure, paper beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sortition.cli.options import Allow, Jobs, On, Quiet, allowing, console
from sortition.cli.run import finish


def _names(incomplete: str) -> list[str]:
    from sortition.reproduction.preset import names

    return [name for name in names() if name.startswith(incomplete)]


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="presets, or TOML files of that form", autocompletion=_names)
    ] = None,
    out: Annotated[Path, typer.Option("-o", "--out", help="folder of runs and pages")] = Path("reproduction"),
    page: Annotated[Path | None, typer.Option(help="where the page goes [default: OUT/NAME/NAME.md]")] = None,
    only: Annotated[list[str] | None, typer.Option(help="a setting, a method or setting/method; repeatable")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="fewer seeds")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="fewer rounds")] = None,
    jobs: Jobs = None,
    on: On = None,
    allow: Allow = None,
    quiet: Quiet = False,
) -> None:
    """Reproduce published tables and figures: run what is missing, show paper beside ours, write a page.

    Without a name, lists what there is. Stopped or cut short, the same command goes on with what is there.

    Example: sortition reproduce availability
    """
    from sortition.reproduction import preset
    from sortition.reproduction.reproduce import Cuts

    screen = console()
    if not names:
        for name in preset.names():
            screen.print(f"{name:24} {preset.load(name).paper.title}", highlight=False, soft_wrap=True)
        return
    cuts = Cuts(tuple(only or ()), seeds, rounds)
    with allowing(allow):
        total = _made([preset.load(name) for name in names], out, page, cuts, jobs, on, quiet)
    finish(total, "the same command goes on.")


def _made(loaded: list[Any], out: Path, page: Path | None, cuts: Any, jobs: Any, on: Any, quiet: bool) -> Any:
    """Play and write one preset after the other; what became of their runs."""
    from sortition.reproduction.page import write
    from sortition.reproduction.reproduce import cut, reproduce
    from sortition.studies.runs import runner
    from sortition.studies.runs.progress import showing

    screen, pages, total = console(), [], runner.Execution(out)
    for one in loaded if len(loaded) > 1 else []:  # what the last one lacks is told before the first one is played
        runner.check(cut(one, cuts).runs)
    for one in loaded:
        folder = out / one.name
        shown = showing(screen, quiet=quiet)
        say = (lambda text: None) if quiet else (lambda text: screen.print(text, highlight=False))
        place = page.parent if page else folder
        made = reproduce(one, folder, cuts, folder=place, jobs=jobs, on=on, progress=shown, say=say)
        for table in [] if quiet else made.tables:
            screen.print(table)
        pages.append(made.markdown)
        if not page:
            write(folder / f"{one.name}.md", [made.markdown])
            screen.print(f"page: {folder / one.name}.md", soft_wrap=True)
        if made.outcome:
            total.failed |= made.outcome.failed
            total.interrupted |= made.outcome.interrupted
            if total.interrupted:
                break
    if page:
        write(page, pages)
        screen.print(f"page: {page}", soft_wrap=True)
    return total


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(reproduce)
