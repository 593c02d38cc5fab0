"""What is kept of a round: who was there, chosen, heard and left out, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sortition.core import Turn
from sortition.core.arrays import Ids


def round_record(
    turn: Turn, done: Ids, faults: Mapping[int, str], names: Sequence[str], notes: Mapping[str, Any]
) -> dict[str, Any]:
    """One round, as JSON knows it; ``skipped`` says why nobody could be chosen, ``shortfall`` how many lacked.

    ``names`` are the stable names of the cohort, in its order; ``withheld``, where there are any, the answers and
    reports that the selector does not see.
    """
    ids, weights, noted = [], [], dict[str, Any]()
    if turn.cohort is not None:
        ids, weights = turn.cohort.ids.tolist(), turn.cohort.weights.tolist()
        noted = {name: turn.cohort.notes[name] for name in ("skipped", "shortfall") if name in turn.cohort.notes}
    return {
        "round": turn.index,
        "available": [] if turn.round is None else turn.round.available.tolist(),
        "cohort": ids,
        "names": [names[client] for client in ids],
        "weights": weights,
        "answered": done.tolist(),
        "left_out": {str(client): reason for client, reason in faults.items()},
        "silent": sorted(set(ids) - set(done.tolist()) - set(faults)),
        "asked": [[item.signal, item.asked, item.answered] for item in turn.asked],
        "clients": len(names),
        **({"withheld": {str(k): reason for k, reason in turn.rejected.items()}} if turn.rejected else {}),
        **noted,
        **({"guards": turn.guarded} if turn.guarded else {}),
        **notes,
    }
