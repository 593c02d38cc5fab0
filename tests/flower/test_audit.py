"""The audit log of a Flower federation: kept round by round, revealed at the end, recomputed by anybody."""

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")

from tests.flower.test_guards import play, strategy

from sortition.core import Guards
from sortition.studies.audit.audit_run import examine_log


def audited(path, rounds=4):
    made = strategy(8, Guards(explore=0.4), audit=path)
    for t in range(rounds):
        play(made, lambda client, t=t: None if client == t else [1.0, client])
    made.files.log_file.reveal()
    return made


def test_a_federations_choices_are_recounted_from_its_log(tmp_path):
    path = tmp_path / "audit.jsonl"
    audited(path)
    found = examine_log(path)
    assert (found.faults, found.unchecked_because, found.n_recomputed) == ([], "", 4)


def test_the_seed_is_hidden_until_the_end_and_a_changed_choice_is_found(tmp_path):
    path = tmp_path / "audit.jsonl"
    made = audited(path)
    assert made.files.log_file.salt.hex() not in path.read_text()
    lines = path.read_text().splitlines(keepends=True)
    lines[2] = lines[2].replace('"budget":3', '"budget":4')
    path.write_text("".join(lines))
    assert "Line 3 was altered" in examine_log(path).faults[0]
