"""The help of every command is whole: what is declared is what a reader sees."""

from __future__ import annotations

import re

import pytest
import typer
from typer.testing import CliRunner

from sortition.cli import PANELS, app
from sortition.studies.plan import DEMO, plan, read


def leaves(group, path=()):
    for name, one in group.commands.items():
        yield from leaves(one, (*path, name)) if hasattr(one, "commands") else [((*path, name), one)]


COMMANDS = dict(leaves(typer.main.get_command(app)))


def shown(*words):
    result = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "200", "TERMINAL_WIDTH": "200"})
    assert result.exit_code == 0
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", result.output).split())


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_argument_and_option_is_explained(path):
    text = shown(*path)
    for parameter in COMMANDS[path].params:
        words = getattr(parameter, "help", None)
        assert words, f"{' '.join(path)}: {parameter.name} has no help"
        assert " ".join(words.split()) in text
        if isinstance(parameter.show_default, str):
            assert f"({parameter.show_default})" in text


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_nothing_in_brackets_is_lost(path):
    """Words in brackets are markup to Typer, and would vanish from the terminal."""
    written = [COMMANDS[path].help, *(getattr(parameter, "help", None) for parameter in COMMANDS[path].params)]
    assert [words for words in written if words and re.search(r"\[[a-z/]", words)] == []


def test_the_help_lists_every_command_under_what_it_is_for():
    group = typer.main.get_command(app)
    panels = {name: getattr(command, "rich_help_panel", None) for name, command in group.commands.items()}
    assert set(panels.values()) == set(PANELS)
    assert next(iter(panels)) == "demo"
    text = shown()
    places = [text.index(panel) for panel in PANELS]
    assert places == sorted(places)


def test_the_demo_says_how_many_methods_it_compares():
    numbers = {8: "eight"}
    assert f"Compare {numbers[len(plan(read(DEMO)).labels)]} methods" in shown("demo")
