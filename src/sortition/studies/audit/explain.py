"""Why a client was chosen, or was not: one round of an audit log, in words."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sortition.audit.entry_schema import answer_ids, answer_values
from sortition.core import policy
from sortition.core.errors import bad, printable
from sortition.core.round_record import Fate
from sortition.results.names import ClientNames
from sortition.results.outcomes import ClientOutcome
from sortition.studies.audit.log_reader import DecodedRound, Log, Question, reading
from sortition.studies.types import ReadOnlyTable

__all__ = ["Log", "explain_client", "explain_cohort"]
Outcomes = Mapping[int, ClientOutcome]  # of a round, by client
NO_OUTCOMES: Outcomes = {}
NO_NAMES = ClientNames()
MAX_REASON = 200  # characters of a reason that a client gave, or of a note
LISTED_STRIKES = 12  # rounds that a sentence on a quarantine names
LOST = "It did not complete: what it sent was lost or refused."
SPEED_NOTES = ("seconds", "too_slow", "due")  # of a method that counts seconds
KEPT_OUT = {
    "quarantined": "in quarantine for unsound numbers of earlier rounds",
    "ceiling": "that have had their places, the ceiling of their fair share",
    "returning": "that have just come, more than may be chosen in one round, by a random draw",
    "quota": "over the quota of their owner, by a random draw",
}


def explain_cohort(log: Log, t: int, *, names: ClientNames = NO_NAMES, outcomes: Outcomes = NO_OUTCOMES) -> list[str]:
    """Explain a whole round; ``outcomes`` by client are those of the federation's history, which knows more."""
    decoded = log.round(t)
    with reading(t):
        return _cohort_sentences(log, t, decoded, names=names, outcomes=outcomes)


def explain_client(
    log: Log, t: int, client_id: int, *, names: ClientNames = NO_NAMES, outcomes: Outcomes = NO_OUTCOMES
) -> list[str]:
    """Explain one client in one round."""
    decoded = log.round(t)
    with reading(t):
        return _client_sentences(log, t, decoded, client_id, names=names, outcomes=outcomes)


def _cohort_sentences(log: Log, t: int, decoded: DecodedRound, *, names: ClientNames, outcomes: Outcomes) -> list[str]:
    sentences = [
        f"Round {t}: {decoded.available.size} of {log.clients(t)} clients were available; {log.method} could take "
        f"{decoded.entry.get('budget')}."
    ]
    sentences += [excluded_sentence(rule, ids.tolist(), names) for rule, ids in decoded.excluded.items()]
    for reason, ids in decoded.kept_out.items():
        listed = names.list_clients(ids.tolist())
        sentences.append(f"The guards kept out {ids.size} {KEPT_OUT.get(reason, reason)}: {listed}.")
    for question in decoded.questions:
        n_answers = answer_ids(question.answers, question.asked).size
        sentences.append(f"It asked {question.asked.size} clients for {question.signal}; {n_answers} answered.")
    if not decoded.cohort.size:
        sentences.append("Nobody was chosen.")
    for member, weight in zip(decoded.cohort.tolist(), decoded.weights.tolist(), strict=True):
        parts = [f"{names.sentence_start(member)} was chosen with weight {weight:.4g}"]
        parts += [
            f"{question.signal} {_answer_of(question, member):.6g}"
            for question in decoded.questions
            if "values" in question.answers and member in answer_ids(question.answers, question.asked)
        ]
        if member not in decoded.completed:
            parts.append(short_fate(outcomes.get(member)))
        sentences.append(f"{'; '.join(parts)}.")
    return sentences + note_sentences(decoded.notes)


def _client_sentences(
    log: Log, t: int, decoded: DecodedRound, client_id: int, *, names: ClientNames, outcomes: Outcomes
) -> list[str]:
    n_clients = log.clients(t)
    if not 0 <= client_id < n_clients:
        raise bad("--client", f"0 to {n_clients - 1}, the clients known in round {t}", client_id)
    subject = names.sentence_start(client_id)
    if client_id in decoded.available:
        sentences = [f"{subject} was one of {decoded.available.size} clients available in round {t}."]
    else:
        sentences = [f"{subject} was not available in round {t}, so {log.method} could not choose it."]
    why_not_eligible = _why_not_eligible(log, t, decoded, client_id)
    if why_not_eligible:
        sentences.append(why_not_eligible)
    else:
        sentences += [_question_sentence(question, client_id) for question in decoded.questions]
    if client_id in decoded.cohort:
        sentences += _chosen_sentences(log, decoded, client_id, outcomes)
    elif client_id in decoded.available and not why_not_eligible:
        sentences.append(f"It was not chosen; {_who_was_chosen(log, decoded, names)}.")
    outcome = outcomes.get(client_id)
    reason_said_already = "" if outcome is None else outcome.reason
    for reason in decoded.refused(client_id):
        if reason != reason_said_already:
            sentences.append(f"Something it sent was refused: {printable(reason, MAX_REASON)}.")
    return sentences + note_sentences(decoded.notes) + [_earlier_rounds(log, t, client_id)]


