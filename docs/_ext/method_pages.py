"""What stands on every method's page: a picture, cost, the leaderboard, parameters, needs, deviations and citation."""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
from generated_pages import command_line, meanings, record_tables, signal_table, study_keys, value, write

from sortition import selectors
from sortition.cli.methods import default_instance, methods_table
from sortition.leaderboard.excerpts import best_methods, method_section
from sortition.leaderboard.results import stored
from sortition.leaderboard.suite import load_suite
from sortition.results.marks import filled

RUNS = "leaderboard.parquet"  # all runs of the leaderboard, written by `sortition leaderboard`
CLOCKS = {"duration", "resources"}  # signals that say nothing of a client's data
PICTURE = """```{{figure}} ../images/methods/{name}.svg
:alt: {name}: clients that were available and clients that were chosen, over 40 rounds

One run with default parameters: 40 clients with two labels each (the colours at the left) that come and go, 5 places a
round. A bar is how often a client was chosen, the mark how often an even draw among the available would choose it. All
methods are shown in the same run.
```
"""
BOARD = """
## On the leaderboard

{standing}
*AUC gain*: mean test accuracy over the rounds minus that of uniform sampling, in points, with a 95 % interval;
*better/worse*: federations with a significant difference; *MB*: all traffic of a run; *ms*: one selection. All methods
and how they were compared: [leaderboard](../leaderboard.md).
"""
COST = """
## Cost

Traffic: {factor:.2f} times that of plain averaging ({parts}), for a model of {size:,} numbers and 10 of 100 clients,
all of them available, over 30 rounds: `sortition show {name} --model mlp`. {scales}
"""
LEVELS = (
    "who is available",
    "sizes of clients",
    "label counts (without them `microcosm` goes by sketches of updates, or by sizes)",
    "how long clients take",
    "numbers that single clients send: losses, accuracies, norms",
    "single updates or gradients (no secure aggregation)",
)
NAMES = {"questions": "questions", "rehearsals": "rehearsals", "metadata": "reports and facts"}


def default(name: str) -> Any:
    """A method with its defaults, or its first example where some parameter has none."""
    return default_instance(selectors.find(name))


@cache
def runs(docs: Path) -> pl.DataFrame:
    """All runs of the leaderboard; none where the file is not there."""
    return stored(docs / RUNS)


# -- the parts ------------------------------------------------------------------------------------------------------


def illustrated(text: str, name: str, docs: Path) -> str:
    """The page with its picture below the idea, where it was drawn (benchmarks/method_pictures.py)."""
    if not (docs / "images" / "methods" / f"{name}.svg").exists():
        return text
    idea = text.find("\n**Idea.**")
    end = text.find("\n\n", idea) if idea >= 0 else text.find("\n## ")
    head, rest = (text, "") if end < 0 else (text[:end], text[end:])
    return f"{head.rstrip()}\n\n{PICTURE.format(name=name)}{rest}"


def cost(name: str) -> str:
    """The traffic of a method, measured on made-up examples."""
    from sortition.studies.estimate import price

    selector = default(name)
    size, lanes = price(selector, "mlp", {}, inputs=(1, 28, 28), classes=10, clients=100, cohort=10, rounds=30)
    plain = 2 * 4 * size * 10
    shares = {
        words: sum(v for lane, v in lanes.items() if lane.startswith(key)) / plain for key, words in NAMES.items()
    }
    parts = [f"{share:.2f} for {words}" for words, share in shares.items() if share >= 0.005]
    scales = "A selection among a million clients is possible ([scale](../scale.md))." if selector.scales else ""
    return COST.format(
        factor=sum(lanes.values()) / plain,
        parts=", ".join(parts) or "models only",
        size=size,
        name=name,
        scales=scales or "It is not meant for more than some thousand clients.",
    )


def deviations(name: str) -> str:
    """What the file's header says that differs from the paper."""
    module = inspect.getdoc(sys.modules[selectors.find(name).__module__]) or ""
    found = re.search(r"^Deviations?:? ?(.*?)(?=\n\n|\Z)", module, re.DOTALL | re.MULTILINE)
    words = (found.group(1) if found else "None.").lstrip(", ")
    words = words if words.startswith("- ") else " ".join(words.split())
    first = words[0].upper() if words[0].isascii() else words[0]  # a Greek letter is a symbol
    return f"\n## Deviations from the paper, in short\n\n{first}{words[1:]}\n".replace("``", "`")


