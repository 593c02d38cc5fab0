"""Whether two trees of the source choose the same: choices, weights and models of every method, byte by byte.

``python -m campaign identity --write FILE`` plays all methods in the simulator (a plain study, a study in which much
goes wrong, random scenarios of the soak), in Flower and in NVFlare, and writes a digest of each. Run it in both trees,
then ``python -m campaign identity --compare BEFORE AFTER`` names what differs. Flower and NVFlare run in one process,
on the loopbacks of the tests, and are left out where they are not installed. Clients of the loopbacks say how long they
trained by a clock that is given: methods that choose by durations (TiFL) would differ from themselves on a real one.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

PLAIN = """
rounds = 12
cohort = 5
seeds = 2
clients_every = 6
data = { name = "digits", clients = 30, partition = { name = "dirichlet", alpha = 0.3 }, validation = 0.03 }
model = { name = "mlp", hidden = [16], dropout = 0.2 }
local = { epochs = 1, batch = 10, lr = 0.1 }
availability = "lognormal"
"""
HARD = """
rounds = 15
cohort = 4
seeds = 1
data = { name = "digits", clients = 20, partition = { name = "shards", per_client = 2 }, validation = 0.03 }
model = "softmax"
local = { steps = 5, batch = 10, lr = 0.1 }
availability = "markov"
guards = { norm = 5.0, strikes = 2, quarantine = 4, winsorise = 3.0, size_cap = 2.0, explore = 0.3, ceiling = 3.0 }
attacks = { kind = "adaptive", share = 0.1, strength = 10.0 }
server = { momentum = 0.5 }
devices = { speed = 100.0, speed_spread = 1.0, jitter = 0.2, dropout = 0.1 }
pace = { deadline = 0.8, overselect = 1.5 }

