"""Exactly what ran, with what, and whom to cite."""

from __future__ import annotations

import json
from html import escape

from sortition.report.gather import Gathered


def configuration_html(gathered: Gathered) -> str:
    """Return seeds, the configuration of each method, versions and hashes, and BibTeX as markup."""
    seeds = "; ".join(f"{setting.name}: {', '.join(map(str, setting.seeds))}" for setting in gathered.settings)
    parts = [f"<p>Seeds: {escape(seeds)}.</p>"]
    citations: dict[str, str] = {}
    for setting in gathered.settings:
        for label, runs in setting.methods.items():
            run = runs[0]
            parts.append(
                _folded_html(f"{setting.name} · {label}", json.dumps(run.config, indent=1, ensure_ascii=False))
            )
            citations[run.name] = str(run.manifest.get("cite") or "")
    manifest = gathered.settings[0].first.manifest
    facts = {key: value for key, value in manifest.items() if key not in ("cite", "needs")}
    parts.append(_folded_html("Versions and hashes", json.dumps(facts, indent=1)))
    parts.append(_folded_html("BibTeX", "\n\n".join(dict.fromkeys(text for text in citations.values() if text))))
    return "".join(parts)


def _folded_html(title: str, text: str) -> str:
    """Return a text that a click on its title unfolds."""
    return f"<details><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>"
