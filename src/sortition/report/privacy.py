"""The privacy label of each method, from what it declared: what the server sees, and what that rules out."""

from __future__ import annotations

from html import escape
from typing import Any

from sortition.report.gather import Gathered


def table(gathered: Gathered) -> str:
    """One row a method."""
    rows = []
    seen: set[str] = set()
    for setting in gathered.settings:
        for label, runs in setting.methods.items():
            needs = runs[0].manifest.get("needs")
            if label in seen or not isinstance(needs, dict):
                continue
            seen.add(label)
            secure = "no: single updates must be visible" if _individual(needs) else "possible"
            cells = [label, _told(needs.get("reads")), _told(needs.get("asks")), _told(needs.get("reports")), secure]
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


def _individual(needs: dict[str, Any]) -> bool:
    return bool(needs.get("individual")) or any(
        isinstance(signal, dict) and signal.get("exact")
        for key in ("asks", "reports")
        for signal in needs.get(key) or ()
    )


def _told(items: Any) -> str:
    names = []
    for item in items or ():
        if isinstance(item, dict):
            names.append(str(item.get("summary") or item.get("name") or item.get("signal")))
        else:
            names.append(str(item).replace("_", " "))
    return ", ".join(names) or "nothing"
