"""Plain lines where there is no terminal, and how far runs are that end by their cost."""

import io
from contextlib import contextmanager
from types import SimpleNamespace

from rich.console import Console
from tests.studies.tables import small

from sortition.studies.plan import plan
from sortition.studies.runs import progress, runner
from sortition.studies.workers import scheduler
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


class Shares:
    """Remembers what progress is told of a run."""

    def __init__(self):
        self.events = []

    @contextmanager
    def watching(self, runs, done):
        yield

    def update(self, event):
        self.events.append(event)


def test_runs_that_end_by_their_cost_show_their_share_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr(scheduler, "SECONDS_PER_TICK", 0.0)
    table = small(devices={"speed": 20.0, "speed_spread": 1.0}, until={"seconds": 60.0}, method=[{"name": "uniform"}])
    del table["rounds"]
    study = plan(table)
    shares = Shares()
    runner.execute(study, tmp_path, jobs=1, progress=shares)
    told = [event.share for event in shares.events if event.kind == "tick" and event.index == 0]
    assert told == sorted(told)
    assert 0 < told[0] < 1
    assert told[-1] == 1.0
    run = study.runs[0]
    halfway = Event("tick", 0, round=7, value=0.5, share=0.5)

    lines = progress.Lines(Console(file=(shown := io.StringIO()), width=120))
    monkeypatch.setattr(progress, "SECONDS_PER_LINE", -1.0)
    with lines.watching([run], done=0):
        lines.update(halfway)
    assert "round 7, 50 % of 60 seconds" in shown.getvalue()

    bars = progress.Bars(Console(file=io.StringIO(), force_terminal=True))
    with bars.watching([run, run], done=0):
        bars.update(Event("started", 0))
        bars.update(halfway)
        all_runs, first_run = bars.bars.tasks
        assert first_run.percentage == 50.0
        assert all_runs.percentage == 25.0
        bars.update(Event("done", 0))
        assert all_runs.percentage == 50.0
