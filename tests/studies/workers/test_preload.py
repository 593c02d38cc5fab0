"""The fork server has PyTorch and the data before it forks; without a wish it reads none, a wrong one is no error."""

import json
import os
import subprocess
import sys

import pytest
from tests.studies.tables import small

from sortition.studies.plan import plan
from sortition.studies.workers.local import PRELOADED, preloading

CODE = (
    "import sys; import sortition.studies.workers.preload; from sortition.studies import build_federation;"
    "print('torch' in sys.modules, len(build_federation._datasets._values))"
)
DIGITS = json.dumps({"name": "digits", "clients": 12, "partition": "iid"})


@pytest.mark.parametrize(("data", "held"), [(None, 0), (DIGITS, 1), ('{"name": "nowhere"}', 0), ("no table", 0)])
def test_what_a_fork_server_holds(data, held):
    environment = {**os.environ, **({} if data is None else {PRELOADED: data})}
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", str(held)]


def test_the_wish_is_the_data_of_the_first_run_and_passes():
    run = plan(small()).runs[0]
    with preloading(run.data):
        assert json.loads(os.environ[PRELOADED])["name"] == run.data.name
    assert PRELOADED not in os.environ
    with preloading(None):
        assert PRELOADED not in os.environ
