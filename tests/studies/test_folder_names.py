"""Names of methods and settings: folders on any system, and no two that a reader takes for one."""

import unicodedata

import pytest
from tests.studies.tables import small

from sortition.core.errors import InputError
from sortition.studies.folder_names import can_name_folder, check_distinct, check_honest
from sortition.studies.plan import plan


@pytest.mark.parametrize("text", ["fedgs", "fedgs, α = 0.5", "方法", "x" * 100, "console", "con artist"])
def test_names_that_can_be_folders(text):
    assert can_name_folder(text)


@pytest.mark.parametrize(
    "text", ["", "x" * 101, "😀" * 100, "CON", "nul", "com1", "LPT9.txt", "a/b", ".a", "a ", "\x1b"]
)
def test_names_that_cannot(text):
    assert not can_name_folder(text)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("mine", "mine"),
        ("mine", "Mine"),
        (unicodedata.normalize("NFC", "é"), unicodedata.normalize("NFD", "é")),
        ("paper", "рареr"),  # four letters are Cyrillic
        ("ΑB", "AB"),  # a Greek alpha
        ("ﬁne", "fine"),
    ],
)
def test_names_that_read_alike_are_refused(first, second):
    with pytest.raises(InputError, match="who must be unique in a study"):
        check_distinct("who", [first, second])


def test_names_that_differ_to_the_eye_are_not():
    check_distinct("who", ["a", "b", "α", "fedgs,alpha=1", "fedgs,alpha=10"])


@pytest.mark.parametrize("label", ["uniform", "Uniform", "unіform", "oort"])
def test_a_method_must_not_have_the_name_of_another(label):
    with pytest.raises(InputError, match=r"method\.label must be no name of another method; this one is fedgs"):
        check_honest({label: "fedgs"})


def test_a_method_may_have_its_own_name():
    check_honest({"uniform": "uniform", "plain": "uniform", "auto": "auto", "microcosm": "auto", "Oort": "mine:Oort"})
    with pytest.raises(InputError, match="no name of another method; this one is uniform"):
        check_honest({"unіform": "uniform"})  # a Cyrillic letter, beside the true one
    with pytest.raises(InputError, match="no name of another method; this one is mine:Uniform"):
        check_honest({"uniform": "mine:Uniform"})


def test_a_study_is_checked():
    with pytest.raises(InputError, match="no name of another method"):
        plan(small(method=[{"name": "uniform"}, {"name": "fedgs", "label": "oort"}]))
    with pytest.raises(InputError, match=r"setting\.name must be unique in a study; got 'Easy'\. It reads like 'easy'"):
        plan(small(setting=[{"name": "easy"}, {"name": "Easy"}]))


def test_messages_count_methods_from_one_and_name_them():
    with pytest.raises(InputError, match=r"study: method 2 \(fedgs\)\.cohort must be ≥ 1; got 0"):
        plan(small(method=[{"name": "uniform"}, {"name": "fedgs", "cohort": 0}]))
    with pytest.raises(InputError, match=r"study: method 1\.name must be given"):
        plan(small(method=[{}]))
