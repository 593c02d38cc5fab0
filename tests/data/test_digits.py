"""The embedded digits are scikit-learn's, whether or not its package is imported for them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sortition.data import digits as module


def test_the_file_holds_what_scikit_learn_loads() -> None:
    read, loaded = module._read_images(), module._load_from_sklearn()
    for mine, theirs in zip(read, loaded, strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs)


def test_a_release_that_keeps_the_file_elsewhere_is_images_of_sklearn(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, whole = [], module._read_images()
    monkeypatch.setattr(module, "_load_from_sklearn", lambda: calls.append(1) or whole)
    monkeypatch.setattr(Path, "is_file", lambda _: False)
    np.testing.assert_array_equal(module._read_images()[0], whole[0])
    assert calls


def test_digits_do_not_import_scikit_learn() -> None:
    script = "import sys; from sortition.data.digits import digits; digits(); print('sklearn' in sys.modules)"
    process = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert process.stdout.split() == ["False"]
