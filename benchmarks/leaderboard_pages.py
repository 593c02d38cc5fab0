"""Put the leaderboard's results into the documentation: all runs, the page, and the top in the README.

sortition leaderboard                                  # and --tune, --weights size: hours; what is done is kept
python benchmarks/leaderboard_pages.py runs/leaderboard
"""

from __future__ import annotations

import argparse
from pathlib import Path

from sortition.leaderboard.board import Board
from sortition.leaderboard.page import write_page
from sortition.leaderboard.results import RUNS, stored, write_runs
from sortition.leaderboard.suite import load_suite
from sortition.leaderboard.top import write_top
from sortition.leaderboard.variants import plain_rows

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Write the three files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder of the leaderboard's runs")
    suite, rows = load_suite(), stored(parser.parse_args().folder / RUNS)
    write_runs(rows, ROOT / "docs" / "leaderboard.parquet")
    write_page(suite, rows, ROOT / "docs" / "leaderboard.md")
    write_top(Board(suite, suite.cells("held-out"), plain_rows(rows)), ROOT / "README.md")


if __name__ == "__main__":
    main()
