from sortition.results.attrition import count_attrition
from sortition.results.attrition_tables import Attacked, capture_tables, losses_table

FINE = {"cohort": [0, 1], "answered": None}
LOST = {"cohort": [0, 1], "answered": [1], "faults": {"after": [0]}}


def attacked(name, share, guards=None, **config):
    table = {
        "rounds": 3,
        "attacks": {"kind": "loss"},
        "setting": name,
        **({"guards": guards} if guards else {}),
        **config,
    }
    return Attacked(name, table, {"uniform": [{"captured": share, "captured-weight": share / 2}]})


def test_a_table_only_where_something_was_lost():
    assert losses_table("main", {"uniform": [count_attrition([FINE])]}) is None
    table = losses_table(
        "main", {"uniform": [count_attrition([FINE]), count_attrition([LOST])], "full": [count_attrition([FINE])]}
    )
    assert table.columns == ["method", "selected", "started", "completed", "wasted", "upload lost"]
    assert table.rows == [["uniform", "2", "2", "1.5", "0.5", "0.5"], ["full", "2", "2", "2", "0", "0"]]


def test_settings_that_differ_in_guards_alone_share_a_column():
    settings = [attacked("loss", 0.4), attacked("loss, guarded", 0.1, {"norm": 5.0}), attacked("long", 0.3, rounds=9)]
    places, weight = capture_tables(settings)
    assert places.columns == ["method", "loss", "long"]
    assert places.rows == [["uniform", "40 → 10", "30"]]
    assert weight.rows == [["uniform", "20 → 5", "15"]]
    alone = capture_tables([attacked("loss, guarded", 0.1, {"norm": 5.0})])
    assert alone[0].rows == [["uniform", "10"]]


def test_no_table_where_nobody_lies():
    assert capture_tables([Attacked("main", {"rounds": 3}, {"uniform": [{}]})]) == []