def method_facts(name: str) -> str:
    """Parameters, privacy label and citation of a method, to stand below its page."""
    cls = selectors.find(name)
    words, needs = meanings(cls), default(name).needs
    lines = ["", "## Parameters", "", "| parameter | meaning | default |", "|---|---|---|"]
    lines += [f"| `{f.name}` | {words.get(f.name, '')} | `{value(_default(f))}` |" for f in fields(cls)]
    if not fields(cls):
        lines[2:] = ["", "None."]
    lines += ["", "## What it needs to know", "", "| what | |", "|---|---|"]
    lines.append(f"| reads of the population | {', '.join(f'`{fact}`' for fact in needs.reads) or 'nothing'} |")
    if needs.optional:
        lines.append(f"| reads if all clients give it | {', '.join(f'`{fact}`' for fact in needs.optional)} |")
    lines.append(f"| asks of clients | {_signals(needs.asks)} |")
    lines.append(f"| wants reported after training | {_signals(needs.reports)} |")
    seen = "no: it looks at single updates" if needs.individual else "yes"
    lines.append(f"| possible with secure aggregation | {seen} |")
    lines += [deviations(name), "## Citation", "", "```bibtex", cls.cite, "```"]
    return "\n".join(lines) + "\n"


def _default(field: Any) -> Any:
    default = field.default
    return getattr(default, "default", default)


def _signals(signals: Any) -> str:
    return "; ".join(f"`{signal.name}`: {signal.summary}" for signal in signals) or "nothing"


def method_list() -> str:
    """A table of all methods and the tree of their pages."""
    table = methods_table()
    head = ["name", "whom it picks", *table.columns[1:]]
    lines = ["# Methods", "", *table.notes, "", f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for name, *cells in table.rows:
        page = selectors.ALIASES.get(name, name)
        idea = (inspect.getdoc(selectors.find(name)) or "").split("\n")[0]
        words = idea if page == name else f"Another name of `{page}`."
        lines.append(f"| [`{name}`]({page}.md) | {' | '.join([words, *cells])} |")
    menu = [f"{name} <{name}>" for name in selectors.discover()]  # names, which are shorter than titles
    lines += ["", "```{toctree}", ":hidden:", "", *menu, "```"]
    return "\n".join(lines) + "\n"


def by_knowledge() -> str:
    """A table of what a server may know, and the methods that need just that."""
    levels = {name: _level(default(name).needs) for name in selectors.discover()}
    lines = ["| the server knows | methods |", "|---|---|"]
    for level, title in enumerate(LEVELS):
        names = [f"[{name}](methods/{name}.md)" for name in levels if levels[name] == level]
        lines.append(f"| {title} | {', '.join(names)} |")
    return "\n".join(lines) + "\n"


def _level(needs: Any) -> int:
    """How much a method needs to know, from nothing (0) to single updates (5)."""
    heard = {signal.name for signal in (*needs.asks, *needs.reports)}
    if needs.individual:
        return 5
    if heard:
        return 3 if heard <= CLOCKS else 4
    if "label_counts" in (*needs.reads, *needs.optional):
        return 2
    return 1 if needs.reads else 0


def method_page(text: str, name: str, docs: Path) -> str:
    """The written page of a method with all that is generated."""
    standing = method_section(load_suite(), runs(docs), name)
    return (
        illustrated(text, name, docs).rstrip()
        + "\n"
        + BOARD.format(standing=standing)
        + cost(name)
        + method_facts(name)
    )


def kept_pages(docs: Path) -> dict[str, str]:
    """What is generated and kept in the repository, so that its readers have it, too: path in docs → text."""
    whole = {
        "methods/index.md": method_list(),
        "reference/study-keys.md": study_keys(),
        "reference/command-line.md": command_line(),
    }
    tables = {
        "choosing.md": {"knowledge": by_knowledge(), "best": best_methods(load_suite(), runs(docs))},
        "reference/api.md": {"signals": signal_table()},
        "reference/run-folder.md": {"schema": record_tables()},
    }
    return whole | {name: filled((docs / name).read_text("utf-8"), parts) for name, parts in tables.items()}


def write_kept(docs: Path) -> None:
    """Write them."""
    for name, text in kept_pages(docs).items():
        write(docs / name, text)


# -- Sphinx ---------------------------------------------------------------------------------------------------------


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx."""

    def read(app: Any, page: str, source: list[str]) -> None:
        folder, _, name = page.partition("/")
        if folder == "methods" and name in selectors.discover():
            source[0] = method_page(source[0], name, Path(app.srcdir))

    def outdated(app: Any, env: Any, added: set[str], changed: set[str], removed: set[str]) -> list[str]:
        """What is generated may have changed with the code or the runs, which Sphinx does not watch."""
        return [page for page in env.found_docs if page.startswith("methods/")]

    app.connect("env-get-outdated", outdated)
    app.connect("builder-inited", lambda app: write_kept(Path(app.srcdir)))
    app.connect("source-read", read)
    return {"version": "2", "parallel_read_safe": True}


if __name__ == "__main__":
    write_kept(Path(sys.argv[1]))
