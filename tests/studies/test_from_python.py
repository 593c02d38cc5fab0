import inspect
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import torch
from rich.console import Console
from torch import nn

import sortition as so
from sortition.cli.run import print_summary
from sortition.core import Cohort, Selector, State, method
from sortition.core.errors import InputError, StorageError
from sortition.data import Dataset, partitions
from sortition.learning import LocalRule
from sortition.report.palette import GREY
from sortition.studies.study_result import notes_of
from sortition.studies.study_table import Study
from sortition.studies.types import CompareOptions, StudyOptions

X = np.random.default_rng(0).normal(size=(240, 6)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int) + 2 * (X[:, 1] > 0)
SMALL = {"rounds": 3, "cohort": 3, "seeds": 1, "model": "softmax"}


@method
class First(Selector[State]):
    """The first that are available."""

    share: float = 1.0

    def select(self, state, round):
        return Cohort.uniform(round.available[: round.budget])


def halves(labels, clients, rng):
    return np.array_split(rng.permutation(len(labels)), clients)


def odd_rounds(t, clients, rng):
    return np.arange(clients) % 2 == t % 2


class Pairs(torch.utils.data.Dataset):
    def __len__(self):
        return len(X)

    def __getitem__(self, at):
        return torch.from_numpy(X[at]), int(Y[at])


def factory(inputs, classes):
    return nn.Linear(inputs[0], classes)


def test_a_batch_of_everything_is_refused_since_a_study_cannot_say_it():
    with pytest.raises(InputError, match=r"local\.batch must be a number in a study; got None\. A large one takes all"):
        so.run("uniform", data=(X, Y), clients=6, local=LocalRule(epochs=1, batch=None, lr=0.1), **SMALL)


def test_the_lines_of_a_plot_have_the_colours_of_the_report(tmp_path):
    result = so.compare(["uniform", "oort", First], data=(X, Y), clients=6, **SMALL)
    chart = result.plot().to_dict()
    scale = chart["layer"][0]["encoding"]["color"]["scale"]
    colours = dict(zip(scale["domain"], scale["range"], strict=True))
    figure = result.figure("accuracy").svg
    assert list(colours) == ["uniform", "oort", "First"]
    assert colours["uniform"] == GREY
    assert all(f'stroke="{colour}"' in figure for colour in colours.values())


def test_the_band_of_a_plot_ends_where_the_metric_does():
    options = {**SMALL, "rounds": 1, "seeds": 3, "local": {"steps": 1, "batch": 1, "lr": 0.01}}
    result = so.compare(["uniform"], data=(X, Y, X[:2], Y[:2]), clients=6, **options)
    accuracies = [run.records[-1]["test"]["accuracy"] for run in result.runs]
    assert len(set(accuracies)) > 1  # of two test examples, so that the interval is wider than any accuracy
    values = result.plot().to_dict()["data"]["values"]
    assert all(0 <= row["low"] < row["high"] <= 1 for row in values)


def test_names_instances_and_classes_are_compared_in_five_lines():
    result = so.compare(
        ["uniform", so.load("power-of-choice", d=5), First], data=(X, Y), clients=8,
        partition=so.partition("dirichlet", alpha=0.5), availability="lognormal", **{**SMALL, "seeds": 2},
    )  # fmt: skip
    assert result.curves.height == 3 * 2 * 3
    assert result.table["method"].unique(maintain_order=True).to_list() == ["uniform", "power-of-choice", "First"]
    assert result.runs[2].config["method"]["d"] == 5
    assert "power-of-choice" in str(result)


def test_methods_of_one_name_get_labels_that_distinguish_them():
    result = so.compare(
        [so.load("power-of-choice", d=4), so.load("power-of-choice", d=6)], data=(X, Y), clients=8, **SMALL
    )
    assert result.table["method"].to_list() == ["power-of-choice,d=4", "power-of-choice,d=6"]


@pytest.mark.parametrize(
    ("data", "clients", "expected"),
    [
        (lambda: (X, Y), 8, 8),
        (lambda: (torch.from_numpy(X), torch.from_numpy(Y)), 8, 8),
        (lambda: (X[:200], Y[:200], X[200:], Y[200:]), 8, 8),
        (Pairs, 8, 8),
        (lambda: (X, Y), np.arange(240) % 7, 7),
        (lambda: {name: (X[at::5], Y[at::5]) for at, name in enumerate("abcde")}, None, 5),
        (lambda: Dataset("own", X[:200], Y[:200], X[200:], Y[200:], 4), 8, 8),
        (lambda: "digits", 8, 8),
    ],
    ids=["arrays", "tensors", "with test", "torch Dataset", "client ids", "per client", "Dataset", "name"],
)
def test_data_in_every_form(data, clients, expected):
    result = so.run("uniform", data=data(), clients=clients, **SMALL)
    assert result.runs[0].manifest["clients"] == expected
    assert result.runs[0].done


