import polars as pl
import pytest
from tests.studies.folders import make

from sortition.core.errors import InputError
from sortition.results import frames, run_folder
from sortition.results.run_folder import find
from sortition.studies.runs import write_folder


@pytest.fixture
def runs(tmp_path):
    for seed in range(3):
        make(tmp_path / "runs", [0.1, 0.5 + 0.01 * seed], seed=seed)
        make(tmp_path / "runs", [0.1, 0.7 + 0.012 * seed], method="fedgs", seed=seed)
    make(tmp_path / "runs", [0.1], method="fedgs", seed=3, done=False)
    return find(tmp_path / "runs")


@pytest.mark.parametrize(("kind", "read"), [("csv", pl.read_csv), ("parquet", pl.read_parquet)])
def test_every_table_is_written_and_read_back(runs, tmp_path, kind, read):
    made = frames.make_frames(runs)
    paths = frames.write_frames(made, tmp_path / "tables", kind)
    assert [path.name for path in paths] == [f"{name}.{kind}" for name in ("rounds", "runs", "methods", "comparisons")]
    assert read(paths[0]).height == 13
    assert read(paths[1]).filter(~pl.col("done")).height == 1
    compared = read(paths[3]).filter(pl.col("figure") == "last").to_dicts()[0]
    assert (compared["method"], compared["baseline"], compared["verdict"]) == ("fedgs", "uniform", "better")
    assert compared["difference"] == pytest.approx(0.101)
    mean = read(paths[2]).filter((pl.col("method") == "uniform") & (pl.col("figure") == "final-accuracy"))
    assert mean["mean"][0] == pytest.approx(0.51)


def test_bad_formats_and_no_runs(runs, tmp_path):
    with pytest.raises(InputError, match="--format must be one of csv, parquet; got 'xls'"):
        frames.write_frames(frames.make_frames(runs), tmp_path, "xls")
    with pytest.raises(InputError, match="at least one run to export; got none"):
        frames.make_frames([])


def test_swept_lists_are_written_as_text(tmp_path):
    for hidden in ([8], [16, 8]):
        run = make(tmp_path / "runs", [0.1, 0.2], setting=f"hidden={len(hidden)}")
        table = {**run.config, "model": {"name": "mlp", "hidden": hidden}}
        write_folder.write_config(run.path / run_folder.CONFIG, table)
    made = frames.write_frames(frames.make_frames(run_folder.find(tmp_path / "runs")), tmp_path / "tables")
    assert '"[16, 8]"' in made[1].read_text()


def test_a_place_that_is_no_folder_is_refused_in_one_sentence(tmp_path):
    make(tmp_path / "runs", [0.1, 0.2])
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"-o must be a folder that can be written; got .*file"):
        frames.write_frames(frames.make_frames(run_folder.find(tmp_path / "runs")), tmp_path / "file")


def test_no_text_of_a_csv_is_a_formula(tmp_path):
    frame = pl.DataFrame({"method": ["=1+1", "@x", "-x", "+x", "fine"], "=a": [1.0, -2.0, 3.0, 4.0, 5.0]})
    frames.write_csv(frame, tmp_path / "x.csv")
    lines = (tmp_path / "x.csv").read_text().splitlines()
    assert lines == ["method,'=a", "'=1+1,1.0", "'@x,-2.0", "'-x,3.0", "'+x,4.0", "fine,5.0"]
