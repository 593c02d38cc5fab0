"""The generated part of every method's page, and the pages and tables of docs that are generated and kept.

A method's page shows a picture, cost, the leaderboard, parameters, needs, deviations and citation.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable
from dataclasses import Field, fields
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from sortition import selectors
from sortition.cli.methods import default_instance, methods_table
from sortition.core import Needs, Selector, Signal
from sortition.leaderboard.published import load_published
from sortition.leaderboard.results import read_stored_runs
from sortition.leaderboard.suite import load_suite
from workshop.leaderboard_excerpts import best_methods, method_section
from workshop.leaderboard_standings import best_rows, track_places
from workshop.marks import fill_marks
from workshop.reference_pages import (
    attribute_meanings,
    command_line_page,
    record_tables,
    signal_table,
    study_keys_page,
    toml_value,
    write_if_changed,
)

CLOCK_SIGNALS = {"duration", "resources"}  # signals that say nothing of a client's data
PICTURE = """```{{figure}} ../images/methods/{name}.svg
:alt: {name}: clients that were available and clients that were chosen, over 40 rounds

One run with default parameters: 40 clients with two labels each (the colours at the left) that come and go, 5 places a
round. A bar is how often a client was chosen, the mark how often an even draw among the available would choose it. All
methods are shown in the same run.
```
"""
BOARD = """
## On the leaderboard

{places}

On [suite 1](../leaderboard.md), which counts rounds:

{standing}
*AUC gain*: mean test accuracy over the rounds minus that of uniform sampling, in points, with a 95 % interval;
*better/worse*: federations with a significant difference; *MB*: all traffic of a run; *ms*: one selection.
"""
COST = """
## Cost

Traffic: {factor:.2f} times that of plain averaging ({parts}), for a model of {size:,} numbers and 10 of 100 clients,
all of them available, over 30 rounds: `sortition show {name} --model mlp`. {scales}
"""
LEVELS = (  # what a server may know, from little to much
    "who is available",
    "sizes of clients",
    "label counts",
    "how long clients take",
    "numbers that single clients send: losses, accuracies, norms",
    "single updates or gradients (no secure aggregation)",
)
LANE_WORDS = {"questions": "questions", "rehearsals": "rehearsals", "metadata": "reports and facts"}


def default_selector(name: str) -> Selector[Any]:
    """Return a method with its defaults, or its first example where some parameter has none."""
    selector: Selector[Any] = default_instance(selectors.find(name))
    return selector


@cache
def leaderboard_runs(docs: Path) -> pl.DataFrame:
    """Return all runs of the leaderboard; none where the file is not there."""
    return read_stored_runs(docs / "leaderboard.parquet")


# -- the parts of a method's page -----------------------------------------------------------------------------------


def with_picture(text: str, name: str, docs: Path) -> str:
    """Return the page with its picture below the idea, where it was drawn (``method_pictures.py``)."""
    if not (docs / "images" / "methods" / f"{name}.svg").exists():
        return text
    idea = text.find("\n**Idea.**")
    end_of_idea = text.find("\n\n", idea) if idea >= 0 else text.find("\n## ")
    if end_of_idea < 0:
        end_of_idea = len(text)
    return f"{text[:end_of_idea].rstrip()}\n\n{PICTURE.format(name=name)}{text[end_of_idea:]}"


def cost_section(name: str) -> str:
    """Return the section on a method's traffic, measured on made-up examples."""
    from sortition.studies.estimate import measure_traffic

    selector = default_selector(name)
    size, bytes_by_lane = measure_traffic(
        selector, "mlp", {}, inputs=(1, 28, 28), classes=10, clients=100, cohort=10, rounds=30
    )
    plain_bytes = 2 * 4 * size * 10
    shares = []
    for key, words in LANE_WORDS.items():
        share = sum(n_bytes for lane, n_bytes in bytes_by_lane.items() if lane.startswith(key)) / plain_bytes
        if share >= 0.005:
            shares.append(f"{share:.2f} for {words}")
    scales = "It is not meant for more than some thousand clients."
    if selector.scales:
        scales = "A selection among a million clients is possible ([scale](../scale.md))."
    return COST.format(
        factor=sum(bytes_by_lane.values()) / plain_bytes,
        parts=", ".join(shares) or "models only",
        size=size,
        name=name,
        scales=scales,
    )


def deviations_section(name: str) -> str:
    """Return the section on what differs from the paper, as the file's header says it."""
    header = inspect.getdoc(sys.modules[selectors.find(name).__module__]) or ""
    match = re.search(r"^Deviations?:? ?(.*?)(?=\n\n|\Z)", header, re.DOTALL | re.MULTILINE)
    words = (match.group(1) if match else "None.").lstrip(", \n")
    if not words.startswith("- "):
        words = " ".join(words.split())
    if words[0].isascii():  # a Greek letter is a symbol and stays small
        words = words[0].upper() + words[1:]
    return f"\n## Deviations from the paper, in short\n\n{words}\n".replace("``", "`")


def facts_sections(name: str) -> str:
    """Return the sections on parameters, needs, deviations and citation."""
    cls = selectors.find(name)
    lines = [*_parameter_lines(cls), *_needs_lines(default_selector(name).needs)]
    lines += [deviations_section(name), "## Citation", "", "```bibtex", cls.cite, "```"]
    return "\n".join(lines) + "\n"


