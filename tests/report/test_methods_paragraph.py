"""The paragraph of a paper: what was run, on what, how it was compared; and answers to checklists."""

from __future__ import annotations

import json
import re
import tomllib

import numpy as np
import pytest
import tomli_w
from tests.report.conftest import write_run
from tests.test_cli import call
from torch import nn

import sortition
from sortition import Cohort, Selector, State
from sortition.aggregation import combine, server_table, step
from sortition.core.errors import InputError
from sortition.learning import LocalRule
from sortition.report.gather import gather
from sortition.report.methods_paragraph import OPTIONS_OF_COMBINING, OPTIONS_OF_STEP, write_methods_paragraph


def edit(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def configure(folder, **changes):
    """Change the configurations of all runs below a folder: tables are merged, other values replaced."""
    for path in folder.rglob("config.toml"):
        config = tomllib.loads(path.read_text())
        for key, value in changes.items():
            if isinstance(value, dict):
                config[key] = {**config.get(key, {}), **value}
            else:
                config[key] = value
        path.write_text(tomli_w.dumps(config))


@pytest.fixture
def runs(tmp_path):
    """Two methods of three seeds, with all that a manifest says."""
    folder = tmp_path / "runs"
    for seed in range(3):
        for method, gain in (("uniform", 0.0), ("oort", 0.1)):
            run = write_run(folder, method, seed, [0.4, 0.5 + gain + 0.01 * seed, 0.6 + gain])
            edit(
                run / "manifest.json",
                versions={"python": "3.11.7", "torch": "2.0"},
                platform="Linux x86_64",
                hardware={"processor": "Processor X", "cores": 8, "accelerator": "GPU Y"},
                data={"name": "tiny", "digest": "ab" * 32, "partition": f"{seed}" * 64},
                model={"name": "softmax", "parameters": 1234},
                parameters={"d": "15"} if method == "oort" else {},
                cite=f"@article{{{method}2020,\n  title = {{On {method}}}\n}}",
                python={"method mine:Oort": "cd" * 32},
            )
            (run / "timings.jsonl").write_text('{"round": 0, "total": 1200.0}\n')
    (folder / "study.json").write_text('{"title": "", "methods": ["uniform", "oort"], "settings": ["main"]}')
    return folder


def test_the_paragraph_says_all_that_a_paper_must(runs):
    text = write_methods_paragraph(gather([runs])).text
    assert text.startswith(
        "We compare uniform [uniform2020] and oort [oort2020] in Sortition 0.1.0, with its default parameters where "
        "none are given. The data set tiny is held"
    )
    assert "held by 4 clients (partition: shards)" in text
    assert "In each of 3 rounds 2 clients are selected and train the model softmax of 1,234 parameters: 2 steps" in text
    assert "Each method is run on 3 seeds (0, 1, 2)" in text
    assert "with that of uniform by paired t-tests" in text
    assert "by paired t-tests with intervals of 95 %, and a difference" in text
    assert "The 6 runs took 2 core-hours (1,200 s a run, one core each) on Processor X, 8 cores, GPU Y" in text
    assert "python 3.11.7, torch 2.0" in text
    assert "data tiny abababababab; 3 partitions together" in text
    assert "own code method mine:Oort cdcdcdcdcdcd" in text


def test_latex_is_escaped_and_cites(runs):
    latex = write_methods_paragraph(gather([runs])).latex
    assert r"oort~\cite{oort2020} in Sortition" in latex
    assert r"95 \%" in latex
    assert r"x86\_64" in latex


def test_answers_say_what_was_tuned_and_what_was_left_out(runs):
    answers = {answer.asks: answer.answer for answer in write_methods_paragraph(gather([runs])).answers}
    parameters = answers["Are all hyper-parameters given, and how they were chosen?"]
    assert parameters.startswith("oort: d = 15. Each run folder has")
    assert "nothing was tuned" in parameters
    assert answers["Was anything left out?"] == "No: all 6 runs are finished and counted."
    assert answers["How many runs is a figure the mean of?"].startswith("At least 3 finished runs")
    write_run(runs, "oort", 9, [0.4], done=False)
    answers = {answer.asks: answer.answer for answer in write_methods_paragraph(gather([runs])).answers}
    assert "1 of 7 runs are unfinished" in answers["Was anything left out?"]


def test_each_setting_is_described(runs):
    write_run(runs, "uniform", 0, [0.4, 0.5], setting="other")
    text = write_methods_paragraph(gather([runs])).text
    assert "Setting main: the data set tiny" in text
    assert "Setting other: the same, but rounds = 2." in text
    assert "Each method is run on at least 1 seed;" in text


def test_unfinished_runs_alone_have_no_paragraph(tmp_path):
    write_run(tmp_path / "runs", "uniform", 0, [0.4], done=False)
    with pytest.raises(InputError, match="must be of finished runs; got none"):
        write_methods_paragraph(gather([tmp_path / "runs"]))


def test_cite_prints_bibtex_or_the_paragraph(runs, tmp_path, monkeypatch):
    assert call("cite", runs).startswith("@article{uniform2020,")
    printed = call("cite", runs, "--paragraph")
    assert "## Reproducibility checklist" in printed
    assert "@article{oort2020," in printed
    assert call("cite", runs, "--paragraph", "--latex").startswith(r"We compare uniform~\cite{uniform2020}")
    with pytest.raises(InputError, match="--latex must be given with --paragraph"):
        call("cite", runs, "--latex")
    with pytest.raises(InputError, match="--paragraph must be given a folder of runs or a pack; got 'uniform'"):
        call("cite", "uniform", "--paragraph")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "uniform").mkdir()
    assert "mcmahan2017" in call("cite", "uniform")  # the method, though a folder has its name


