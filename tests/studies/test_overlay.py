import pytest

from sortition.core.errors import InputError
from sortition.studies.overlay import combinations, merged, parse_value, range_values, read_sweep, with_assignment


def test_tables_merge_unless_the_name_changes():
    under = {"data": {"name": "digits", "clients": 10, "partition": {"name": "shards", "per_client": 2}}}
    kept = merged(under, {"data": {"partition": {"per_client": 1}}})
    assert kept["data"] == {"name": "digits", "clients": 10, "partition": {"name": "shards", "per_client": 1}}
    replaced = merged(under, {"data": {"partition": {"name": "iid"}}})
    assert replaced["data"]["partition"] == {"name": "iid"}
    assert under["data"]["partition"]["per_client"] == 2


def test_a_text_is_a_name():
    assert merged({"model": "mlp"}, {"model": {"hidden": [3]}}) == {"model": {"name": "mlp", "hidden": [3]}}
    assert merged({"model": "mlp"}, {"model": {"name": "cnn"}}) == {"model": {"name": "cnn"}}


def test_methods_meet_by_label():
    under = {"method": [{"name": "uniform"}, {"name": "fedgs", "label": "A", "alpha": 1}]}
    over = {"method": [{"label": "A", "alpha": 2}, {"name": "full"}]}
    assert merged(under, over)["method"] == [
        {"name": "uniform"},
        {"name": "fedgs", "label": "A", "alpha": 2},
        {"name": "full"},
    ]


def test_set_reaches_a_method_by_its_label():
    table = {"method": [{"name": "uniform"}, {"name": "fedgs", "label": "v1.0"}]}
    assert with_assignment(table, "method.v1.0.alpha=0.5")["method"][1]["alpha"] == 0.5
    assert with_assignment(table, "local.lr=0.1")["local"] == {"lr": 0.1}
    with pytest.raises(InputError, match="Did you mean 'uniform'"):
        with_assignment(table, "method.unifrm.alpha=1")
    with pytest.raises(InputError, match="key=value"):
        with_assignment(table, "cohort")


@pytest.mark.parametrize(
    ("text", "value"), [("5", 5), ("0.1", 0.1), ("true", True), ("[1, 2]", [1, 2]), ("mlp", "mlp"), ('"5"', "5")]
)
def test_values_are_toml_or_text(text, value):
    assert parse_value(text) == value


def test_ranges():
    assert range_values("x", {"from": 0.1, "to": 0.9, "step": 0.2}) == [0.1, 0.3, 0.5, 0.7, 0.9]
    assert range_values("x", {"from": 1, "to": 10, "step": 4}) == [1, 5, 9]
    assert range_values("x", {"from": 0.001, "to": 1, "count": 4, "log": True}) == [0.001, 0.01, 0.1, 1.0]
    for wrong in ({"from": 1, "to": 2}, {"from": 1, "to": 2, "step": -1}, {"from": "a", "to": 2, "count": 2}):
        with pytest.raises(InputError):
            range_values("x", wrong)


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (["a b", "ab"], ["a_b", "ab"]),
        (["a b", "a_b", "a  b", "c"], ["a_b", "a_b_2", "a_b_3", "c"]),
        ([[1, 2], [12]], ["1_2", "12"]),
        ([0.1234567, 0.1234568], ["0.1234567", "0.1234568"]),
        (["Ab", "ab"], ["Ab", "ab_2"]),
        ([{"name": "x", "file": "a b"}, {"name": "x", "file": "ab"}], ["x,file=a_b", "x,file=ab"]),
        ([0.1, 0.1], ["0.1", "0.1"]),  # which is a slip, and refused with all labels
        ([0.1, 100.0, 1e-05], ["0.1", "100", "1e-05"]),
    ],
)
def test_values_of_a_sweep_have_labels_that_tell_them_apart(values, texts):
    assert [label for label, _ in combinations({"local.lr": values})] == [f"lr={text}" for text in texts]


def test_a_sweep_is_all_combinations():
    values = read_sweep({"local": {"lr": [0.1, 0.2]}, "availability": {"beta": {"from": 0, "to": 1, "count": 2}}})
    assert values == {"local.lr": [0.1, 0.2], "availability.beta": [0, 1]}
    labels = [label for label, _ in combinations(values)]
    assert labels == ["lr=0.1,beta=0", "lr=0.1,beta=1", "lr=0.2,beta=0", "lr=0.2,beta=1"]


def test_swept_tables_of_one_name_are_told_apart_by_their_options():
    partitions = [{"name": "dirichlet", "alpha": 0.1}, {"name": "dirichlet", "alpha": 1.0}, {"name": "iid"}, "shards"]
    labels = [label for label, _ in combinations({"data.partition": partitions})]
    assert labels == [
        "partition=dirichlet,alpha=0.1",
        "partition=dirichlet,alpha=1",
        "partition=iid",
        "partition=shards",
    ]
    mixed = [{"name": "dirichlet", "alpha": 0.1}, {"name": "dirichlet", "alpha": 0.1, "per_label": True}]
    labels = [label for label, _ in combinations({"data.partition": mixed})]
    assert labels == [
        "partition=dirichlet",
        "partition=dirichlet,per_label=True",
    ]


@pytest.mark.parametrize("count", [0, -1, 2.5, True, "3"])
def test_a_range_has_at_least_one_value(count):
    with pytest.raises(InputError, match=r"sweep\.cohort\.count must be a whole number ≥ 1"):
        read_sweep({"cohort": {"from": 1, "to": 3, "count": count}})


def test_one_of_several_that_are_no_tables_is_refused():
    with pytest.raises(InputError, match=r"setting must be a list of tables, \[\[setting\]\]"):
        with_assignment({"setting": ["x"]}, "setting.x.cohort=3")
