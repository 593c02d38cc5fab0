"""``python -m workshop PART``: write one part of what README and docs show; ``--help`` lists the parts."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sortition.core.errors import InputError
from workshop import DOCS


def main() -> None:
    """Write the part that the command line names."""
    options = _options()
    match options.part:
        case "pages":
            from workshop.method_pages import write_generated_pages

            write_generated_pages(DOCS)
        case "notebooks":
            from workshop.notebook_outputs import fill_notebooks

            fill_notebooks()
        case "reproduction":
            from workshop.leaderboard_readme import write_top
            from workshop.reproduction_answers import write_answers
            from workshop.reproduction_pages import write_reproduction_pages

            write_reproduction_pages()
            write_answers()
            write_top()  # a bullet of the README counts the claims
        case "leaderboard":
            _write_leaderboard(options.runs)
        case "leaderboard-2":
            from workshop.leaderboard_picture import write_picture
            from workshop.leaderboard_readme import write_top
            from workshop.leaderboard_site import write_site
            from workshop.leaderboard_standings import write_standings
            from workshop.leaderboard_summary import write_summary

            write_summary()
            write_site()
            write_picture(write_standings())
            write_top()
        case "budgets":
            from workshop.leaderboard_budgets import write_budgets

            write_budgets()
        case "pictures":
            from workshop.method_pictures import write_pictures, write_strips

            write_pictures(options.methods)
            if not options.methods:
                write_strips()
        case "time":
            from workshop.flight_strips import draw_strips
            from workshop.time_table import write_table

            draw_strips()
            if not options.strips:
                write_table()
        case "metrics":
            from workshop.metrics_picture import draw_picture

            draw_picture()
        case "gallery":
            from workshop.gallery import write_gallery

            write_gallery()
        case "screenshots":
            from workshop.screenshots import take_screenshots

            take_screenshots(options.runs)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m workshop", description="Write what README and docs show.")
    parts = parser.add_subparsers(dest="part", required=True)
    parts.add_parser("pages", help="reference pages and tables of docs, from the code and the leaderboard's runs")
    parts.add_parser("notebooks", help="the outputs of the cells of docs/notebooks")
    parts.add_parser(
        "reproduction",
        help="the index of docs/reproduction, the answers at the head of its pages and the README's table",
    )
    leaderboard = parts.add_parser("leaderboard", help="docs/leaderboard.md and the README's table, from runs")
    leaderboard.add_argument(
        "--runs",
        type=Path,
        metavar="FOLDER",
        help="the folder in which 'sortition leaderboard' ran; default: the runs of docs/leaderboard.parquet",
    )
    parts.add_parser(
        "leaderboard-2",
        help="the board of suite 2, its page and picture, and the README's top of it, from docs/leaderboard-2",
    )
    parts.add_parser("budgets", help="time budgets of suite 2 that are missing, from clocks alone")
    pictures = parts.add_parser(
        "pictures", help="docs/images: whom each method chose in one small run; three side by side"
    )
    pictures.add_argument("methods", nargs="*", help="default: all")
    of_time = parts.add_parser("time", help="the strips and the table of docs/time.md, from runs of all methods")
    of_time.add_argument("--strips", action="store_true", help="only the strips, in seconds")
    parts.add_parser("metrics", help="docs/images/metrics.svg: panels of the dashboard, from a small federation")
    parts.add_parser("gallery", help="docs/gallery.md and its pictures, from the runs of examples/gallery")
    screenshots = parts.add_parser("screenshots", help="pictures of the demo's report (needs Chromium)")
    screenshots.add_argument("--runs", type=Path, metavar="FOLDER", default=Path("demo/runs"), help="of the report")
    return parser.parse_args()


def _write_leaderboard(folder: Path | None) -> None:
    """Write the page and the README's table; runs of a folder first replace docs/leaderboard.parquet."""
    from sortition.core.errors import bad
    from sortition.leaderboard.results import RUNS, read_stored_runs, write_runs
    from sortition.leaderboard.suite import load_suite
    from workshop.leaderboard_page import write_page
    from workshop.leaderboard_readme import KEPT_RUNS, write_top

    if folder is not None:
        if not (folder / RUNS).exists():
            raise bad("--runs", f"a folder with the file {RUNS}", str(folder), "'sortition leaderboard -o' makes it.")
        write_runs(read_stored_runs(folder / RUNS), KEPT_RUNS)
    write_page(load_suite(), read_stored_runs(KEPT_RUNS), DOCS / "leaderboard.md")
    write_top()


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(str(error))
