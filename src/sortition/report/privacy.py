"""The privacy label of each method, from what it declared: what the server sees, and what that rules out."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from sortition.report.gather import Gathered


def privacy_html(gathered: Gathered) -> str:
    """Return a table of one row a method."""
    needs_by_method: dict[str, Any] = {}
    for setting in gathered.settings:
        for label, runs in setting.methods.items():
            needs_by_method.setdefault(label, runs[0].manifest.get("needs"))
    return needs_html(needs_by_method)


def needs_html(needs_by_method: Mapping[str, Any]) -> str:
    """Return one row a method that declared something; empty where none did."""
    rows = []
    for label, needs in needs_by_method.items():
        if not isinstance(needs, dict) or not needs:
            continue
        cells = [
            label,
            _needs_text(needs.get("reads")),
            _needs_text(needs.get("asks")),
            _needs_text(needs.get("reports")),
            "no: single updates must be visible" if needs.get("individual") else "possible",
        ]
        rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    if not rows:
        return ""
    head = "".join(
        f"<th>{name}</th>" for name in ("method", "knows beforehand", "asks", "gets with updates", "secure aggregation")
    )
    return (
        f'<h3>What the server sees</h3><div class="scroll"><table class="text"><tr>{head}</tr>'
        f"{''.join(rows)}</table></div>"
        '<p class="soft">Selection that looks at clients voids privacy amplification by subsampling: the choice itself '
        "depends on their data.</p>"
    )


def _needs_text(items: Any) -> str:
    """List facts by name, and signals, a table from name to summary, by what they reveal."""
    if not items:
        return "nothing"
    texts = [items]  # as a foreign file may have it
    if isinstance(items, dict):
        texts = list(items.values())
    elif isinstance(items, list | tuple):
        texts = list(items)
    return ", ".join(str(text).replace("_", " ") for text in texts)