@pytest.mark.parametrize("rule", ["iid", halves, "file", "object"])
def test_partitions_in_every_form(rule, tmp_path):
    parts = partitions.Partition(tuple(np.array_split(np.arange(192), 6)))
    parts.save(tmp_path / "parts.npz")
    given = {"file": tmp_path / "parts.npz", "object": parts}.get(rule, rule) if isinstance(rule, str) else rule
    result = so.run("uniform", data=(X, Y), clients=6, partition=given, **SMALL)
    sizes = result.runs[0].federation()["sizes"]
    assert sizes.sum() == 192
    assert rule is halves or sizes.tolist() == [32] * 6  # a function splits all rows, also those that are held out


@pytest.mark.parametrize("form", ["function", "matrix", "floats", "truths", "frame"])
def test_availability_in_every_form(form):
    frame = pl.DataFrame({"client_id": [0, 1, 2, 3, 4, 5], "start": [0, 1] * 3, "end": [1, 2] * 3})
    matrix = np.array([[1, 0, 1, 0, 1, 0], [0, 1, 0, 1, 0, 1]])
    matrices = {"matrix": matrix, "floats": matrix.astype(float), "truths": matrix.astype(bool)}
    given = {"function": odd_rounds, "frame": frame, **matrices}[form]
    result = so.run("uniform", data=(X, Y), clients=6, availability=given, **SMALL)
    expected = np.array([np.arange(6) % 2 == t % 2 for t in range(3)])
    assert (result.runs[0].federation()["availability"] == expected).all()


@pytest.mark.parametrize(
    "model",
    ["softmax", {"name": "mlp", "hidden": [5]}, factory, nn.Linear(6, 4)],
    ids=["name", "table", "factory", "module"],
)
def test_models_in_every_form(model):
    result = so.run("uniform", data=(X, Y), clients=6, **{**SMALL, "model": model})
    assert result.runs[0].manifest["model"]["parameters"] == (59 if isinstance(model, dict) else 28)


def test_what_came_from_python_is_hashed_so_that_another_object_is_not_resumed(tmp_path):
    options = {"clients": 6, "out": tmp_path, "model": nn.Linear(6, 4), "rounds": 2, "cohort": 2, "seeds": 1}
    first = so.compare([First], data=(X, Y), **options)
    manifest = first.runs[0].manifest["python"]
    assert set(manifest) == {"data.name", "model.name", "method.name"}
    assert all(len(digest) == 64 for digest in manifest.values())
    written = first.runs[0].path / "rounds.jsonl"
    before = written.stat().st_mtime_ns
    so.compare([First], data=(X, Y), **options)  # the same objects: nothing to do
    assert written.stat().st_mtime_ns == before
    with pytest.raises(StorageError, match=r"what data\.name stands for has changed"):
        so.compare([First], data=(X + 1, Y), **options)
    with pytest.raises(StorageError, match=r"what model\.name stands for has changed"):
        so.compare([First], data=(X, Y), **{**options, "model": nn.Linear(6, 4)})


def test_what_cannot_be_sent_to_other_processes_runs_in_this_one_with_a_note():
    def local_split(labels, clients, rng):
        return np.array_split(np.arange(len(labels)), clients)

    result = so.compare(["uniform"], data=(X, Y), clients=6, partition=local_split, jobs=2, **{**SMALL, "seeds": 2})
    assert "played in this process" in result.notes[0]
    assert all(run.done for run in result.runs)


def test_objects_travel_to_other_processes(tmp_path):
    options = {"clients": 6, "availability": np.eye(6, dtype=int), **SMALL, "seeds": 2, "cohort": 1}
    here = so.compare(["uniform"], data=(X, Y), out=tmp_path / "here", **options)
    there = so.compare(["uniform"], data=(X, Y), out=tmp_path / "there", jobs=2, **options)
    assert not there.notes
    for one, other in zip(here.runs, there.runs, strict=True):
        assert (one.path / "rounds.jsonl").read_bytes() == (other.path / "rounds.jsonl").read_bytes()


