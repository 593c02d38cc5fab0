"""Files of older versions are read; ``formats/`` holds one of each, as that version wrote it."""

from pathlib import Path

import numpy as np

from sortition.core import Population, Registrar
from sortition.core.storage import snapshot
from sortition.selectors import load

OLD = Path(__file__).parent / "formats" / "registrar-1.npz"


def test_a_snapshot_of_format_1_goes_on_as_its_own_version_did():
    registrar = Registrar.load(OLD, load("active"), Population(np.arange(1, 13)))
    assert (registrar.index, registrar.horizon, registrar.seed) == (3, 9, 3)
    assert registrar.quarantined[5] == 3
    chosen = []
    for _ in range(3):
        turn = registrar.begin(np.arange(12), 3)
        while turn.question is not None:
            turn.answer(
                {int(k): float("nan") if k == 5 else float((k * 7 + turn.index) % 5) for k in turn.question.ids}
            )
        chosen.append(turn.cohort.ids.tolist())
        told = {int(k): (k * 3 + turn.index) % 4 + 0.5 for k in turn.cohort.ids}
        registrar.finish(turn, None, {signal.name: told for signal in registrar.needs.reports})
    assert chosen == [[10, 11, 5], [4, 2, 5], [10, 5, 2]]  # as version 0.1 chose after writing it


def test_a_snapshot_of_format_2_goes_on_as_its_own_version_did():
    registrar = Registrar.load(OLD.with_name("registrar-2.npz"), load("longfed"), Population(np.arange(1, 13)))
    assert registrar.state.judged == 12
    chosen = []
    for _ in range(4):
        turn = registrar.begin(np.arange(12), 3)
        chosen.append(turn.cohort.ids.tolist())
        told = {int(k): [(k * 7 + turn.index) % 5, k % 3, (k * k) % 4] for k in turn.cohort.ids}
        registrar.finish(turn, None, {"step-gradient": told})
    # version 0.1 went on with [6, 11, 5]; the rule for ties of version 0.2 chooses otherwise
    assert chosen == [[4, 10, 8], [1, 5, 9], [6, 11, 10], [8, 9, 11]]


def test_every_older_format_has_its_step():
    assert sorted(snapshot.STEPS) == list(range(1, snapshot.FORMAT))
