"""Plain lines where there is no terminal."""

import io
from types import SimpleNamespace

from rich.console import Console

from sortition.studies.runs import progress
from sortition.studies.workers.scheduler import Event

RUNS = [
    SimpleNamespace(
        setting="main",
        seed=seed,
        rounds=9,
        method=SimpleNamespace(label="fedgs"),
        metric="accuracy",
        target=None,
        stop_at_target=False,
    )
    for seed in range(50)
]


def test_a_line_names_three_running_runs_and_counts_the_others(monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_PER_LINE", -1.0)
    lines = progress.Lines(Console(file=(shown := io.StringIO()), width=80))
    with lines.watching(RUNS, done=0):
        for index in range(50):
            lines.update(Event("tick", index, round=4, value=0.5))
    printed = shown.getvalue().splitlines()
    assert printed[1] == "main/fedgs seed 0 round 4/9 accuracy 0.500"
    assert printed[-1].endswith("main/fedgs seed 2 round 4/9 accuracy 0.500; and 47 more")
    assert max(map(len, printed)) < 160
