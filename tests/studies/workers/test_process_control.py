import gc

import pytest

from sortition.studies.workers.process_control import uncollected


def _fails():
    with uncollected():
        assert not gc.isenabled()
        raise ZeroDivisionError


@pytest.mark.parametrize("collects", [True, False])
def test_the_collector_is_as_before_also_after_an_error(collects):
    before = gc.isenabled()
    try:
        (gc.enable if collects else gc.disable)()
        with pytest.raises(ZeroDivisionError):
            _fails()
        assert gc.isenabled() == collects
    finally:
        (gc.enable if before else gc.disable)()
