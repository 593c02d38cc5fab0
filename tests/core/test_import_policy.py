"""A file can name only what the user allowed; the user himself can name anything."""

import sys

import pytest
from tests.studies.tables import small

from sortition.cli.shared_options import PACKAGE_MODULES
from sortition.core import InputError
from sortition.core.import_policy import allow_only, import_named
from sortition.learning import build
from sortition.reproduction import preset
from sortition.results import metrics
from sortition.studies import method_entries
from sortition.studies.plan import plan


@pytest.fixture
def bomb(tmp_path, monkeypatch):
    """A module that tells when it was imported."""
    (tmp_path / "bomb.py").write_text("from pathlib import Path\nPath(__file__).with_name('gone off').touch()\nX = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "bomb", raising=False)
    yield tmp_path / "gone off"
    sys.modules.pop("bomb", None)


def test_the_users_own_word(bomb):
    assert import_named("bomb:X", "it") == 1
    assert bomb.exists()


@pytest.mark.parametrize(
    "name",
    [
        lambda: method_entries.selector_class("bomb:X"),
        lambda: build("bomb:X", (4,), 2),
        lambda: metrics.metric("bomb:X"),
        lambda: preset.import_hook(preset.FigureHook(make="bomb:X")),
        lambda: plan(small(method=[{"name": "bomb:X"}])),
    ],
)
def test_nothing_runs_that_was_not_allowed(bomb, name):
    with allow_only(["other", "bom"]), pytest.raises(InputError, match="add --allow bomb"):
        name()
    assert not bomb.exists()


def test_what_is_allowed_is_imported_with_what_is_inside_it(bomb):
    with allow_only(["bomb"]):
        assert import_named("bomb:X", "it") == 1
    with allow_only(["os"]):
        assert import_named("os.path:join", "it")


def test_ours_may_be_named_but_not_what_it_imports():
    with allow_only([], own=PACKAGE_MODULES):
        assert callable(import_named("sortition.reproduction.figures.curves:make", "figure.make"))
        with pytest.raises(InputError, match="something that sortition"):
            import_named("sortition.reproduction.figures.curves:smoothed", "figure.make")
        with pytest.raises(InputError, match="would import and run"):
            import_named("sortition.core.storage.snapshot:write_atomically", "figure.make")


def test_every_preset_of_the_package_can_be_played_without_a_word():
    with allow_only([], own=PACKAGE_MODULES):
        for name in preset.preset_names():
            one = preset.load_preset(name)
            for figure in one.figures:
                assert callable(preset.import_hook(figure))
            one.plan(("seeds=1",))


@pytest.mark.parametrize("name", ["sortition.nothing:make", "sortition.:x", "sortition.core"])
def test_names_of_ours_that_do_not_exist_are_refused_as_any_other(name):
    with pytest.raises(InputError, match="importable as"):
        import_named(name, "it")
    with allow_only([], own=["sortition.audit"]), pytest.raises(InputError, match="would import and run"):
        import_named(name, "it")


def test_a_method_that_is_declared_wrongly_says_so_through_the_import(tmp_path, monkeypatch):
    text = "from sortition import Selector, method\n\n\n@method\nclass Mine(Selector):\n    memory = dict\n"
    (tmp_path / "wrongly.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InputError, match=r"Mine\.memory must be a class that derives from State.* memory = Memory\.$"):
        import_named("wrongly:Mine", "method.name")
