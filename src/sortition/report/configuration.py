"""Exactly what ran, with what, and whom to cite."""

from __future__ import annotations

import json
from html import escape

from sortition.report.gather import Gathered


def configuration(gathered: Gathered) -> str:
    """Seeds, the configuration of each method, versions and hashes, BibTeX."""
    parts, cited = [], {}
    for setting in gathered.settings:
        for label, runs in setting.methods.items():
            run = runs[0]
            text, title = json.dumps(run.config, indent=1, ensure_ascii=False), escape(f"{setting.name} · {label}")
            parts.append(f"<details><summary>{title}</summary><pre>{escape(text)}</pre></details>")
            cited[run.name] = str(run.manifest.get("cite") or "")
    first = gathered.settings[0].first
    facts = {key: first.manifest[key] for key in first.manifest if key not in ("cite", "needs")}
    seeds = "; ".join(f"{s.name}: {', '.join(map(str, s.seeds))}" for s in gathered.settings)
    bibtex = "\n\n".join(dict.fromkeys(text for text in cited.values() if text))
    return (
        f"<p>Seeds: {escape(seeds)}.</p>{''.join(parts)}"
        f"<details><summary>Versions and hashes</summary><pre>{escape(json.dumps(facts, indent=1))}</pre></details>"
        f"<details><summary>BibTeX</summary><pre>{escape(bibtex)}</pre></details>"
    )
