"""Run folders or a federation's history in, one self-contained page out; figures and LaTeX tables. Trains nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from sortition.core.errors import InputError, bad
from sortition.core.storage.snapshot import write_atomically
from sortition.report.gather import gather, title_of
from sortition.report.history_digest import condense_history
from sortition.report.history_page import HistoryPage
from sortition.report.look import FigureFiles
from sortition.report.method_choice import MethodChoice
from sortition.report.pack_with_page import DOCUMENTS
from sortition.report.page import Page
from sortition.results.history import History, find_history
from sortition.results.pack import is_pack, unpacked

__all__ = ["place", "write"]


def write(
    folders: Sequence[str | Path],
    out: str | Path | None = None,
    *,
    figures: FigureFiles | None = None,
    methods: MethodChoice | None = None,
    margin: float | None = None,
    baseline: str | None = None,
    all_pairs: bool | None = None,
    cost: str | None = None,
    only: Collection[Path] | None = None,
) -> Path:
    """Write the page, atomically; with ``figures`` also files for a paper or slides.

    Args:
        folders: run folders, or folders that hold some, or packs; or one federation: its history, checkpoint, or their
            folder.
        out: the page. Default: inside the first folder, named after the study, or beside the pack or the history.
        figures: where the charts and tables of a paper go, which, and how they look.
        methods: which methods page, figures and tables show, in which order, under which names; default: all.
        margin: points of accuracy (% of the baseline's loss) that are practically none; default: the study's.
        baseline: label or name of the method that others are compared with; default: the study's, else uniform.
        all_pairs: whether every pair of methods is compared; default: as the study says.
        cost: what methods are given equally much of: ``rounds``, ``seconds``, ``megabytes`` or ``passes``; default: the
            study's.
        only: the run folders that are shown; default: all that the folders hold.
    """
    packs = [Path(folder) for folder in folders if is_pack(folder)]
    if packs:
        if out is None:
            path = packs[0].with_suffix(".html")
        else:
            path = Path(out)
        with unpacked(folders, DOCUMENTS) as opened_folders:
            return write(
                opened_folders,
                path,
                figures=figures,
                methods=methods,
                margin=margin,
                baseline=baseline,
                all_pairs=all_pairs,
                cost=cost,
            )
    history = one_history(folders)
    if history is not None:
        if methods is not None:
            raise bad("a choice of methods", "given with runs of a study", f"the history {history.path}")
        if cost is not None:
            raise bad("--cost", "given with runs of a study", f"the history {history.path}", "It has no test figures.")
        return _write_history(history, out, figures=figures, margin=margin)
    gathered = gather(folders, margin=margin, baseline=baseline, all_pairs=all_pairs, cost=cost, only=only)
    if methods is not None:
        gathered = methods.apply(gathered)
    text = Page(gathered).render()
    path = place(folders) if out is None else Path(out)
    _write_page(path, text)
    if figures is not None:
        from sortition.report.export import export

        export(gathered, figures)
    return path


def _write_history(
    history: History,
    out: str | Path | None,
    *,
    figures: FigureFiles | None,
    margin: float | None,
) -> Path:
    """Write the page of a federation, beside its history unless ``out`` says otherwise."""
    from sortition.report.export import export_charts, slug

    has_columns = figures is not None and bool(figures.columns)
    if has_columns or margin is not None:
        option = "--column" if has_columns else "--margin"
        raise bad(option, "given with runs of a study", f"the history {history.path}", "It has no test figures.")
    page = HistoryPage(condense_history(history))
    text = page.render()
    if out is None:
        path = history.path.with_name(f"{slug(history.title)}.html")
    else:
        path = Path(out)
    _write_page(path, text)
    if figures is not None:
        export_charts(page.canvas, figures, one_setting=True)
    return path


def _write_page(path: Path, text: str) -> None:
    if path.is_dir():
        raise bad("--out", "a file", f"the folder {path}")
    write_atomically(path, text.encode())


def one_history(sources: Sequence[str | Path]) -> History | None:
    """Return the federation's history that the sources mean; None where they are folders of runs."""
    for source in sources:
        history = find_history(Path(source))
        if history is None:
            continue
        if len(sources) > 1:
            raise InputError(
                f"sortition report must be given folders of runs, or the history of one federation; got {len(sources)} "
                f"sources, of which {source} is a history."
            )
        return history
    return None


def place(folders: Sequence[str | Path]) -> Path:
    """Return where the page goes by default: into the first folder, named after the study."""
    from sortition.report.export import slug

    name = slug(title_of(folders))[:60].rstrip("-.").lower()
    return Path(folders[0]) / f"{name}.html"
