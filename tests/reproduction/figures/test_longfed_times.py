from __future__ import annotations

from sortition.reproduction.context import Context
from sortition.reproduction.figures import longfed_times


def test_time_is_that_of_one_call():
    calls = []
    clock = iter([0.0, 10.0, 20.0, 24.0])
    original = longfed_times.time.process_time
    longfed_times.time.process_time = lambda: next(clock)
    try:
        assert longfed_times.milliseconds(lambda: calls.append(1), repeats=2, calls=4) == 1000.0  # 4 s over 4 calls
    finally:
        longfed_times.time.process_time = original
    assert len(calls) == 8


def test_every_pair_takes_longer_than_the_selected_ones(tmp_path):
    context = Context("try", tmp_path, None, None, None)
    text = longfed_times.bare_operations(context, clients=60, cohort=5, parameters=2000, repeats=3)
    milliseconds = {}
    for line in text.splitlines():
        if line.startswith(("| all", "| K")):
            name, value = line.strip("|").split("|")
            milliseconds[name.strip()] = float(value)
    assert milliseconds["all N, pair by pair"] > milliseconds["K selected, pair by pair"]
    assert text.count("Powerd") == 2
