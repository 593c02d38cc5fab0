"""One table, every place where it is shown."""

import io

from rich.console import Console

from sortition.results.table import Table

WIDE = Table(
    "a title",
    ["method", *[f"column {i}" for i in range(12)]],
    [["power-of-choice", *["0.123 ± 0.004"] * 12]],
    ["note " * 30],
)


def printed(table, width):
    file = io.StringIO()
    Console(file=file, width=width).print(table)
    return file.getvalue()


def test_a_wide_table_is_cut_into_blocks_that_fit():
    for text in (WIDE.text(80), printed(WIDE, 80)):
        lines = text.splitlines()
        assert max(map(len, lines)) <= 80
        assert not any(line != line.rstrip() for line in lines)
        assert text.count("power-of-choice") > 1
        assert text.count("0.123 ± 0.004") == 12
        assert "…" not in text


def test_words_are_broken_into_lines_and_stay_whole():
    words = "a method that reads label_counts of each client and asks nothing else of anybody"
    table = Table("", ["method", "what", "n"], [["fedgs", words, "1"], ["x", "first\nsecond", "2"]], prose=("what",))
    lines = table.text(40).splitlines()
    assert max(map(len, lines)) == 38
    assert [line[:7].strip() for line in lines[3:]] == ["fedgs", "", "", "", "x", ""]
    assert " ".join(line[8:35].strip() for line in lines[3:7]).replace("  ", " ") == words
    assert lines[3].endswith("  1")
    assert lines[-1] == "        second"
    assert table.text(200).splitlines()[3] == f"fedgs   {words}  1"


def test_a_name_wider_than_the_screen_is_kept_whole():
    name = "n" * 60
    assert name in Table("", ["method", "x"], [[name, "1"]]).text(40)


def test_no_line_of_a_markdown_table_is_broken_by_a_cell():
    assert "a\\|b" in Table("", ["method"], [["a|b"]]).markdown()


def test_latex_is_escaped_and_some_cells_are_bold():
    text = Table("", ["method", "σ of 5 %"], [["a_b&c", "0.1 ± 0.2"], ["x", "−1"]]).latex(frozenset({(1, 1)}))
    assert text.splitlines()[:3] == [r"\begin{tabular}{lr}", r"\toprule", r"method & $\sigma$ of 5 \% \\"]
    assert r"a\_b\&c & 0.1 $\pm$ 0.2 \\" in text
    assert r"x & \textbf{$-$1} \\" in text


def test_notes_stand_below_a_latex_table():
    text = Table("", ["method", "MB"], [["x", "1"]], ["5 % less."]).latex()
    assert text.splitlines()[-3:] == [
        r"\bottomrule",
        r"\multicolumn{2}{l}{\footnotesize 5 \% less.} \\",
        r"\end{tabular}",
    ]


def test_latex_escapes_what_it_cannot_print():
    text = Table("", ["method"], [["a > b | λ κ"], ["x\x1b[31m"]]).latex()
    assert r"a $>$ b \textbar{} $\lambda$ $\kappa$" in text
    assert "\x1b" not in text
