"""Pages of docs/reproduction get a short title on the site, so that the side bar lists papers, not sentences."""

from __future__ import annotations

from typing import Any

TITLES = {
    "availability": "Availability",
    "fedcor": "FedCor",
    "fedcor-sweeps": "FedCor: sweeps",
    "fedgs": "FedGS",
    "fedss": "FedSS",
    "hics": "HiCS-FL",
    "longfed": "LongFed",
    "natural": "Flights",
    "theory": "Theorems",
}


def with_lower_headings(text: str, title: str) -> str:
    """Return a page below a title: every heading outside of code is one level lower."""
    lines = [f"# {title}", ""]
    inside_code = False
    for line in text.splitlines():
        if line.startswith("```"):
            inside_code = not inside_code
        is_heading = line.startswith("#") and line.lstrip("#").startswith(" ")
        lines.append(f"#{line}" if is_heading and not inside_code else line)
    return "\n".join(lines) + "\n"


def setup(app: Any) -> dict[str, Any]:
    """Connect to Sphinx, which calls this function."""

    def read(app: Any, page: str, source: list[str]) -> None:
        folder, _, name = page.partition("/")
        if folder == "reproduction" and name in TITLES:
            source[0] = with_lower_headings(source[0], TITLES[name])

    app.connect("source-read", read)
    return {"version": "1", "parallel_read_safe": True}
