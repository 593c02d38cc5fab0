import pytest
import tomli_w
from tests.experiments.tables import small
from tests.test_cli import call

from sortition.core.errors import InputError, StorageError
from sortition.experiments import records


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audited")
    file = folder / "study.toml"
    file.write_text(tomli_w.dumps(small(seeds=1, devices={"dropout": 0.3})))
    call("run", file, "-o", folder / "runs", "-j", 1, "-q")
    return folder / "runs"


def test_audit_says_that_all_is_well(out):
    output = call("audit", out)
    assert output.count("holds") == 2
    assert "2 logs hold: chains, seeds, records and choices agree." in output


def test_audit_leaves_with_code_1_and_says_where(out, tmp_path):
    import shutil

    shutil.copytree(out, tmp_path / "runs")
    path = records.find(tmp_path / "runs")[0].path / records.AUDIT
    path.write_bytes(path.read_bytes().replace(b'"budget":3', b'"budget":2', 1))
    output = call("audit", tmp_path / "runs", code=1)
    assert "main/uniform/seed-0: Line 2 was altered" in output
    assert "rounds 0 to 5 were not recomputed: the log is broken." in output


def test_why_one_client(out):
    run = records.find(out)[1]
    entry = next(one for one in run.records if one["answered"] is not None)
    chosen, lost = entry["cohort"], set(entry["cohort"]) - set(entry["answered"])
    for client in chosen:
        said = call("why", run.path, "--round", entry["round"], "--client", client)
        assert f"Client {client} was one of {entry['available']} clients available" in said
        assert "It was asked for loss and answered" in said
        assert "It was chosen, as one of" in said
        assert ("It did not complete" in said) == (client in lost)
        assert "Before, it was available in" in said


def test_why_those_who_were_not_chosen(out):
    run = records.find(out)[1]
    there = run.federation()["availability"][2]
    absent = next(k for k in range(12) if not there[k])
    assert f"Client {absent} was not available in round 2" in call("why", run.path, "--round", 2, "--client", absent)
    left = next(k for k in range(12) if there[k] and k not in run.records[2]["cohort"])
    assert "It was not chosen; PowerOfChoice chose" in call("why", run.path, "--round", 2, "--client", left)


def test_why_a_whole_round(out):
    run = records.find(out)[0]
    said = call("why", run.path, "--round", 0)
    assert said.startswith(
        f"Round 0: {run.records[0]['available']} of 12 clients were available; Uniform could take 3."
    )
    assert said.count("was chosen with weight") == len(run.records[0]["cohort"])


def test_unknown_rounds_clients_and_runs_are_sentences(out, tmp_path):
    run = records.find(out)[0]
    with pytest.raises(InputError, match="--round must be 0 to 5, as this log has them; got 99"):
        call("why", run.path, "--round", 99)
    with pytest.raises(InputError, match="--client must be 0 to 11"):
        call("why", run.path, "--round", 1, "--client", 12)
    with pytest.raises(StorageError, match="has no audit log"):
        call("why", tmp_path, "--round", 1)


@pytest.mark.parametrize("command", ["audit", "why"])
def test_help_has_an_example(command):
    assert f"Example: sortition {command}" in call(command, "--help")
