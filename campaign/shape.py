"""How large the rooms of a federation are, and how far a simulated round travels through the files.

``python -m campaign shape`` counts the statements and the tokens of ``simulation``, ``federation``, ``flower`` and
``nvflare``, apart from what later features added, and plays one round of the simulator under a profiler:

- *tokens* are Python's, without comments, docstrings and line breaks: they do not depend on how lines are split;
- *files* are the files of the package of which a function ran in the round;
- a *leaf* is such a file whose functions called no other file: formulas, tables and value types;
- *hops* are the changes of file from the call of the round down to the deepest call.

``--files`` lists the files of the round.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

SOURCE = Path(__file__).parents[1] / "src" / "sortition"
ROOMS = ("simulation", "federation", "flower", "nvflare")
BEFORE = {"statements": 4722, "tokens": 54802}  # of simulation, flower and nvflare when each had a driver of its own
LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
LATER: Mapping[str, tuple[str, ...]] = {
    "own server": ("federation/device_mailbox.py", "federation/device.py", "federation/wire.py"),
    "paces, devices and costs in seconds": (
        "federation/pace.py",
        "federation/staleness.py",
        "federation/overlapping_messenger.py",
        "simulation/event_loop.py",
        "simulation/device_description.py",
        "simulation/device_tables.py",
        "simulation/foresight.py",
        "simulation/devices.py:Busy",
        "simulation/devices.py:ClientData",
        "simulation/devices.py:Devices._check_busy",
        "simulation/devices.py:Devices._check_quantiles",
        "simulation/devices.py:Devices._check_stated",
        "simulation/devices.py:Devices._check_slow",
        "simulation/devices.py:Fleet._with_data",
        "simulation/devices.py:Fleet._by_quantiles",
        "simulation/devices.py:Fleet._state_devices",
        "simulation/devices.py:Fleet._busy_shifts",
        "simulation/devices.py:Fleet.speed_now",
        "federation/driver.py:OverlappingBackend",
        "federation/driver.py:Ending",
        "federation/driver.py:PastTurn",
        "federation/driver.py:Driver.at_work",
        "federation/driver.py:Driver._overlapping",
        "federation/driver.py:Driver._step",
        "federation/driver.py:Driver.await_step",
        "federation/driver.py:Driver._await",
        "federation/driver.py:Driver._end",
        "federation/driver.py:Driver._give_up",
        "federation/driver.py:Driver._drop_stale",
        "federation/driver.py:Driver._select_more",
        "federation/driver.py:_by_fate",
        "federation/driver.py:step_record",
        "federation/driver.py:_step_details",
        "federation/model_engine.py:Engine.rebase",
        "federation/options.py:Options._check_pace",
        "flower/aggregation.py:FlowerEngine.rebase",
        "flower/strategy.py:SelectorStrategy._check_pace",
        "simulation/setup.py:Setup._check_pace",
        "simulation/setup.py:Setup.check_deadline",
        "simulation/simulation.py:Simulation.share_of_limit",
        "simulation/simulation.py:Simulation._ends_with",
        "simulation/simulation.py:Simulation.note_durations",
        "simulation/simulation.py:costs_so_far",
        "simulation/run_checkpoint.py:_export_work",
        "simulation/run_checkpoint.py:_export_flight",
        "simulation/run_checkpoint.py:_export_trained",
        "simulation/run_checkpoint.py:_restore_work",
        "simulation/run_checkpoint.py:_read_flight",
        "simulation/run_checkpoint.py:_read_selection",
    ),
    "policies and their ledger": (
        "federation/policies.py",
        "federation/ledger.py",
        "simulation/batteries.py",
        "federation/members.py:MemberDirectory",
        "federation/options.py:Options._check_policies",
        "federation/server_checkpoint.py:RunFiles._open_ledger",
        "federation/driver.py:Driver._claim_cohort",
        "federation/driver.py:Driver._withdraw",
        "federation/driver.py:_without",
        "simulation/simulation.py:SimulatedDirectory",
        "simulation/simulation.py:Simulation._admitted",
        "simulation/simulation.py:Simulation._with_facts",
        "simulation/setup.py:Setup._check_policy",
        "nvflare/controller_options.py:_policies",
    ),
    "metrics": (
        "federation/monitoring.py",
        "federation/metric_series.py",
        "federation/participation.py",
        "nvflare/controller_options.py:_metrics",
    ),
    "shadows": (
        "federation/shadow.py",
        "federation/arrangement.py",
        "federation/options.py:Options._check_shadows",
        "federation/server_checkpoint.py:RunFiles._selection_of",
        "nvflare/controller_options.py:_shadows",
    ),
    "adversaries that wait, and clipped updates": (
        "simulation/adaptive_attacks.py:AdaptiveAdversaries.away",
        "simulation/adaptive_attacks.py:AdaptiveAdversaries._waits_for_majority",
        "simulation/adaptive_attacks.py:AdaptiveAdversaries._attack_now",
        "simulation/adaptive_attacks.py:_majority",
        "federation/model_screening.py:ModelCheck._judged_by",
        "federation/model_screening.py:ModelCheck.shortened",
        "federation/model_screening.py:no_further",
    ),
    "tasks beyond labels": (
        "simulation/task_data.py",
        "simulation/setup.py:Setup._check_labels",
        "simulation/world.py:Evaluator._client_metrics",
        "simulation/world.py:Evaluator._metrics_of",
    ),
}
"""What came to these rooms after they got one driver: a file, or a class or function of a file."""


# -- statements and tokens ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Size:
    """How large a piece of a program is.

    Attributes:
        statements: of its syntax tree; a docstring is one.
        tokens: without comments, docstrings and line breaks.
    """

    statements: int = 0
    tokens: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(self.statements + other.statements, self.tokens + other.tokens)

    def __sub__(self, other: Size) -> Size:
        return Size(self.statements - other.statements, self.tokens - other.tokens)


class Module:
    """A file of a program: its syntax tree, and how many tokens begin in each of its lines."""

    def __init__(self, text: str) -> None:
        self.tree = ast.parse(text)
        docstrings = {
            (node.lineno, node.col_offset)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        }
        self._tokens: Counter[int] = Counter()
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type not in LAYOUT and token.start not in docstrings:
                self._tokens[token.start[0]] += 1

    def size(self, definition: str = "") -> Size | None:
        """Return the size of a class or function, of the whole file without a name; None where there is none."""
        if not definition:
            return Size(n_statements(self.tree), self._tokens.total())
        node = dict(definitions(self.tree)).get(definition)
        if node is None:
            return None
        first_line = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        lines = range(first_line, (node.end_lineno or node.lineno) + 1)
        return Size(n_statements(node), sum(self._tokens[line] for line in lines))


def n_statements(tree: ast.AST) -> int:
    """Count the statements of a tree, its own included; a docstring is one."""
    return sum(isinstance(node, ast.stmt) for node in ast.walk(tree))


def definitions(tree: ast.AST, owner: str = "") -> Iterator[tuple[str, ast.ClassDef | ast.FunctionDef]]:
    """Yield classes, functions and methods by their names; methods after the name of their class."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield f"{owner}{node.name}", node
        if isinstance(node, ast.ClassDef):
            yield from definitions(node, f"{owner}{node.name}.")


