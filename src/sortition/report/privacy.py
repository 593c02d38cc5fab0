"""The privacy label of each method, from what it declared: what the server sees, and what that rules out."""

from __future__ import annotations

from html import escape
from typing import Any

from sortition.report.gather import Gathered


def privacy_table(gathered: Gathered) -> str:
    """One row a method."""
    rows = []
    seen: set[str] = set()
    for setting in gathered.settings:
        for label, runs in setting.methods.items():
            needs = runs[0].manifest.get("needs")
            if label in seen or not isinstance(needs, dict):
                continue
            seen.add(label)
            secure = "no: single updates must be visible" if needs.get("individual") else "possible"
            cells = [
                label,
                _listed(needs.get("reads")),
                _listed(needs.get("asks")),
                _listed(needs.get("reports")),
                secure,
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


def _listed(items: Any) -> str:
    """Facts by name; signals, a table from name to summary, by what they reveal."""
    words = items.values() if isinstance(items, dict) else items or ()
    return ", ".join(str(word).replace("_", " ") for word in words) or "nothing"
