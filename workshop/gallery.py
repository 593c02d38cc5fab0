"""docs/gallery.md: example studies by question, each with its file, what the runs said, and a picture.

``python -m workshop gallery`` runs all files of ``examples/gallery``, for some minutes, and writes page and pictures.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sortition.results import summary
from sortition.results.table import Table
from sortition.results.verdict_words import sort_by_gain, verdict_sentence
from sortition.studies import study
from sortition.studies.study_result import StudyResult
from workshop import DOCS, ROOT

FILES = ROOT / "examples" / "gallery"
PAGE = DOCS / "gallery.md"
PICTURES = DOCS / "images" / "gallery"
WIDTH = 5.0  # inches of a picture
TEXT_SIZE = 12  # points of its texts: also legible on a phone, which shows it at two thirds of its width


@dataclass(frozen=True)
class Picture:
    """The chart that answers a question.

    Attributes:
        chart: its name in the report.
        setting: which one, where a study has several.
    """

    chart: str
    setting: str | None = None


PICTURE_OF = {
    "phones-at-night": Picture("accuracy"),
    "three-hospitals": Picture("accuracy"),
    "hidden-labels": Picture("forest-last"),
    "slow-and-rare": Picture("pareto-clock", "patient"),
    "first-to-80": Picture("accuracy"),
    "come-and-go": Picture("accuracy", "come and go"),
    "dropouts": Picture("accuracy", "nine for six"),
    "liars": Picture("accuracy", "trusting"),
    "reversed-updates": Picture("accuracy", "reversed"),
    "traffic": Picture("pareto-megabytes"),
    "fair-to-all": Picture("counts"),
    "my-baseline": Picture("difference"),
}
ABOUT_FAIRNESS = ("fair-to-all",)  # studies that are judged by how clients are served and chosen, too
INTRODUCTION = """# Gallery: studies by question

Each study below is one file. It runs unchanged, on the digits that come with Sortition, in well under a minute. Take
the study whose question is nearest to yours, and put in your data, model and method ([studies](studies.md)). The
verdicts below come from these small studies, with the seeds of their files. They show how to ask a question; they
decide nothing about your federation. Where devices differ in speed, methods are compared at equal simulated seconds,
and a verdict says how much traffic they had in that time (*the same*: within 5 %); elsewhere they are compared over
the same rounds. Intervals hold for all methods of a study together: where more methods are compared, they are wider.

{questions}
"""
END = "`python -m workshop gallery` runs these studies and writes this page.\n"


@dataclass(frozen=True)
class Example:
    """One file of the gallery.

    Attributes:
        name: of the file, without its ending.
        question: the first line of its comment.
        explanation: the lines after it, up to the command.
        text: the file.
    """

    name: str
    question: str
    explanation: str
    text: str


def read_examples() -> list[Example]:
    """Return the files of the gallery, in the order of the page."""
    return [read_example(FILES / f"{name}.toml") for name in PICTURE_OF]


def read_example(path: Path) -> Example:
    """Read a file: a question, an explanation and the command stand in the comment at its head."""
    text = path.read_text(encoding="utf-8")
    comment = []
    for line in text.splitlines():
        if not line.startswith("# "):
            break
        comment.append(line.removeprefix("# "))
    return Example(
        name=path.stem,
        question=comment[0],
        explanation=" ".join(line for line in comment[1:] if not line.startswith("  ")),
        text=text,
    )


def write_gallery() -> None:
    """Run every study of the gallery, and write the page and its pictures."""
    examples = read_examples()
    sections = [introduction(examples)]
    for example in examples:
        with tempfile.TemporaryDirectory() as folder:
            result = study(FILES / f"{example.name}.toml", out=folder)
            picture = PICTURE_OF[example.name]
            figure = result.figure(
                picture.chart,
                PICTURES / f"{example.name}.svg",
                setting=picture.setting,
                width=WIDTH,
                text_size=TEXT_SIZE,
            )
            lines = verdict_lines(result)
            if example.name in ABOUT_FAIRNESS:
                lines += fairness_lines(result)
            sections.append(write_section(example, lines, figure.caption))
    PAGE.write_text("\n".join([*sections, END]), encoding="utf-8")


def introduction(examples: Sequence[Example]) -> str:
    """Return the head of the page: what it is, and the questions as links to their sections."""
    links = [f"- [{example.question}](#{heading_anchor(example.question)})" for example in examples]
    return INTRODUCTION.format(questions="\n".join(links))


def heading_anchor(heading: str) -> str:
    """Return the address of a heading, as GitHub and the site write it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def verdict_lines(result: StudyResult) -> list[str]:
    """Return a list in Markdown: below each figure that was compared, its verdicts."""
    lines = []
    groups = summary.sort_finished(result.runs).groups
    for setting, methods in groups.items():
        prefix = f"{setting}: " if len(groups) > 1 else ""
        runs = [run for run in result.runs if run.setting == setting]
        lines.append(f"- {prefix}{summary.heading(runs, result.criteria)}")
        lines += [f"  - {sentence}" for sentence in summary.conclusions(runs, result.criteria)]
        comparison = summary.comparison_of(methods, result.criteria)
        to_target = [pair for pair in comparison.to_target if pair.baseline == comparison.baseline]
        if to_target:
            currency = comparison.currency.capitalize()
            lines.append(f"- {prefix}{currency} to the target against {comparison.baseline}; fewer are better:")
            lines += [f"  - {verdict_sentence(pair)}" for pair in to_target]
    return lines


def fairness_lines(result: StudyResult) -> list[str]:
    """Return verdicts by the worst-served tenth of the clients, and a table of how clients are served and chosen."""
    methods = next(iter(summary.sort_finished(result.runs).groups.values()))
    comparison = summary.comparison_of(methods, result.criteria)
    return [
        f"- Accuracy of the worst-served tenth of the clients against {comparison.baseline}, in points:",
        *[f"  - {verdict_sentence(pair)}" for pair in sort_by_gain(comparison.worst_tenth)],
        "",
        fairness_table(result).markdown(),
    ]


def fairness_table(result: StudyResult) -> Table:
    """Make a table of means over seeds: how well clients are served, and how evenly they are chosen."""
    table = Table("", ["method", "accuracy, %", "worst-served tenth, %", "Jain's index", "never chosen, %"])
    for means in result.table.group_by("method", maintain_order=True).mean().iter_rows(named=True):
        table.rows.append(
            [
                means["method"],
                f"{100 * means['last-accuracy']:.1f}",
                f"{100 * means['worst-tenth']:.1f}",
                f"{means['jain']:.2f}",
                f"{100 * means['never-selected']:.1f}",
            ]
        )
    return table


def write_section(example: Example, verdicts_list: list[str], caption: str) -> str:
    """Write the section of one study."""
    verdicts = "\n".join(verdicts_list)
    return f"""## {example.question}

{example.explanation}

![{caption}](images/gallery/{example.name}.svg)

*{caption}*

What the runs said:

{verdicts}

{command_text(example)}

```toml
{example.text.rstrip()}
```
"""


def command_text(example: Example) -> str:
    """Return how the study is run."""
    return f"`sortition run examples/gallery/{example.name}.toml -o runs/{example.name}`:"
