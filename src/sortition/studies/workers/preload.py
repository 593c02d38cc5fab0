"""What the fork server imports before it forks workers: PyTorch, the engine, and the data of the first run.

Every worker then starts in milliseconds and shares the arrays. Without a fork server workers read them themselves.
Nothing of this is ever garbage: the collector is off meanwhile, and workers leave these objects alone.
"""

from __future__ import annotations

import gc

gc.disable()

import json  # noqa: E402
import os  # noqa: E402
from contextlib import suppress  # noqa: E402

import numpy.ma  # noqa: E402, F401  (the first median of a process imports it)

from sortition.audit.entry_writer import installed_version  # noqa: E402
from sortition.studies import build_federation  # noqa: E402
from sortition.studies.config import Data  # noqa: E402
from sortition.studies.runs import one_run  # noqa: E402, F401
from sortition.studies.runs.manifest import PACKAGES  # noqa: E402
from sortition.studies.workers.local import PRELOADED  # noqa: E402

if table := os.environ.pop(PRELOADED, ""):
    with suppress(Exception):  # the run that needs the data says what is wrong with them
        build_federation.dataset_of(Data(**json.loads(table)))
for name in PACKAGES:
    installed_version(name)  # every manifest holds them
gc.freeze()
gc.enable()