def first_half(labels, clients, rng):
    return np.array_split(np.arange(len(labels) // 2), clients)


def test_what_is_odd_about_own_data_is_noted_in_manifest_and_result(capsys):
    result = so.compare(["uniform"], data=(X, Y + 1), clients=6, partition=first_half, **{**SMALL, "seeds": 2})
    labels, held_out, unheld = result.notes
    assert labels.startswith("data has 5 classes, labels 0 … 4, but examples of only 4 (none of 0).")
    assert held_out == "26 of the 120 examples in the partition are held out for testing."
    assert unheld == "98 of 192 training examples are held by no client, and are not used."
    assert all(tuple(run.manifest["notes"]) == result.notes for run in result.runs)
    assert unheld in str(result)
    print_summary(result.out, Console(width=80))
    assert f"note: {unheld}" in capsys.readouterr().out


def test_own_clients_that_leave_examples_out_are_noted_where_they_are_used():
    data = Dataset("own", X[:200], Y[:200], X[200:], Y[200:], 4, clients=tuple(np.arange(150).reshape(5, 30)))
    assert so.run("uniform", data=data, **SMALL).notes == (
        "50 of 200 training examples are held by no client, and are not used.",
    )
    assert so.run("uniform", data=data, clients=5, partition="iid", **SMALL).notes == ()


DRAWS = np.random.default_rng(0)


@method
class OwnGenerator(Selector[State]):
    """Clients by a generator that knows neither seed nor round."""

    def select(self, state, round):
        return Cohort.uniform(DRAWS.permutation(round.available)[: round.budget])


@method
class GlobalGenerator(Selector[State]):
    """Clients by NumPy's global generator."""

    def select(self, state, round):
        return Cohort.uniform(np.random.permutation(round.available)[: round.budget])  # noqa: NPY002


def test_methods_that_draw_elsewhere_than_from_the_round_are_noted():
    methods = ["uniform", First, OwnGenerator, GlobalGenerator]
    result = so.compare(methods, data=(X, Y), clients=8, **{**SMALL, "rounds": 1, "cohort": 1})
    assert [note.partition(".")[0] for note in result.notes if "generator" in note] == [
        "OwnGenerator has a random generator of its own (DRAWS)",
        "GlobalGenerator drew from a global random generator (numpy",
    ]
    assert not [note for note in result.notes if "First" in note]


def test_of_many_notes_the_first_are_shown():
    notes = [{"notes": ["shared", f"of seed {seed}"]} for seed in range(9)]
    runs = [SimpleNamespace(config={}, done=True, manifest=manifest) for manifest in [*notes, {}, {"notes": 7}]]
    shown = notes_of(runs)
    assert shown[:2] == ["shared", "of seed 0"]
    assert shown[5:] == ["5 more notes are in the manifests of the runs."]


def test_simulate_shows_every_round_and_equals_a_run():
    steps = list(so.simulate("power-of-choice", data=(X, Y), clients=6, seed=3, rounds=3, cohort=2, model="softmax"))
    assert [step.round for step in steps] == [1, 2, 3]
    assert steps[0].params.shape == (28,)
    assert not np.array_equal(steps[0].params, steps[2].params)
    result = so.run("power-of-choice", data=(X, Y), clients=6, seeds=[3], rounds=3, cohort=2, model="softmax")
    assert [r["cohort"] for r in result.runs[0].records] == [step.record["cohort"] for step in steps]


@pytest.mark.parametrize("seeds", [np.int64(2), np.arange(2), [np.int64(0), 1], range(2)], ids=repr)
def test_seeds_in_every_form(seeds):
    result = so.compare(["uniform"], data=(X, Y), clients=6, **{**SMALL, "rounds": 1, "seeds": seeds})
    assert [run.config["seed"] for run in result.runs] == [0, 1]


def test_simulate_refuses_what_it_does_not_take():
    for key, meant in (("partion", ".*Did you mean 'partition'"), ("jobs", ""), ("seeds", "")):
        with pytest.raises(InputError, match=f"Unknown key '{key}'; simulate has {meant}"):
            next(so.simulate("uniform", data=(X, Y), clients=6, **{key: "iid"}))


def test_sweeps_and_other_keys_of_a_study():
    result = so.compare(
        ["uniform"], data=(X, Y), clients=6, sweep={"local.lr": [0.1, 0.2]}, devices={"dropout": 0.5}, **SMALL
    )
    assert result.table["setting"].to_list() == ["lr=0.1", "lr=0.2"]
    assert result.runs[0].config["devices"]["dropout"] == 0.5


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"data": 7}, "data must be a name, arrays"),
        ({"data": pl.DataFrame({"a": [1]})}, "from_frame"),
        ({"data": (X, Y), "partition": 7}, "partition must be a name"),
        ({"data": (X, Y), "availability": [1, 0]}, "availability must be a name, a matrix"),
        ({"data": (X, Y), "availability": [[1, 0], [1]]}, "availability must be a name, a matrix"),
        ({"data": (X, Y), "availability": np.full((4, 6), 0.9)}, "made of 0 and 1"),
        ({"data": (X, Y), "availability": np.full((4, 6), -1)}, "made of 0 and 1"),
        ({"data": (X, Y), "availability": np.ones((4, 5))}, r"of shape \(rounds, 6\); got \(4, 5\)"),
        ({"data": (X, Y), "model": 7}, "model must be a name"),
        ({"data": "digits", "clients": np.zeros(5)}, "clients must be a number"),
        ({"data": (X, Y), "seeds": 2.0}, "seeds must be a number of seeds or a list of whole numbers; got 2.0"),
        ({"data": (X, Y), "seeds": np.float64(2)}, "seeds must be a number of seeds"),
        ({"data": (X, Y), "seeds": [0.5]}, "seeds.0 must be"),
        ({"data": (X, Y), "epochz": 3}, "Unknown key 'epochz'"),
        ({"data": (X, Y), "partion": "iid"}, "compare has methods, .*Did you mean 'partition'"),
        ({"data": (X, Y), "prgress": False}, "Did you mean 'progress'"),
        ({"data": (X, Y), "partition": lambda labels, clients, rng: [[0], [1]]}, "partition.clients must be 2"),
        ({"data": (X, Y), "partition": lambda labels, clients, rng: 7}, "^partition must be index arrays"),
        (
            {"data": (X, Y), "availability": lambda t: np.ones(6, bool)},
            r"^availability must be a function \(t, clients, rng\); got one with the parameters \(t\)\.$",
        ),
        (
            {"data": (X, Y), "partition": lambda labels: []},
            r"^partition must be a function \(labels, clients, rng\); got",
        ),
        ({"data": (X, Y), "model": nn.Linear}, "model must be a module, or a function .*in_features, out_features"),
        ({"data": (X, Y), "model": lambda a, b: None}, "model must be a module, or a function .*got one with a, b"),
        (
            {"data": (X, Y), "partition": lambda labels, clients, rng: [[[0]], [[1]]]},
            "partition.indices must be whole numbers in one dimension",
        ),
        (
            {"data": (X, Y), "partition": lambda labels, clients, rng: [[0, 1]] * clients},
            r"^partition.indices must be each held by one client; got example 0 twice\.$",
        ),
    ],
)
def test_mistakes_are_refused_before_anything_runs(change, match):
    with pytest.raises(InputError, match=match):
        so.compare(["uniform"], **{"clients": 6, **SMALL, **change})