def test_runs_that_end_by_their_cost_and_their_devices_are_described(tmp_path):
    result = sortition.compare(
        ["uniform", "oort"],
        data="digits", clients=10, model="softmax", cohort=3, seeds=1, jobs=1, progress=False, out=tmp_path / "runs",
        devices={"speed": 50.0, "speed_spread": 1.0, "slow": "high labels"}, until={"seconds": 5.0},
    )  # fmt: skip
    text = result.methods_paragraph().text
    assert "?" not in text
    assert "In each round 3 clients are selected" in text
    assert "A run ends with the step that reaches 5 seconds of the simulated clock." in text
    assert "devices: speed 50, speed spread 1, slow high labels" in text


def own_split(labels, clients, rng):
    return np.array_split(rng.permutation(len(labels)), clients)


@sortition.method
class Mine(Selector[State]):
    """Any clients."""

    share: float = 0.5

    def select(self, state, round):
        return Cohort.uniform(round.rng.permutation(round.available)[: round.budget])


def test_objects_of_ones_own_are_called_so_and_their_parameters_are_all_named(tmp_path):
    x = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    result = sortition.compare(
        ["uniform", sortition.load("power-of-choice", d=3), Mine],
        data=(x, (x[:, 0] > 0).astype(int)), clients=6, partition=own_split, model=nn.Linear(3, 2), all_pairs=True,
        rounds=2, cohort=2, seeds=1, progress=False, out=tmp_path / "runs", local=LocalRule(epochs=1, lr=0.1, batch=8),
    )  # fmt: skip
    text = result.methods_paragraph().text
    assert "power-of-choice [cho2020client] (d = 3) and Mine (share = 0.5) in Sortition" in text
    assert "Our own data set is held by 6 clients (partition: our own)" in text
    assert "train our own model of 8 parameters: 1 epoch of SGD with batches of 8 and a" in text
    assert re.search(r"own code data partition \w{12}, method Mine \w{12}, model \w{12}\.", text)
    assert "python_objects" not in text
    page = result.report(tmp_path / "page.html").read_text()
    assert "own data over 6 clients (own partition)" in page
    assert "at rate 0.1, own model;" in page


def test_a_comparison_of_all_pairs_is_called_so(tmp_path):
    for seed in range(3):
        for name, gain in (("uniform", 0.0), ("oort", 0.1), ("fedgs", 0.2)):
            write_run(tmp_path / "runs", name, seed, [0.4, 0.5 + gain + 0.01 * seed, 0.6 + gain])
    text = write_methods_paragraph(gather([tmp_path / "runs"], all_pairs=True)).text
    assert "mean over seeds) of every pair of methods by paired t-tests; intervals (95 %) and p-values" in text
    assert "corrected by Bonferroni for the 3 comparisons of a setting" in text


AVERAGED = "updates are averaged with the weights that the selection method sets"


