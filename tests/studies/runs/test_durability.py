"""Wherever a write fails or a process dies, the run stops with a sentence and resumes to the same bytes."""

import errno
import os
from contextlib import suppress
from pathlib import Path

import pytest
from tests.studies.tables import small

from sortition.core import StorageError
from sortition.core.storage import journal, snapshot
from sortition.results import run_folder
from sortition.studies.plan import plan
from sortition.studies.runs import one_run, runner, write_folder
from sortition.studies.runs.run_task import OneRun
from sortition.studies.runs.runner import place

FILES = (
    run_folder.ROUNDS,
    run_folder.AUDIT,
    run_folder.CONFIG,
    run_folder.MANIFEST,
    run_folder.SUMMARY,
    run_folder.FEDERATION,
)


class Dies(BaseException):
    """The process is gone: nothing is caught, nothing tidied."""


class Fails:
    """Stands for a system call that fails at its n-th use."""

    def __init__(self, real, at, error):
        self.real, self.at, self.error, self.count = real, at, error, 0

    def __call__(self, *given, **named):
        self.count += 1
        if self.count - 1 == self.at:
            if self.real is journal.write_all:  # half of it is written
                self.real(given[0], given[1][: len(given[1]) // 2])
            raise self.error
        return self.real(*given, **named)


def patched(monkeypatch, what, at, error):
    real = {"write": journal.write_all, "fsync": os.fsync, "rename": Path.replace}[what]
    fails = Fails(real, at, error)
    if what == "write":
        monkeypatch.setattr(journal, "write_all", fails)
        monkeypatch.setattr(snapshot, "write_all", fails)
    elif what == "fsync":
        monkeypatch.setattr(os, "fsync", fails)
    else:
        monkeypatch.setattr(Path, "replace", lambda *given: fails(*given))
    return fails


@pytest.fixture(scope="module")
def run():
    return plan(small(seeds=1, rounds=2, method=[{"name": "power-of-choice", "d": 6}])).runs[0]


def played(run, out):
    path = place(out, run)
    OneRun(run, path)(lambda *_: None, lambda: False)
    return {name: (path / name).read_bytes() for name in FILES}


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(("what", "error"), [("write", FULL), ("write", Dies()), ("fsync", FULL), ("rename", Dies())])
def test_every_write_can_fail(run, tmp_path, monkeypatch, what, error):
    monkeypatch.setattr(one_run, "CHECKPOINT_SECONDS", 0.0)  # after every round
    whole = played(run, tmp_path / "whole")
    at = 0
    while True:
        with monkeypatch.context() as patch:
            fails = patched(patch, what, at, error)
            out = tmp_path / f"{what}-{at}"
            try:
                played(run, out)
            except StorageError as told:
                assert "could not be written: No space left on device" in str(told)  # noqa: PT017
            except Dies:
                pass
            else:
                break  # all of them were tried
        assert fails.count > at
        assert played(run, out) == whole, f"{what} {at}"
        assert not list(place(out, run).glob(".*.tmp"))
        at += 1
    assert at >= 7  # config, manifest, federation, a checkpoint a round, clients, summary


def test_a_read_only_folder_is_a_sentence(run, tmp_path, monkeypatch):
    def refused(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(write_folder.os, "open", refused)
        with pytest.raises(StorageError, match="must be a folder that can be written; got Read-only file system"):
            played(run, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", refused)
        with pytest.raises(StorageError, match="could not be written: Read-only file system"):
            snapshot.write_atomically(tmp_path / "new" / "file", b"")


def test_a_second_process_is_refused(run, tmp_path):
    with write_folder.locked(place(tmp_path, run)), pytest.raises(StorageError, match="in use by another runner"):
        played(run, tmp_path)


@pytest.mark.parametrize("name", [run_folder.ROUNDS, run_folder.AUDIT, run_folder.TIMINGS, write_folder.LOCK])
def test_links_are_not_written_through(run, tmp_path, name):
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    path = place(tmp_path / "out", run)
    path.mkdir(parents=True)
    (path / name).symlink_to(victim)
    with pytest.raises(StorageError):
        played(run, tmp_path / "out")
    assert victim.read_text() == "mine\n"


@pytest.mark.parametrize("name", [run_folder.CONFIG, run_folder.MANIFEST, run_folder.CHECKPOINT, run_folder.SUMMARY])
def test_links_are_replaced_by_files(run, tmp_path, name):
    victim = tmp_path / "victim"
    victim.write_text("{}")
    path = place(tmp_path / "out", run)
    path.mkdir(parents=True)
    (path / name).symlink_to(victim)
    with suppress(StorageError):  # what it leads to is no such file
        played(run, tmp_path / "out")
    assert victim.read_text() == "{}"


def test_a_run_folder_that_leads_elsewhere_is_refused(run, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / run.setting).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="got a link to"):
        runner.execute(plan(small(seeds=1)), tmp_path / "out", jobs=1)
    assert not list((tmp_path / "elsewhere").iterdir())
