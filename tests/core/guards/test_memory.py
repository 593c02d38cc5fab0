"""What one client sends cannot exhaust the server's memory, also where nobody said how long the model's vectors are."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

from sortition.core import UPDATE, ModelSize, Population, Registrar
from sortition.core.guards.answer_screening import screen
from sortition.core.guards.row_dimensions import TABLE_BYTES
from sortition.selectors import load

N = 2000
METHODS = [
    ("hics", {}),
    ("divfl", {}),
    ("microcosm", {"by": "bias"}),
    ("clustered", {"by": "similarity"}),
]
UNDER_A_LIMIT = """
import resource, sys
import numpy as np
from sortition.core import Population, Registrar
from sortition.selectors import load

name, parameters, n = {name!r}, {parameters!r}, {n}
population = Population(np.full(n, 10), label_counts=np.ones((n, 3), int))
registrar = Registrar(load(name, **parameters), population, horizon=10)
resource.setrlimit(resource.RLIMIT_AS, (int(1.5 * 2**30), resource.getrlimit(resource.RLIMIT_AS)[1]))
vector = np.ones(10**6)  # 8 MB, of which a table for all clients would take 15 GiB
for available in ([7], np.arange(n)):
    turn = registrar.begin(available, 5)
    while turn.question is not None:
        turn.answer({{7: vector}} if 7 in turn.question.ids else {{}})
    reports = {{signal.name: {{7: vector}} if 7 in turn.cohort.ids else {{}} for signal in turn.needs.reports}}
    registrar.finish(turn, reports=reports)
print("alive", registrar.index)
"""


@pytest.mark.parametrize(("name", "parameters"), METHODS)
def test_the_first_vector_of_one_client_does_not_exhaust_the_memory(name, parameters):
    program = textwrap.dedent(UNDER_A_LIMIT).format(name=name, parameters=parameters, n=N)
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.stdout.strip() == "alive 2", result.stderr[-2000:]


def test_a_vector_that_is_too_long_is_refused_by_name_and_does_not_vote():
    registrar = Registrar(load("divfl"), Population(np.full(N, 10)))
    longest = TABLE_BYTES // (8 * N)
    for dimension in (longest + 1, 3, longest + 1, longest + 1):
        turn = registrar.begin(np.arange(N), 5)
        while turn.question is not None:
            turn.answer({int(k): np.broadcast_to(1.0, dimension) for k in turn.question.ids[:3]})
        registrar.finish(turn)
        if dimension > 3:
            assert turn.rejected
            assert all("ModelSize" in reason for reason in turn.rejected.values())
    assert registrar.row_shapes == {"gradient": (3,)}


def test_a_model_size_allows_what_the_operator_chose():
    dimension = TABLE_BYTES // (8 * N) + 1
    registrar = Registrar(load("divfl"), Population(np.full(N, 10)), model=ModelSize(parameters=dimension))
    assert registrar.dimensions.fixed == {"gradient": dimension}


def test_rows_are_checked_before_they_are_widened():
    """A row of another shape that would take 8 TB as floats costs nothing."""
    endless = np.broadcast_to(np.int8(1), 10**12)
    rows = {0: np.ones(3), 1: endless, 2: np.ones(3, np.int8)}
    reading, rejected, dimensions, *_ = screen(UPDATE, rows, np.arange(3), (3,))
    assert reading.ids.tolist() == [0, 2]
    assert "in place of (3,)" in rejected[1]
    assert dimensions == {1: 10**12}
    assert reading.values.dtype == np.float64
