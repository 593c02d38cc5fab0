"""Figures and tables for a paper: their width, font and legend; which methods they show, and under which names."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from tests.report.conftest import write_run
from tests.test_cli import call

from sortition.core.errors import InputError
from sortition.report.export import draw_named_chart, latex_table
from sortition.report.gather import gather
from sortition.report.look import figure_style
from sortition.report.method_choice import MethodChoice, parse_renames
from sortition.studies.study_result import StudyResult


@pytest.fixture
def runs(tmp_path):
    """Three methods of six seeds: fedgs is clearly better than uniform, oort a little."""
    folder = tmp_path / "runs"
    for seed in range(6):
        noise = 0.002 * (-1) ** seed
        write_run(folder, "uniform", seed, [0.4, 0.50 + noise, 0.50])
        write_run(folder, "fedgs", seed, [0.4, 0.60, 0.60 - noise])
        write_run(folder, "oort", seed, [0.4, 0.52, 0.51 + 3 * noise])
    return folder


def drawn(runs, chart="accuracy", methods=None, setting=None, **style):
    gathered = (methods or MethodChoice()).apply(gather([runs]))
    return draw_named_chart(gathered, chart, figure_style(**style), setting)


def texts(svg):
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def points_wide(pdf):
    return float(re.search(rb"MediaBox \[0 0 ([\d.]+)", pdf)[1])


@pytest.mark.parametrize("chart", ["accuracy", "forest-last", "timeline", "partition", "traffic"])
@pytest.mark.parametrize(("width", "inches"), [(None, 3.3), ("page", 6.9), (2.5, 2.5)])
def test_a_figure_is_as_wide_as_it_is_asked_to_be(runs, chart, width, inches):
    figure = drawn(runs, chart, width=width)
    assert f'width="{inches}in"' in figure.svg
    assert points_wide(figure.content("pdf")) == pytest.approx(72 * inches, abs=0.01)
    assert int.from_bytes(figure.content("png")[16:20], "big") == pytest.approx(300 * inches, abs=1)


def test_texts_have_the_size_in_print_that_is_asked_for(runs):
    for style, points in (("paper", 8), ("slides", 20)):
        figure = drawn(runs, style=style)
        pixels_wide = float(re.search(r'viewBox="0 0 ([\d.]+)', figure.svg)[1])
        points_a_pixel = 72 * figure.style.width / pixels_wide
        title = re.search(r"<text[^>]*font-size=\"(\d+)px\"[^>]*>test accuracy<", figure.svg)
        assert int(title[1]) * points_a_pixel == pytest.approx(points, rel=0.01)


def test_a_column_of_a_paper_has_the_legend_on_top_and_no_title(runs):
    figure = drawn(runs)
    assert set(texts(figure.svg)) >= {"uniform", "fedgs", "oort"}
    assert "role-legend" in figure.svg
    assert "mean over seeds" not in figure.svg
    assert figure.caption.startswith("Test accuracy. Lines: mean over seeds; band: 95 % interval of the mean")
    assert "Point at a line" not in figure.caption
    assert "mean over seeds" in drawn(runs, title=True).svg


def test_names_beside_lines_or_none_at_all(runs):
    assert "role-legend" not in drawn(runs, legend="lines").svg
    assert "fedgs" in texts(drawn(runs, legend="lines").svg)
    assert "fedgs" not in texts(drawn(runs, legend="none").svg)


def test_a_font_that_is_missing_would_draw_no_text_and_is_refused(runs):
    assert 'font-family="serif"' in drawn(runs, font="serif").svg
    with pytest.raises(InputError, match="font must be a family that this machine has; got No Such Font"):
        figure_style(font="No Such Font")
    with pytest.raises(InputError, match="font must be a family that this machine has"):
        figure_style(font='a"/><script>')


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"style": "poster"}, "style"),
        ({"width": "two columns"}, "width must be column, page, or from 1 to 40 inches"),
        ({"width": "nan"}, "width must be column, page, or from 1 to 40 inches"),
        ({"text_size": 1}, "text size must be from 4 to 72 points"),
        ({"legend": "left"}, "place of the legend"),
    ],
)
def test_a_style_that_cannot_be_is_refused(options, words):
    with pytest.raises(InputError, match=words):
        figure_style(**options)


def test_a_chart_that_is_not_there_is_refused_with_those_that_are(runs):
    with pytest.raises(InputError, match="'accuracy'"):
        drawn(runs, "acuracy")


def test_a_chart_of_several_settings_needs_the_setting(runs):
    write_run(runs, "uniform", 0, [0.4, 0.5], setting="other")
    with pytest.raises(InputError, match="setting must be given where several have the chart; got none of main, other"):
        drawn(runs)
    assert drawn(runs, setting="main").name == "accuracy"


def test_a_caption_names_its_setting_where_there_are_several(runs, tmp_path):
    assert drawn(runs).caption.startswith("Test accuracy. ")
    write_run(runs, "uniform", 0, [0.4, 0.5], setting="other")
    assert drawn(runs, setting="main").caption.startswith("Test accuracy (setting main). ")
    folder = tmp_path / "figures"
    files = ["--figures", folder, "--chart", "accuracy", "--chart", "sweep-rounds", "--format", "svg"]
    call("report", runs, "-o", tmp_path / "page.html", *files)
    environments = (folder / "figures.tex").read_text()
    assert r"\caption{Test accuracy (setting other). " in environments
    assert r"\caption{What rounds does. " in environments


def test_a_caption_of_a_file_explains_only_what_the_file_shows(runs, tmp_path):
    for chart in ("accuracy", "difference"):
        caption = drawn(runs, chart).caption
        assert "running mean" not in caption  # three rounds are not averaged
        assert "Bands need three seeds" not in caption
        assert "At a cost other than rounds" not in caption
    call("report", runs, "-o", tmp_path / "page.html")
    assert "At a cost other than rounds" in (tmp_path / "page.html").read_text()  # it has a switch of the axis


def test_a_forest_plot_says_what_its_bars_and_colours_are(tmp_path):
    folder = tmp_path / "runs"
    for seed in range(6):
        noise = 0.002 * (-1) ** seed
        write_run(folder, "uniform", seed, [0.4] + 20 * [0.50 + noise])
        write_run(folder, "fedgs", seed, [0.4] + 20 * [0.60])
    for chart in ("forest-last", "forest-mean"):
        caption = drawn(folder, chart).caption
        assert "Thin bar: 95 % interval" in caption
        assert "Colours are verdicts: green is better." in caption
        assert "The same" not in caption


def test_the_latex_of_a_figure_shows_a_file_that_is_there(runs, tmp_path):
    for written, shown in (("png", "png"), ("svg", "pdf")):
        folder = tmp_path / written
        files = ["--figures", folder, "--chart", "accuracy", "--format", written]
        call("report", runs, "-o", tmp_path / "page.html", *files)
        assert f"{{accuracy.{shown}}}" in (folder / "figures.tex").read_text()
    figure = StudyResult(runs).figure("accuracy", tmp_path / "my figure.pdf")
    assert (tmp_path / "my figure.pdf").exists()
    assert "{my figure.pdf}" in figure.latex()


def test_the_text_of_a_figure_is_short(runs):
    assert "<svg" not in repr(drawn(runs))


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="LaTeX is not installed")
def test_tables_and_figures_fit_a_two_column_page(tmp_path):
    folder = tmp_path / "runs"
    for seed in range(4):
        noise = 0.08 * (-1) ** seed
        write_run(folder, "uniform", seed, [0.4, *[0.52 + noise] * 20])
        write_run(folder, "a method (ours)", seed, [0.4, *[0.6 - noise] * 20])
    call("report", folder, "-o", tmp_path / "page.html", "--figures", tmp_path, "--chart", "accuracy")
    settings = r"\centering\footnotesize\setlength{\tabcolsep}{4pt}"
    (tmp_path / "paper.tex").write_text(
        rf"""\documentclass[10pt,twocolumn]{{article}}