def test_a_method_that_is_none_is_refused():
    with pytest.raises(InputError, match="methods must be names"):
        so.compare([7], data=(X, Y), clients=6, **SMALL)


class Recorder(so.Callback):
    def __init__(self):
        self.seen = []

    def on_start(self, run, folder, played):
        self.seen.append((run.method.label, run.seed, played))

    def on_round(self, run, record):
        self.seen.append(record["round"])

    def on_end(self, run, summary):
        self.seen.append(summary["status"])


def test_callbacks_follow_every_run():
    recorder = Recorder()
    so.run("uniform", data=(X, Y), clients=6, callbacks=[recorder], **{**SMALL, "seeds": 2})
    assert recorder.seen == [("uniform", 0, 0), 0, 1, 2, "done", ("uniform", 1, 0), 0, 1, 2, "done"]


def test_the_types_of_the_options_name_every_key_of_a_study():
    """Keys that a study gains must be added to StudyOptions, else type checkers refuse them in calls of compare."""
    arguments = {name for name in inspect.signature(so.compare).parameters if name != "more"}
    passed_on = set(Study.model_fields) - arguments - {"method"}
    assert set(StudyOptions.__annotations__) == passed_on
    assert set(CompareOptions.__annotations__) == passed_on | arguments - {"methods"}


def test_data_with_clients_keep_them_where_no_partition_is_named():
    def partition_of(data, **options):
        result = so.compare(["uniform"], data=data, clients=12, progress=False, jobs=1, **SMALL, **options)
        return result.runs[0].config["data"]["partition"]["name"]

    by_client = {client: (X[client::20], Y[client::20]) for client in range(20)}
    assert partition_of({"name": "synthetic"}) == "natural"
    assert partition_of("synthetic") == "natural"
    assert partition_of(by_client) == "natural"  # 12 of the 20, drawn by the seed
    assert partition_of(by_client, partition="iid") == "iid"
    assert partition_of((X, Y)) == "iid"
