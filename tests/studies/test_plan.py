import sys

import pytest
from tests.studies.tables import small

from sortition.core.errors import InputError
from sortition.studies.config import RunConfig
from sortition.studies.plan import plan, read


def test_runs_are_settings_by_methods_by_seeds_seed_first():
    made = plan(small(setting=[{"name": "a"}, {"name": "b", "cohort": 2}]))
    assert len(made.runs) == 2 * 2 * 2
    assert [run.seed for run in made.runs] == [0] * 4 + [1] * 4
    assert made.settings == ["a", "b"]
    assert {run.cohort for run in made.runs if run.setting == "b"} == {2}


def test_a_method_overrides_local_rule_and_cohort():
    table = small(method=[{"name": "uniform", "label": "U", "cohort": 5, "local": {"epochs": 2, "proximal": 0.1}}])
    run = plan(table).runs[0]
    assert (run.cohort, run.local.epochs, run.local.steps, run.local.proximal) == (5, 2, None, 0.1)
    assert run.local.lr == 0.1


def test_a_setting_chooses_and_changes_methods():
    setting = {"name": "a", "methods": ["power-of-choice"], "method": [{"name": "power-of-choice", "d": 9}]}
    made = plan(small(setting=[setting, {"name": "b"}]))
    assert {(r.setting, r.method.label) for r in made.runs} == {
        ("a", "power-of-choice"),
        ("b", "power-of-choice"),
        ("b", "uniform"),
    }
    assert {r.method.options["d"] for r in made.runs if r.setting == "a"} == {9}


def test_sweeps_name_settings_and_methods():
    made = plan(small(sweep={"local": {"lr": [0.1, 0.2]}, "method": {"power-of-choice": {"d": [4, 8]}}}))
    assert made.settings == ["lr=0.1", "lr=0.2"]
    assert made.labels == ["uniform", "power-of-choice,d=4", "power-of-choice,d=8"]


def test_the_command_line_wins_over_settings_and_sweeps():
    table = small(setting=[{"name": "a", "cohort": 2}], sweep={"local": {"lr": [0.1, 0.2]}})
    made = plan(table, ["cohort=4", "local.lr=0.5", "seeds=1"])
    assert [(run.cohort, run.local.lr) for run in made.runs] == [(4, 0.5)] * 2


def test_a_run_survives_its_table():
    run = plan(small(local={"steps": 3, "lr": 0.1, "milestones": [2, 4]})).runs[-1]
    assert RunConfig(**run.table()) == run


def test_a_local_rule_without_later_keys_is_recorded_as_before():
    run = plan(small()).runs[0]
    assert not {"optimizer", "keep_state"} & run.table()["local"].keys()
    adam = plan(small(local={"steps": 3, "lr": 0.1, "optimizer": "adam", "keep_state": True})).runs[0]
    assert adam.table()["local"]["optimizer"] == "adam"
    assert RunConfig(**adam.table()) == adam


def test_the_server_combines_and_steps():
    table = small(server={"combine": "fedvarp", "step": "momentum", "momentum": 0.5})
    table["method"] = [{"name": "uniform", "server": {"step": "adam", "lr": 0.1}}, {"name": "power-of-choice"}]
    adam, momentum = plan(table).runs[:2]
    assert (momentum.server.name, momentum.server.momentum, momentum.server.combine) == ("momentum", 0.5, "fedvarp")
    assert (adam.server.name, adam.server.lr, adam.server.combine_rule.name) == ("adam", 0.1, "fedvarp")
    assert momentum.table()["server"]["combine"] == "fedvarp"
    assert "trim" not in momentum.table()["server"]
    assert RunConfig(**momentum.table()) == momentum


