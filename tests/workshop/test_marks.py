from __future__ import annotations

import pytest
from workshop.marks import fill_marks

from sortition.core.errors import InputError

PAGE = "before\n<!-- a: begin -->\nold\n<!-- a: end -->\nbetween\n<!-- b: begin -->\n<!-- b: end -->\nafter\n"


def test_only_what_is_between_the_marks_changes():
    made = fill_marks(PAGE, {"a": "new", "b": "\n### More\n"})
    assert made == PAGE.replace("old", "new").replace("<!-- b: end", "### More\n<!-- b: end")
    assert fill_marks(made, {"a": "new", "b": "### More"}) == made


@pytest.mark.parametrize("text", ["nothing", "<!-- a: begin -->\n", "<!-- a: end -->\n<!-- a: begin -->\n"])
def test_a_page_without_the_marks_is_refused(text):
    with pytest.raises(InputError, match="one with the lines <!-- a: begin --> and <!-- a: end -->; got one without"):
        fill_marks(text, {"a": "new"})
