"""docs/gallery.md: example studies by question, each with its answer, a picture, the verdicts and its file.

``python -m workshop gallery`` runs all files of ``examples/gallery``, for some minutes, and writes page and pictures.
The answers, *in short*, are written from the figures of the runs: other figures make other sentences.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import altair as alt
import numpy as np

from sortition.core.arrays import Array, jain_index
from sortition.report.charts import Chart, chart_on, fill_width
from sortition.report.export import Figure, draw_figure, draw_named_chart
from sortition.report.gather import Gathered, Setting, gather
from sortition.report.look import figure_style
from sortition.results import summary
from sortition.results.comparisons import (
    Criteria,
    Figures,
    Methods,
    SettingComparison,
    figure_to_target,
    resolution_of,
)
from sortition.results.equal_cost import AT_COST, AUC, common_budget, figures_at_cost, limit_of
from sortition.results.metrics import longest_window
from sortition.results.reference_lines import REFERENCES
from sortition.results.run_folder import Run
from sortition.results.statistics import (
    BETTER,
    EQUAL,
    UNDECIDED,
    WORSE,
    Budget,
    Comparison,
    Window,
    centre,
    compare_pairs,
)
from sortition.results.table import Table
from sortition.results.verdict_words import (
    cost_text,
    end_of_curve,
    seeds_that_decide,
    sort_by_gain,
    verdict_sentence,
    why_undecided,
)
from sortition.studies import study
from sortition.studies.study_result import StudyResult
from workshop import DOCS, ROOT

FILES = ROOT / "examples" / "gallery"
PAGE = DOCS / "gallery.md"
PICTURES = DOCS / "images" / "gallery"
WIDTH = 5.0  # inches of a picture
TEXT_SIZE = 12  # points of its texts: also legible on a phone, which shows it at two thirds of its width
SELDOM = 4  # the fourth part of the clients that are reachable least often are seldom there
ROW_HEIGHT = 26  # of a chart of dots, in pixels
COLOURS = ("#0072b2", "#d55e00")  # of the groups in a chart of dots
TENTH = 10  # the tenth part of the clients that are chosen least often, or most often

Arm = tuple[str, str]  # a setting, and the label of a method in it
Pair = tuple[str, str]  # the labels of two arms; the second is what the first is compared with
INTRODUCTION = """# Gallery: studies by question

Each study below is one file. It runs unchanged, on the digits that come with Sortition, in a minute or two. Take
the study whose question is nearest to yours, and put in your data, model and method
([how a study file works](studies.md)). Each section begins with what its runs answer: a number marked *undecided* is
not shown to differ from what it is compared with. The details give every difference with its 95 % interval
([how methods are compared](statistics.md)). These are small studies, with the seeds of their files. They show how to
ask a question; they decide nothing about your federation.

Where devices differ in speed, methods are compared at equal simulated seconds, and a verdict says how much traffic they
had in that time (*the same*: within 5 %). Where traffic is the cost, they are compared at equal traffic, elsewhere over
the same rounds. Intervals hold for all comparisons of a list together: the more there are, the wider they get.
`sortition run` compares the methods of one setting; where a question is about two settings, this page compares the
settings, seed by seed.

