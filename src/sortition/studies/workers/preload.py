"""What the fork server imports before it forks workers: PyTorch, the engine, and the data of the first run.

Every worker then starts in milliseconds and shares the arrays. Without a fork server workers read them themselves.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress

from sortition.studies import federation
from sortition.studies.config import Data
from sortition.studies.runs import one_run  # noqa: F401  (imported for the workers)
from sortition.studies.workers.local import PRELOADED

if table := os.environ.pop(PRELOADED, ""):
    with suppress(Exception):  # the run that needs the data says what is wrong with them
        federation.dataset_of(Data(**json.loads(table)))
