import json

import numpy as np
import tomli_w
from tests.report.conftest import write_run

from sortition.report import write
from sortition.results.run_folder import Run


def test_nothing_is_shown_where_nothing_went_wrong(study, tmp_path):
    assert 'id="losses"' not in write([study], tmp_path / "page.html").read_text(encoding="utf-8")


def test_what_was_lost_and_what_adversaries_captured(tmp_path):
    for setting, guards in (("size", {}), ("size, guarded", {"size_cap": 2.0})):
        home = write_run(tmp_path / "runs", "uniform", 0, [0.2, 0.4], setting=setting, cohorts=[[0, 1], [1, 2]])
        config = Run(home).config | {"attacks": {"kind": "size"}} | ({"guards": guards} if guards else {})
        (home / "config.toml").write_text(tomli_w.dumps(config))
        with np.load(home / "federation.npz") as file:
            np.savez(home / "federation.npz", **{name: file[name] for name in file.files}, adversaries=np.array([2, 3]))
        first, second = (json.loads(line) for line in (home / "rounds.jsonl").read_text().splitlines())
        first |= {"started": [1], "answered": [], "faults": {"before": [0], "during": [1], "late": 2}}
        second["weights"] = [0.0, 1.0] if guards else [0.25, 0.75]
        (home / "rounds.jsonl").write_text(f"{json.dumps(first)}\n{json.dumps(second)}\n")
    page = write([tmp_path / "runs"], tmp_path / "page.html").read_text(encoding="utf-8")
    part = page[page.index('<section id="losses">') :]
    part = part[: part.index("</section>")]
    # four places, client 0 never started, client 1 stopped: 3 started, 2 completed, 1 wasted; 2 answers late
    assert '<td class="name">uniform</td><td>4</td><td>3</td><td>2</td><td>1</td><td>1</td><td>1</td><td>2</td>' in part
    # adversary 2 holds one place of four both times, and 0.75 or 1 of a weight of 2
    assert "<td>25 → 25</td>" in part
    assert "<td>38 → 50</td>" in part
    assert "late" in part
