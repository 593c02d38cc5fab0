"""How many processes play the runs of Python code, and what a person sees of it."""

import io
import subprocess
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console

import sortition as so
from sortition.cli.shared_options import Jobs
from sortition.core.errors import InputError
from sortition.studies.from_python import compare, study
from sortition.studies.runs import progress
from sortition.studies.workers.scheduler import Event

SCRIPT = """
import sortition as so
from sortition import Cohort, Selector, State, method

print("began")
result = so.compare({methods}, data="digits", clients=6, rounds=2, cohort=2, seeds=2, model="softmax", lockstep=False)
print(len(result.runs), "runs")
"""
OWN = """

@method
class Mine(Selector[State]):
    def select(self, state, round):
        return Cohort.uniform(round.available[: round.budget])
"""


def played(tmp_path, text):
    """Standard output and standard error of a script that is run as a person would."""
    (tmp_path / "script.py").write_text(text)
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines(), done.stderr.splitlines()


def test_a_script_without_a_guard_is_not_run_again_by_its_processes_and_its_log_shows_the_runs(tmp_path):
    out, log = played(tmp_path, SCRIPT.format(methods='["uniform", "by-size"]'))
    assert out == ["began", "4 runs"]
    assert log[0] == "4 runs to play"
    assert [line.partition(",")[0] for line in log[1:]] == ["[1/4", "[2/4", "[3/4", "[4/4"]


def test_a_class_of_the_script_is_played_in_its_process_which_is_said_at_once(tmp_path):
    before, after = SCRIPT.split("\nprint", 1)
    text = before + OWN + "\nprint" + after.format(methods='["uniform", Mine]')
    out, log = played(tmp_path, text)
    assert out == ["began", "4 runs"]
    said = "All runs are played in this process, since an object cannot be sent to another process: "
    assert log[0] == said + "method Mine: it is defined in a script or notebook."
    assert log[1] == "4 runs to play"


def test_python_and_the_command_line_take_all_cores_by_default():
    assert compare.__kwdefaults__["jobs"] is study.__kwdefaults__["jobs"] is None
    assert next(option.show_default for option in Jobs.__metadata__) == "all cores"


class Seen(so.Callback):
    """Remembers the rounds that it saw, in this process."""

    def __init__(self):
        self.rounds = 0

    def on_round(self, config, record):
        self.rounds += 1


def test_a_callback_of_ones_own_sees_the_runs_in_this_process():
    seen = Seen()
    so.compare(
        ["uniform"], data="digits", clients=6, rounds=2, cohort=2, seeds=2, model="softmax", callbacks=[seen],
        progress=False,
    )  # fmt: skip
    assert seen.rounds == 4


def test_a_device_that_torch_cannot_use_is_told_what_torch_this_is(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(InputError, match=r"one of cpu; got .cuda:7.. This is torch .* built without CUDA"):
        so.run("uniform", data="digits", clients=6, rounds=1, cohort=2, model="softmax", device="cuda:7")


class Notebook:
    """What IPython.display offers, with the cells that it shows."""

    def __init__(self):
        self.cells = []

    def HTML(self, text):
        return text

    def display(self, content, display_id=None):
        self.cells.append([content])
        return SimpleNamespace(update=self.cells[-1].append)


def test_a_notebook_gets_one_bar_for_all_runs(monkeypatch):
    notebook = Notebook()
    monkeypatch.setitem(sys.modules, "IPython.display", notebook)
    monkeypatch.setattr(progress, "Console", lambda stderr: Console(force_jupyter=True))
    bar = progress.automatic(True)
    runs = [SimpleNamespace(rounds=10), SimpleNamespace(rounds=10)]
    with bar.watching(runs, 0):
        for event in (Event("started", 0), Event("tick", 0, 5), Event("done", 0), Event("failed", 1, text="why")):
            bar.update(event)
    (cell,) = notebook.cells
    assert "0/2 runs, 0 %" in cell[0]
    assert "1/2 runs, 50 %" in cell[-3]
    assert cell[-1] == "<div>1 of 2 runs played in 0 s, 1 failed</div>"


def test_where_there_is_no_terminal_lines_are_printed(monkeypatch):
    monkeypatch.setattr(progress, "Console", lambda stderr: Console(file=io.StringIO()))
    assert isinstance(progress.automatic(True), progress.Lines)
    assert isinstance(progress.automatic(False), progress.Quiet)
