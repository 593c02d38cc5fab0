import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from sortition.studies.runs.run_task import in_one_thread


def threads() -> set[int]:
    """Of every pool that numpy, scipy and PyTorch compute with."""
    return {torch.get_num_threads(), *(pool["num_threads"] for pool in threadpool_info())}


def test_a_run_computes_in_one_thread_and_gives_the_others_back():
    own = torch.get_num_threads()
    with threadpool_limits(2):
        torch.set_num_threads(2)
        before = threads()
        with in_one_thread():
            assert threads() == {1}
        assert threads() == before
        with pytest.raises(KeyError), in_one_thread():
            raise KeyError
        assert threads() == before
        assert 2 in before
    torch.set_num_threads(own)
