import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from sortition.core.errors import InputError
from sortition.core.import_policy import import_named
from sortition.studies import python_objects

TYPED = """
from sortition.core import Cohort, Selector, State, method


@method
class Typed(Selector[State]):
    share: float = {share}

    def select(self, state, round):
        return Cohort.uniform(round.available[:{count}])
"""


def typed(**numbers):
    """A class without a file, as one that was written at a prompt."""
    space = {"__name__": "prompt"}
    exec(TYPED.format(**{"share": 1.0, "count": 2, **numbers}), space)  # noqa: S102
    return space["Typed"]


def shifted(by):
    return lambda x: x + by


def test_digests_say_what_an_object_is_and_not_where_it_lies():
    array = np.arange(6.0)
    assert python_objects.fingerprint(array) == python_objects.fingerprint(array.copy())
    assert python_objects.fingerprint(array) == python_objects.fingerprint(array.astype(">f8"))
    assert python_objects.fingerprint(array) != python_objects.fingerprint(array.reshape(2, 3))
    assert python_objects.fingerprint(shifted(1)) == python_objects.fingerprint(shifted(1))
    assert python_objects.fingerprint(shifted(1)) != python_objects.fingerprint(shifted(2))  # the closure counts
    linear = torch.nn.Linear(2, 2)
    before = python_objects.fingerprint(linear)
    with torch.no_grad():
        linear.bias += 1
    assert python_objects.fingerprint(linear) != before


def written(text, **around):
    """A function of a script with these global names."""
    space = {"__name__": "script", "np": np, **around}
    exec(f"def made(t, n, rng):\n    return {text}\n\n\ndef helper(p):\n    return p * {around.get('times', 1)}", space)  # noqa: S102
    return python_objects.fingerprint(space["made"])


@pytest.mark.parametrize(
    ("text", "one", "other"),
    [
        (
            "[rng.random() < 0.6 for _ in range(n)]",
            {},
            "[rng.random() < 0.3 for _ in range(n)]",
        ),  # code within the code
        ("list(map(lambda k: k < 0.6, rng.random(n)))", {}, "list(map(lambda k: k < 0.3, rng.random(n)))"),
        ("rng.random(n) < RATE", {"RATE": 0.6}, {"RATE": 0.3}),  # numbers and arrays around it
        ("RATES[t]", {"RATES": np.zeros(3)}, {"RATES": np.ones(3)}),
        ("[RATE for _ in range(n)]", {"RATE": 0.6}, {"RATE": 0.3}),
        ("helper(0.5)", {"times": 1}, {"times": 2}),  # functions beside it
    ],
)
def test_what_a_function_does_is_in_its_digest(text, one, other):
    changed = written(other, **one) if isinstance(other, str) else written(text, **other)
    assert written(text, **one) == written(text, **one)
    assert written(text, **one) != changed


def test_the_digest_of_a_function_is_the_same_in_every_process():
    code = (
        "from sortition.studies.python_objects import fingerprint;"
        "print(fingerprint(lambda k: k in {'a', 'b', 'c', 'd', 'e'}))"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(digests) == 1


def test_classes_without_a_file_are_told_apart_by_their_code():
    assert python_objects.fingerprint(typed()) == python_objects.fingerprint(typed())
    assert python_objects.fingerprint(typed()) != python_objects.fingerprint(typed(count=3))


def test_objects_are_import_paths_while_they_are_lent():
    with python_objects.forgotten_afterwards():
        path = python_objects.register("thing", np.arange(3))
        assert (import_named(path, "thing") == np.arange(3)).all()
        sent = python_objects.registered_objects()
    with pytest.raises(InputError, match="given from Python, and not to this process"):
        import_named(path, "thing")
    with python_objects.forgotten_afterwards():
        python_objects.receive(sent)
        assert (import_named(path, "thing") == np.arange(3)).all()
        digests = python_objects.fingerprints({"a": {"b": path}, "c": 1})
        assert digests == {"a.b": python_objects.fingerprint(np.arange(3))}


def test_what_cannot_be_sent_is_named():
    with python_objects.forgotten_afterwards():
        python_objects.register("data", np.arange(3))
        assert python_objects.first_that_cannot_be_sent({}) == ""
        python_objects.register("rule", shifted(1))
        assert python_objects.first_that_cannot_be_sent({}).startswith("rule shifted")
