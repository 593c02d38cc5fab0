"""The figures on rooms and rounds count what they say."""

from pathlib import Path

import pytest

from campaign import shape


@pytest.fixture
def source(tmp_path):
    """A package of two files: `a` calls `b`, which calls nothing."""
    room = tmp_path / "federation"
    room.mkdir()
    (room / "a.py").write_text('"""A."""\nfrom b import leaf\n\n\ndef call():\n    """Call."""\n    return leaf()\n')
    (room / "b.py").write_text("def leaf():\n    return 1\n\n\nclass Late:\n    def method(self):\n        return 2\n")
    return tmp_path


def test_statements_and_tokens_are_counted_and_later_features_stand_apart(source):
    measured = shape.sizes(source, later={"late": ("federation/b.py:Late.method",)})
    tokens_of_a = 4 + 5 + 4  # from b import leaf; def call():; return leaf()
    tokens_of_b = 5 + 2 + 3
    assert measured.rooms["federation"] == shape.Size(statements=5 + 5 - 2, tokens=tokens_of_a + tokens_of_b)
    assert measured.features == {"late": shape.Size(statements=2, tokens=6 + 2)}
    assert not measured.missing


def test_tokens_do_not_depend_on_how_lines_are_split():
    dense = shape.Module("@cached\ndef area(a, b): return a * b  # of a rectangle\n")
    split = shape.Module('@cached\ndef area(a,\n         b):\n    """Area."""\n    return a * b\n')
    assert dense.size().tokens == split.size().tokens == split.size("area").tokens
    assert dense.size("volume") is None


def test_a_later_feature_that_is_gone_is_named(source):
    measured = shape.sizes(source, later={"late": ("federation/b.py:Gone", "federation/c.py")})
    assert measured.missing == ["federation/b.py:Gone", "federation/c.py"]


def test_a_journey_tells_callers_from_leaves_and_counts_changes_of_file(source):
    def compiled(name, names):
        file = source / "federation" / f"{name}.py"
        text = file.read_text().replace("from b import leaf\n", "")
        exec(compile(text, str(file), "exec"), names)  # noqa: S102
        return names

    names = compiled("b", {})
    names = compiled("a", names)
    passed = shape.journey(lambda: [names["call"](), Path("x").name], source)
    assert passed.files == {"federation/a.py": 1, "federation/b.py": 1}
    assert passed.leaves == ["federation/b.py"]
    assert passed.deepest == ["federation/a.py", "federation/b.py"]
    assert passed.hops == 1


def test_every_later_feature_is_where_the_list_has_it():
    assert shape.sizes().missing == []
