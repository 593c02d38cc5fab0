"""A study's [pace]: read, refused, run, resumed and audited."""

import tomllib

import pytest
from rich.console import Console
from tests.studies.tables import small

from sortition.core.errors import InputError
from sortition.federation.pace import Pace, Quantile
from sortition.federation.staleness import Staleness
from sortition.results import run_folder
from sortition.studies.audit.audit_run import examine
from sortition.studies.plan import plan
from sortition.studies.runs import progress, runner

SLOW = {"speed": 20.0, "speed_spread": 1.0}
PACES = {
    "late": {"quorum": 0.5, "late": "use", "staleness": "saa"},
    "buffered": {"kind": "buffered", "concurrency": 5, "buffer": 2},
    "arrival": {"kind": "buffered", "concurrency": 5, "buffer": 2, "refill": "arrival"},
}


def test_the_table_is_the_setting():
    table = 'late = "use"\nquorum = 0.8\ndeadline = { quantile = 0.9 }\nstaleness = { name = "hinge", b = 2.0 }'
    (run,) = plan(small(pace=tomllib.loads(table), method=[{"name": "uniform"}], seeds=1)).runs
    rule = Staleness("hinge", b=2.0)
    assert run.pace == Pace(late="use", quorum=0.8, deadline=Quantile(0.9), staleness=rule)
    assert run.table()["pace"] == tomllib.loads(table)
    (plain,) = plan(small(method=[{"name": "uniform"}], seeds=1)).runs
    assert "pace" not in plain.table()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"devices": {"deadline": 3.0}},
            r"devices\.deadline must be left out; got 3\.0\. Move deadline to \[pace\]: the server decides how long",
        ),
        (
            {"devices": {"overselect": 1.5}},
            r"devices\.overselect must be left out; got 1\.5\. Move overselect to \[pace\]: .* how many clients",
        ),
        ({"devices": {"deadline": {"quantile": 0.8}}}, r"Move deadline to \[pace\]: [^{}]*$"),
        ({"pace": {"buffers": 3}}, r"Unknown key 'buffers'; .*pace has .*Did you mean 'buffer'\?"),
        ({"pace": {"kind": "buffered"}}, r"pace\.buffer must be given"),
        ({"pace": {"staleness": {"rule": "saa"}}}, r"Unknown key 'rule'; pace\.staleness has name, exponent"),
        ({"pace": {"deadline": {"quantil": 0.8}}}, r"Unknown key 'quantil'; pace\.deadline has quantile\."),
        ({"pace": {"deadline": {"quantile": 3}}}, r"pace\.deadline\.quantile must be a share in \(0, 1\]; got 3\."),
        ({"pace": {"deadline": "1"}}, r"pace\.deadline must be seconds > 0"),
        ({"pace": {"quorum": True}}, r"pace\.quorum must be a share in \(0, 1\], .* got True\."),
        ({"pace": {"staleness": "saa"}}, r"pace\.staleness must be left out where late = 'drop'"),
    ],
)
def test_a_mistake_is_one_sentence(table, message):
    with pytest.raises(InputError, match=message):
        plan(small(**table))


def test_whole_seconds_are_the_same_setting():
    whole = Pace.of({"overselect": 1, "deadline": 3, "memory_limit": 4}, "study")
    assert whole.changed() == {"deadline": 3.0}
    assert str(whole.deadline) == "3.0"  # as the run's file has it


def test_what_does_not_fit_is_refused_before_anything_runs(tmp_path):
    made = plan(small(pace={"quorum": 99}, method=[{"name": "uniform"}], seeds=1))
    with pytest.raises(InputError, match=r"pace\.quorum must be at most the cohort, 3; got 99\."):
        runner.execute(made, tmp_path, jobs=1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"pace": {"deadline": 3.0}}, "deadline"),
        ({"pace": {"quorum": 0.5, "late": "use"}}, "quorum"),
        ({"pace": {"deadline": 3.0, "quorum": 0.5}}, "deadline and quorum"),
        ({"pace": PACES["buffered"]}, "kind = 'buffered'"),
        ({"pace": {"quorum": 0.5}, "devices": SLOW}, None),
        ({"pace": {"quorum": 0.5}, "devices": {"jitter": 0.5}}, None),
        ({"pace": {"quorum": 0.5}, "devices": {"dropout": 0.1}}, None),
        ({"pace": {"quorum": 0.5}, "faults": {"during": 0.1}}, None),
        ({"pace": {"quorum": 0.5}, "local": {"epochs": 1, "batch": 8, "lr": 0.1}}, None),  # clients' data differ
        ({}, None),
    ],
)
def test_a_pace_without_an_effect_is_noted_before_a_run(changes, words, tmp_path, capsys):
    table = small(**{"method": [{"name": "uniform"}], "seeds": 1, "rounds": 1, **changes})
    display = progress.Lines(Console())
    runner.execute(plan(table), tmp_path, jobs=1, progress=display)
    notes_before_runs = capsys.readouterr().out.partition("1 run to play")[0]
    if words is None:
        assert "pace:" not in notes_before_runs
        return
    note = (
        f"pace: {words} are for clients that take different times, and here every training takes 0.024 s. "
        "Give devices a speed_spread, a table or a trace."
    )
    assert f"note: {note}\n" in notes_before_runs
    assert note in run_folder.find(tmp_path)[0].manifest["notes"]


@pytest.mark.parametrize("name", PACES)
def test_runs_are_played_resumed_and_audited(name, tmp_path):
    table = small(devices=SLOW, pace=PACES[name], method=[{"name": "uniform"}, {"name": "power-of-choice"}], seeds=1)
    assert not runner.execute(plan({**table, "rounds": 4}), tmp_path / "parts", jobs=1, resume=True).failed
    assert not runner.execute(plan({**table, "rounds": 8}), tmp_path / "parts", jobs=1, resume=True).failed
    assert not runner.execute(plan({**table, "rounds": 8}), tmp_path / "whole", jobs=1).failed
    for rounds in sorted((tmp_path / "whole").rglob(run_folder.ROUNDS)):
        twin = tmp_path / "parts" / rounds.relative_to(tmp_path / "whole")
        finding = examine(run_folder.Run(rounds.parent))
        assert (finding.faults, finding.unchecked_because) == ([], "")
        assert rounds.read_bytes() == twin.read_bytes()
