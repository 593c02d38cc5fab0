"""Who may import whom, and where randomness may come from: the layout is the architecture."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "sortition"
SCIENCE = {"numpy", "scipy", "sklearn", "pydantic"}
BELOW_STUDIES = {
    "core",
    "privacy",
    "audit",
    "aggregation",
    "clients",
    "federation",
    "selectors",
    "data",
    "availability",
    "learning",
    "simulation",
    "results",
}
ALL = BELOW_STUDIES | {
    "studies",
    "reproduction",
    "leaderboard",
    "advice",
    "federation",
    "flower",
    "nvflare",
    "report",
    "testing",
}

# room: (rooms of ours, libraries) at module level; inside functions the second line of a room counts as well
MAY = {
    "core": (set(), {"numpy", "pydantic", "typing_extensions"}),
    "privacy": ({"core"}, set()),
    "selectors": ({"core"}, SCIENCE),
    "data": ({"core"}, SCIENCE),
    "availability": ({"core"}, SCIENCE),
    "learning": ({"core"}, SCIENCE | {"torch"}),
    "federation": ({"core", "audit", "aggregation", "clients"}, {"numpy"}),
    "simulation": ({"core", "aggregation", "federation", "data", "availability", "learning"}, SCIENCE | {"torch"}),
    "clients": ({"core"}, {"numpy"}),
    "flower": ({"core", "aggregation", "clients", "federation", "privacy"}, SCIENCE | {"flwr"}),
    # its controllers get a method's name, since NVFlare writes their arguments as JSON
    "nvflare": ({"core", "aggregation", "clients", "federation", "selectors"}, SCIENCE | {"nvflare"}),
    "testing": ({"core", "federation"}, {"numpy"}),
    "audit": ({"core"}, {"numpy", "pydantic"}),
    "aggregation": ({"core"}, {"numpy"}),
    "results": ({"core", "audit"}, SCIENCE | {"polars", "rich", "typing_extensions"}),
    "studies": (BELOW_STUDIES | {"testing"}, SCIENCE | {"torch", "polars", "rich", "tomli_w"}),
    "reproduction": (
        BELOW_STUDIES | {"studies", "testing"},
        SCIENCE | {"torch", "polars", "rich", "tomli_w", "altair"},
    ),
    "advice": (BELOW_STUDIES | {"studies", "leaderboard"}, SCIENCE),
    "leaderboard": (BELOW_STUDIES | {"studies"}, SCIENCE | {"polars"}),
    "report": ({"core", "results"}, SCIENCE | {"polars", "altair", "vl_convert"}),
    "cli": (ALL - {"flower", "nvflare"}, SCIENCE | {"typer", "rich", "polars"}),
}
INSIDE_FUNCTIONS = {
    "core": (set(), set()),
    "data": (set(), {"torch", "PIL", "polars", "altair", "rich", "rdata"}),
    "availability": ({"data"}, {"polars", "altair"}),
    "simulation": (set(), {"polars", "altair"}),
    "clients": ({"learning"}, {"torch", "sklearn"}),
    "federation": ({"selectors"}, {"prometheus_client"}),
    "privacy": (set(), {"dp_accounting"}),
    "studies": ({"flower", "report"}, {"ray", "threadpoolctl", "typer", "altair", "vl_convert"}),
    "reproduction": ({"report"}, set()),
    "cli": ({"flower"}, {"torch", "altair", "vl_convert", "tomli_w"}),
}
STANDARD = set(__import__("sys").stdlib_module_names)


def is_module(name: str) -> bool:
    """Whether ``sortition.room.name`` is a module of ours rather than something inside one."""
    path = SOURCE.parent.joinpath(*name.split("."))
    return name.startswith("sortition.") and (path.is_dir() or path.with_suffix(".py").is_file())


def imports(path: Path) -> Iterator[tuple[str, bool, int]]:
    """(module, whether inside a function, line) of every import in a file; type-checking blocks count as inside."""
    tree = ast.parse(path.read_text())

    def walk(node: ast.AST, inside: bool) -> Iterator[tuple[str, bool, int]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from ((alias.name, inside, child.lineno) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{path}:{child.lineno}: relative import"
                names = [f"{child.module}.{alias.name}" for alias in child.names]
                modules = [name for name in names if is_module(name)]
                if child.module == "sortition":
                    yield from ((name, inside, child.lineno) for name in names)
                elif modules:
                    yield from ((name, inside, child.lineno) for name in modules)
                else:
                    yield child.module or "", inside, child.lineno
            else:
                function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                typing_only = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
                yield from walk(child, inside or function or typing_only)

    yield from walk(tree, False)


def room(path: Path) -> str:
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_one_way(path: Path) -> None:
    here = room(path)
    if here in ("__init__", "__main__", "_lazy"):
        return
    ours, libraries = MAY[here]
    more_ours, more_libraries = INSIDE_FUNCTIONS.get(here, (set(), set()))
    for module, inside, line in imports(path):
        top, _, rest = module.partition(".")
        where = f"{path.relative_to(SOURCE)}:{line} imports {module}"
        if top == "sortition":
            target = rest.partition(".")[0]
            allowed = ours | {here, "__version__", "_lazy"} | (more_ours if inside else set())
            if target == "data" and rest.startswith("data.dataset"):
                continue  # the Dataset type is everybody's
            assert not target or target in allowed, where
        elif top not in STANDARD:
            assert top in libraries | (more_libraries if inside else set()), where


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_randomness_is_handed_in(path: Path) -> None:
    text = path.read_text()
    for number, line in enumerate(text.splitlines(), 1):
        if "NPY002" in line:
            continue  # a paper's own draws from numpy's legacy generator, with a reason beside it
        for word in ("np.random.seed", "np.random.rand", "np.random.choice", "random.seed"):
            assert word not in line, f"{path.relative_to(SOURCE)}:{number}: {word}"
        if "torch.manual_seed" in line:  # torch's initialisers know the global generator only: fork it
            assert "fork_rng" in text, f"{path.relative_to(SOURCE)}:{number}: torch.manual_seed outside fork_rng"
        if room(path) in ("selectors", "core", "simulation", "learning") and path.name != "streams.py":
            assert "default_rng" not in line, (
                f"{path.relative_to(SOURCE)}:{number}: use stream(seed, purpose, t, client)"
            )


def test_selectors_are_final_and_one_a_module() -> None:
    from sortition.core import Selector
    from sortition.selectors import discover, find

    for name in discover():
        cls = find(name)
        assert Selector in cls.__bases__, f"{name} must derive from Selector and from nothing in between"


def test_shared_parts_of_selectors_have_two_users_and_a_methods_parts_have_one() -> None:
    """What one method uses belongs to it; what a method's folder holds is no other method's."""
    methods_by_part: dict[str, set[str]] = {}
    for path in sorted((SOURCE / "selectors").rglob("*.py")):
        user = path.relative_to(SOURCE / "selectors").parts[0].removesuffix(".py")
        for module, _, _ in imports(path):
            methods_by_part.setdefault(module, set()).add(user)
    for path in sorted((SOURCE / "selectors").rglob("*/[!_]*.py")):
        owner = path.parent.name
        users = methods_by_part.get(module_name(path), set())
        if owner == "_parts":
            assert len(users) >= 2, f"{path.name} of _parts has one user, {users}: it belongs beside it"
        else:
            assert users <= {owner}, f"{owner}/{path.name} is used by {users - {owner}}: it belongs into _parts"


def module_name(path: Path) -> str:
    return ".".join(["sortition", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(".__init__")


def test_no_module_level_cycle() -> None:
    modules = {module_name(path): path for path in FILES}
    graph = {}
    for name, path in modules.items():
        found = {module for module, inside, _ in imports(path) if not inside}
        graph[name] = {module for module in found & set(modules) if module != name}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules


def test_the_package_does_without_the_workshop() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    build = project["tool"]["hatch"]["build"]["targets"]
    assert build["wheel"]["packages"] == ["src/sortition"]
    assert "workshop" in build["sdist"]["include"]
    importers = [path for path in FILES if any(module.partition(".")[0] == "workshop" for module, *_ in imports(path))]
    assert importers == []


def test_no_rooms_without_a_subject() -> None:
    assert not [p for p in FILES if p.stem in ("utils", "helpers", "common", "misc")]