def test_a_server_that_only_steps_is_recorded_as_before():
    expected = {"name": "adam", "lr": 0.1, "momentum": 0.9, "beta1": 0.9, "beta2": 0.99, "epsilon": 0.001}
    for server in (
        {"name": "adam", "lr": 0.1},
        {"step": "adam", "lr": 0.1},
        {"combine": "mean", "step": "adam", "lr": 0.1},
    ):
        assert plan(small(server=server)).runs[0].table()["server"] == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cohrt": 5}, "Did you mean 'cohort'"),
        ({"server": {"combine": "fedvarb"}}, "Did you mean 'fedvarp'"),
        ({"server": {"combine": "trimmed-mean", "trim": 0.6}}, r"trim must be a share in \[0, 0.5\)"),
        ({"server": {"name": "adam", "step": "momentum"}}, "server must be given one step"),
        ({"server": {"combin": "mean"}}, "Did you mean 'combine'"),
        ({"local": {"lr": 0.1, "stpes": 4}}, "Did you mean 'steps'"),
        ({"local": {"lr": -1, "steps": 4}}, "lr must be finite and > 0"),
        ({"target": {"accuracy": 69}}, "target.accuracy must be a share"),
        ({"target": {}}, "either accuracy or loss"),
        ({"cohort": 13}, "cohort must be at most the number of clients, 12; got 13"),
        ({"cohort": True}, "whole number"),
        ({"seeds": 0}, "seeds must be"),
        ({"seeds": "three"}, "seeds must be a number of seeds or a list of whole numbers; got 'three'"),
        ({"seeds": 1.5}, "seeds must be a number of seeds or a list of whole numbers; got 1.5"),
        ({"seeds": True}, "seeds must be a number of seeds or a list of whole numbers; got True"),
        ({"seeds": [1, 1]}, "distinct"),
        ({"method": []}, "method"),
        ({"method": [{"name": "unifrm"}]}, "Did you mean 'uniform'"),
        ({"method": [{"name": "uniform"}, {"name": "uniform"}]}, "unique"),
        ({"method": [{"name": "uniform", "alpha": 1}]}, "Uniform has weights"),
        (
            {"method": [{"name": "uniform", "rounds": 9}]},
            r"Uniform has weights.* write it above the first \[\[method\]\]",
        ),
        (
            {"method": [{"name": "uniform", "target": {"loss": 1}, "alpha": 1}]},
            r"'target'.* above the first \[\[method\]\]",
        ),
        (
            {"method": [{"name": "mine.py"}]},
            r"package\.module:Class; got 'mine\.py'\. Name the class: mine:Class",
        ),
        ({"method": [{"name": "uniform", "label": "a/b"}]}, "name a folder"),
        ({"method": [{"name": "no.such.module:Thing"}]}, "importable"),
        ({"method": [{"name": "pathlib:Path"}]}, "Selector class"),
        ({"setting": [{"cohort": 2}]}, "setting.name"),
        ({"setting": [{"name": "a"}, {"name": "A"}]}, "unique"),
        ({"setting": [{"name": "a", "methods": ["x"]}]}, "Unknown method 'x'"),
        ({"sweep": {"method": {"x": {"d": [1]}}}}, "Unknown method 'x'"),
        ({"sweep": {"seeds": [1]}}, "sweep must be over"),
        ({"stop_at_target": True, "target": None}, "target must be given"),
        ({"data": 3}, "data must be a table"),
    ],
)
def test_what_is_wrong_is_told_before_anything_runs(change, message):
    with pytest.raises(InputError, match=message):
        plan(small(**change))


def test_files_that_are_none(tmp_path):
    with pytest.raises(InputError, match="one that exists"):
        read(tmp_path / "none.toml")
    torn = tmp_path / "torn.toml"
    torn.write_text("rounds = [")
    with pytest.raises(InputError, match="valid TOML"):
        read(torn)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"sweep": "lr"}, "sweep must be a table"),
        ({"sweep": {"local.lr": {"from": 0, "to": 1, "count": 10**9}}}, "of at most 10,000 values"),
        ({"sweep": {"local.lr": {"from": 0, "to": 1, "step": 1e-300}}}, "sweep.local.lr must be"),
        ({"method": ["uniform", 3]}, r"method must be a list of tables, \[\[method\]\]"),
        ({"method": 3}, r"method must be a list of tables"),
        ({"setting": [{"name": "a", "method": [1]}]}, r"method must be a list of tables"),
        ({"seeds": 10**12}, "seeds must be at most 100,000"),
        ({"seeds": 10**30}, "seeds must be at most 100,000"),
    ],
)
def test_wrong_kinds_and_endless_numbers_are_refused_with_a_sentence(wrong, sentence):
    with pytest.raises(InputError, match=sentence):
        plan(small(**wrong))


def test_a_study_without_end_is_refused():
    sweep = {"local.lr": {"from": 0.1, "to": 1, "count": 100}, "cohort": {"from": 1, "to": 2, "step": 1}}
    with pytest.raises(InputError, match="study must be of at most 1,000,000 runs"):
        plan(small(seeds=90_000, sweep=sweep))


