"""A study's until: runs end by their cost, are resumed, audited and compared."""

import io
import itertools
import re
import tomllib
from contextlib import contextmanager

import pytest
from rich.console import Console
from tests.studies.tables import small

import sortition
from sortition.core import cost
from sortition.core.cost import Until, cumulative_costs, last_costs
from sortition.core.errors import InputError, StorageError
from sortition.results import run_folder
from sortition.simulation import foresight
from sortition.studies import build_federation
from sortition.studies.audit.audit_run import examine
from sortition.studies.estimate import estimate_runs
from sortition.studies.plan import plan
from sortition.studies.runs import progress, runner

SLOW = {"speed": 20.0, "speed_spread": 1.0}
UNIFORM = [{"name": "uniform"}]
PYTHON_OPTIONS = {"data": "digits", "clients": 12, "cohort": 3, "model": "softmax", "local": {"steps": 3, "lr": 0.1}}
LIMITS = [{"seconds": 60.0}, {"megabytes": 0.2}, {"passes": 3000.0}]
PACES = {
    "rounds": {},
    "late": {"quorum": 0.5, "late": "use"},
    "buffered": {"kind": "buffered", "concurrency": 5, "buffer": 2},
}


def until_study(**changes):
    """A small study whose rounds are not limited, on devices that differ."""
    table = small(devices=SLOW, **changes)
    if "rounds" not in changes:
        del table["rounds"]
    return table


def records_of(folder):
    return {
        f"{run.method}/{run.seed}": (run.path / run_folder.ROUNDS).read_bytes()
        for run in sorted(run_folder.find(folder), key=lambda run: str(run.path))
    }


def play(table, folder, **options):
    execution = runner.execute(plan(table), folder, jobs=1, resume=True, **options)
    assert not execution.failed
    return run_folder.find(folder)


def test_the_limit_is_one_number_in_one_currency():
    (run,) = plan(until_study(until={"seconds": 12}, method=UNIFORM, seeds=1)).runs
    assert run.until == Until(seconds=12.0)
    assert run.rounds is None
    assert run.most_rounds == cost.MOST_ROUNDS
    assert run.table()["until"] == {"seconds": 12.0}
    assert "rounds" not in run.table()


def test_without_a_limit_nothing_of_it_is_written():
    (run,) = plan(small(method=UNIFORM, seeds=1)).runs
    assert "until" not in run.table()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, r"rounds must be given, or until = { seconds = … }; got nothing\."),
        (
            {"until": {}},
            r"until must name exactly one of seconds, megabytes or passes; got none\. Write",
        ),
        ({"until": {"seconds": 1, "passes": 2}}, r"until must name exactly one of .*; got seconds and passes"),
        ({"until": {"seconds": 0}}, r"until\.seconds must be finite and > 0; got 0"),
        ({"until": {"seconds": float("inf")}}, r"until\.seconds must be finite and > 0; got inf"),
        ({"until": {"second": 3}}, r"Unknown key 'second'.*Did you mean 'seconds'"),
        ({"until": {"rounds": 3}}, r"Unknown key 'rounds'"),
        (
            {"until": {"seconds": 3}, "method": [{"name": "centralised"}]},
            r"rounds must be given beside until where centralised is a method; got None\.",
        ),
    ],
)
def test_a_mistake_is_one_sentence(table, message):
    with pytest.raises(InputError, match=message):
        plan(until_study(**table))


@pytest.mark.parametrize("limits", LIMITS, ids=lambda limits: next(iter(limits)))
@pytest.mark.parametrize("pace", PACES)
def test_the_first_step_that_reaches_the_limit_is_the_last(pace, limits, tmp_path):
    runs = play(until_study(until=limits, pace=PACES[pace], evaluate_every=1000), tmp_path)
    assert len(runs) == 4
    until = Until(**limits)
    for run in runs:
        spent = cumulative_costs(run.records)[until.currency]
        assert spent[-1] >= until.limit
        assert spent.size > 1
        assert spent[-2] < until.limit
        assert run.summary["rounds"] == spent.size
        assert [("test" in record) for record in run.records] == [False] * (spent.size - 1) + [True]
        finding = examine(run)
        assert finding.verdict == "holds", (finding.faults, finding.remarks)
        assert run.federation()["availability"].shape == (spent.size, 12)


