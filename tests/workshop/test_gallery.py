"""The gallery of example studies: each file is valid, plans and plays; the page shows each, and answers follow runs."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from tests.test_cli import call
from workshop.gallery import (
    DETAILS_OF,
    END,
    FILES,
    PAGE,
    PICTURE_OF,
    PICTURES,
    POINTS,
    SHORT_OF,
    Findings,
    Words,
    amount_sentence,
    answer_come_and_go,
    answer_dropouts,
    answer_fair_to_all,
    answer_first_to_80,
    answer_hidden_labels,
    answer_liars,
    answer_my_baseline,
    answer_of,
    answer_phones_at_night,
    answer_reversed_updates,
    answer_slow_and_rare,
    answer_three_hospitals,
    answer_traffic,
    client_figures,
    command_text,
    draw_picture,
    fairness_table,
    introduction,
    read_example,
    read_examples,
)

from sortition.results.run_folder import Run
from sortition.results.statistics import Budget, compare
from sortition.studies import study

PATHS = sorted(FILES.glob("*.toml"))
CLEAR = (-0.004, 0.001, -0.002, 0.003, 0.002, 0.0)  # of six seeds: differences of some points are shown
NOISY = (-0.3, 0.2, -0.1, 0.3, -0.2, 0.1)  # differences of some points are undecided


def findings_of(
    means: Mapping[str, Mapping[str, Mapping[str, float]]],
    *,
    noisy: tuple[str, ...] = (),
    budget: Budget | None = None,
    label_readers: tuple[str, ...] = (),
) -> Findings:
    """Return findings of six seeds with these means: setting → label → figure; those of noisy labels spread widely."""
    figures = {
        setting: {
            label: {
                seed: {
                    figure: mean * (1 + (NOISY if label in noisy else CLEAR)[(seed + place) % len(CLEAR)])
                    for figure, mean in of_label.items()
                }
                for seed in range(len(CLEAR))
            }
            for place, (label, of_label) in enumerate(methods.items())
        }
        for setting, methods in means.items()
    }
    return Findings(
        figures=figures, budget=budget, rounds=40, clients=30, resolution=0.01, label_readers=frozenset(label_readers)
    )


def accuracies(**of_labels: float) -> dict[str, dict[str, float]]:
    """Return labels with their accuracy at the end."""
    return {label.replace("_", "-"): {"last-accuracy": value} for label, value in of_labels.items()}


SECONDS = Budget(currency="seconds", start=1.0, amount=60.0)
MEGABYTES = Budget(currency="megabytes", start=1.0, amount=10.0)


# -- files and page ----------------------------------------------------------------------------------------------------


def test_every_file_has_a_picture_an_answer_and_a_place_on_the_page():
    names = {path.stem for path in PATHS}
    assert names == set(PICTURE_OF) == set(SHORT_OF)
    assert names >= set(DETAILS_OF)
    assert {path.stem for path in PICTURES.iterdir()} == set(PICTURE_OF)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_every_file_is_a_question_that_plans(path):
    example = read_example(path)
    assert "?" in example.question
    assert example.explanation.endswith((".", "?"))
    assert f"#   sortition run examples/gallery/{path.name}\n" in example.text
    printed = call("run", path, "--dry-run")
    for table in tomllib.loads(example.text)["method"]:
        assert table.get("label", table["name"]) in printed


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_every_file_plays_and_has_its_answer_and_its_chart(path, tmp_path):
    cost = {"seconds": "until.seconds=12", "megabytes": "until.megabytes=4"}
    limits = tomllib.loads(path.read_text()).get("until", {})
    sets = ["seeds=3", "rounds=40" if limits else "rounds=6", *(cost[currency] for currency in limits)]
    result = study(path, out=tmp_path, sets=sets, jobs=1)
    assert all(run.done for run in result.runs)
    answer = answer_of(path.stem, result)
    assert "nan" not in answer.short
    assert answer.short.endswith(".")
    assert answer.details[0].startswith("- ")
    assert draw_picture(path.stem, result).svg.startswith("<svg")


@pytest.mark.parametrize("example", read_examples(), ids=lambda example: example.name)
def test_the_page_answers_explains_and_shows_the_file_as_it_is(example):
    page = PAGE.read_text(encoding="utf-8")
    section = page[page.index(f"## {example.question}\n") :].split("\n## ")[0]
    assert re.match(rf"## {re.escape(example.question)}\n\n\*\*In short:\*\* .+\.\n\n", section)
    assert f"\n\n{example.explanation}\n\n![" in section
    assert f"(images/gallery/{example.name}.svg)" in section
    assert f"{command_text(example)}\n\nIts file:\n\n```toml\n{example.text.rstrip()}\n```" in section
    prose = re.sub(r"```.*?```|`[^`]*`", "", section, flags=re.DOTALL)
    assert " --" not in prose  # the site would make a dash of it
    assert ".md](" not in section


def test_the_page_begins_with_its_questions_as_links():
    page = PAGE.read_text(encoding="utf-8")
    head = introduction(read_examples())
    assert page.startswith(head)
    assert page.endswith(END)
    assert "- [Three hospitals: do I need to wait for all of them in each round?](#three-hospitals-do-i-need-to" in head


def test_the_page_says_who_reaches_a_target_first_before_it_compares_accuracies():
    page = PAGE.read_text(encoding="utf-8")
    section = page[page.index("## My devices differ in speed") :].split("\n## ")[0]
    assert re.search(
        r"- Seconds to the target:\n  - auto against uniform: \S+ seconds sooner .*- Test accuracy", section, re.DOTALL
    )


def test_the_page_says_how_the_worst_served_clients_fare_and_how_evenly_clients_are_chosen():
    page = PAGE.read_text(encoding="utf-8")
    section = page[page.index("## Is the choice fair to all clients?") :].split("\n## ")[0]
    assert "- Accuracy of the worst-served tenth of the clients against uniform, in points:\n  - " in section
    assert re.search(
        r"\| method +\| accuracy, % \| worst-served tenth, % \| least chosen \| most chosen \| never chosen, % "
        r"\| Jain, of places \| Jain, of chances \|",
        section,
    )


# -- figures -----------------------------------------------------------------------------------------------------------


class RunOfClients(Run):
    """A run whose files are these arrays."""

    def clients(self):
        return {
            "selected": np.array([0, 4, 4, 4, 8, 4, 4, 4, 4, 4]),
            "available": np.array([2, 3, 9, 9, 9, 9, 9, 9, 9, 9]),
            "accuracy": np.array([0.2, 0.4, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6]),
        }

    def federation(self):
        return {"seconds": np.array([5.0, 4.0, 1, 1, 1, 1, 1, 1, 1, 1])}


def test_figures_of_groups_of_clients(tmp_path):
    figures = client_figures(RunOfClients(tmp_path), deadline=2.0)
    assert (figures["least-chosen"], figures["most-chosen"]) == (0, 8)
    assert (figures["chosen-if-seldom-there"], figures["chosen-if-often-there"]) == (2, 4.5)
    assert figures["too-slow"] == 2
    assert figures["accuracy-of-too-slow"] == pytest.approx(0.3)
    assert figures["accuracy-of-others"] == pytest.approx(0.6)
    assert figures["jain-of-counts"] == pytest.approx(40**2 / (10 * (8 * 16 + 64)))
    assert "too-slow" not in client_figures(RunOfClients(tmp_path))


def test_settings_are_compared_seed_by_seed_with_their_traffic():
    means = {"six": accuracies(uniform=0.7), "nine": accuracies(uniform=0.8)}
    means["six"]["uniform"]["megabytes"] = 2.0
    means["nine"]["uniform"]["megabytes"] = 3.0
    arms = {"nine": ("nine", "uniform"), "six": ("six", "uniform")}
    (contrast,) = findings_of(means).contrasts(arms, [("nine", "six")]).values()
    assert contrast.pair.difference == pytest.approx(0.1, abs=0.001)
    assert contrast.pair.sd < 0.001  # the seeds' own spread is in both
    assert contrast.pair.traffic_ratio == pytest.approx(1.5)
    assert contrast.verdict == "better"


# -- sentences ---------------------------------------------------------------------------------------------------------


def test_amounts_say_sooner_or_later_and_never_less_is_better():
    words = Words(unit="seconds", less="sooner", more="later")
    uniform = {seed: 600.0 + seed for seed in range(6)}
    pairs = compare(
        uniform,
        {
            "fast": {seed: 300.0 + 2 * seed for seed in uniform},
            "slow": {seed: 900.0 + 2 * seed for seed in uniform},
            "unclear": {seed: 600.0 + 100 * (-1) ** seed - seed for seed in uniform},
        },
        metric="loss",
    )
    assert re.match(r"fast against baseline: 297\.5 seconds sooner \[\d", amount_sentence(pairs["fast"], words))
    assert re.match(r"slow against baseline: 302\.5 seconds later \[\d", amount_sentence(pairs["slow"], words))
    unclear = amount_sentence(pairs["unclear"], words)
    assert re.search(r"seconds sooner, undecided \[[\d.]+ sooner to [\d.]+ later\]; .* \(6 were run\)\.$", unclear)
    assert "points fewer" in amount_sentence(replace(pairs["fast"], metric="accuracy"), POINTS)


def test_my_method_against_oort_and_chance():
    short = answer_my_baseline(findings_of({"main": accuracies(oort=0.80, mine=0.86, uniform=0.70)}))
    assert short == (
        "Against Oort: yes; mine ends at 86.0 % accuracy, Oort at 80.0 %. Against chance: yes; a uniform draw ends at "
        "70.0 %."
    )
    worse = answer_my_baseline(findings_of({"main": accuracies(oort=0.86, mine=0.80, uniform=0.70)}))
    assert worse.startswith("Against Oort: no; mine ends at 80.0 %")
    unclear = answer_my_baseline(findings_of({"main": accuracies(oort=0.80, mine=0.84, uniform=0.7)}, noisy=("oort",)))
    assert unclear.startswith("Against Oort: undecided;")
    assert "Against chance: yes" in unclear


def test_my_method_in_each_setting():
    always = accuracies(uniform=0.7, mine=0.8)
    short = answer_come_and_go(findings_of({"always there": always, "come and go": accuracies(uniform=0.7, mine=0.6)}))
    assert short == (
        "Always there: yes; mine ends at 80.0 % accuracy, uniform at 70.0 %. Come and go: no; mine ends at 60.0 % "
        "accuracy, uniform at 70.0 %."
    )


def test_who_reaches_the_target_first():
    def seconds(**of_labels: float) -> Findings:
        means = {label: {"seconds-to-target-smoothed": value} for label, value in of_labels.items()}
        return findings_of({"main": means}, budget=SECONDS)

    assert answer_first_to_80(seconds(uniform=600, auto=200, oort=400)) == (
        "On average auto after 200 seconds, oort after 400 and uniform after 600. These runs show that auto is the "
        "first."
    )
    assert "that oort is the first" in answer_first_to_80(seconds(uniform=600, auto=400, oort=200))
    assert answer_first_to_80(seconds(uniform=600, auto=200.0, oort=200.1)).endswith(
        "Whether auto is sooner than oort is undecided."
    )
    missed = seconds(uniform=600, auto=200)
    missed.figures["main"]["auto"][3]["seconds-to-target-smoothed"] = None
    assert answer_first_to_80(missed) == "On average uniform after 600 seconds. Not every run gets there with auto."


def test_whom_a_uniform_draw_misses():
    def phones(seldom: float, often: float) -> str:
        uniform = {"last-accuracy": 0.8, "chosen-if-seldom-there": seldom, "chosen-if-often-there": often}
        fedgs = {"last-accuracy": 0.9, "chosen-if-seldom-there": 3.8, "chosen-if-often-there": 4.0}
        findings = findings_of({"main": {"uniform": uniform, "fedgs": fedgs}})
        for figures in findings.figures["main"]["uniform"].values():  # no seed has the same difference as another
            figures["chosen-if-often-there"] += figures["last-accuracy"] - 0.8
        return answer_phones_at_night(findings)

    assert phones(2.0, 4.0) == (
        "The phones that are seldom there: with a uniform draw the quarter of the phones that is reachable least often "
        "trains 2.0 times in 40 rounds, the others 4.0 times. They train 3.8 times with fedgs. The model ends at "
        "80.0 % accuracy with uniform and 90.0 % with fedgs."
    )
    assert phones(4.0, 2.0).startswith("Not those that are seldom there:")


def test_what_hidden_labels_cost():
    def labels(**of_labels: float) -> str:
        return answer_hidden_labels(findings_of({"main": accuracies(**of_labels)}, label_readers=("flips", "fedgs")))

    assert labels(uniform=0.75, flips=0.9, fedgs=0.7, hics=0.8) == (
        "10.0 points of accuracy here: flips, the best method that reads label counts, ends at 90.0 %, hics, the best "
        "that reads none, at 80.0 %. Label counts alone do not help: fedgs falls short of uniform."
    )
    gained = labels(uniform=0.75, flips=0.8, fedgs=0.78, hics=0.9)
    assert gained.startswith("Nothing here; you even gain 10.0 points of accuracy: flips")
    assert "falls short" not in gained


def test_whether_to_wait_for_all_hospitals():
    def hospitals(wait: float, dropped: float, late: float, alone: float) -> str:
        means = {
            "wait for all": {
                "full": {"at-cost-accuracy": wait, "worst-tenth": 0.85},
                "local-only": {"at-cost-accuracy": alone},
            },
            "go on after two": {"full": {"at-cost-accuracy": dropped, "worst-tenth": 0.25}},
            "use the third late": {"full": {"at-cost-accuracy": late, "worst-tenth": 0.45}},
        }
        return answer_three_hospitals(findings_of(means, budget=SECONDS))

    assert hospitals(0.9, 0.7, 0.8, 0.4) == (
        "Yes: after 60 seconds the model ends at 90.0 % accuracy if rounds wait for all three, at 70.0 % if they go on "
        "after two, and at 80.0 % if the third's work is used late; the worst-served hospital has 85.0 %, 25.0 % and "
        "45.0 %. A federation is worth it: a hospital alone ends at 40.0 %."
    )
    assert hospitals(0.7, 0.6, 0.9, 0.95).startswith("No: ")
    assert "A federation is not worth it" in hospitals(0.7, 0.6, 0.9, 0.95)


def test_whether_slow_devices_may_be_left_behind():
    def slow(patient: float, deadline: float, over_all: float = 0.7) -> str:
        means = {
            setting: {
                method: {"at-cost-accuracy": whole, "accuracy-of-too-slow": of_slow, "too-slow": 7.5}
                for method in ("uniform", "oort")
            }
            for setting, of_slow, whole in (("patient", patient, 0.6), ("deadline", deadline, over_all))
        }
        return answer_slow_and_rare(findings_of(means, budget=SECONDS))

    assert slow(0.6, 0.2) == (
        "No: with a uniform draw the clients that can never meet the deadline, 7.5 of 30 on average, end at 20.0 % "
        "accuracy instead of 60.0 %; the verdict is the same with oort. The accuracy over all data hides it: 70.0 % "
        "instead of 60.0 %."
    )
    assert slow(0.2, 0.6).startswith("Yes: ")
    assert "The accuracy over all data shows it, too: 50.0 % instead" in slow(0.6, 0.2, 0.5)


def test_whether_to_select_more_than_needed():
    def dropouts(nine: float, nine_before: float) -> str:
        means = {
            "exactly six": {
                "uniform": {"at-cost-accuracy": 0.8, "auc-accuracy": 0.6, "wasted": 0.33, "megabytes": 2.0}
            },
            "nine for six": {
                "uniform": {"at-cost-accuracy": nine, "auc-accuracy": nine_before, "wasted": 0.4, "megabytes": 3.0}
            },
        }
        return answer_dropouts(findings_of(means, budget=SECONDS))

    assert dropouts(0.9, 0.7) == (
        "Yes: with a uniform draw the model is at 90.0 % accuracy after 60 seconds with nine for six, and at 80.0 % "
        "with exactly six. On the way there it is ahead, with a mean of 70.0 % and 60.0 %. The cost: 1.5 times the "
        "traffic, and 40.0 % of the trainings are wasted in place of 33.0 %."
    )
    assert dropouts(0.7, 0.5).startswith("No: ")
    assert "On the way there it is behind" in dropouts(0.7, 0.5)


def test_whether_guards_help_against_liars():
    def liars(unguarded: float, guarded: float, attacked: float = 0.8) -> str:
        means = {
            "nobody lies": {"power-of-choice": {"last-accuracy": 0.9}},
            "unguarded": {"power-of-choice": {"last-accuracy": attacked, "captured": unguarded}},
            "guarded": {"power-of-choice": {"last-accuracy": 0.9, "captured": guarded}},
        }
        return answer_liars(findings_of(means))

    assert liars(0.3, 0.15) == (
        "Yes, guards take places from the liars: of the places of power-of-choice they hold 30.0 % without guards and "
        "15.0 % with them. The model's accuracy is 80.0 % without guards, 90.0 % with them, and 90.0 % where nobody "
        "lies."
    )
    assert liars(0.15, 0.3).startswith("No, guards give the liars more places")
    assert "90.0 % (practically equal) with them" in liars(0.3, 0.15, attacked=0.8999)


def test_what_broken_and_reversed_updates_do():
    def updates(reversed_bare: float, broken_bare: float) -> str:
        means = {
            "honest": accuracies(bare=0.88, guarded=0.85, median=0.6),
            "broken": accuracies(bare=broken_bare, guarded=0.85, median=0.6),
            "reversed": accuracies(bare=reversed_bare, guarded=0.75, median=0.45),
        }
        return answer_reversed_updates(findings_of(means))

    assert updates(0.14, 0.8) == (
        "Reversed updates harm it: a bare model ends at 14.0 % accuracy instead of 88.0 %, with guards at 75.0 %, with "
        "the median at 45.0 %. Broken updates harm it, too: 80.0 %. Where all clients are honest, guards end at 85.0 % "
        "and the median at 60.0 %."
    )
    assert updates(0.95, 0.95).startswith("Reversed updates do not harm it")
    assert "Broken updates do not harm it: 95.0 %" in updates(0.14, 0.95)


def test_whether_questions_are_worth_their_traffic():
    def traffic(**of_labels: float) -> str:
        means = {label: {"at-cost-accuracy": value} for label, value in of_labels.items()}
        return answer_traffic(findings_of({"main": means}, budget=MEGABYTES, noisy=("noisy",)))

    assert traffic(uniform=0.8, fedcor=0.9, oort=0.7) == (
        "Yes, fedcor: after 10 MB uniform, which asks nothing, is at 80.0 % accuracy, fedcor at 90.0 % and oort at "
        "70.0 %."
    )
    assert traffic(uniform=0.8, fedcor=0.7).startswith("No: ")
    assert "No gain is shown: after 10 MB" in traffic(uniform=0.8, noisy=0.82)
    assert "noisy at 82.0 % (undecided)" in traffic(uniform=0.8, noisy=0.82)


def test_whether_the_choice_is_fair():
    def fair(served: float, evenness: float) -> Findings:
        uniform = {"last-accuracy": 0.86, "worst-tenth": 0.5, "jain-of-counts": 0.6, "jain": 0.88}
        uniform |= {"least-chosen": 1.0, "most-chosen": 20.0, "never-selected": 0.02}
        f3ast = {"last-accuracy": 0.9, "worst-tenth": served, "jain-of-counts": evenness, "jain": 0.8}
        f3ast |= {"least-chosen": 4.0, "most-chosen": 10.0, "never-selected": 0.0}
        return findings_of({"main": {"uniform": uniform, "f3ast": f3ast}})

    assert answer_fair_to_all(fair(0.7, 0.95)) == (
        "With a uniform draw the worst-served tenth of the clients has 50.0 % accuracy, all together have 86.0 %. "
        "Shown to serve that tenth better: f3ast (70.0 %). Places are given out most evenly by "
        "f3ast: the least often chosen tenth trains 4.0 times in 40 rounds, the most often chosen 10.0 times."
    )
    other = answer_fair_to_all(fair(0.4, 0.5))
    assert "No method is shown to serve that tenth better. Places are given out most evenly by uniform" in other
    assert fairness_table(fair(0.7, 0.95)).rows[1] == ["f3ast", "90.0", "70.0", "4.0", "10.0", "0.0", "0.95", "0.80"]
