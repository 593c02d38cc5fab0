from __future__ import annotations

import numpy as np

from sortition.reproduction.context import Context
from sortition.reproduction.figures import fedgs_cycles
from sortition.reproduction.figures.fedgs_cycles import FixedCycle, play_run, random_cycle, repeated_cohorts
from sortition.studies.build_federation import setup
from sortition.studies.plan import plan

STUDY = {
    "rounds": 5,
    "cohort": 2,
    "seeds": [0, 1],
    "data": {"name": "digits", "clients": 6, "partition": {"name": "shards", "per_client": 2}},
    "model": {"name": "softmax"},
    "local": {"steps": 2, "batch": 16, "lr": 0.1},
    "method": [{"name": "fedgs", "label": "FedGS"}],
    "setting": [{"name": "IDL"}],
}


def test_a_cycle_has_every_client_once_and_leaves_the_rest_out():
    cycle = random_cycle(np.array([4, 0, 2, 6, 1, 3, 5]), 3)
    assert cycle == ((0, 2, 4), (1, 3, 6))


def test_a_fixed_cycle_is_played_over_and_over():
    federation = setup(plan(STUDY).runs[0])[1]
    cycle = FixedCycle(cohorts=((0, 1), (2, 5)))
    cohorts, best_loss = play_run(fedgs_cycles.replace(federation, selector=cycle), 5)
    assert cohorts == [(0, 1), (2, 5), (0, 1), (2, 5), (0, 1)]
    assert 0 < best_loss < np.log(10)


def test_the_table_says_whether_seeds_share_their_cohorts(monkeypatch, tmp_path):
    class Small:
        def plan(self):
            return plan(STUDY)

    monkeypatch.setattr(fedgs_cycles.presets, "load_preset", lambda name: Small())
    context = Context("try", tmp_path, None, None, None)
    text = repeated_cohorts(context, of="any", setting="IDL", methods=["FedGS"], sigma2=[0.1], cycles=3, seeds=2)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if "FedGS" in line]
    assert rows[0][0] in ("FedGS, the same in every seed", "FedGS, by seed")
    (drawn,) = (line for line in text.splitlines() if line.startswith("| a partition drawn"))
    _, runs, different, least, mean, largest = (cell.strip() for cell in drawn.strip("|").split("|"))
    assert (runs, different) == ("3", "3")  # three cohorts of two make up six clients
    assert float(least) <= float(mean) <= float(largest)