@pytest.mark.parametrize("pace", PACES)
def test_a_stopped_run_goes_on_to_the_same_bytes(pace, tmp_path):
    table = until_study(until={"seconds": 40.0}, pace=PACES[pace])
    play(table, tmp_path / "whole")
    stopping = itertools.cycle([False] * 5 + [True])
    for run in plan(table).runs:
        path = runner.place(tmp_path / "parts", run)
        task = runner.OneRun(config=run, path=path)
        path.mkdir(parents=True)
        while not task(lambda *_: None, lambda: next(stopping)):
            pass
    assert records_of(tmp_path / "parts") == records_of(tmp_path / "whole")


def test_lock_step_ends_runs_one_by_one(tmp_path):
    table = until_study(until={"seconds": 12.0}, seeds=3)
    play({**table, "lockstep": False}, tmp_path / "alone")
    together = play(table, tmp_path / "together")
    assert len({len(run.records) for run in together}) > 1
    assert records_of(tmp_path / "together") == records_of(tmp_path / "alone")


def test_the_limit_may_grow_and_not_shrink(tmp_path):
    play(until_study(until={"seconds": 12.0}), tmp_path / "grown")
    shorter = records_of(tmp_path / "grown")
    play(until_study(until={"seconds": 30.0}), tmp_path / "grown")
    play(until_study(until={"seconds": 30.0}), tmp_path / "whole")
    assert records_of(tmp_path / "grown") == records_of(tmp_path / "whole") != shorter
    with pytest.raises(StorageError, match=r"until\.seconds was 30\.0"):
        play(until_study(until={"seconds": 20.0}), tmp_path / "grown")
    with pytest.raises(StorageError, match=r"of another configuration"):
        play(until_study(until={"passes": 1e6}), tmp_path / "grown")


def test_rounds_beside_it_are_the_most_and_the_horizon(tmp_path):
    runs = play(until_study(until={"seconds": 1e6}, rounds=3), tmp_path)
    assert [len(run.records) for run in runs] == [3] * 4
    assert '"horizon":3' in (runs[0].path / run_folder.AUDIT).read_text().splitlines()[0]
    for run in runs:
        assert examine(run).verdict == "holds"
    result = sortition.study(until_study(until={"seconds": 1e6}, rounds=3), out=tmp_path, progress=False)
    assert "main, uniform: 2 runs ended before 1,000,000 seconds, after at most 3 rounds." in result.notes


def test_without_rounds_there_is_no_horizon_and_it_is_noted(tmp_path):
    runs = play(until_study(until={"passes": 2000}, method=[{"name": "hics"}], seeds=1), tmp_path)
    note = "Runs end at 2,000 passes, at the latest after 100,000 rounds: methods know no horizon."
    assert note in runs[0].manifest["notes"]
    assert runs[0].records[-1]["notes"]["horizon"] == "none: gamma stays"


def test_a_limit_that_is_never_reached_ends_after_the_most_rounds(tmp_path, monkeypatch):
    for module in ("core.cost", "studies.config", "simulation.setup"):
        monkeypatch.setattr(f"sortition.{module}.MOST_ROUNDS", 4)
    table = until_study(until={"seconds": 1e5}, method=UNIFORM, seeds=1)
    result = sortition.study(table, out=tmp_path, progress=False)
    assert "main, uniform: 1 run ended before 100,000 seconds, after at most 4 rounds." in result.notes


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize(
    "limits", [{"seconds": 1e9}, {"megabytes": 1e9}, {"passes": 1e12}], ids=lambda x: next(iter(x))
)
def test_a_limit_out_of_reach_is_refused_before_anything_runs(limits, pace, tmp_path):
    table = until_study(until=limits, pace=PACES[pace], method=UNIFORM, seeds=1)
    message = (
        r"until must be within reach in 100,000 rounds, .* It takes about [\d,]+ rounds\. Lower it, or give rounds"
    )
    with pytest.raises(InputError, match=message):
        play(table, tmp_path)
    assert run_folder.find(tmp_path) == []
    with pytest.raises(InputError, match=message):
        next(iter(sortition.simulate("uniform", until=limits, **PYTHON_OPTIONS)))
    assert len(play({**table, "rounds": 2}, tmp_path)[0].records) == 2


