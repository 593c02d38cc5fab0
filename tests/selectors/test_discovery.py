from __future__ import annotations

import re
import subprocess
import sys
import tomllib

import pytest

from sortition.core import Cohort, InputError, Selector, State, method
from sortition.selectors import VARIANTS, discover, find, load


def test_names_have_hyphens_and_underscores_are_accepted():
    assert {"uniform", "by-size", "full", "power-of-choice", "active"} <= set(discover())
    assert find("power_of_choice") is find("power-of-choice")


def test_unknown_names_get_a_hint():
    with pytest.raises(InputError, match=r"Unknown method 'unifrom'.*Did you mean 'uniform'"):
        load("unifrom")
    with pytest.raises(InputError, match=r"Unknown method 'autto'; known are .*, auto. Did you mean 'auto'"):
        load("autto")
    with pytest.raises(InputError, match=r"name must be the name of a method; got 5\. .*discover\(\)"):
        load(5)
    with pytest.raises(InputError, match=r"Unknown parameter 'wieghts'; Uniform has weights. Did you mean 'weights'"):
        load("uniform", wieghts="size")


@pytest.mark.parametrize("label", VARIANTS)
def test_what_the_leaderboard_calls_a_variant_is_explained(label):
    with pytest.raises(InputError) as caught:
        load(label)
    said = re.escape(f"Unknown method '{label}'; on the leaderboard it stands for ")
    found = re.fullmatch(said + r"(\{.*\})\.", str(caught.value))
    assert found is not None
    assert tomllib.loads(f"method = {found[1]}")["method"] == VARIANTS[label]


def test_listing_imports_no_method():
    code = (
        "import sys, sortition.selectors as s; s.discover();"
        "loaded = [m for m in sys.modules if m.startswith('sortition.selectors.') and '._' not in m];"
        "assert not loaded, loaded; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@method
class Theirs(Selector[State]):
    def select(self, state, round):
        return Cohort.uniform(round.available[: round.budget])


class Point:
    name = "their_method"

    def __init__(self, target):
        self.target = target

    def load(self):
        return self.target


def test_other_packages_add_methods_by_entry_point(monkeypatch):
    monkeypatch.setattr("sortition.selectors._find_by_name.entry_points", lambda group: [Point(Theirs)])
    assert discover()[-1] == "their-method"
    assert isinstance(load("their-method"), Theirs)
    monkeypatch.setattr("sortition.selectors._find_by_name.entry_points", lambda group: [Point(int)])
    with pytest.raises(InputError, match="must be a Selector class"):
        find("their-method")
