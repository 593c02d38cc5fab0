"""Run folders or a federation's history in, one self-contained page out; figures and LaTeX tables. Trains nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from sortition.core.errors import InputError, bad
from sortition.core.storage.snapshot import write_atomically
from sortition.report.gather import gather, report_title
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
        only: the run folders that are shown; default: all that the folders hold. Runs of a pack have no folder that
            could be named, so a pack is refused together with it.
    """
    packs = [Path(folder) for folder in folders if is_pack(folder)]
    if packs:
        if only is not None:
            raise bad("A choice of run folders", "made among folders", f"the pack {packs[0]}", "Unpack it first.")
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
    history = find_one_history(folders)
    if history is not None:
        columns = None
        if figures is not None and figures.columns:
            columns = figures.columns
        study_options = {
            "A choice of methods": methods,
            "A choice of columns": columns,
            "A choice of run folders": only,
            "A choice of pairs": all_pairs,
            "A margin": margin,
            "A baseline": baseline,
            "A cost": cost,
        }
        _refuse_study_options(study_options, history)
        return _write_history(history, out, figures=figures)
    gathered = gather(folders, margin=margin, baseline=baseline, all_pairs=all_pairs, cost=cost, only=only)
    if methods is not None:
        gathered = methods.apply(gathered)
    text = Page(gathered).render()
    path = default_page_path(folders) if out is None else Path(out)
    _write_page(path, text)
    if figures is not None:
        from sortition.report.export import export_figures

        export_figures(gathered, figures)
    return path


def _refuse_study_options(study_options: Mapping[str, object], history: History) -> None:
    """Refuse what only runs of a study can be asked for; an option that is not given is None."""
    for option, value in study_options.items():
        if value is not None:
            raise InputError(
                f"{option} works only for runs of a study, not for the history {history.path}, which has no test "
                "results. Leave it out."
            )


def _write_history(history: History, out: str | Path | None, *, figures: FigureFiles | None) -> Path:
    """Write the page of a federation, beside its history unless ``out`` says otherwise."""
    from sortition.report.export import export_charts, slug

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
        raise bad("The report's page", "a file", f"the folder {path}")
    write_atomically(path, text.encode())


def find_one_history(sources: Sequence[str | Path]) -> History | None:
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


def default_page_path(folders: Sequence[str | Path]) -> Path:
    """Return where the page goes by default: into the first folder, named after the study."""
    from sortition.report.export import slug

    name = slug(report_title(folders))[:60].rstrip("-.").lower()
    return Path(folders[0]) / f"{name}.html"