@dataclass
class Sizes:
    """How large the rooms are.

    Attributes:
        rooms: each room, later features aside.
        features: each later feature.
        missing: places of LATER that are not in the source.
    """

    rooms: dict[str, Size] = field(default_factory=dict)
    features: dict[str, Size] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def sizes(source: Path = SOURCE, later: Mapping[str, tuple[str, ...]] = LATER) -> Sizes:
    """Measure the rooms of a source tree."""
    modules = {
        file.relative_to(source).as_posix(): Module(file.read_text(encoding="utf-8"))
        for room in ROOMS
        for file in sorted((source / room).rglob("*.py"))
    }
    measured = Sizes(rooms=dict.fromkeys(ROOMS, Size()), features=dict.fromkeys(later, Size()))
    for name, module in modules.items():
        measured.rooms[name.split("/")[0]] += module.size() or Size()
    for feature, places in later.items():
        for place in places:
            name, _, definition = place.partition(":")
            size = None
            if name in modules:
                size = modules[name].size(definition)
            if size is None:
                measured.missing.append(place)
                continue
            measured.features[feature] += size
            measured.rooms[name.split("/")[0]] -= size
    return measured


# -- a round -----------------------------------------------------------------------------------------------------------


@dataclass
class Journey:
    """Which files a call passed through.

    Attributes:
        files: how many calls each file of the package had.
        callers: the files that called another one.
        deepest: the files on the way to the deepest call, each change of file once.
    """

    files: Counter[str] = field(default_factory=Counter)
    callers: set[str] = field(default_factory=set)
    deepest: list[str] = field(default_factory=list)

    @property
    def leaves(self) -> list[str]:
        """The files that called no other file."""
        return sorted(self.files.keys() - self.callers)

    @property
    def hops(self) -> int:
        """How many changes of file lead to the deepest call."""
        return max(0, len(self.deepest) - 1)


