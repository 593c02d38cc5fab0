from __future__ import annotations

import pytest

from sortition.core import InputError
from sortition.leaderboard.entries import chosen_entries, default_entries
from sortition.selectors import discover
from sortition.studies.overlay import label_of


def test_all_methods_and_what_microcosm_is_with_less_knowledge():
    labels = [label_of(one) for one in default_entries()]
    assert labels[0] == "uniform"
    assert set(discover()) <= set(labels)
    assert {"microcosm-updates", "microcosm-sizes"} <= set(labels)
    assert len(set(labels)) == len(labels)


def test_a_method_joins_with_one_line_and_the_baseline_with_it():
    found = chosen_entries(["fedgs,alpha=2.0", "microcosm-sizes", "mine.module:Mine"])
    assert [label_of(one) for one in found] == ["uniform", "fedgs,alpha=2.0", "microcosm-sizes", "Mine"]
    assert found[1]["alpha"] == 2.0
    assert found[2]["by"] == "sizes"
    with pytest.raises(InputError):
        chosen_entries(["fedgs,alpha"])
