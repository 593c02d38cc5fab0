"""The engine of a study: in the manifest, forced by a key, refused where it cannot take the model."""

import json

import pytest
from tests.studies.tables import small
from torch import nn

from sortition.core.errors import InputError
from sortition.learning import vmapped
from sortition.studies.plan import plan
from sortition.studies.runs import runner
from sortition.studies.runs.run_task import OneRun
from sortition.studies.workers.lockstep_runs import attempt_all

OWN = "tests.studies.test_engines:Attention"
NORMED = "tests.studies.test_engines:Normed"
RULE = {"steps": 2, "batch": 5, "lr": 0.1}


class Attention(nn.Module):
    """The rows of an 8 × 8 image attend to one another."""

    def __init__(self):
        super().__init__()
        self.mixed = nn.Linear(8, 24)
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        query, key, value = self.mixed(x.reshape(-1, 8, 8)).chunk(3, dim=-1)
        return self.head(nn.functional.scaled_dot_product_attention(query, key, value).mean(1))


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(64)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.norm(x.flatten(1)))


def study(**changes):
    return small(**{"rounds": 2, "seeds": 1, "cohort": 4, "method": [{"name": "uniform"}], "local": RULE, **changes})


def manifest_of(table, tmp_path):
    runner.execute(plan(table), tmp_path, jobs=1)
    (path,) = tmp_path.rglob("manifest.json")
    return json.loads(path.read_text())


@pytest.mark.parametrize(
    ("changes", "engine"),
    [
        ({}, "stacked"),
        ({"engine": "vmapped"}, "vmapped"),
        ({"precision": "bf16"}, "vmapped"),
        ({"model": {"name": "resnet", "width": 8}}, "vmapped"),
        ({"model": OWN}, "vmapped"),
        ({"model": OWN, "cohort": 3}, "sequential"),
        ({"model": OWN, "engine": "sequential"}, "sequential"),
        ({"model": NORMED}, "sequential"),
    ],
)
def test_the_manifest_says_which_engine_trained(changes, engine, tmp_path):
    manifest = manifest_of(study(**changes), tmp_path)
    assert manifest["engine"] == engine
    says_why = any("BatchNorm1d mixes the rows" in note for note in manifest["notes"])
    assert says_why == (changes.get("model") == NORMED)


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"model": NORMED, "engine": "vmapped"}, "engine must be 'auto' or 'sequential' .*BatchNorm1d"),
        ({"model": OWN, "engine": "stacked"}, "engine must be 'auto', 'vmapped' or 'sequential'"),
        ({"engine": "stacked", "precision": "bf16"}, "precision = 'bf16'"),
        ({"engine": "vmaped"}, "Did you mean 'vmapped'"),
    ],
)
def test_an_engine_that_cannot_take_the_model_is_refused(changes, refusal, tmp_path):
    with pytest.raises(InputError, match=refusal):
        runner.execute(plan(study(**changes)), tmp_path, jobs=1)
    assert not [*tmp_path.rglob("rounds.jsonl")]


def test_runs_of_ones_own_model_train_together_with_the_bytes_of_each_alone(tmp_path, monkeypatch):
    sizes = []
    train = vmapped.train_mapped_stack

    def counted(mapped, job):
        sizes.append(len(job.plans))
        return train(mapped, job)

    monkeypatch.setattr("sortition.learning.vmapped.train_mapped_stack", counted)
    files = {}
    for way, lockstep in (("together", True), ("alone", False)):
        drawn = plan(study(rounds=3, seeds=3, model=OWN, lockstep=lockstep))
        tasks = {
            position: OneRun(config=run, path=tmp_path / way / str(position), lockstep=drawn.lockstep)
            for position, run in enumerate(drawn.runs)
        }
        attempt_all(tasks, lambda event: None, lambda: False)
        found = [path for path in (tmp_path / way).rglob("*") if path.is_file() and path.name != "timings.jsonl"]
        files[way] = {str(path.relative_to(tmp_path / way)): path.read_bytes() for path in found}
        if lockstep:
            assert max(sizes) == 3 * drawn.runs[0].cohort
    assert files["together"] == files["alone"]