def _why_not_eligible(log: Log, t: int, decoded: DecodedRound, client_id: int) -> str:
    """Say which rule of a policy, or which guard, kept a client out that was available; empty where none did."""
    for rule, ids in decoded.excluded.items():
        if client_id in ids:
            return not_eligible_sentence(rule, log.method)
    for reason, ids in decoded.kept_out.items():
        if client_id in ids:
            return _kept_out_sentence(log, t, client_id, reason)
    return ""


def _chosen_sentences(log: Log, decoded: DecodedRound, client_id: int, outcomes: Outcomes) -> list[str]:
    """Say with what weight a client was chosen, whether by the guards, and what became of it."""
    position = int(np.flatnonzero(decoded.cohort == client_id)[0])
    sentences = [chosen_sentence(decoded.weights.tolist(), position)]
    if client_id in (_guard_notes(decoded).get("explored") or ()):
        sentences.append(explored_sentence(log.method))
    sentences.append("It completed." if client_id in decoded.completed else fate_sentence(outcomes.get(client_id)))
    return sentences


def chosen_sentence(weights: list[float], position: int) -> str:
    """Say with what weight the client at a position of the cohort was chosen."""
    return f"It was chosen, as one of {len(weights)}, with weight {weights[position]:.4g} of {sum(weights):.4g}."


def explored_sentence(method: str) -> str:
    """Say that the guards drew a client in the place of one that the method chose."""
    return f"That was the guards' doing: it was drawn to explore, not chosen by {method}."


def not_eligible_sentence(rule: str, method: str) -> str:
    """Say which rule of a policy left a client out."""
    reason = printable(policy.explain_exclusion(rule), MAX_REASON)
    return f"It was not eligible: {reason}; so {method} could not choose it."


def excluded_sentence(rule: str, ids: list[int], names: ClientNames) -> str:
    """Say whom a rule of a policy left out."""
    reason = printable(policy.explain_exclusion(rule), MAX_REASON)
    return f"The policy left out {len(ids)} ({reason}): {names.list_clients(ids)}."


def fate_sentence(outcome: ClientOutcome | None) -> str:
    """Say what became of a client that was chosen and whose update was not used."""
    if outcome is None:
        return LOST
    reason = _reason_of(outcome)
    sentences: dict[Fate, str] = {
        "withdrawn": "It was not sent to work: another job had used up its limit meanwhile.",
        "standby": "It was not needed: the round closed when enough others had answered.",
        "silent": "It did not answer before the round closed, though it was waited for.",
        "failed": f"Its program failed: {reason}.",
        "left out": f"The model that it sent could not be used: {reason}.",
        "given up": f"Its work was given up in round {outcome.round}: {reason}.",
        "too stale": f"Its update came in round {outcome.round} and was too stale: {reason}.",
        "still at work": "Its work was not over when the last round was written.",
    }
    return sentences.get(outcome.fate, LOST)


def short_fate(outcome: ClientOutcome | None) -> str:
    """Say the same in few words, for a line of the whole cohort."""
    if outcome is None or outcome.fate in ("lost", "used"):
        return "did not complete"
    if outcome.fate == "withdrawn":
        return "withdrawn: used by another job"
    if outcome.fate == "standby":
        return "not needed"
    reason = _reason_of(outcome)
    if reason:
        return f"{outcome.fate}: {reason}"
    return outcome.fate


def _reason_of(outcome: ClientOutcome) -> str:
    """Return why an update is not used, as the client's program or the server said it."""
    return printable(outcome.reason.strip(), MAX_REASON).rstrip(".")


def _kept_out_sentence(log: Log, t: int, client_id: int, reason: str) -> str:
    """Say what the guards did to a client that was available."""
    if reason == "ceiling":
        return "The guards left it out: it has had all the places that the ceiling of its fair share allows."
    if reason == "returning":
        return (
            "The guards left it out by a random draw: it had just come, with more such clients than may be chosen in "
            f"one round, so {log.method} could not choose it."
        )
    if reason == "quota":
        return (
            "The guards left it out by a random draw: its owner had more clients there than places, so "
            f"{log.method} could not choose it."
        )
    strikes = [str(round_index) for round_index in range(t) if log.round(round_index).refused(client_id)]
    in_rounds = ""
    if strikes:
        rounds = "rounds" if len(strikes) > 1 else "round"
        in_rounds = f" in {rounds} {', '.join(strikes[-LISTED_STRIKES:])}"
    return f"The guards held it in quarantine for unsound numbers{in_rounds}, so {log.method} could not choose it."