\usepackage[margin=0.75in,columnsep=0.25in]{{geometry}}
\usepackage{{booktabs,graphicx}}
\begin{{document}}
\begin{{table}}{settings}\input{{main-column.tex}}\end{{table}}
\begin{{table*}}{settings}\input{{main.tex}}\end{{table*}}
\input{{figures.tex}}
\end{{document}}
"""
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    output = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "Overfull" not in output
    assert (tmp_path / "paper.pdf").stat().st_size > 0


def test_methods_are_chosen_ordered_and_renamed_in_figures_and_tables(runs):
    choice = MethodChoice(exclude=["oort"], order=["fedgs"], rename={"fedgs": "FedGS (ours)"})
    shown = texts(drawn(runs, methods=choice).svg)
    assert [text for text in shown if text in ("FedGS (ours)", "uniform", "oort", "fedgs")] == [
        "FedGS (ours)",
        "uniform",
    ]
    table = latex_table(choice.apply(gather([runs])).settings[0])
    assert table.index("FedGS (ours)") < table.index("\nuniform &")
    assert "oort" not in table


def test_a_colour_stays_with_its_method_under_another_name(runs):
    colour = re.compile(r'stroke="(#\w{6})" stroke-width="2"')
    every = drawn(runs, methods=MethodChoice(only=["uniform", "fedgs"]))
    renamed = drawn(runs, methods=MethodChoice(only=["uniform", "fedgs"], rename={"fedgs": "Ours"}))
    assert colour.findall(every.svg) == colour.findall(renamed.svg) != []


def test_to_show_fewer_methods_changes_no_test(runs):
    whole = gather([runs]).settings[0].against_baseline()
    part = (
        MethodChoice(only=["uniform", "oort"], rename={"oort": "Oort"})
        .apply(gather([runs]))
        .settings[0]
        .against_baseline()
    )
    assert list(part) == ["Oort"]
    for figure in ("difference", "low", "high", "p", "family", "verdict"):
        assert getattr(part["Oort"], figure) == getattr(whole["oort"], figure)


def test_a_renamed_baseline_stays_the_baseline(runs):
    gathered = gather([runs], baseline="oort")
    setting = MethodChoice(rename={"oort": "Oort", "fedgs": "oort-like"}).apply(gathered).settings[0]
    assert setting.baseline == "Oort"
    assert set(setting.against_baseline()) == {"uniform", "oort-like"}


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (MethodChoice(only=["fedgs"]), "must leave the baseline, which others are compared with; got none of uniform"),
        (MethodChoice(exclude=["uniform"]), "must leave the baseline"),
        (MethodChoice(exclude=["uniform", "fedgs", "oort"]), "must leave a method of main; got none"),
        (MethodChoice(only=["uniform", "ort"]), "oort"),
        (MethodChoice(rename={"oort": "uniform"}), "--rename must be one name a method"),
        (MethodChoice(rename={"oort": " "}), "--rename must be given a new name that can be read"),
    ],
)
def test_a_choice_that_cannot_be_is_refused(runs, choice, words):
    with pytest.raises(InputError, match=words):
        choice.apply(gather([runs]))


def test_a_label_with_an_equals_sign_can_be_renamed():
    assert parse_renames(["fedcor,beta=0.9=FedCor"]) == {"fedcor,beta=0.9": "FedCor"}
    with pytest.raises(InputError, match="--rename must be old=new; got 'oort'"):
        parse_renames(["oort"])


def test_one_command_writes_page_figures_and_tables_of_the_choice(runs, tmp_path):
    folder = tmp_path / "figures"
    call(
        "report", runs, "-o", tmp_path / "page.html", "--figures", folder, "--chart", "accuracy", "--format", "pdf",
        "--exclude", "oort", "--rename", "fedgs=FedGS", "--width", "3.5", "--column", "MB",
    )  # fmt: skip
    assert sorted(path.name for path in folder.iterdir()) == ["accuracy.pdf", "figures.tex", "main.tex"]
    assert points_wide((folder / "accuracy.pdf").read_bytes()) == pytest.approx(252, abs=0.01)
    assert r"\includegraphics[width=3.5in]{accuracy.pdf}" in (folder / "figures.tex").read_text()
    assert "FedGS & " in (folder / "main.tex").read_text()
    page = (tmp_path / "page.html").read_text()
    assert "Methods that are not shown: oort. Intervals, p and verdicts still count them." in page
    assert "FedGS beats uniform" in page


@pytest.mark.parametrize("option", [("--style", "slides"), ("--width", "page"), ("--title",), ("--chart", "loss")])
def test_options_of_figures_need_figures(runs, option):
    with pytest.raises(InputError, match=f"{option[0]} must be given with --figures"):
        call("report", runs, *option)


def test_a_second_table_fits_one_column_of_a_paper(runs, tmp_path):
    folder = tmp_path / "figures"
    files = ["--figures", str(folder), "--chart", "accuracy", "--format", "svg"]
    call("report", str(runs), "-o", str(tmp_path / "page.html"), *files)
    narrow = (folder / "main-column.tex").read_text()
    wide = (folder / "main.tex").read_text()
    assert narrow.startswith(r"\begin{tabular}{lrrr}")  # method, figure, difference, p
    assert len(wide.splitlines()[0]) > len(narrow.splitlines()[0])
