"""What the documents print works as printed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import polars as pl
import pytest
from scipy.stats import sem, t

from sortition import Feedback, Round
from sortition.core import import_policy
from sortition.selectors import discover
from sortition.studies.plan import plan
from sortition.studies.runs.runner import check_runs
from sortition.testing import check_selector

ROOT = Path(__file__).parents[1]
SMALL = "rounds=2, cohort=3, seeds=2, progress=False"


def blocks(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)


def verdicts(text: str) -> dict[str, list[float]]:
    """The difference and interval of every sentence "METHOD beats uniform by …"."""
    found = re.findall(
        r"^- (\w+) beats uniform by (\S+) points \[(\S+), (\S+)\] at the same traffic\.$", text, re.MULTILINE
    )
    return {method: [float(number) for number in numbers] for method, *numbers in found}


def test_the_five_lines_of_the_readme_print_what_it_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("README.md")
    assert len([line for line in code.splitlines() if line.strip()]) <= 5
    exec(code.replace("compare(", "compare(progress=False, methods="), {})  # noqa: S102
    assert (tmp_path / "page.html").exists()
    printed = verdicts(capsys.readouterr().out)
    told = verdicts((ROOT / "README.md").read_text())
    assert set(printed) == set(told) == {"auto", "fedgs"}
    for method, numbers in printed.items():  # another processor rounds otherwise
        assert numbers == pytest.approx(told[method], abs=0.5)


def test_no_page_shows_a_zero_with_a_minus():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "reproduction").glob("*.md")]
    for page in [*pages, *(ROOT / "docs" / "methods").glob("*.md")]:
        shown = re.findall(r"^.*[ \[\u00a0][-−]0\.0+(?![\d.]).*$", page.read_text(), re.MULTILINE)
        assert not shown, f"{page.name}: {shown[0]}"


def test_the_readme_is_short_and_says_where_sortition_runs():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 120
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [one.rpartition(" ")[2] for one in project["classifiers"] if "Python :: 3." in one]
    facts = f"Python {named[0]} to {named[-1]} · Linux · {project['license']} · alpha"
    assert any(line.startswith(facts) for line in lines)


def test_the_readme_answers_in_two_clicks_what_newcomers_ask():
    readme = (ROOT / "README.md").read_text()
    top = readme[: readme.index("## Compare methods")]
    for words, page, answer in (
        ("a study that asks my question", "docs/gallery.md", "Three hospitals: do I need to wait for all of them"),
        ("plug it into Flower", "docs/flower.md", "SelectorStrategy"),
        ("add my own method", "docs/tutorials/own-method.md", "One file, one class"),
        ("what the statistics mean", "docs/statistics.md", "undecided"),
        ("does it reproduce FedGS?", "docs/reproduction/fedgs.md", "claims right"),
        ("what can hostile clients do?", "docs/faults.md", "**The worst that is left**"),
        ("try methods on my logs", "docs/tutorials/from-logs.md", "hospital"),
    ):
        assert f"[{words}]({page})" in top
        assert answer in (ROOT / page).read_text()


def test_the_page_of_adversaries_begins_with_the_figures_of_its_table():
    page = (ROOT / "docs" / "faults.md").read_text()
    opening = page[: page.index("## Faults")]
    table = page[page.index("| method | honest | cost | always |") :].split("\n\n")[0]
    largest_loss = {}
    for row in table.splitlines()[2:]:
        method, *cells = [cell.strip(" *") for cell in row.strip("|").split("|")]
        largest_loss[method] = max(float(loss) for loss in cells[2:6])
    small = [method for method, loss in largest_loss.items() if loss <= 5]
    assert f"{len(small)} of {len(largest_loss)} lose at most 5 points" in opening
    worst = sorted(largest_loss, key=lambda method: -largest_loss[method])[:3]
    assert worst == ["tifl", "longfed", "full"]
    for method, words in zip(worst, ("TiFL loses up to", "LongFed", "full participation"), strict=True):
        assert f"{words} {largest_loss[method]}" in opening
    attacked = re.search(r"leaves (\d+ of 29) methods at 10 %", page)
    assert attacked is not None
    assert f"does so with {attacked[1]} methods" in opening


def test_readme_and_first_page_say_how_many_methods_there_are_and_what_their_picture_shows():
    pages = [" ".join((ROOT / page).read_text().split()) for page in ("README.md", "docs/index.md")]
    for text in pages:
        assert f"It has {len(discover())} methods" in text
    picture = (ROOT / "docs" / "images" / "who-is-chosen.svg").read_text()
    times = re.findall(r"each client (\d+) to (\d+) times", picture)
    assert len(times) == 3
    (uniform, oort, fedgs) = [f"{fewest} to {most}" for fewest, most in times]
    for text in pages:
        assert (
            f"chose each client {uniform} times; Oort, which looks for high losses, {oort} times; FedGS, {fedgs} times."
            in text
        )


def test_the_federation_lines_of_the_server_loop(tmp_path):
    code = next(block for block in blocks("docs/start/server-loop.md") if "Federation(" in block)
    for rounds in (5, 6):  # a second start goes on where the first one ended
        lines = code.replace("rounds=5", f"rounds={rounds}")
        done = subprocess.run([sys.executable, "-c", lines], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout.count("used") == rounds


def test_a_backend_is_written_in_under_sixty_lines():
    (code,) = [block for block in blocks("docs/backends.md") if "class QueueTransport" in block]
    assert len(code.splitlines()) < 60


def test_the_registrar_lines_of_the_server_loop(tmp_path):
    code = next(block for block in blocks("docs/start/server-loop.md") if "Registrar(" in block)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.count("train") == 3
    assert (tmp_path / "registrar.npz").exists()


def test_the_method_of_contributing_keeps_the_contract(monkeypatch):
    module = types.ModuleType("neglected")
    monkeypatch.setitem(sys.modules, "neglected", module)
    exec(blocks("CONTRIBUTING.md")[0], vars(module))  # noqa: S102
    check_selector(module.Neglected)


OWN = "docs/tutorials/own-method.md"


@pytest.fixture
def own(monkeypatch):
    """The method of the tutorial as the module that it names."""
    package, module = types.ModuleType("mymethods"), types.ModuleType("mymethods.neglected")
    monkeypatch.setitem(sys.modules, "mymethods", package)
    monkeypatch.setitem(sys.modules, "mymethods.neglected", module)
    exec(blocks(OWN)[0], vars(module))  # noqa: S102
    return module


def test_the_method_of_the_tutorial_keeps_the_contract(own):
    check_selector(own.Neglected)


def test_the_study_of_the_tutorial_runs_the_method(own):
    text = next(b for b in re.findall(r"```toml\n(.*?)```", (ROOT / OWN).read_text(), re.DOTALL) if "[[method]]" in b)
    with import_policy.allow_only(["mymethods.neglected"]):
        made = plan(tomllib.loads(text))
        check_runs(made.runs[:1])
    assert made.labels == ["uniform", "Neglected"]


def test_the_lines_of_the_tutorial_compare_the_method(own, capsys):
    small = blocks(OWN)[-1].replace("clients=50", "clients=12").replace("rounds=30, cohort=5, seeds=10", SMALL)
    exec(small, {})  # noqa: S102
    assert "Neglected" in capsys.readouterr().out


def test_the_lines_and_the_study_of_the_tutorial_are_the_same_comparison(own, monkeypatch):
    import sortition

    text = next(b for b in re.findall(r"```toml\n(.*?)```", (ROOT / OWN).read_text(), re.DOTALL) if "[[method]]" in b)
    study, given = tomllib.loads(text), {}
    monkeypatch.setattr(sortition, "compare", lambda methods, **settings: given.update(settings))
    exec(blocks(OWN)[-1], {})  # noqa: S102
    given["data"] = {"name": given.pop("data"), "clients": given.pop("clients"), "partition": given.pop("partition")}
    assert given == {key: value for key, value in study.items() if key != "method"}


def test_the_tutorial_lists_what_a_method_can_read():
    text, named = (ROOT / OWN).read_text(), {"round": Round, "feedback": Feedback}
    for name, cls in named.items():
        listed = {field for field in re.findall(rf"`{name}\.(\w+)", text) if hasattr(cls, field)}
        public = {field for field in dir(cls) if not field.startswith("_")} - {"reports"}  # by report(signal)
        assert listed == public


def test_the_tutorial_from_logs(tmp_path, monkeypatch, capsys):
    from sortition.advice import simulated_ranking
    from sortition.advice.replay import replay_table

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(simulated_ranking, "MOST_ROUNDS", 3)
    page = "docs/tutorials/from-logs.md"
    profile = re.search(r"```toml\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert profile is not None
    (tmp_path / "profile.toml").write_text(profile.group(1))
    space: dict[str, object] = {}
    for code in blocks(page):
        exec(code.replace("seconds=20", "seconds=1"), space)  # noqa: S102
    printed = capsys.readouterr().out
    assert "cannot be replayed, since they listen to clients: " in printed
    assert printed.splitlines()[-1].startswith(("Use ", "Uniform is enough", "Undecided"))
    chosen = space["chosen"]
    assert chosen["microcosm"].mixture < chosen["uniform"].mixture
    table = replay_table(chosen, space["federation"])
    for row in (row for row in table.rows if row[0] in ("uniform", "fedss", "microcosm")):
        assert f"| `{row[0]}` | {' | '.join(row[1:])} |" in (ROOT / page).read_text()


def test_every_python_block_of_the_tutorials_is_run_by_a_test():
    assert {page.name for page in (ROOT / "docs" / "tutorials").glob("*.md")} == {"own-method.md", "from-logs.md"}
    assert len(blocks(OWN)) == 3


def test_the_study_of_the_first_comparison():
    page = (ROOT / "docs" / "start" / "first-comparison.md").read_text()
    text = next(b for b in re.findall(r"```toml\n(.*?)```", page, re.DOTALL))
    made = plan(tomllib.loads(text))
    assert len(made.runs) == 12
    check_runs(made.runs[:1])


def test_the_study_of_the_studies_page_resolves():
    page = (ROOT / "docs" / "studies.md").read_text()
    text = next(b for b in re.findall(r"```toml\n(.*?)```", page, re.DOTALL) if "[[setting]]" in b)
    made = plan(tomllib.loads(text))
    assert "FedProxSS-P" in made.labels
    assert len(made.settings) == 2 * 2 * 3


def test_the_loop_of_the_aggregation_page(tmp_path):
    code = blocks("docs/aggregation.md")[0]
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("[0, 3, 7]")


def test_the_list_of_methods_has_every_method():

    text = (ROOT / "docs" / "methods" / "index.md").read_text()
    assert [name for name in discover() if f"({name}.md)" not in text] == []


def test_the_defaults_of_compare_are_those_that_the_documents_give():
    import inspect

    from sortition import compare
    from sortition.studies.from_python import DEFAULT_LOCAL, DEFAULT_ROUNDS

    default = {name: one.default for name, one in inspect.signature(compare).parameters.items()}
    studies, readme = ((ROOT / name).read_text() for name in ("docs/studies.md", "README.md"))
    local = json.dumps(DEFAULT_LOCAL)
    assert f"Default: `{default['model']}` |" in studies
    assert f"Default: `{local}` |" in studies
    assert f"``{local}``" in (compare.__doc__ or "")
    assert f"`seeds` are {DEFAULT_ROUNDS}, {default['cohort']} and {default['seeds']}." in studies
    assert DEFAULT_LOCAL["epochs"] == 1
    said = f"train an `{default['model']}` for one epoch, `batch` {DEFAULT_LOCAL['batch']}, `lr` {DEFAULT_LOCAL['lr']}."
    assert said in " ".join(readme.split())


def test_the_readme_names_every_method_that_the_leaderboard_lacks():
    from sortition.leaderboard.published import load_published

    rows = {row.row for row in load_published().tracks["seconds"].rows}
    lacks = set(discover()) - rows
    readme = " ".join((ROOT / "README.md").read_text().split())
    sentence = re.search(r"rerun this yet\. (`full` .* have no row)", readme)
    assert sentence is not None
    assert set(re.findall(r"`([\w-]+)`", sentence[1])) == lacks


def test_the_questions_quote_the_leaderboard():
    from sortition.leaderboard.published import load_published

    by_clock = next(row for row in load_published().tracks["seconds"].rows if row.row == "microcosm")
    row = next(line for line in (ROOT / "docs" / "leaderboard.md").read_text().splitlines() if "| microcosm  " in line)
    by_rounds = row.split("|")[4].strip()
    page = " ".join((ROOT / "docs" / "faq.md").read_text().split())
    assert f"`{str(by_clock).replace(' ', '` gains ', 1)} points of mean accuracy" in page
    assert f"its first edition gained {by_rounds};" in page
    later = next(row for row in load_published().tracks["rounds"].rows if row.row == "microcosm")
    assert not later.separated
    assert f"the second edition gains {later.gain_text} by rounds, not separated from uniform" in page


def test_the_page_of_microcosm_quotes_suite_1_with_and_without_the_synthetic_cells():
    rows = pl.read_parquet(ROOT / "docs" / "leaderboard.parquet").filter(pl.col("half") == "held-out")
    means = rows.group_by("cell", "method").agg(pl.col("auc").mean()).pivot(on="method", index="cell", values="auc")
    without_synthetic = means.filter(~pl.col("cell").str.starts_with("synthetic"))
    page = (ROOT / "docs" / "methods" / "microcosm.md").read_text()

    def gain(cells, other):
        differences = 100 * (cells["microcosm"] - cells[other]).to_numpy()
        low, high = t.interval(0.95, differences.size - 1, loc=differences.mean(), scale=sem(differences))
        return f"{differences.mean():+.1f} [{low:+.1f}, {high:+.1f}]"

    for other in ("uniform", "fed-cbs", "flips", "longfed"):
        assert f"| {other} | {gain(means, other)} | {gain(without_synthetic, other)} |" in page


def test_links_lead_somewhere():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
            path = page.parent / target
            assert "://" in target or path.exists(), f"{page.relative_to(ROOT)} links to {target}"


WORDS = {
    "Wilcoxon": "wilcoxon",
    "Ray worker": "on another machine",
    "hash chain": "sha256",
    "YC": "class LabelCycle",
    "FedGS's graph": "floyd_warshall",
    "checkpoint of a run": "def load",
    "file lock": "flock",
    "Flower aggregation": "def step",
    "quarantines": "quarantine",
    "first sentence": "def headline",
    "when a client drops out": "def weights_of",
    "promise of privacy": "def lint",
}


@pytest.mark.parametrize("word", WORDS)
def test_the_design_page_says_where_a_thing_lives(word):
    table = (ROOT / "docs" / "design.md").read_text().partition("Where to look:")[2]
    row = next(line for line in table.splitlines() if line.startswith("|") and word in line)
    path = ROOT / "src" / "sortition" / re.findall(r"`([^`]+\.py)`", row)[0]
    assert WORDS[word] in path.read_text()


def test_the_second_method_of_the_tutorial_keeps_the_contract(monkeypatch):
    module = types.ModuleType("large_and_wrong")
    monkeypatch.setitem(sys.modules, "large_and_wrong", module)
    text = next(block for block in blocks(OWN) if "LargeAndWrong" in block)
    exec(text, vars(module))  # noqa: S102
    check_selector(module.LargeAndWrong)


def test_the_reference_has_every_public_name():
    import sortition
    from sortition.data import __all__ as of_data
    from sortition.federation import __all__ as of_federation

    text = (ROOT / "docs/reference/api.md").read_text()
    names = [f"sortition.{name}" for name in sortition.__all__ if name not in ("__version__", "track")]
    names += [f"sortition.data.{name}" for name in of_data]
    names += [f"sortition.federation.{name}" for name in of_federation]
    listed = set(re.findall(r"auto\w+:: ([\w.]+)", text))
    errors = {"DataError", "InputError", "SortitionError", "StorageError", "UndeclaredError"}
    missing = [name for name in names if name not in listed and name.rpartition(".")[2] not in errors]
    assert not missing
    assert "sortition.studies.track" in listed
    assert all(error in text for error in errors)


def test_the_presets_of_convolutional_nets_are_in_the_documentation():
    from sortition.learning.cnns import PRESETS

    text = (ROOT / "docs/studies.md").read_text()
    assert [preset for preset in PRESETS if f"`{preset}`" not in text] == []