[faults]
before = 0.05
lost = 0.1
late = 0.1
damaged = 0.1
duplicated = 0.2
stale = 0.2
crash = 0.2
leaving = 0.1
reused = 0.1
newcomers = 0.3
joining = 0.2
"""
SCENARIOS = 100_000  # of which each example of a method plays one, by its own name


def digest(*parts: bytes) -> str:
    """SHA-256 of the parts."""
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def study_digests(name: str, text: str) -> Iterator[tuple[str, str]]:
    """Every run of a study of all methods: its records, and the arrays of its last checkpoint."""
    from sortition.selectors import discover

    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder) / "study.toml", Path(folder) / "runs"
        methods = "\n".join(f'[[method]]\nname = "{method}"\n' for method in discover())
        file.write_text(f'title = "{name}"\n{text}\n{methods}')
        command = [sys.executable, "-m", "sortition", "run", str(file), "--out", str(out), "--jobs", "2", "--quiet"]
        subprocess.run(command, check=True)
        for records in sorted(out.rglob("rounds.jsonl")):
            label = "/".join(records.parent.parts[-2:])
            params = np.load(records.parent / "checkpoint.npz")["params"]
            yield f"simulator, {name}: {label}", digest(records.read_bytes(), params.tobytes())


def soak_digests() -> Iterator[tuple[str, str]]:
    """Random scenarios of faults, guards, attacks, devices and joins: one for every example of every method.

    The scenario depends on the method's name and the example alone, so that a new method adds digests and shifts none.
    Where a method refuses the scenario (a batch above the cohort), the digest is of its words.
    """
    from campaign import soak
    from sortition.core.errors import InputError
    from sortition.simulation import run

    for name, parameters in soak.methods():
        example = f"{name} {json.dumps(parameters, sort_keys=True, default=str)}"
        number = int(digest(example.encode())[:12], 16) % SCENARIOS
        told = {**soak.scenario(number), "method": name, "parameters": parameters, "rounds": 30}
        seen: list[str] = []
        label = f"simulator, scenario {number}: {example}"
        try:
            end = run(
                soak.setup_of(told, number), on_record=lambda _, record, seen=seen: seen.append(repr(record)) and None
            )
        except InputError as error:  # a method that cannot play the drawn scenario says so, in the same words
            yield label, digest("\n".join(seen).encode(), str(error).encode())
            continue
        counters = json.dumps(end.registrar.counters, sort_keys=True)
        yield label, digest("\n".join(seen).encode(), end.params.tobytes(), counters.encode())


def flower_digests() -> Iterator[tuple[str, str]]:
    """Every method with real ClientApps in one process: cohorts, weights, who answered, and the model."""
    from flwr.app import ArrayRecord
    from flwr.serverapp.strategy import FedAdam
    from flwr.supercore.task_identity import TaskIdentity
    from tests.flower import apps, federation
    from tests.flower.in_process import grid_of

    from sortition.clients.named_arrays import as_vector
    from sortition.flower import codec

    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1  # Flower's own processes set it
    for label, selector in federation.methods().items():
        for rule, strategy in (("FedAvg", apps.quiet()), ("FedAdam", FedAdam(fraction_evaluate=0.0))):
            run = apps.strategy(selector, strategy=strategy)
            result = run.start(grid_of(apps.client_app(), 10), ArrayRecord(federation.model().state_dict()), 6)
            model = as_vector(codec.to_arrays(result.arrays))
            yield f"Flower, {rule}: {label}", digest(_choices(run.history), model.tobytes())


def nvflare_digests() -> Iterator[tuple[str, str]]:
    """Every method under both controllers: cohorts, weights, and the model."""
    from tests.nvflare.loopback import MODEL, federation
    from tests.nvflare.loopback_controllers import WithinFedAvg, Workflow

    from sortition.core.storage import snapshot
    from sortition.selectors import discover, find

    for name in discover():
        needs = find(name).load().needs
        if needs.of_server or any(signal.of == "pairs" for signal in needs.asks):
            continue
        parameters = {"warmup": 2} if name == "fedcor" else {}
        for kind in (Workflow, WithinFedAvg):
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "run.npz"
                options = {"parameters": parameters, "seed": 3, "checkpoint": str(file)}
                model = {key: value.tolist() for key, value in MODEL.items()}
                given: dict[str, Any] = {"num_rounds": 6, "persistor_id": "", "options": options}
                given["model"] = model if kind is Workflow else {key: value.copy() for key, value in MODEL.items()}
                controller = kind(name, 2, **given).connect(federation())
                controller.run()
                arrays, _ = snapshot.load(file)
                arrays = {key: value for key, value in arrays.items() if key.startswith("model.")}
                trained = b"".join(arrays[key].tobytes() for key in sorted(arrays))
                yield f"NVFlare, {kind.__name__}: {name}", digest(_choices(_history_of(controller)), trained)


def _history_of(controller: Any) -> list[Mapping[str, Any]]:
    """The records of a job, wherever a controller keeps them."""
    return list(controller.federation.history)


def _choices(history: list[Any]) -> bytes:
    """Whom a history says that it chose, with what weights, and who answered."""
    rows = [
        [record["cohort"], record["weights"], record["cohort"] if record["answered"] is None else record["answered"]]
        for record in history
    ]
    return json.dumps(rows).encode()


def digests() -> dict[str, str]:
    """All of them, by what was played."""
    parts: list[tuple[str, Callable[[], Iterator[tuple[str, str]]]]] = [
        ("plain", lambda: study_digests("plain", PLAIN)),
        ("hard", lambda: study_digests("hard", HARD)),
        ("soak", soak_digests),
    ]
    if find_spec("flwr") is not None:
        parts.append(("Flower", flower_digests))
    if find_spec("nvflare") is not None:
        parts.append(("NVFlare", nvflare_digests))
    found: dict[str, str] = {}
    for name, part in parts:
        found |= dict(part())
        print(f"{name}: {len(found)} digests so far", flush=True)
    return found


def compare(before: Path, after: Path) -> int:
    """Name what differs; 0 if nothing does."""
    first, second = json.loads(before.read_text()), json.loads(after.read_text())
    missing = sorted(first.keys() ^ second.keys())
    different = sorted(name for name in first.keys() & second.keys() if first[name] != second[name])
    for name in missing:
        print(f"only in one of them: {name}")
    for name in different:
        print(f"differs: {name}")
    print(f"{len(first)} digests before, {len(second)} after, {len(different)} differ")
    return 1 if missing or different else 0