@pytest.mark.parametrize(
    ("server", "sentence"),
    [
        ({}, f"; {AVERAGED}."),
        ({"name": "plain", "lr": 1.0, "momentum": 0.9}, f"; {AVERAGED}."),
        ({"name": "plain", "lr": 0.5}, f"; {AVERAGED}, and the server takes plain steps at a rate of 0.5."),
        (
            {"name": "momentum", "lr": 1.0, "momentum": 0.8, "beta1": 0.9},
            f"; {AVERAGED}, and the server takes momentum steps at a rate of 1 (momentum = 0.8).",
        ),
        (
            {"name": "adam", "lr": 0.1, "momentum": 0.9, "beta1": 0.7, "beta2": 0.95, "epsilon": 0.01},
            "the server takes adam steps at a rate of 0.1 (beta1 = 0.7, beta2 = 0.95, epsilon = 0.01).",
        ),
        ({"combine": "trimmed-mean", "trim": 0.3}, "; updates are combined by trimmed-mean (trim = 0.3)."),
        ({"combine": "norm-bound", "bound": 3.0, "trim": 0.3}, "; updates are combined by norm-bound (bound = 3)."),
        ({"combine": "geometric-median"}, "; updates are combined by geometric-median with its default options."),
        ({"combine": "median", "trim": 0.3}, "; updates are combined by median."),
    ],
)
def test_the_rules_of_the_server_are_written_with_their_options(runs, server, sentence):
    configure(runs, server=server)
    assert sentence in write_methods_paragraph(gather([runs])).text


def test_every_rule_of_the_server_and_every_option_of_one_is_known():
    assert {"mean", *OPTIONS_OF_COMBINING} == set(combine.RULES)
    written_options = {name for names in OPTIONS_OF_COMBINING.values() for name in names}
    assert written_options == set(server_table.PARAMETERS) - {"memory_limit"}  # which changes no result
    assert set(OPTIONS_OF_STEP) == set(step.RULES)


def test_the_schedule_of_local_training_is_written(runs):
    configure(runs, local={"decay": 0.9, "decay_every": 10, "milestones": [20, 40], "drop": 0.5, "momentum": 0.9})
    assert (
        "a learning rate of 0.1, multiplied by 0.9 after every 10 rounds, multiplied by 0.5 at round 20 and round 40 "
        "(counted from 0), momentum 0.9; updates"
    ) in write_methods_paragraph(gather([runs])).text
    configure(runs, local={"decay_every": 1, "milestones": [], "momentum": 0.0, "keep_state": True})
    assert (
        "0.1, multiplied by 0.9 after every round, the optimizer's state kept from one participation to the next;"
    ) in write_methods_paragraph(gather([runs])).text


def test_what_a_method_sets_for_itself_is_not_said_of_all(runs):
    write_run(runs, "fedgs", 0, [0.4, 0.5, 0.6])
    same_text = write_methods_paragraph(gather([runs])).text
    assert "however" not in same_text
    for label in ("oort", "fedgs"):
        configure(runs / "main" / label, cohort=3, local={"lr": 0.5}, server={"name": "plain", "lr": 0.2})
    configure(runs / "main" / "fedgs", guards={"reweight": True})
    text = write_methods_paragraph(gather([runs])).text
    assert "2 clients are selected and train the model softmax of 1,234 parameters: 2 steps of SGD with batches" in text
    own_values = (
        "3 clients are selected; clients train for 2 steps of SGD with batches of 4 and a learning rate of 0.5; "
        f"{AVERAGED}, and the server takes plain steps at a rate of 0.2"
    )
    assert f"With oort, however, {own_values}. " in text
    assert f"With fedgs, however, {own_values}; the guards are reweight = True. " in text
    configure(runs / "main" / "oort", guards={"reweight": True})
    text = write_methods_paragraph(gather([runs])).text
    assert f"With oort and fedgs, however, {own_values}; the guards are reweight = True. " in text


def test_a_method_without_the_guards_of_others_is_said_to_have_none(runs):
    configure(runs / "main" / "uniform", guards={"reweight": True})
    text = write_methods_paragraph(gather([runs])).text
    assert " Conditions: guards: reweight = True. With oort, however, there are no guards. " in text


def test_what_a_method_sets_for_itself_is_repeated_only_where_a_setting_changes_it(runs):
    for label in ("uniform", "oort"):
        write_run(runs, label, 0, [0.4, 0.5, 0.6], setting="other")
    configure(runs / "main" / "oort", local={"lr": 0.5})
    configure(runs / "other" / "oort", local={"lr": 0.5})
    sentence = "With oort, however, clients train for 2 steps of SGD with batches of 4 and a learning rate of"
    assert write_methods_paragraph(gather([runs])).text.count(sentence) == 1
    configure(runs / "other" / "oort", local={"lr": 0.1})
    text = write_methods_paragraph(gather([runs])).text
    assert f"{sentence} 0.5. Setting other: the same, but its name. {sentence} 0.1. Each method" in text