def _parameter_lines(cls: type[Any]) -> list[str]:
    if not fields(cls):
        return ["", "## Parameters", "", "None."]
    meaning_by_name = attribute_meanings(cls)
    lines = ["", "## Parameters", "", "| parameter | meaning | default |", "|---|---|---|"]
    for field in fields(cls):
        meaning = meaning_by_name.get(field.name, "")
        lines.append(f"| `{field.name}` | {meaning} | `{toml_value(_default_value(field))}` |")
    return lines


def _default_value(field: Field[Any]) -> Any:
    """Return the default of a parameter, also where pydantic's ``Field`` holds it."""
    return getattr(field.default, "default", field.default)


def _needs_lines(needs: Needs) -> list[str]:
    lines = ["", "## What it needs to know", "", "| what | |", "|---|---|"]
    lines.append(f"| reads of the population | {_code_list(needs.reads) or 'nothing'} |")
    if needs.optional:
        lines.append(f"| reads if all clients give it | {_code_list(needs.optional)} |")
    lines.append(f"| asks of clients | {_signals_text(needs.asks)} |")
    if needs.may_ask:
        lines.append(f"| asks of clients that can answer | {_signals_text(needs.may_ask)} |")
    lines.append(f"| wants reported after training | {_signals_text(needs.reports)} |")
    if needs.may_report:
        lines.append(f"| may want reported, depending on the facts | {_signals_text(needs.may_report)} |")
    answer = "no: it looks at single updates" if needs.individual else "yes"
    lines.append(f"| possible with secure aggregation | {answer} |")
    return lines


def _code_list(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _signals_text(signals: Iterable[Signal]) -> str:
    return "; ".join(f"`{signal.name}`: {signal.summary}" for signal in signals) or "nothing"


def method_page(text: str, name: str, docs: Path) -> str:
    """Return the written page of a method with all that is generated."""
    standing = method_section(load_suite(), leaderboard_runs(docs), name)
    return "".join(
        [
            with_picture(text, name, docs).rstrip(),
            "\n",
            BOARD.format(places=track_places(load_published(), name), standing=standing),
            cost_section(name),
            facts_sections(name),
        ]
    )


# -- pages that are kept in the repository --------------------------------------------------------------------------


def method_list_page() -> str:
    """Return the page with a table of all methods and the tree of their pages."""
    table = methods_table()
    columns = ["name", "whom it picks", *table.columns[1:]]
    lines = ["# Methods", "", *table.notes, "", f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    for name, *cells in table.rows:
        page = selectors.ALIASES.get(name, name)
        idea = (inspect.getdoc(selectors.find(name)) or "").split("\n")[0]
        if page != name:
            idea = f"Another name of `{page}`."
        lines.append(f"| [`{name}`]({page}.md) | {' | '.join([idea, *cells])} |")
    menu = [f"{name} <{name}>" for name in selectors.discover()]  # names, which are shorter than titles
    lines += ["", "```{toctree}", ":hidden:", "", *menu, "```"]
    return "\n".join(lines) + "\n"


def knowledge_table() -> str:
    """Return a table of what a server may know, and the methods that need just that."""
    levels = {name: _knowledge_level(default_selector(name).needs) for name in selectors.discover()}
    lines = ["| the server knows | methods |", "|---|---|"]
    for level, title in enumerate(LEVELS):
        names = [f"[{name}](methods/{name}.md)" for name in levels if levels[name] == level]
        lines.append(f"| {title} | {', '.join(names)} |")
    return "\n".join(lines) + "\n"


def _knowledge_level(needs: Needs) -> int:
    """Return the position in LEVELS of what a method needs to know."""
    signals = {signal.name for signal in (*needs.questions, *needs.reports)}
    if needs.individual:
        return 5
    if signals:
        return 3 if signals <= CLOCK_SIGNALS else 4
    if "label_counts" in (*needs.reads, *needs.optional):
        return 2
    return 1 if needs.reads else 0


def generated_pages(docs: Path) -> dict[str, str]:
    """Return the text of each page that is generated and kept in the repository, by its path in docs."""
    pages = {
        "methods/index.md": method_list_page(),
        "reference/study-keys.md": study_keys_page(),
        "reference/command-line.md": command_line_page(),
    }
    parts_by_page = {
        "choosing.md": {
            "knowledge": knowledge_table(),
            "best": best_methods(load_suite(), leaderboard_runs(docs)),
            "best-2": best_rows(load_published()),
        },
        "reference/api.md": {"signals": signal_table()},
        "reference/run-folder.md": {"schema": record_tables()},
    }
    for page, parts in parts_by_page.items():
        pages[page] = fill_marks((docs / page).read_text("utf-8"), parts)
    return pages


def write_generated_pages(docs: Path) -> None:
    """Write the pages that are kept in the repository."""
    for name, text in generated_pages(docs).items():
        write_if_changed(docs / name, text)


# -- Sphinx ---------------------------------------------------------------------------------------------------------


def setup(app: Any) -> dict[str, Any]:
    """Connect to Sphinx, which calls this function."""

    def read(app: Any, page: str, source: list[str]) -> None:
        folder, _, name = page.partition("/")
        if folder == "methods" and name in selectors.discover():
            source[0] = method_page(source[0], name, Path(app.srcdir))

    def outdated(app: Any, env: Any, added: set[str], changed: set[str], removed: set[str]) -> list[str]:
        """Rebuild all pages of methods: code and runs may have changed, which Sphinx does not watch."""
        return [page for page in env.found_docs if page.startswith("methods/")]

    app.connect("env-get-outdated", outdated)
    app.connect("builder-inited", lambda app: write_generated_pages(Path(app.srcdir)))
    app.connect("source-read", read)
    return {"version": "2", "parallel_read_safe": True}
