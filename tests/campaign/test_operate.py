"""The soak of operation tells what became of everybody who was chosen."""

import pytest
from campaign.operate.checks import unaccounted

SOUND = {
    "round": 4,
    "cohort": [3, 1, 7, 5, 9],
    "answered": [3],
    "withdrawn": [1],
    "silent": [7],
    "failed": {"5": "ValueError"},
    "left_out": {"9": "not finite"},
    "late": [2],
}


def test_ends_of_all_members_add_up():
    assert list(unaccounted([SOUND, {"round": 5, "cohort": [1, 2], "answered": None}])) == []


@pytest.mark.parametrize("end", ["withdrawn", "silent", "failed", "left_out"])
def test_a_member_without_an_end_is_a_fault(end):
    record = {key: value for key, value in SOUND.items() if key != end}
    (fault,) = unaccounted([record])
    assert "round 4" in fault


def test_a_member_with_two_ends_is_a_fault():
    (fault,) = unaccounted([{**SOUND, "standby": [3]}])
    assert fault.endswith("[1, 3, 3, 5, 7, 9]")