def journey(call: Callable[[], object], source: Path = SOURCE) -> Journey:
    """Make a call under a profiler, and return which files of the package it passed through."""
    passed = Journey()
    way: list[str | None] = []  # the file of each open frame; None for those of other packages
    prefix = f"{source}/"

    def watch(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            file = frame.f_code.co_filename
            way.append(file.removeprefix(prefix) if file.startswith(prefix) else None)
            _note(passed, way)
        elif event == "return" and way:
            way.pop()

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return passed


def _note(passed: Journey, way: list[str | None]) -> None:
    """Count the call that was just made."""
    file = way[-1]
    if file is None:
        return
    passed.files[file] += 1
    steps: list[str] = []
    for name in way:
        if name is not None and (not steps or steps[-1] != name):
            steps.append(name)
    passed.callers.update(steps[:-1])
    if len(steps) > len(passed.deepest):
        passed.deepest = steps


def simulated_round() -> Journey:
    """Play the second round of power-of-choice on digits: it asks, trains, steps and evaluates."""
    import numpy as np

    from sortition.data import load
    from sortition.learning import LocalRule, build
    from sortition.selectors import find
    from sortition.simulation import Setup, World
    from sortition.simulation import start as start_simulation

    data = load("digits")
    parts = np.array_split(np.arange(len(data.y_train)), 20)
    world = World(data, parts, build("softmax", data.x_train.shape[1:], data.classes), LocalRule(lr=0.1, epochs=1))
    setup = Setup(world, find("power-of-choice").load(), cohort=4, horizon=3)
    simulation = start_simulation(setup)
    simulation.play_round()
    return journey(simulation.play_round)


# -- the report --------------------------------------------------------------------------------------------------------


def report(*, with_files: bool = False) -> int:
    """Print the figures; 0 if all places of LATER exist."""
    measured = sizes()
    _print_sizes("Later features aside", measured.rooms)
    print(f"  {'before one driver':42} {BEFORE['statements']:10,} {BEFORE['tokens']:7,}")
    _print_sizes("Later features", measured.features)
    passed = simulated_round()
    n_files = len(passed.files)
    n_leaves = len(passed.leaves)
    print(f"A simulated round passes {n_files} files: {n_files - n_leaves} call others, {n_leaves} are leaves.")
    print(f"Its deepest call is {passed.hops} changes of file away:")
    print(f"  {' → '.join(passed.deepest)}")
    if with_files:
        for file, calls in sorted(passed.files.items()):
            kind = "calls others" if file in passed.callers else "leaf"
            print(f"  {file:44} {calls:6} calls, {kind}")
    for place in measured.missing:
        print(f"not in the source any more: {place}")
    return 1 if measured.missing else 0


def _print_sizes(title: str, parts: Mapping[str, Size]) -> None:
    """Print the size of each part and of all together."""
    print(f"{title:44} statements  tokens")
    for name, size in {**parts, "together": sum(parts.values(), Size())}.items():
        print(f"  {name:42} {size.statements:10,} {size.tokens:7,}")
