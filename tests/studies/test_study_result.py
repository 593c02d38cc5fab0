import polars as pl
import pytest
from scipy import stats
from tests.studies.tables import small

import sortition as so
from sortition.core.errors import InputError
from sortition.studies import study


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return study(small(rounds=3), out=tmp_path_factory.mktemp("runs"))


def test_curves_and_table_are_polars(result):
    assert result.curves.columns[:5] == ["setting", "method", "seed", "round", "accuracy"]
    assert result.table.height == 4
    last = result.curves.filter(pl.col("round") == 3).sort("method", "seed")["accuracy"]
    assert last.to_list() == result.table.sort("method", "seed")["final-accuracy"].to_list()


def test_exports(result, tmp_path):
    read = pl.read_csv(result.to_csv(tmp_path / "new" / "table.csv"))
    assert read.height == result.table.height
    assert pl.read_csv(result.to_csv(tmp_path / "curves.csv", "curves")).height == result.curves.height
    text = result.to_latex(tmp_path / "table.tex")
    assert (tmp_path / "table.tex").read_text() == text
    assert text.count(r"\toprule") == 1  # one setting
    assert r"$\pm$" in text
    assert r"\textbf{" in text
    assert result.to_latex(columns=["last 3, %", "MB"]).splitlines()[3] == r"method & last 3, \% & MB \\"
    with pytest.raises(InputError, match="column"):
        result.to_latex(columns=["last 11"])
    with pytest.raises(InputError, match="what must be"):
        result.to_csv(tmp_path / "x.csv", "columns")


def test_pandas_where_it_is_installed(result):
    pytest.importorskip("pandas", reason="pandas is not installed; pip install pandas")
    assert result.to_pandas().shape == (result.table.height, result.table.width)
    assert list(result.to_pandas("curves").columns) == result.curves.columns


def test_plot_is_a_chart_of_means_over_seeds(result):
    chart = result.plot("loss").to_dict()
    rows = chart["data"]["values"]
    assert len(rows) == 2 * 3
    by_hand = result.curves.filter((pl.col("method") == "uniform") & (pl.col("round") == 1))["loss"].mean()
    assert next(row["mean"] for row in rows if row["method"] == "uniform" and row["round"] == 1) == by_hand
    with pytest.raises(InputError, match="plot must be one of"):
        result.plot("accurracy")


def test_report_and_notebook(result, tmp_path):
    page = result.report(tmp_path / "deep" / "page.html")
    assert "power-of-choice" in page.read_text()
    shown = result._repr_html_()
    assert "<table>" in shown
    assert "<svg" in shown  # the forest plot
    assert len(result.conclusions) == 1
    assert "power-of-choice" in result.conclusions[0]
    assert result.conclusions[0] in str(result)
    assert "Test accuracy over all 3 rounds against uniform, in points:\n- " in str(result)
    assert "<p>Test accuracy over all 3 rounds" in shown
    assert len(result.forest("mean")) == 1
    with pytest.raises(InputError, match="forest must be"):
        result.forest("best")


def test_a_notebook_shows_a_study_that_counts_seconds(tmp_path):
    devices = {"speed": 50.0, "speed_spread": 0.2}
    by_seconds = study(small(rounds=6, seeds=3, devices=devices), out=tmp_path)
    assert "<svg" in by_seconds._repr_html_()
    assert len(by_seconds.forest("mean")) == 1


def test_the_margin_is_the_studys(tmp_path):
    strict = study(small(rounds=3, seeds=3), out=tmp_path)
    assert strict.criteria.margin == 0.5
    wide = study(small(rounds=3, seeds=3, margin=100), out=tmp_path)  # nothing is run again
    assert wide.criteria.margin == 100
    assert "practically equal" in wide.conclusions[0]
    assert "within ±100 points" in wide.tables[-1].notes[0]


SMALL = {"data": "digits", "clients": 6, "cohort": 2, "model": "softmax", "jobs": 1, "progress": False}


def test_a_plot_needs_no_network_and_has_the_bands_of_the_report(tmp_path):
    result = so.compare(["uniform", "by-size"], rounds=2, seeds=3, **SMALL)
    chart = result.plot()
    (kind,) = chart._repr_mimebundle_()
    assert kind == "image/svg+xml"
    assert "http" not in chart._repr_mimebundle_()[kind].replace("http://www.w3.org", "")
    row = chart.to_dict()["layer"][0]["data"] if "data" in chart.to_dict()["layer"][0] else chart.to_dict()["data"]
    first = row["values"][0]
    values = result.curves.filter((pl.col("method") == first["method"]) & (pl.col("round") == first["round"]))
    half = stats.t.ppf(0.975, 2) * values["accuracy"].std() / 3**0.5
    assert first["high"] - first["mean"] == pytest.approx(half)


@pytest.mark.parametrize(("rounds", "words"), [(1, "the only round"), (4, "all 4 rounds"), (12, "the last 10 rounds")])
def test_the_heading_says_how_many_rounds_there_are(rounds, words):
    result = so.compare(["uniform", "by-size"], rounds=rounds, seeds=1, **SMALL)
    assert result.heading == f"Test accuracy over {words} against uniform, in points:"


def test_columns_are_chosen_with_the_minus_of_a_keyboard():
    result = so.compare(["uniform", "by-size"], rounds=1, seeds=2, **SMALL)
    assert result.to_latex(columns=["- uniform"]) == result.to_latex(columns=["− uniform"])


def test_a_plot_is_over_what_the_study_counts_or_another_cost(tmp_path):
    result = so.compare(
        ["uniform", "power-of-choice"],
        data="digits", clients=10, model="softmax", cohort=3, seeds=3, jobs=1, progress=False, out=tmp_path / "runs",
        devices={"speed": 100.0, "speed_spread": 1.0}, until={"seconds": 10.0},
    )  # fmt: skip

    def over(**options):
        chart = result.plot(**options).to_dict()
        encoding = chart["layer"][0]["encoding"]
        return encoding["x"]["field"], chart["data"]["values"]

    currency, rows = over()
    assert currency == "seconds"
    assert max(row["seconds"] for row in rows) == 10.0
    assert {row["method"] for row in rows} == {"uniform", "power-of-choice"}
    assert all(row["n"] == 3 for row in rows)
    assert over(cost="megabytes")[0] == "megabytes"
    assert over(cost="rounds")[0] == "round"
    assert over(of="train_loss")[0] == "round"
    with pytest.raises(InputError, match="cost"):
        result.plot(cost="euros")
    with pytest.raises(InputError, match=r"plot\.cost must be 'rounds' for train_loss"):
        result.plot("train_loss", cost="seconds")