def test_the_command_line_cannot_replace_the_methods_by_a_text():
    with pytest.raises(InputError, match="method must be a list of tables"):
        plan(small(), ["method=x"])
    with pytest.raises(InputError, match="cohort"):
        plan(small(), ["cohort=" + "1" * 5000])


@pytest.mark.parametrize("text", ["a = " + "1" * 5000, "a = " + "[" * 5000])
def test_a_file_that_python_refuses_to_read_is_not_valid_toml(text, tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(text)
    with pytest.raises(InputError, match="must be valid TOML"):
        read(path)


@pytest.mark.parametrize("key", ["audit", "stop_at_target"])
@pytest.mark.parametrize("value", ["yes", "false", 1, 0.0])
def test_yes_and_no_are_booleans(key, value):
    with pytest.raises(InputError, match=f"{key} must be"):
        plan(small(**{key: value}))


def test_a_method_is_weighed_by_a_common_rule_and_keeps_its_other_guards():
    made = plan(
        {
            "rounds": 1,
            "cohort": 2,
            "data": {"name": "digits", "clients": 4, "partition": "iid"},
            "model": "softmax",
            "local": {"steps": 1, "batch": 2, "lr": 0.1},
            "guards": {"explore": 0.5},
            "method": [{"name": "fedgs"}, {"name": "fedgs", "label": "fedgs-by-size", "reweight": "size"}],
            "seeds": 1,
        }
    )
    own, by_size = (run.guards for run in made.runs)
    assert (own.reweight, own.explore) == ("own", 0.5)
    assert (by_size.reweight, by_size.explore) == ("size", 0.5)
    assert made.runs[1].table()["guards"] == {"explore": 0.5, "reweight": "size"}


@pytest.mark.parametrize("name", ["fedgs", "auto"])
def test_weights_are_fitted_where_label_counts_are_read(name):
    assert plan(small(method=[{"name": name, "reweight": "fitted"}])).runs[0].guards.reweight == "fitted"


def test_weights_are_not_fitted_to_label_counts_that_a_method_does_not_read():
    with pytest.raises(InputError, match="does not read label counts, as uniform"):
        plan(small(method=[{"name": "uniform", "reweight": "fitted"}]))


def test_the_work_of_a_plan_is_linear_in_its_methods():
    def calls(methods):
        table = small(
            seeds=1,
            method=[{"name": "uniform", "label": f"m{i}", "local": {"lr": 0.2}} for i in range(methods)],
            sweep={"method": {f"m{i}": {"cohort": [2]} for i in range(methods)}},
        )
        counted = []
        sys.setprofile(lambda frame, event, argument: counted.append(event))
        try:
            plan(table)
        finally:
            sys.setprofile(None)
        return len(counted)

    plan(small())  # what is made once is made
    assert calls(400) < 5 * calls(100)
    assert calls(400) < 400 * 8000


def test_a_method_among_the_labels_is_explained():
    with pytest.raises(InputError, match=r"methods must be a list of labels; .* tables \[\[method\]\]"):
        plan(small(methods=[{"name": "uniform"}]))


def test_all_settings_have_one_margin():
    assert plan(small(margin=1)).criteria.margin == 1
    with pytest.raises(InputError, match=r"margin must be the same in all settings; got 0\.5, 2"):
        plan(small(setting=[{"name": "a"}, {"name": "b", "margin": 2}]))
    with pytest.raises(InputError, match=r"study\.margin must be > 0; got 0"):
        plan(small(margin=0))


def test_the_baseline_is_one_of_the_methods():
    found = plan(small(baseline="power-of-choice", all_pairs=True)).criteria
    assert (found.baseline, found.all_pairs) == ("power-of-choice", True)
    with pytest.raises(InputError, match="Unknown baseline 'oort'; the study has uniform, power-of-choice"):
        plan(small(baseline="oort"))
    with pytest.raises(InputError, match="baseline must be the same in all settings"):
        plan(small(setting=[{"name": "a"}, {"name": "b", "baseline": "uniform"}]))
    with pytest.raises(InputError, match=r"study\.margin must be ≤ 100"):
        plan(small(margin=1e9))


def test_a_method_of_a_file_may_be_its_name_alone():
    table = small(method=["uniform", {"name": "oort", "label": "ours"}])
    assert plan(table).labels == ["uniform", "ours"]
    assert plan(table, ["method.uniform.weights=uniform"]).labels == ["uniform", "ours"]