{questions}
"""
END = "`python -m workshop gallery` runs these studies and writes this page.\n"


# -- what the runs say -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Contrast:
    """A comparison over paired seeds, with the two means that it is about.

    Attributes:
        pair: the comparison.
        mean: the mean over seeds of what is compared.
        baseline_mean: the mean of what it is compared with.
    """

    pair: Comparison
    mean: float
    baseline_mean: float

    @property
    def verdict(self) -> str:
        """The verdict of the comparison."""
        return self.pair.verdict


@dataclass(frozen=True)
class Findings:
    """The figures of a study's finished runs, over all of its settings.

    Attributes:
        figures: setting → label → seed → figures of the run; those at the budget are among them.
        criteria: margin, and the method that others are compared with.
        metric: what the study is judged by.
        resolution: the smallest step of the metric, where known.
        window: the rounds that the figure ``last`` averages, where known.
        budget: the cost at which runs are compared; None where they are compared over rounds.
        rounds: the rounds of the longest run.
        clients: how many clients the federation has.
        label_readers: the labels of the methods that read label counts.
    """

    figures: Mapping[str, Methods]
    criteria: Criteria = Criteria()
    metric: str = "accuracy"
    resolution: float | None = None
    window: Window | None = None
    budget: Budget | None = None
    rounds: int = 0
    clients: int = 0
    label_readers: frozenset[str] = frozenset()

    @property
    def end_figure(self) -> str:
        """The figure at the end: at the budget, or over the last rounds."""
        if self.budget is not None:
            return f"{AT_COST}-{self.metric}"
        return f"last-{self.metric}"

    @property
    def only_setting(self) -> str:
        """The setting of a study that has no other."""
        (setting,) = self.figures
        return setting

    @property
    def period(self) -> str:
        """Where runs are judged: ``after 60 seconds``, ``over the last 10 rounds``."""
        return end_of_curve(self.budget or self.window)

    def mean(self, arm: Arm, figure: str) -> float:
        """Return the mean of a figure over the seeds of an arm; NaN where no seed has it."""
        middle = centre([figures.get(figure) for figures in self._runs(arm).values()])
        if middle is None:
            return math.nan
        return middle.mean

    def contrasts(
        self,
        arms: Mapping[str, Arm],
        pairs: Sequence[Pair],
        figure: str = "",
        *,
        metric: str = "",
        higher: bool | None = None,
    ) -> dict[Pair, Contrast]:
        """Compare pairs of arms over the seeds that both have, as one family of tests.

        Args:
            arms: the label of each arm.
            pairs: which labels are compared; those without a common seed are left out.
            figure: what is compared; by default the figure at the end.
            metric: its unit; by default the metric of the study.
            higher: whether more of it is better; by default as the metric says.
        """
        key = figure or self.end_figure
        comparisons = compare_pairs(
            {label: {seed: run.get(key) for seed, run in self._runs(arm).items()} for label, arm in arms.items()},
            pairs,
            metric=metric or self.metric,
            higher=higher,
            margin=self.criteria.margin,
            resolution=self.resolution if not figure else None,
        )
        return {
            (pair.method, pair.baseline): Contrast(
                pair=replace(pair, traffic_ratio=None if figure else self.traffic_ratio(arms, pair)),
                mean=self.mean(arms[pair.method], key),
                baseline_mean=self.mean(arms[pair.baseline], key),
            )
            for pair in comparisons
        }

    def within(self, setting: str, figure: str = "", baseline: str = "") -> dict[str, Contrast]:
        """Compare the methods of a setting with one of them; reference lines are left out."""
        baseline = baseline or self.criteria.baseline or "uniform"
        labels = [label for label in self.figures[setting] if label not in REFERENCES]
        pairs = [(label, baseline) for label in labels if label != baseline]
        contrasts = self.contrasts(self.arms(setting), pairs, figure)
        return {method: contrast for (method, _), contrast in contrasts.items()}

    def arms(self, setting: str) -> dict[str, Arm]:
        """Return the methods of a setting as arms, under their own labels."""
        return {label: (setting, label) for label in self.figures[setting]}

    def traffic_ratio(self, arms: Mapping[str, Arm], pair: Comparison) -> float | None:
        """Return the traffic of an arm over that of its baseline, in runs of equal rounds or equal cost."""
        if self.budget is not None and self.budget.currency == "megabytes":
            return None
        traffic = self.mean(arms[pair.method], "megabytes")
        baseline_traffic = self.mean(arms[pair.baseline], "megabytes")
        if not traffic > 0 or not baseline_traffic > 0:  # NaN is not above zero either
            return None
        return traffic / baseline_traffic

    def to_target(self) -> list[Comparison]:
        """Compare the cost to the target of every pair of methods, as one family; no verdict where a run missed it."""
        methods = self.figures[self.only_setting]
        return SettingComparison(
            figures=methods,
            names={label: label for label in methods},
            configs={},
            criteria=replace(self.criteria, all_pairs=True),
            budget=self.budget,
        ).to_target

    def _runs(self, arm: Arm) -> Mapping[int, Figures]:
        setting, label = arm
        return self.figures[setting][label]


def read_findings(result: StudyResult) -> Findings:
    """Return the figures of a study's finished runs, at a cost that all of them have spent."""
    settings = gather([result.out]).settings
    metric = settings[0].metric
    digests = [digest for setting in settings for digest in setting.finished_runs]
    selecting = [digest for digest in digests if digest.name not in REFERENCES]
    budget = budget_of_settings(settings)
    deadline = shortest_deadline(digest.config for digest in digests)
    runs = {(run.setting, run.method, run.seed): run for run in result.runs}
    figures: dict[str, dict[str, dict[int, Figures]]] = {}
    for digest in digests:
        run = runs[digest.setting, digest.method, digest.seed]
        run_figures = {**digest.figures, **client_figures(run, deadline)}
        if budget is not None:
            run_figures |= figures_at_cost(digest.costs, digest.test, budget)
        figures.setdefault(digest.setting, {}).setdefault(digest.method, {})[digest.seed] = run_figures
    return Findings(
        figures=figures,
        criteria=result.criteria,
        metric=metric,
        resolution=resolution_of([digest.manifest for digest in digests], metric),
        window=longest_window(digest.rounds for digest in digests),
        budget=budget,
        rounds=max(digest.played for digest in selecting),
        clients=int(digests[0].manifest["clients"]),
        label_readers=frozenset(run.method for run in result.runs if "label_counts" in run.manifest["needs"]["reads"]),
    )


def budget_of_settings(settings: Sequence[Setting]) -> Budget | None:
    """Return the cost that the runs of all settings have spent; None where they are compared over rounds."""
    currency = settings[0].currency
    if currency == "rounds":
        return None
    runs = [run for setting in settings for run in setting.finished_runs if run.name not in REFERENCES]
    return common_budget([run.costs for run in runs], currency, limit_of([run.config for run in runs], currency))


def shortest_deadline(configs: Iterable[Mapping[str, Mapping[str, float]]]) -> float | None:
    """Return the shortest deadline of a study's rounds, in seconds; None where no round has one."""
    deadlines = [config.get("pace", {}).get("deadline") for config in configs]
    return min((deadline for deadline in deadlines if deadline is not None), default=None)


