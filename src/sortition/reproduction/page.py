"""The page of a reproduction: what was published, how it was run, tables, pictures and statistics, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sortition.core.storage.snapshot import write_atomically
from sortition.reproduction.preset import Preset
from sortition.results.run_folder import Run
from sortition.results.table import Table
from sortition.studies.plan import StudyPlan


def page(
    preset: Preset,
    options: str,
    plan: StudyPlan,
    whole: StudyPlan,
    found: list[Run],
    tables: list[Table],
    pictures: list[str],
    compared: list[Table],
) -> str:
    """The Markdown page: what, how, the tables, the pictures, the statistics."""
    parts = [f"# {preset.paper.title}"]
    parts += [text.strip() for text in (preset.paper.source, preset.paper.notes) if text.strip()]
    parts.append(f"Made by `sortition reproduce {preset.name}{options}`.")
    if whole.runs:
        parts.append(_how(plan, whole, found))
    parts += [table.markdown() for table in tables] + pictures
    if compared:
        parts += ["## Paired comparison", *[table.markdown() for table in compared]]
    return "\n\n".join(parts) + "\n"


def _how(plan: StudyPlan, whole: StudyPlan, found: list[Run]) -> str:
    """Rounds, seeds, hashes and versions, and what was left out."""
    lines = [f"- runs: {len(found)} finished of {len(whole.runs)} in the whole table"]
    if len(plan.runs) < len(whole.runs) or plan.runs[0].rounds != whole.runs[0].rounds:
        lines.append("- **cut to size**: cells that were not run are empty")
    lines.append(f"- rounds: {_span(run.rounds for run in plan.runs)}; seeds: {_span(run.seed for run in plan.runs)}")
    for name, digest in sorted({(r.manifest["data"]["name"], r.manifest["data"]["digest"]) for r in found}):
        lines.append(f"- data: {name}, SHA-256 `{digest}`")
    versions = found[0].manifest if found else {}
    if versions:
        used = ", ".join(f"{name} {number}" for name, number in versions["versions"].items())
        lines.append(f"- versions: sortition {versions['sortition']}, {used}")
        spent = sum(timing.get("total", 0.0) for run in found for timing in run.timings)
        lines.append(f"- computing: {spent / 60:.1f} core-minutes in all")
    return "\n".join(lines)


def _span(values: Iterable[int]) -> str:
    found = sorted(set(values))
    whole = len(found) > 2 and found == list(range(found[0], found[-1] + 1))
    return f"{found[0]}–{found[-1]}" if whole else ", ".join(map(str, found))


def write(path: Path, pages: list[str]) -> None:
    """One page of one or several presets, atomically."""
    write_atomically(path, "\n\n".join(text.strip() for text in pages).encode() + b"\n")