def _who_was_chosen(log: Log, decoded: DecodedRound, names: ClientNames) -> str:
    """Say who was chosen, or why nobody."""
    if decoded.cohort.size:
        return f"{log.method} chose {names.list_clients(decoded.cohort.tolist())}"
    guard_notes = _guard_notes(decoded)
    for key in ("too_few_eligible", "too_few_chosen"):
        if key in guard_notes:
            note = f"{key.replace('_', ' ')}: {guard_notes[key]}"
            return f"nobody was, since the guards skip a round with so few clients ({note})"
    return f"{log.method} chose nobody"


def _answer_of(question: Question, client_id: int) -> float:
    values = answer_values(question.answers, question.asked)
    return float(values[answer_ids(question.answers, question.asked) == client_id][0])


def _question_sentence(question: Question, client_id: int) -> str:
    signal = question.signal
    if client_id not in question.asked:
        return f"It was not among the {question.asked.size} clients asked for {signal}."
    ids = answer_ids(question.answers, question.asked)
    if client_id not in ids:
        return f"It was asked for {signal} and did not answer."
    if "values" not in question.answers:
        return f"It was asked for {signal} and sent a vector, of which the log holds only the digest."
    answer = _answer_of(question, client_id)
    rank = 1 + int(np.sum(answer_values(question.answers, question.asked) > answer))
    return f"It was asked for {signal} and answered {answer:.6g}: number {rank} of {ids.size}, from the largest."


def _guard_notes(decoded: DecodedRound) -> ReadOnlyTable:
    return dict(decoded.notes.get("guards", {}))


def note_sentences(notes: ReadOnlyTable) -> list[str]:
    """Say what method and guards noted, each under its own name."""
    if set(notes) == {"sha256"}:
        return ["The notes of this round are long; the record of the round has them."]
    sentences = []
    empty_places = notes.get("shortfall", 0)
    if empty_places:
        sentences.append(f"{empty_places} places stayed empty: fewer clients could be chosen.")
    speed = _speed_sentences(notes)
    sentences += speed
    in_words = {"guards", "shortfall"}
    if speed:
        in_words.update(SPEED_NOTES)
    method_notes = {key: value for key, value in notes.items() if key not in in_words}
    if method_notes:
        sentences.append(f"The method noted: {_listed_notes(method_notes)}.")
    guard_notes = notes.get("guards") or {}
    if guard_notes:
        sentences.append(f"The guards noted: {_listed_notes(guard_notes)}.")
    return sentences


def _speed_sentences(notes: ReadOnlyTable) -> list[str]:
    """Say how many a method passed over as too slow, and how many it had to choose, where it noted that (Microcosm)."""
    limit, n_slower, n_due = (notes.get(key) for key in SPEED_NOTES)
    if not (isinstance(limit, float | int) and isinstance(n_slower, int) and isinstance(n_due, int)):
        return []
    sentences = [f"Speed: nobody was passed over as too slow; the slowest is expected to take {limit:.4g} s."]
    if n_slower:
        clients = "client was" if n_slower == 1 else "clients were"
        sentences = [f"Speed: {n_slower} available {clients} passed over, expected to take longer than {limit:.4g} s."]
    if n_due:
        members = "member" if n_due == 1 else "members"
        sentences.append(f"Payments: {n_due} {members} had waited so long that the method had to choose them now.")
    return sentences


def _listed_notes(notes: ReadOnlyTable) -> str:
    return "; ".join(
        f"{printable(str(key).replace('_', ' '))} = {printable(str(value), MAX_REASON)}" for key, value in notes.items()
    )


def _earlier_rounds(log: Log, t: int, client_id: int) -> str:
    """Say how often a client was available, chosen and done before."""
    earlier = [log.round(round_index) for round_index in range(t)]
    n_available = sum(client_id in decoded.available for decoded in earlier)
    n_kept_out = sum(any(client_id in ids for ids in decoded.kept_out.values()) for decoded in earlier)
    chosen = [round_index for round_index, decoded in enumerate(earlier) if client_id in decoded.cohort]
    n_completed = sum(client_id in earlier[round_index].completed for round_index in chosen)
    if n_kept_out:
        kept_out = f", kept out by the guards in {n_kept_out}"
    else:
        kept_out = ""
    n_excluded = sum(any(client_id in ids for ids in decoded.excluded.values()) for decoded in earlier)
    if n_excluded:
        kept_out += f", left out by the policy in {n_excluded}"
    last = f", last in round {chosen[-1]}" if chosen else ""
    return (
        f"Before, it was available in {n_available} of {t} rounds{kept_out}, chosen in {len(chosen)}{last}, "
        f"and completed {n_completed}."
    )