class Said(progress.Lines):
    """Remembers what is said, and how many runs had been announced by then."""

    def __init__(self):
        super().__init__(Console(file=io.StringIO()))
        self.texts = []

    @contextmanager
    def watching(self, runs, done):
        self.texts.append("runs")
        with super().watching(runs, done):
            yield

    def say(self, text):
        self.texts.append(text)


def said_before(table, folder):
    said = Said()
    play(table, folder, progress=said)
    return said.texts[: said.texts.index("runs")]


def test_how_many_rounds_a_limit_takes_is_said_before_a_run(tmp_path):
    table = until_study(until={"seconds": 1e6}, method=[*UNIFORM, {"name": "full"}], seeds=1, rounds=2)
    (note,) = said_before(table, tmp_path)
    assert re.fullmatch(
        r"note: until: 1,000,000 seconds take about [\d,]+ rounds, by data and devices; a run ends after 2 rounds, "
        r"and may not reach them\.",
        note,
    )
    assert note.removeprefix("note: ") in run_folder.find(tmp_path)[0].manifest["notes"]


def test_a_limit_within_reach_needs_no_note(tmp_path):
    assert said_before(until_study(until={"seconds": 12.0}, method=UNIFORM, seeds=1), tmp_path) == []


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("limits", LIMITS, ids=lambda limits: next(iter(limits)))
def test_the_rounds_that_are_foreseen_are_about_those_that_are_played(limits, pace, tmp_path):
    table = until_study(until=limits, pace=PACES[pace], method=UNIFORM, seeds=1, availability={"name": "always"})
    (run,) = plan(table).runs
    foreseen = foresight.foreseen_rounds(build_federation.setup(run)[1])
    (stored,) = play(table, tmp_path)
    assert 0.5 < foreseen / len(stored.records) < 2


def test_a_run_that_ends_too_early_or_too_late_is_found(tmp_path):
    (run,) = play(until_study(until={"seconds": 12.0}, method=UNIFORM, seeds=1), tmp_path)
    config = (run.path / run_folder.CONFIG).read_text()
    for limit, fault in [("100.0", "100 seconds were not reached by then"), ("6.0", "after 6 seconds were reached")]:
        (run.path / run_folder.CONFIG).write_text(config.replace("seconds = 12.0", f"seconds = {limit}"))
        (finding,) = [examine(stored) for stored in run_folder.find(tmp_path)]
        assert any(fault in text for text in finding.faults), finding.faults


def test_python_gives_the_same_limit(tmp_path):
    options = PYTHON_OPTIONS
    steps = list(sortition.simulate("uniform", until={"passes": 1000}, **options))
    spent = cumulative_costs([step.record for step in steps])["passes"]
    assert spent[-1] >= 1000 > spent[-2]
    result = sortition.compare(
        ["uniform"], until=Until(passes=1000), seeds=1, out=tmp_path, jobs=1, progress=False, **options
    )
    assert [record["cohort"] for record in result.runs[0].records] == [step.record["cohort"] for step in steps]
    table = tomllib.loads((result.runs[0].path / run_folder.CONFIG).read_text())
    assert table["until"] == {"passes": 1000.0}
    shared = {key: value for key, value in table.items() if key not in ("setting", "seed", "method")}
    study = {**shared, "method": UNIFORM, "seeds": 1}
    again = sortition.study(study, until={"passes": 1400}, jobs=1, progress=False, out=tmp_path / "again")
    assert last_costs(again.runs[0].records)["passes"] >= 1400


def test_an_estimate_knows_how_many_rounds_the_limit_allows():
    (estimate,) = estimate_runs(plan(until_study(until={"passes": 720}, method=UNIFORM, seeds=1)).runs)
    assert 5 <= estimate.rounds <= 40
