"""The page of suite 2: one HTML file with its data, styles and program inside, which asks the network for nothing."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from sortition.leaderboard.entrants import load_configurations
from sortition.leaderboard.run_rows import read_cells
from sortition.leaderboard.tracks import load_tracks
from sortition.results.frames import escape_formula
from workshop import DOCS
from workshop.leaderboard_data import Data, page_data

ASSETS = Path(__file__).parent / "leaderboard_assets"
RESULTS = DOCS / "leaderboard-2"
PAGE = DOCS / "_static" / "leaderboard-2.html"
MARK = re.compile(r"\{\{([A-Z]+)\}\}")
VERIFIED = "verified.json"  # beside the results: rows that others have rerun → by whom, on what machine
LARGEST = 8_000_000  # bytes of the page
COLUMNS = ("rank", "gain", "low", "high", "end", "better", "worse", "failures", "megabytes", "milliseconds", "hours")


def site_html(data: Data, parquet: bytes) -> str:
    """Return the whole page; Parquet and CSV files are inside, to be saved."""
    parts = {
        "STYLE": (ASSETS / "page.css").read_text(encoding="utf-8"),
        "PROGRAM": (ASSETS / "page.js").read_text(encoding="utf-8"),
        "DATA": json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"),
        "PARQUET": f"data:application/vnd.apache.parquet;base64,{base64.b64encode(parquet).decode()}",
        "CSV": f"data:text/csv;base64,{base64.b64encode(standings_csv(data).encode()).decode()}",
        "SUITE": str(data["suite"]),
    }
    page = (ASSETS / "page.html").read_text(encoding="utf-8")
    pieces = MARK.split(page)  # text, name of a part, text, …
    return "".join(parts[piece] if position % 2 else piece for position, piece in enumerate(pieces))


def standings_csv(data: Data) -> str:
    """Return the rows of all tables as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["suite", "track", "table", "row", "information", *COLUMNS, "p_uniform", "p_best_other"])
    for track, content in data["tracks"].items():
        for title, table in content["tables"].items():
            for row in table["rows"]:
                tests = [(row[test] or {}).get("p", "") for test in ("baseline", "leader")]
                figures = [row[column] for column in COLUMNS]
                texts = [escape_formula(row[text]) for text in ("row", "information")]  # of whoever sent in results
                writer.writerow([data["suite"], track, title, *texts, *figures, *tests])
    return text.getvalue()


def parquet_bytes(results: pl.DataFrame) -> bytes:
    """Return all runs as one Parquet file."""
    buffer = io.BytesIO()
    results.sort("track", "cell", "label", "seed").write_parquet(buffer, compression="zstd", compression_level=19)
    return buffer.getvalue()


def write_site(results_folder: Path = RESULTS, page: Path = PAGE) -> None:
    """Write the page from stored results."""
    suite = load_tracks()
    results = read_cells(suite, results_folder, suite.cell)
    verified_path = results_folder / VERIFIED
    verified = json.loads(verified_path.read_text(encoding="utf-8")) if verified_path.exists() else {}
    data = page_data(suite, load_configurations(), results, verified, date=datetime.now(UTC).date().isoformat())
    text = site_html(data, parquet_bytes(results))
    if len(text) > LARGEST:
        raise SystemExit(f"{page} would have {len(text):,} bytes, more than {LARGEST:,}")
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text, encoding="utf-8")
    print(page, f"{len(text):,} bytes")
