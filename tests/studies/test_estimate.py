"""What a method's traffic is estimated from."""

from __future__ import annotations

import torch

from sortition import load
from sortition.selectors.uniform import Uniform
from sortition.studies.estimate import measure_traffic


def test_a_price_is_computed_in_one_thread_and_leaves_the_process_as_it_was(monkeypatch):
    """On a busy machine, threads that wait for each other took half an hour for a page of the documentation."""
    used = set()
    select = Uniform.select
    monkeypatch.setattr(Uniform, "select", lambda *args: used.add(torch.get_num_threads()) or select(*args))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        measure_traffic(load("uniform"), "softmax", {}, inputs=(4,), classes=2, clients=6, cohort=2, rounds=2)
        assert used == {1}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
