"""The record of a round: what every backend writes, one line a round, and what all readers read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired, get_args

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

Number = float | None
Whole = Annotated[int, Field(ge=0, lt=2**62)]
Table = dict[str, Any]
Tally = Mapping[str, float]
Reasons = Mapping[str, str]  # client id → why

HISTORY = ".history.jsonl"  # what the file beside a federation's checkpoint ends in that has its rounds
ABOUT = ".about.json"  # and the one that describes the federation

Fate = Literal[
    "used",
    "standby",
    "withdrawn",
    "silent",
    "failed",
    "left out",
    "given up",
    "too stale",
    "still at work",
    "lost",
]
FATES: tuple[Fate, ...] = get_args(Fate)
ENDINGS: Mapping[str, Fate] = {
    "silent": "silent",
    "withdrawn": "withdrawn",
    "standby": "standby",
    "left_out": "left out",
    "failed": "failed",
    "given_up": "given up",
    "too_stale": "too stale",
}  # key of a record → what became of the clients that it names, whose updates are not used

FaultRecord = dict[str, Whole | list[Whole]]  # ids by what befell them, or how often it happened


@with_config(ConfigDict(strict=True, extra="ignore"))
class QuestionRecord(TypedDict):
    """What a method asked in a round.

    Attributes:
        signal: the name of what was asked.
        of: "model", "training" or "pairs".
        asked: how many clients.
        answered: how many of them.
        floats: numbers that were sent up.
        after: clients of the rehearsal, 0 without one.
    """

    signal: str
    of: NotRequired[str]
    asked: Whole
    answered: NotRequired[Whole]
    floats: NotRequired[Whole]
    after: NotRequired[Whole]


@with_config(ConfigDict(strict=True, extra="ignore"))
class ShadowRecord(TypedDict):
    """What a method did in the shadow of the live one; nobody was asked or trained for it.

    Attributes:
        chosen: how many clients it would have chosen.
        cohort: their ids, at most 100.
        overlap: the share of them that the live method chose, too.
        trained: how many of them sent an update to the live method.
        trainings: trainings that its cohort and its questions would have cost.
        asked: rows that it asked clients for.
        known: of these, rows that clients had sent to the live method.
        unknown: signal → rows of questions and reports that it wanted, and nobody had sent.
        mixture: distance of its cohort's label mixture from the population's (total variation), where labels are known.
        evenness: Jain's index of how often it would have chosen clients.
        never_chosen: clients that it could have chosen, and never would have.
        cannot: why it cannot choose at all.
        error: what it raised; its state is that of the round before.
    """

    chosen: NotRequired[Whole]
    cohort: NotRequired[list[Whole]]
    overlap: NotRequired[float]
    trained: NotRequired[Whole]
    trainings: NotRequired[Whole]
    asked: NotRequired[Whole]
    known: NotRequired[Whole]
    unknown: NotRequired[dict[str, Whole]]
    mixture: NotRequired[float]
    evenness: NotRequired[float]
    never_chosen: NotRequired[Whole]
    cannot: NotRequired[str]
    error: NotRequired[str]


@with_config(ConfigDict(strict=True, extra="ignore"))
class RoundRecord(TypedDict):
    """One round: a line of rounds.jsonl in a run's folder, and of NAME.history.jsonl in a federation.

    The keys stand in a line in this order; a key that says nothing is left out. The simulator writes costs, a clock and
    test figures; a federation writes names, and what became of everybody who was asked to train.

    Attributes:
        round: index, from 0.
        available: how many clients could be chosen.
        cohort: ids of the clients that were selected.
        weights: their aggregation weights.
        answered: ids whose update is used; null where the whole cohort's is.
        skipped: whether nobody was available.
        full: whether more than the budget trained on purpose.
        questions: what the method asked before it chose, one table each.
        mass: "expected" where weights sum to 1 in expectation only.
        expected_size: of a cohort whose size is random, the sum of the clients' probabilities.
        excluded: rule of a policy → how many of the available clients it left out.
        withdrawn: ids of the cohort that were not used: another job had used up their limit meanwhile.
        members: how many clients the federation knows.
        names: the stable names of the cohort, in its order.
        present: ids of the clients that could be chosen, as the audit log writes ids.
        excluded_ids: rule of a policy → ids that it left out, as the audit log writes ids.
        busy: how many clients were online, and still at work for an earlier round.
        standby: ids that were not needed: the round had closed with enough answers.
        silent: ids that did not answer before the round closed, though they were waited for.
        failed: client id → what its program raised.
        left_out: client id → why the model that it sent cannot be used.
        late: ids whose answer to an earlier round came in this one.
        used: the weights of ``answered`` in the step, where it mixes selections or leaves members in flight.
        staleness: versions that were made while each of ``answered`` trained, where any were.
        in_flight: how many clients are at work when the step is made.
        given_up: client id → why nobody waits for its update any longer.
        too_stale: client id → of which rule its update, which came, is too old.
        started: ids that began to train, where not the whole cohort did.
        trainings: local trainings, where also others than the cohort trained.
        uploads: updates that were sent, in the same rounds.
        bytes: traffic by purpose and direction.
        passes: examples that clients computed on by purpose, wasted ones included.
        server_passes: examples of its own that the server computed on, where a method asks the server itself.
        steps: local steps of the cohort.
        clock: seconds since the start, simulated or real.
        train_loss: mean training loss of the cohort.
        rejected: client id → why its numbers were withheld from the method.
        faults: ids by what befell them, or how often it happened.
        test: loss and accuracy of the global model on the test set, where this round was evaluated.
        clients: mean, spread and worst tenth of the clients' accuracies, where this round evaluated them.
        shadows: label → what each shadow would have done.
        notes: the method's diagnostics, what the guards did, empty places.
    """

    round: Whole
    available: NotRequired[Whole | None]
    cohort: NotRequired[list[Whole] | None]
    weights: NotRequired[list[float] | None]
    answered: NotRequired[list[Whole] | None]
    skipped: NotRequired[bool]
    full: NotRequired[bool]
    questions: NotRequired[list[QuestionRecord] | None]
    mass: NotRequired[Literal["expected"]]
    expected_size: NotRequired[float]
    excluded: NotRequired[Mapping[str, Whole]]
    withdrawn: NotRequired[list[Whole]]
    members: NotRequired[Whole]
    names: NotRequired[list[str]]
    present: NotRequired[Any]
    excluded_ids: NotRequired[Mapping[str, Any]]
    busy: NotRequired[Whole]
    standby: NotRequired[list[Whole]]
    silent: NotRequired[list[Whole]]
    failed: NotRequired[Reasons]
    left_out: NotRequired[Reasons]
    late: NotRequired[list[Whole]]
    used: NotRequired[list[float]]
    staleness: NotRequired[list[Whole]]
    in_flight: NotRequired[Whole]
    given_up: NotRequired[Reasons]
    too_stale: NotRequired[Reasons]
    started: NotRequired[list[Whole] | None]
    trainings: NotRequired[Whole]
    uploads: NotRequired[Whole]
    bytes: NotRequired[Tally | None]
    passes: NotRequired[Tally | None]
    server_passes: NotRequired[Whole]
    steps: NotRequired[Whole]
    clock: NotRequired[Number]
    train_loss: NotRequired[Number]
    rejected: NotRequired[Table | None]
    faults: NotRequired[FaultRecord | None]
    test: NotRequired[Mapping[str, Number] | None]
    clients: NotRequired[Mapping[str, Number] | None]
    shadows: NotRequired[dict[str, ShadowRecord]]
    notes: NotRequired[Table | None]


def cohort_ids(record: RoundRecord) -> list[int]:
    """Return the ids of the chosen clients."""
    return record.get("cohort") or []


def answered_ids(record: RoundRecord) -> list[int]:
    """Return the ids of the clients whose updates a round used."""
    ids = record.get("answered")
    if ids is None:
        ids = record.get("cohort")
    return list(ids or [])