def client_figures(run: Run, deadline: float | None = None) -> dict[str, float | None]:
    """Return how often clients of a run were chosen, and how those are served that the deadline leaves behind.

    The figures are means over groups of clients: the least and the most often chosen tenth, the quarter that is
    reachable least often and the others, and the clients that need longer than the deadline and the others.
    """
    clients = run.clients()
    if not clients:
        return {}
    chosen = clients["selected"].astype(np.float64)
    ascending = np.sort(chosen)
    tenth = max(1, chosen.size // TENTH)
    seldom_there = np.zeros(chosen.size, bool)
    seldom_there[np.argsort(clients["available"], kind="stable")[: chosen.size // SELDOM]] = True
    figures = {
        "least-chosen": float(ascending[:tenth].mean()),
        "most-chosen": float(ascending[-tenth:].mean()),
        "jain-of-counts": jain_index(chosen),
        "chosen-if-seldom-there": _mean_of(chosen, seldom_there),
        "chosen-if-often-there": _mean_of(chosen, ~seldom_there),
    }
    seconds = run.federation().get("seconds")
    if deadline is not None and seconds is not None and "accuracy" in clients:
        too_slow = seconds > deadline
        figures["too-slow"] = float(too_slow.sum())
        figures["accuracy-of-too-slow"] = _mean_of(clients["accuracy"], too_slow)
        figures["accuracy-of-others"] = _mean_of(clients["accuracy"], ~too_slow)
    return figures


def _mean_of(values: Array, group: Array) -> float | None:
    """Return the mean over a group of clients; None where nobody belongs to it."""
    if not group.any():
        return None
    return float(values[group].mean())


# -- words -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """What the runs of a study answer to its question.

    Attributes:
        short: one or two sentences.
        details: lines in Markdown: each difference with its interval.
    """

    short: str
    details: list[str]


def percent(share: float) -> str:
    """Write a share as ``84.1 %``."""
    return f"{100 * share:.1f} %"


def with_doubt(contrast: Contrast) -> str:
    """Write the mean of an accuracy, and whether its difference from what it is compared with is not shown."""
    if contrast.verdict in (UNDECIDED, EQUAL):
        return f"{percent(contrast.mean)} ({contrast.verdict})"
    return percent(contrast.mean)


def yes_or_no(contrast: Contrast) -> str:
    """Say whether something is shown to be better."""
    words = {BETTER: "yes", WORSE: "no", EQUAL: "no, practically equal", UNDECIDED: "undecided"}
    return words[contrast.verdict]


def capitalised(text: str) -> str:
    """Return a text with a capital letter at its beginning."""
    return text[:1].upper() + text[1:]


def enumerate_words(texts: Sequence[str]) -> str:
    """Write ``a, b and c``."""
    *others, last = texts
    if not others:
        return last
    return f"{', '.join(others)} and {last}"


def contrast_lines(heading: str, contrasts: Iterable[Contrast]) -> list[str]:
    """Return a heading and the verdicts below it, the best first, as a list in Markdown."""
    pairs = sort_by_gain(contrast.pair for contrast in contrasts)
    return [f"- {heading}:", *(f"  - {verdict_sentence(pair)}" for pair in pairs)]


@dataclass(frozen=True)
class Words:
    """How differences of a figure are written of which less is better.

    Attributes:
        unit: what is counted.
        less: the word for a negative difference.
        more: the word for a positive difference.
        scale: the factor between the figure and what is written.
    """

    unit: str
    less: str
    more: str
    scale: float = 1.0


def amount_sentence(pair: Comparison, words: Words) -> str:
    """Say how much less or more of a figure there is, such as how much sooner or later a target is reached."""

    def amount(value: float) -> str:
        return f"{abs(value) * words.scale:,.1f}"

    def direction(value: float) -> str:
        return words.less if value < 0 else words.more

    subject = f"{pair.method} against {pair.baseline}"
    if math.isnan(pair.difference):
        return f"{subject}: undecided, since {why_undecided(pair)}."
    size = f"{subject}: {amount(pair.difference)} {words.unit} {direction(pair.difference)}"
    if pair.verdict == EQUAL:
        return f"{size}, practically equal."
    if pair.decided:
        nearer, farther = sorted([pair.low, pair.high], key=abs)
        return f"{size} [{amount(nearer)}, {amount(farther)}]."
    if math.isnan(pair.low):
        return f"{size}, undecided: {why_undecided(pair)}."
    interval = f"{amount(pair.low)} {direction(pair.low)} to {amount(pair.high)} {direction(pair.high)}"
    return f"{size}, undecided [{interval}]; {seeds_that_decide(pair)} seeds would decide ({pair.seeds} were run)."


def amount_lines(heading: str, pairs: Iterable[Comparison], words: Words) -> list[str]:
    """Return a heading and how much less or more there is, the best first, as a list in Markdown."""
    return [f"- {heading}:", *(f"  - {amount_sentence(pair, words)}" for pair in sort_by_gain(pairs))]


POINTS = Words(unit="points", less="fewer", more="more", scale=100.0)


def verdict_lines(result: StudyResult) -> list[str]:
    """Return a list in Markdown: the verdicts on the methods of each setting."""
    lines = []
    groups = summary.sort_finished(result.runs).groups
    for setting in groups:
        prefix = f"{setting}: " if len(groups) > 1 else ""
        runs = [run for run in result.runs if run.setting == setting]
        lines.append(f"- {prefix}{summary.heading(runs, result.criteria)}")
        lines += [f"  - {sentence}" for sentence in summary.conclusions(runs, result.criteria)]
    return lines


# -- the answers, by study ---------------------------------------------------------------------------------------------


def answer_my_baseline(findings: Findings) -> str:
    """Say whether my method beats Oort, and whether it beats chance."""
    setting = findings.only_setting
    pairs = [("mine", "oort"), ("uniform", "oort"), ("mine", "uniform")]
    contrasts = findings.contrasts(findings.arms(setting), pairs)
    against_oort = contrasts["mine", "oort"]
    against_chance = contrasts["mine", "uniform"]
    return (
        f"Against Oort: {yes_or_no(against_oort)}; mine ends at {percent(against_oort.mean)} accuracy, Oort at "
        f"{percent(against_oort.baseline_mean)}. Against chance: {yes_or_no(against_chance)}; a uniform draw ends at "
        f"{percent(against_chance.baseline_mean)}."
    )


def answer_come_and_go(findings: Findings) -> str:
    """Say in each setting whether my method beats a uniform draw."""
    sentences = []
    for setting in findings.figures:
        contrast = findings.within(setting)["mine"]
        sentences.append(
            f"{capitalised(setting)}: {yes_or_no(contrast)}; mine ends at {percent(contrast.mean)} accuracy, uniform "
            f"at {percent(contrast.baseline_mean)}."
        )
    return " ".join(sentences)


def answer_first_to_80(findings: Findings) -> str:
    """Say which method reaches the target first, and whether it is shown sooner than the others."""
    setting = findings.only_setting
    currency = findings.budget.currency if findings.budget is not None else "rounds"
    figure = figure_to_target(currency)
    methods = findings.figures[setting]
    missed = [label for label, runs in methods.items() if any(run.get(figure) is None for run in runs.values())]
    means = {label: findings.mean((setting, label), figure) for label in methods if label not in missed}
    if not means:
        return "No method reaches the target in every run."
    first, *others = sorted(means, key=lambda label: means[label])
    texts = [f"{first} after {cost_text(means[first], currency)}"]
    texts += [f"{label} after {means[label]:,.4g}" for label in others]
    undecided = [label for label in others if not _is_sooner(findings.to_target(), first, label)]
    text = f"On average {enumerate_words(texts)}."
    if undecided:
        text += f" Whether {first} is sooner than {enumerate_words(undecided)} is undecided."
    elif others:
        text += f" These runs show that {first} is the first."
    if missed:
        text += f" Not every run gets there with {enumerate_words(missed)}."
    return text


def _is_sooner(comparisons: Iterable[Comparison], first: str, other: str) -> bool:
    """Tell whether a method is shown to reach the target sooner than another one."""
    for pair in comparisons:
        if (pair.method, pair.baseline) == (first, other):
            return pair.verdict == BETTER
        if (pair.method, pair.baseline) == (other, first):
            return pair.verdict == WORSE
    return False


def to_target_lines(findings: Findings, result: StudyResult) -> list[str]:
    """Return the verdicts on the cost to the target, and below them those on accuracy."""
    setting = findings.only_setting
    methods = summary.sort_finished(result.runs).groups[setting]
    comparison = summary.comparison_of(methods, result.criteria)
    words = Words(unit=comparison.currency, less="sooner", more="later")
    heading = f"{capitalised(comparison.currency)} to the target"
    return [*amount_lines(heading, comparison.to_target, words), *verdict_lines(result)]


def answer_phones_at_night(findings: Findings) -> str:
    """Say whether a uniform draw misses clients that are seldom there, and who does better."""
    setting = findings.only_setting
    contrast = seldom_there(findings, setting)
    seldom = f"{contrast.mean:.1f} times in {findings.rounds} rounds, the others {contrast.baseline_mean:.1f} times"
    group = "the quarter of the phones that is reachable least often"
    if contrast.verdict == WORSE:
        first = f"The phones that are seldom there: with a uniform draw {group} trains {seldom}."
    elif contrast.verdict == BETTER:
        first = f"Not those that are seldom there: with a uniform draw {group} trains {seldom}."
    else:
        first = f"Undecided: with a uniform draw {group} trains {seldom}."
    accuracies = [f"{percent(findings.mean((setting, 'uniform'), findings.end_figure))} accuracy with uniform"]
    times = []
    for label, accuracy in findings.within(setting).items():
        accuracies.append(f"{with_doubt(accuracy)} with {label}")
        times.append(f"{findings.mean((setting, label), 'chosen-if-seldom-there'):.1f} times with {label}")
    return f"{first} They train {enumerate_words(times)}. The model ends at {enumerate_words(accuracies)}."


def seldom_there(findings: Findings, setting: str) -> Contrast:
    """Compare how often a uniform draw chooses the clients that are seldom there, and the others."""
    runs = findings.figures[setting]["uniform"]
    groups = {
        "seldom there": {seed: {"chosen": run.get("chosen-if-seldom-there")} for seed, run in runs.items()},
        "the others": {seed: {"chosen": run.get("chosen-if-often-there")} for seed, run in runs.items()},
    }
    by_group = replace(findings, figures={"uniform": groups})
    pair = ("seldom there", "the others")
    return by_group.contrasts(by_group.arms("uniform"), [pair], "chosen", metric="times chosen", higher=True)[pair]


def answer_hidden_labels(findings: Findings) -> str:
    """Say what the best method that reads no label counts loses to the best one that reads them."""
    setting = findings.only_setting
    readers = [label for label in findings.figures[setting] if label in findings.label_readers]
    others = [label for label in findings.figures[setting] if label not in findings.label_readers]

    def height(label: str) -> float:
        return findings.mean((setting, label), findings.end_figure)

    best_reader = max(readers, key=height)
    best_other = max(others, key=height)
    contrasts = findings.contrasts(findings.arms(setting), [(reader, other) for reader in readers for other in others])
    contrast = contrasts[best_reader, best_other]
    points = f"{100 * abs(contrast.pair.difference):.1f} points of accuracy"
    openings = {
        BETTER: f"{points} here",
        WORSE: f"Nothing here; you even gain {points}",
        EQUAL: "Practically nothing here",
        UNDECIDED: f"Undecided; {points} in these runs",
    }
    text = (
        f"{openings[contrast.verdict]}: {best_reader}, the best method that reads label counts, ends at "
        f"{percent(contrast.mean)}, {best_other}, the best that reads none, at {percent(contrast.baseline_mean)}."
    )
    worse = [reader for reader in readers if contrasts[reader, "uniform"].verdict == WORSE]
    if worse:
        verb = "falls" if len(worse) == 1 else "fall"
        text += f" Label counts alone do not help: {enumerate_words(worse)} {verb} short of uniform."
    return text


def label_lines(findings: Findings, result: StudyResult) -> list[str]:
    """Return the verdicts on methods that read label counts against those that read none."""
    setting = findings.only_setting
    readers = [label for label in findings.figures[setting] if label in findings.label_readers]
    others = [label for label in findings.figures[setting] if label not in findings.label_readers]
    contrasts = findings.contrasts(findings.arms(setting), [(reader, other) for reader in readers for other in others])
    heading = f"Test {findings.metric} {findings.period}, methods that read label counts against those that read none"
    return contrast_lines(f"{heading}, in points", contrasts.values())


HOSPITALS = {
    "wait for all": ("wait for all", "full"),
    "go on after two": ("go on after two", "full"),
    "use the third late": ("use the third late", "full"),
    "each alone": ("wait for all", "local-only"),
}
HOSPITAL_PAIRS = [(label, "wait for all") for label in ("go on after two", "use the third late", "each alone")]


def answer_three_hospitals(findings: Findings) -> str:
    """Say whether a round needs to wait for all, who loses if it does not, and whether a federation is worth it."""
    contrasts = findings.contrasts(HOSPITALS, HOSPITAL_PAIRS)
    dropped, late, alone = (contrasts[pair] for pair in HOSPITAL_PAIRS)
    worst = [percent(findings.mean(arm, "worst-tenth")) for label, arm in HOSPITALS.items() if label != "each alone"]
    alternatives = {dropped.verdict, late.verdict}
    if alternatives == {WORSE}:
        word = "Yes"
    elif alternatives & {BETTER, EQUAL}:
        word = "No"
    else:
        word = "Undecided"
    worth = {
        WORSE: "A federation is worth it",
        BETTER: "A federation is not worth it",
        EQUAL: "A federation makes practically no difference",
        UNDECIDED: "Whether a federation is worth it is undecided",
    }
    return (
        f"{word}: {findings.period} the model ends at {percent(dropped.baseline_mean)} accuracy if rounds wait for all "
        f"three, at {with_doubt(dropped)} if they go on after two, and at {with_doubt(late)} if the third's work is "
        f"used late; the worst-served hospital has {enumerate_words(worst)}. {worth[alone.verdict]}: a hospital alone "
        f"ends at {percent(alone.mean)}."
    )


def hospital_lines(findings: Findings, result: StudyResult) -> list[str]:
    """Return the verdicts on the ways to go on without the third hospital: all patients, and the worst-served ones."""
    end = findings.contrasts(HOSPITALS, HOSPITAL_PAIRS)
    worst = findings.contrasts(HOSPITALS, HOSPITAL_PAIRS[:2], "worst-tenth")
    return [
        *contrast_lines(f"Test accuracy {findings.period} against waiting for all, in points", end.values()),
        *contrast_lines("Accuracy at the worst-served hospital, at the end, in points", worst.values()),
    ]


def paired_settings(findings: Findings, setting: str, baseline: str) -> tuple[dict[str, Arm], list[Pair]]:
    """Return the arms of two settings and the pairs of them: each method in one setting and in the other."""
    arms = {
        f"{name} ({method})": (name, method) for method in findings.figures[setting] for name in (baseline, setting)
    }
    pairs = [(f"{setting} ({method})", f"{baseline} ({method})") for method in findings.figures[setting]]
    return arms, pairs


def answer_slow_and_rare(findings: Findings) -> str:
    """Say what a deadline does to the clients that can never meet it, and to all."""
    arms, pairs = paired_settings(findings, "deadline", "patient")
    too_slow = findings.contrasts(arms, pairs, "accuracy-of-too-slow")
    whole = findings.contrasts(arms, pairs)
    uniform = too_slow[pairs[0]]
    words = {BETTER: "Yes", EQUAL: "Yes", WORSE: "No", UNDECIDED: "Undecided"}
    number = findings.mean(("deadline", "uniform"), "too-slow")
    text = (
        f"{words[uniform.verdict]}: with a uniform draw the clients that can never meet the deadline, {number:.1f} of "
        f"{findings.clients} on average, end at {with_doubt(uniform)} accuracy instead of "
        f"{percent(uniform.baseline_mean)}"
    )
    alike = [
        method
        for method, pair in zip(findings.figures["deadline"], pairs, strict=True)
        if method != "uniform" and too_slow[pair].verdict == uniform.verdict
    ]
    if alike:
        text += f"; the verdict is the same with {enumerate_words(alike)}"
    hidden = "The accuracy over all data shows it, too"
    if uniform.verdict == WORSE and whole[pairs[0]].verdict != WORSE:
        hidden = "The accuracy over all data hides it"
    elif uniform.verdict != WORSE:
        hidden = "Over all data"
    return f"{text}. {hidden}: {with_doubt(whole[pairs[0]])} instead of {percent(whole[pairs[0]].baseline_mean)}."


def slow_lines(findings: Findings, result: StudyResult) -> list[str]:
    """Return the verdicts on a deadline: on those that it leaves behind, the worst-served tenth and all."""
    arms, pairs = paired_settings(findings, "deadline", "patient")
    figures = {
        "Accuracy of the clients that can never meet the deadline, at the end": "accuracy-of-too-slow",
        "Accuracy of the worst-served tenth of the clients, at the end": "worst-tenth",
        f"Test accuracy {findings.period}": "",
    }
    lines = []
    for heading, figure in figures.items():
        lines += contrast_lines(f"{heading}, in points", findings.contrasts(arms, pairs, figure).values())
    return lines


def answer_dropouts(findings: Findings) -> str:
    """Say whether over-selection helps, and what it costs."""
    arms, pairs = paired_settings(findings, "nine for six", "exactly six")
    uniform = findings.contrasts(arms, pairs)[pairs[0]]
    way = findings.contrasts(arms, pairs, f"{AUC}-{findings.metric}")[pairs[0]]
    nine, six = (findings.mean((setting, "uniform"), "wasted") for setting in ("nine for six", "exactly six"))
    openings = {
        BETTER: "Yes",
        WORSE: "No",
        EQUAL: "No, it makes practically no difference",
        UNDECIDED: "No gain is shown in the end",
    }
    on_the_way = {
        BETTER: "On the way there it is ahead",
        WORSE: "On the way there it is behind",
        EQUAL: "On the way there it is practically as good",
        UNDECIDED: "On the way there no gain is shown, either",
    }
    cost = ""
    if uniform.pair.traffic_ratio is not None:
        cost = f"{uniform.pair.traffic_ratio:.1f} times the traffic, and "
    return (
        f"{openings[uniform.verdict]}: with a uniform draw the model is at {percent(uniform.mean)} accuracy "
        f"{findings.period} with nine for six, and at {percent(uniform.baseline_mean)} with exactly six. "
        f"{on_the_way[way.verdict]}, with a mean of {percent(way.mean)} and {percent(way.baseline_mean)}. The cost: "
        f"{cost}{percent(nine)} of the trainings are wasted in place of {percent(six)}."
    )


def dropout_lines(findings: Findings, result: StudyResult) -> list[str]:
    """Return the verdicts on over-selection: accuracy, and trainings in vain."""
    arms, pairs = paired_settings(findings, "nine for six", "exactly six")
    end = findings.contrasts(arms, pairs)
    way = findings.contrasts(arms, pairs, f"{AUC}-{findings.metric}")
    wasted = findings.contrasts(arms, pairs, "wasted", higher=False)
    return [
        *contrast_lines(f"Test accuracy {findings.period}, in points", end.values()),
        *contrast_lines("Its mean up to there, in points", way.values()),
        *amount_lines("Share of the trainings that are wasted", [wasted[pair].pair for pair in pairs], POINTS),
    ]


LIARS = {setting: (setting, "power-of-choice") for setting in ("unguarded", "guarded", "nobody lies")}
GUARDED = ("guarded", "unguarded")
HONEST = ("nobody lies", "unguarded")


def answer_liars(findings: Findings) -> str:
    """Say how many places liars win with and without guards, and what it does to the model."""
    places = findings.contrasts(LIARS, [GUARDED], "captured", higher=False)[GUARDED]
    end = findings.contrasts(LIARS, [GUARDED, HONEST])
    openings = {
        BETTER: "Yes, guards take places from the liars",
        WORSE: "No, guards give the liars more places",
        EQUAL: "No, guards make practically no difference to the liars' places",
        UNDECIDED: "Undecided",
    }
    return (
        f"{openings[places.verdict]}: of the places of power-of-choice they hold {percent(places.baseline_mean)} "
        f"without guards and {percent(places.mean)} with them. The model's accuracy is "
        f"{percent(end[GUARDED].baseline_mean)} without guards, {with_doubt(end[GUARDED])} with them, and "
        f"{with_doubt(end[HONEST])} where nobody lies."
    )


def liar_lines(findings: Findings, result: StudyResult) -> list[str]:
    """Return the verdicts on guards of power-of-choice: places of the liars, and accuracy."""
    places = findings.contrasts(LIARS, [GUARDED], "captured", higher=False)
    end = findings.contrasts(LIARS, [GUARDED, HONEST])
    return [
        *amount_lines("Share of the places that liars hold", [places[GUARDED].pair], POINTS),
        *contrast_lines(f"Test accuracy {findings.period}, in points", end.values()),
    ]


UPDATES = {
    "bare, reversed": ("reversed", "bare"),
    "bare, broken": ("broken", "bare"),
    "bare, honest": ("honest", "bare"),
    "guarded, reversed": ("reversed", "guarded"),
    "guarded, honest": ("honest", "guarded"),
    "median, reversed": ("reversed", "median"),
    "median, honest": ("honest", "median"),
}
UPDATE_PAIRS = [
    ("bare, reversed", "bare, honest"),
    ("bare, broken", "bare, honest"),
    ("guarded, reversed", "bare, reversed"),
    ("median, reversed", "bare, reversed"),
    ("guarded, honest", "bare, honest"),
    ("median, honest", "bare, honest"),
]


def answer_reversed_updates(findings: Findings) -> str:
    """Say what broken and reversed updates do to a model, what defends it, and what the defence costs."""
    contrasts = findings.contrasts(UPDATES, UPDATE_PAIRS)
    attacked, broken, guarded, median, guarded_honest, median_honest = (contrasts[pair] for pair in UPDATE_PAIRS)
    openings = {
        WORSE: "Reversed updates harm it",
        BETTER: "Reversed updates do not harm it",
        EQUAL: "Reversed updates make practically no difference",
        UNDECIDED: "Whether reversed updates harm it is undecided",
    }
    effect_of_broken = {
        WORSE: "Broken updates harm it, too",
        BETTER: "Broken updates do not harm it",
        EQUAL: "Broken updates make practically no difference",
        UNDECIDED: "No harm of broken updates is shown",
    }
    return (
        f"{openings[attacked.verdict]}: a bare model ends at {percent(attacked.mean)} accuracy instead of "
        f"{percent(attacked.baseline_mean)}, with guards at {with_doubt(guarded)}, with the median at "
        f"{with_doubt(median)}. {effect_of_broken[broken.verdict]}: {percent(broken.mean)}. Where all clients are "
        f"honest, guards end at {with_doubt(guarded_honest)} and the median at {with_doubt(median_honest)}."
    )


def update_lines(findings: Findings, result: StudyResult) -> list[str]:
    """Return the verdicts on attacks and defences."""
    contrasts = findings.contrasts(UPDATES, UPDATE_PAIRS)
    return contrast_lines(f"Test accuracy {findings.period}, in points", contrasts.values())


def answer_traffic(findings: Findings) -> str:
    """Say which methods beat a uniform draw at equal traffic."""
    contrasts = findings.within(findings.only_setting)
    better = [label for label, contrast in contrasts.items() if contrast.verdict == BETTER]
    if better:
        word = f"Yes, {enumerate_words(better)}"
    elif any(contrast.verdict == UNDECIDED for contrast in contrasts.values()):
        word = "No gain is shown"
    else:
        word = "No"
    uniform = next(iter(contrasts.values())).baseline_mean
    texts = [f"{label} at {with_doubt(contrast)}" for label, contrast in contrasts.items()]
    return (
        f"{word}: {findings.period} uniform, which asks nothing, is at {percent(uniform)} accuracy, "
        f"{enumerate_words(texts)}."
    )


def answer_fair_to_all(findings: Findings) -> str:
    """Say who serves the worst-served clients best, and who gives out places most evenly."""
    setting = findings.only_setting
    served = findings.within(setting, "worst-tenth")
    better = [label for label, contrast in served.items() if contrast.verdict == BETTER]
    tenth, whole = (findings.mean((setting, "uniform"), figure) for figure in ("worst-tenth", findings.end_figure))
    text = (
        f"With a uniform draw the worst-served tenth of the clients has {percent(tenth)} accuracy, all together have "
        f"{percent(whole)}. "
    )
    if better:
        better.sort(key=lambda label: -served[label].mean)
        texts = [f"{label} ({percent(served[label].mean)})" for label in better]
        text += f"Shown to serve that tenth better: {enumerate_words(texts)}. "
    else:
        text += "No method is shown to serve that tenth better. "
    evenest = max(findings.figures[setting], key=lambda label: findings.mean((setting, label), "jain-of-counts"))
    least, most = (findings.mean((setting, evenest), figure) for figure in ("least-chosen", "most-chosen"))
    return (
        f"{text}Places are given out most evenly by {evenest}: the least often chosen tenth trains {least:.1f} times "
        f"in {findings.rounds} rounds, the most often chosen {most:.1f} times."
    )


def fairness_lines(findings: Findings, result: StudyResult) -> list[str]:
    """Return verdicts by the worst-served tenth of the clients, and a table of how clients are served and chosen."""
    setting = findings.only_setting
    served = findings.within(setting, "worst-tenth")
    return [
        *verdict_lines(result),
        *contrast_lines(
            "Accuracy of the worst-served tenth of the clients against uniform, in points", served.values()
        ),
        "",
        fairness_table(findings).markdown(),
        "",
        "*Least* and *most* chosen: times that the tenth of the clients trained that was chosen least, or most, often. "
        "Jain's index is 1 where all are equal: *of places* compares how often clients were chosen, *of chances* how "
        "often of the rounds in which they could be. Where clients are seldom there, a method that evens out the one "
        "makes the other uneven.",
    ]


def fairness_table(findings: Findings) -> Table:
    """Make a table of means over seeds: how well clients are served, and how evenly they are chosen."""
    setting = findings.only_setting
    formats: dict[str, tuple[str, Callable[[float], str]]] = {
        "accuracy, %": (findings.end_figure, lambda value: f"{100 * value:.1f}"),
        "worst-served tenth, %": ("worst-tenth", lambda value: f"{100 * value:.1f}"),
        "least chosen": ("least-chosen", lambda value: f"{value:.1f}"),
        "most chosen": ("most-chosen", lambda value: f"{value:.1f}"),
        "never chosen, %": ("never-selected", lambda value: f"{100 * value:.1f}"),
        "Jain, of places": ("jain-of-counts", lambda value: f"{value:.2f}"),
        "Jain, of chances": ("jain", lambda value: f"{value:.2f}"),
    }
    table = Table("", ["method", *formats])
    for label in findings.figures[setting]:
        cells = [write(findings.mean((setting, label), figure)) for figure, write in formats.values()]
        table.rows.append([label, *cells])
    return table


# -- the page ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Picture:
    """The chart that answers a question.

    Attributes:
        chart: its name in the report.
        setting: which one, where a study has several.
        arms: label → arm, where one chart shows arms of several settings.
        groups: in a chart of dots, what is drawn of each arm: the name of a group → a figure, a share.
        title: in a chart of dots, what is drawn.
    """

    chart: str
    setting: str | None = None
    arms: Mapping[str, Arm] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)
    title: str = ""


DOTS = "dots"  # the chart that is drawn here; the others are those of the report
PICTURE_OF = {
    "my-baseline": Picture("difference"),
    "first-to-80": Picture("accuracy"),
    "phones-at-night": Picture("accuracy"),
    "three-hospitals": Picture("accuracy", arms=HOSPITALS),
    "hidden-labels": Picture("forest-last"),
    "slow-and-rare": Picture(
        DOTS,
        arms={
            f"{method}, {setting}": (setting, method)
            for method in ("uniform", "oort", "cs-ucb-q")
            for setting in ("patient", "deadline")
        },
        groups={"too slow for the deadline": "accuracy-of-too-slow", "fast enough": "accuracy-of-others"},
        title="Accuracy of the clients that are too slow for the deadline, and of the others, in %",
    ),
    "come-and-go": Picture(
        "accuracy",
        arms={
            f"{method}, {setting}": (setting, method)
            for setting in ("always there", "come and go")
            for method in ("mine", "uniform")
        },
    ),
    "dropouts": Picture(
        "accuracy",
        arms={
            f"{setting}, {method}": (setting, method)
            for method in ("uniform", "refl")
            for setting in ("exactly six", "nine for six")
        },
    ),
    "liars": Picture(
        DOTS,
        arms={
            f"{method}, {setting}": (setting, method)
            for method in ("power-of-choice", "uniform")
            for setting in ("unguarded", "guarded")
        },
        groups={"places": "captured"},
        title="Share of the places that liars hold, in %",
    ),
    "reversed-updates": Picture("accuracy", "reversed"),
    "traffic": Picture("accuracy"),
    "fair-to-all": Picture("counts"),
}
SHORT_OF: dict[str, Callable[[Findings], str]] = {
    "my-baseline": answer_my_baseline,
    "first-to-80": answer_first_to_80,
    "phones-at-night": answer_phones_at_night,
    "three-hospitals": answer_three_hospitals,
    "hidden-labels": answer_hidden_labels,
    "slow-and-rare": answer_slow_and_rare,
    "come-and-go": answer_come_and_go,
    "dropouts": answer_dropouts,
    "liars": answer_liars,
    "reversed-updates": answer_reversed_updates,
    "traffic": answer_traffic,
    "fair-to-all": answer_fair_to_all,
}
# details other than the verdicts on the methods of each setting
DETAILS_OF: dict[str, Callable[[Findings, StudyResult], list[str]]] = {
    "first-to-80": to_target_lines,
    "three-hospitals": hospital_lines,
    "hidden-labels": label_lines,
    "slow-and-rare": slow_lines,
    "dropouts": dropout_lines,
    "liars": liar_lines,
    "reversed-updates": update_lines,
    "fair-to-all": fairness_lines,
}


def answer_of(name: str, result: StudyResult) -> Answer:
    """Return what the runs of a study answer to its question."""
    findings = read_findings(result)
    details = DETAILS_OF[name](findings, result) if name in DETAILS_OF else verdict_lines(result)
    return Answer(short=SHORT_OF[name](findings), details=details)


def draw_picture(name: str, result: StudyResult) -> Figure:
    """Draw the chart of a study."""
    picture = PICTURE_OF[name]
    style = figure_style(width=WIDTH, text_size=TEXT_SIZE)
    if picture.groups:
        return draw_figure(dot_chart(picture, read_findings(result)), style)
    gathered = gather([result.out])
    if picture.arms:
        gathered = gather_arms(result, picture.arms)
    return draw_named_chart(gathered, picture.chart, style, picture.setting)


def dot_chart(picture: Picture, findings: Findings) -> Chart:
    """Make a chart of dots: one row an arm, in each group a pale dot a seed and a dark one for their mean."""
    means = []
    seeds = []
    for label, (setting, method) in picture.arms.items():
        for group, figure in picture.groups.items():
            values = [figures.get(figure) for figures in findings.figures[setting][method].values()]
            row = {"arm": label, "group": group}
            means.append({**row, "value": 100 * findings.mean((setting, method), figure)})
            seeds += [{**row, "value": 100 * value} for value in values if value is not None]
    legend = alt.Legend(title=None, orient="top", symbolOpacity=1) if len(picture.groups) > 1 else None
    colour = alt.Color(
        "group:N", scale=alt.Scale(domain=list(picture.groups), range=list(COLOURS)), legend=legend, sort=None
    )
    y = alt.Y("arm:N", title=None, sort=list(picture.arms), axis=alt.Axis(labelLimit=220, domain=False, ticks=False))
    x = alt.X("value:Q", title="%", scale=alt.Scale(zero=True))
    pale = chart_on("seeds").mark_point(filled=True, size=30, opacity=0.25).encode(x=x, y=y, color=colour)
    dark = chart_on("means").mark_point(filled=True, size=120, opacity=1).encode(x=x, y=y, color=colour)
    return Chart(
        name=DOTS,
        title=picture.title,
        caption="Large dots: mean over seeds; pale dots: seeds.",
        drawing=fill_width(pale + dark, ROW_HEIGHT * len(picture.arms)),
        tables={"means": means, "seeds": seeds},
    )


def gather_arms(result: StudyResult, arms: Mapping[str, Arm]) -> Gathered:
    """Return arms of several settings as the methods of one setting, for a chart that shows them together."""
    settings = {setting.name: setting for setting in gather([result.out]).settings}
    methods = {}
    for label, (setting, method) in arms.items():
        digests = settings[setting].methods[method]
        methods[label] = [
            replace(digest, method=label, name=digest.name if digest.name in REFERENCES else label)
            for digest in digests
        ]
    first = next(iter(settings.values()))
    together = Setting(
        name="all settings",
        methods=methods,
        federation=first.federation,
        criteria=replace(result.criteria, baseline=next(iter(arms))),
    )
    together.compare_at_equal_cost()
    return Gathered(settings=[together], warnings=[])


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
            figure = draw_picture(example.name, result)
            figure.save(PICTURES / f"{example.name}.svg")
            sections.append(write_section(example, answer_of(example.name, result), figure.caption))
    PAGE.write_text("\n".join([*sections, END]), encoding="utf-8")


def introduction(examples: Sequence[Example]) -> str:
    """Return the head of the page: what it is, and the questions as links to their sections."""
    links = [f"- [{example.question}](#{heading_anchor(example.question)})" for example in examples]
    return INTRODUCTION.format(questions="\n".join(links))


def heading_anchor(heading: str) -> str:
    """Return the address of a heading, as GitHub and the site write it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def write_section(example: Example, answer: Answer, caption: str) -> str:
    """Write the section of one study: question, answer, explanation, picture, details, command and file."""
    details = "\n".join(answer.details)
    title = caption.split(". ")[0].rstrip(".")
    return f"""## {example.question}

**In short:** {answer.short}

{example.explanation}

![{title}](images/gallery/{example.name}.svg)

*{caption}*

Details:

{details}

{command_text(example)}

Its file:

```toml
{example.text.rstrip()}
```
"""


def command_text(example: Example) -> str:
    """Return how the study is run, as a block that can be copied."""
    return f"```\nsortition run examples/gallery/{example.name}.toml -o runs/{example.name}\n```"
