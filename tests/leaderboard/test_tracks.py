"""Suite 2: its cells are what the rules say, and none of suite 1's held-out half."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from sortition.core.errors import InputError
from sortition.leaderboard.entrants import (
    MOST_CONFIGURATIONS,
    Configurations,
    Entrant,
    chosen_entrants,
    load_configurations,
)
from sortition.leaderboard.suite import load_suite
from sortition.leaderboard.tracks import FAMILIES, SUITE_FILE, TrackCell, TrackSuite, load_tracks
from sortition.selectors import discover
from sortition.studies.plan import DEMO, plan, read

SUITE = load_tracks()
CNN_CELLS = [cell for cell in SUITE.cell if SUITE.has_cnn(cell)]


def test_tracks_have_as_many_cells_as_the_rules_say() -> None:
    counts = Counter((cell.track, cell.half) for cell in SUITE.cell)
    assert counts == {
        ("rounds", "tuning"): 7,
        ("rounds", "held-out"): 12,
        ("seconds", "tuning"): 12,
        ("seconds", "held-out"): 12,
        ("overlap", "held-out"): 6,
        ("adversaries", "held-out"): 4,
    }


@pytest.mark.parametrize("track", ["rounds", "seconds"])
def test_main_tracks_have_cnns_natural_and_large_federations_and_every_family(track: str) -> None:
    cells = SUITE.cells(track)
    assert 4 * sum(cell in CNN_CELLS for cell in cells) >= len(cells)
    held_out = SUITE.cells(track, "held-out")
    assert {cell.family for cell in held_out} == set(FAMILIES)
    assert {"flights", "shakespeare", "cifar10", "fashion-mnist"} <= {SUITE.data_of(cell) for cell in held_out}
    settings = [SUITE.setting(cell) for cell in cells]
    assert sum(setting["data"].get("clients", 777) >= 1000 for setting in settings) >= 2
    assert {setting.get("server", {}).get("step") for setting in settings} >= {"momentum", "adam"}
    assert any(setting["local"].get("proximal") for setting in settings)
    assert any(setting["local"].get("epochs", 0) > 1 for setting in settings)


def test_families_are_what_the_cells_hold() -> None:
    for cell in SUITE.cell:
        data = SUITE.setting(cell)["data"]
        assert (cell.family == "noise") == ("label_noise" in data), cell.name
        assert (cell.family == "features") == ("styles" in data), cell.name
        assert (cell.family == "natural") == (data["name"] in ("flights", "shakespeare")), cell.name
        if cell.family in ("labels", "sizes"):
            assert (cell.family == "sizes") == (data["partition"]["name"] == "dirichlet-sizes"), cell.name


def test_devices_and_paces_of_the_seconds_are_varied() -> None:
    settings = [SUITE.setting(cell) for cell in SUITE.cells("seconds", "held-out")]
    assert all(setting["devices"]["speed_spread"] > 0 for setting in settings)
    assert all(setting["devices"]["bandwidth_spread"] > 0 for setting in settings)
    assert {setting["devices"].get("slow") for setting in settings} == {None, "high labels", "rare labels", "large"}
    paces = [setting.get("pace", {}) for setting in settings]
    for key in ("overselect", "deadline", "quorum", "late"):
        assert any(key in pace for pace in paces), key
    assert all(SUITE.setting(cell)["pace"]["kind"] == "buffered" for cell in SUITE.cells("overlap"))
    assert all(SUITE.setting(cell)["attacks"]["kind"] == "adaptive" for cell in SUITE.cells("adversaries"))


def test_every_cell_is_a_valid_study_and_timed_ones_end_at_their_budget() -> None:
    for cell in SUITE.cell:
        (run,) = SUITE.study(cell, [{"name": "uniform"}], [0]).runs
        rounds = SUITE.base[cell.base]["rounds"]
        if cell.is_timed:
            assert cell.seconds is not None, cell.name
            assert run.until is not None
            assert run.until.limit == cell.seconds
            assert run.rounds == 3 * rounds
        else:
            assert cell.seconds is None, cell.name
            assert run.rounds == rounds


def test_no_cell_is_held_out_in_suite_1_or_the_demo() -> None:
    first = load_suite()
    tables = [first._setting(cell) for cell in first.cells("held-out")]
    demo = plan(read(DEMO)).runs[0]
    keys = ("data", "availability", "cohort", "local", "model")
    for cell in SUITE.cells("rounds"):
        setting = {"availability": {"name": "always"}, **SUITE.setting(cell)}
        assert all(any(setting[key] != table.get(key) for key in keys) for table in tables), cell.name
        assert (setting["data"], setting["cohort"]) != (demo.data.model_dump(exclude_none=True), demo.cohort)


def test_a_changed_cell_changes_the_name_of_the_suite(tmp_path: Path) -> None:
    text = SUITE_FILE.read_text(encoding="utf-8")
    changed = tmp_path / "changed.toml"
    changed.write_text(text.replace("alpha = 0.3", "alpha = 0.31", 1), encoding="utf-8")
    assert load_tracks(changed).version != SUITE.version
    changed.write_text(f"# a remark\n{text}", encoding="utf-8")
    assert load_tracks(changed).version == SUITE.version


def test_the_rules_state_the_name_of_the_frozen_suite() -> None:
    rules = Path(__file__).parents[2] / "docs" / "leaderboard-rules.md"
    assert f"`{SUITE.version}`" in rules.read_text(encoding="utf-8")


def test_two_cells_of_one_name_are_refused(tmp_path: Path) -> None:
    text = SUITE_FILE.read_text(encoding="utf-8")
    name = SUITE.cell[0].name
    doubled = tmp_path / "doubled.toml"
    doubled.write_text(text.replace(SUITE.cell[1].name, name), encoding="utf-8")
    with pytest.raises(InputError, match=rf"cell.name must be unique in the suite; got '{name}'"):
        load_tracks(doubled)


def test_a_local_rule_of_a_cell_replaces_that_of_its_base() -> None:
    cell = SUITE.cell_named("r-digits-3labels-markov-epochs")
    assert SUITE.setting(cell)["local"] == {"epochs": 3, "batch": 10, "lr": 0.05}


def test_cells_are_found_by_name_and_unknown_ones_refused() -> None:
    with pytest.raises(InputError, match="Unknown cell 'r-digits'"):
        SUITE.cell_named("r-digits")
    with pytest.raises(InputError, match="Unknown track 'hours'"):
        SUITE.cells("hours")


def test_cells_with_a_cnn_have_fewer_seeds() -> None:
    assert list(SUITE.seeds_of(CNN_CELLS[0])) == [0, 1, 2]
    assert list(SUITE.seeds_of(SUITE.cell[0])) == [0, 1, 2, 3, 4]


# -- entrants ---------------------------------------------------------------------------------------------------------


def test_every_method_has_a_row_but_those_with_a_reason() -> None:
    configurations = load_configurations()
    defaults = configurations.defaults()
    assert {entrant.name for entrant in defaults} == set(discover()) - set(configurations.absent)
    assert set(configurations.absent) == {"full", "greedyfed"}
    rows = Counter((entrant.name, entrant.information) for entrant in defaults)
    assert set(rows.values()) == {1}


def test_configurations_load_and_are_at_most_four() -> None:
    configurations = load_configurations()
    for default in configurations.defaults():
        candidates = configurations.candidates(default)
        assert candidates[0] == default
        assert 1 <= len(candidates) <= MOST_CONFIGURATIONS
        assert len({candidate.configuration for candidate in candidates}) == len(candidates)


def test_information_classes_follow_from_what_methods_need() -> None:
    by_label = {entrant.label: entrant.information for entrant in load_configurations().defaults()}
    assert by_label["uniform"] == by_label["microcosm-sizes"] == "public"
    assert by_label["power-of-choice"] == by_label["oort"] == "scalars"
    assert by_label["flips"] == "labels"
    assert by_label["hics"] == "updates"
    assert by_label["microcosm"] == "scalars, labels, updates"
    assert by_label["microcosm-secure"] == "scalars, labels"


def test_an_alternative_with_other_information_is_refused() -> None:
    configurations = Configurations(alternatives={"clustered": [{"by": "size"}]})
    with pytest.raises(InputError, match=r"clustered,by=size must be given the same information as the default"):
        configurations.candidates(Entrant(label="clustered", name="clustered"))
    many = Configurations(alternatives={"fedgs": [{"alpha": alpha} for alpha in (0.1, 0.2, 0.3, 0.4)]})
    with pytest.raises(InputError, match=r"alternatives.fedgs must be at most 3, beside the default; got 4"):
        many.candidates(Entrant(label="fedgs", name="fedgs"))


def test_methods_are_chosen_by_row_or_import_path() -> None:
    configurations = load_configurations()
    chosen = chosen_entrants(configurations, ["oort", "mymethods.neglected:Mine"])
    assert [entrant.label for entrant in chosen] == ["uniform", "oort", "Mine"]
    with pytest.raises(InputError, match=r"It does not: it trains everybody"):
        chosen_entrants(configurations, ["full"])
    with pytest.raises(InputError, match="Unknown method 'ort'"):
        chosen_entrants(configurations, ["ort"])


def test_cells_say_which_keys_they_know() -> None:
    with pytest.raises(ValueError, match="speed"):
        TrackCell(name="a", track="rounds", half="tuning", family="labels", base="digits", study={}, speed=1)
    assert isinstance(SUITE, TrackSuite)
