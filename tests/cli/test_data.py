from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sortition.cli import main
from sortition.data.partitions import Partition


def run(*words: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["sortition", "data", *words])
    with pytest.raises(SystemExit) as left:
        main()
    return int(left.value.code or 0)


def test_list_names_everything(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", monkeypatch=monkeypatch) == 0
    told = capsys.readouterr().out
    for name in ("fashion-mnist", "cifar100", "dirichlet-qp", "natural", "sine-lognormal"):
        assert name in told
    assert max(map(len, told.splitlines())) <= 80


def test_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SORTITION_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_DIRS", str(tmp_path / "share"))
    assert run("where", monkeypatch=monkeypatch) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path)
    assert run("where", "mnist", monkeypatch=monkeypatch) == 0
    assert "mnist is not in" in capsys.readouterr().out


def test_what_is_fetched_is_shown_as_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def get(name: str, report: Callable[[str], None], refresh: bool) -> Path:
        report(f"{tmp_path}/[/mnist] is damaged")  # as markup this is an error
        return tmp_path

    monkeypatch.setenv("FORCE_COLOR", "1")  # a terminal
    monkeypatch.setattr("sortition.data.get", get)
    assert run("get", "mnist", monkeypatch=monkeypatch) == 0


def test_describe_saves_and_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["describe", "digits", "--partition", "labels", "--set", "per_client=1", "--clients", "20"]
    files = ["--save", str(tmp_path / "p.npz"), "--plot", str(tmp_path / "p.svg")]
    assert run(*words, *files, monkeypatch=monkeypatch) == 0
    assert "labels per client               1 … 1, median 1" in capsys.readouterr().out
    assert len(Partition.load(tmp_path / "p.npz")) == 20
    assert (tmp_path / "p.svg").read_text().startswith("<svg")


def test_options_of_the_data_are_given_as_in_a_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{'ab'[at % 2]},{at % 3},{at}" for at in range(30)]
    (tmp_path / "visits.csv").write_text("\n".join(["ward,outcome,pulse", *rows]))
    monkeypatch.chdir(tmp_path)
    options = ["--set", "data.client=ward", "--set", "data.label=outcome"]
    assert run("describe", "visits.csv", *options, monkeypatch=monkeypatch) == 0
    assert "clients                         2\n" in capsys.readouterr().out
    assert run("availability", "always", "--data", "visits.csv", *options, monkeypatch=monkeypatch) == 0
    assert "mean 2.0 of 2" in capsys.readouterr().out
    assert run("describe", "visits.csv", monkeypatch=monkeypatch) == 2
    assert "visits.csv must be given the options client, label; got none." in capsys.readouterr().err


def test_availability_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("availability", "YC", "--rounds", "20", "--plot", str(tmp_path / "a.svg"), monkeypatch=monkeypatch) == 0
    assert "reachable per round" in capsys.readouterr().out
    assert (tmp_path / "a.svg").stat().st_size > 1000


STUDY = """
rounds = 5
cohort = 4
data = { name = "digits", clients = 30, partition = { name = "dirichlet", alpha = 0.3 } }
model = { name = "softmax" }
local = { lr = 0.1, epochs = 1, batch = 16 }
devices = { speed = 20.0, speed_spread = 1.0, slow = "high labels" }
pace = { deadline = 2.0 }
[[method]]
name = "uniform"
"""


def test_devices_of_a_study_are_shown_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study = tmp_path / "phones.toml"
    study.write_text(STUDY)
    assert run("devices", str(study), "--plot", str(tmp_path / "d.svg"), monkeypatch=monkeypatch) == 0
    told = capsys.readouterr().out
    assert "phones, main, seed 0: 30 devices" in told
    assert 'Rank correlation of slowness with "high labels": 1.00.' in told
    assert "of 30 clients train within the deadline of 2 s." in told
    assert (tmp_path / "d.svg").read_text().startswith("<svg")
    assert run("devices", str(study), "--setting", "mian", monkeypatch=monkeypatch) == 2
    assert "Did you mean 'main'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["get", "cifra10"], "Did you mean 'cifar10'?"),
        (["describe", "digits", "--set", "per_cleint=2"], "Did you mean 'per_client'?"),
        (["describe", "digits", "--set", "data=1"], "--set data must be given as data.key=value"),
        (["describe", "digits", "--clients", "9999"], "partition.clients must be at most 1438"),
        (["availability", "lognormal", "--set", "beta=2"], "availability lognormal.beta must be < 1"),
        (["availability", "LN", "--rounds", "0"], "--rounds must be ≥ 1"),
        (["where", "nowhere"], "Unknown data set 'nowhere'"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    words: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words, monkeypatch=monkeypatch) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1
