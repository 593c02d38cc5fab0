"""A backend over a transport: the driver's steps as messages to single clients, with time limits.

Every message that was sent and not answered is remembered until it expires. Its client is busy: it is neither asked nor
chosen. One deadline bounds a round, its questions included, and who misses it is left out for a while (see
:mod:`~sortition.federation.members`). Clients are asked who they are beside training. Only before the first round are
these answers waited for, so that ids are the same on every run.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from sortition.audit.encoding import encode_ids
from sortition.audit.entry_writer import encode_excluded
from sortition.clients.named_arrays import Model, model_size
from sortition.core.arrays import Array, Floats, Ids
from sortition.core.cohort import Cohort
from sortition.core.errors import InputError
from sortition.core.guards.answer_screening import Answers
from sortition.core.population import Population
from sortition.core.questions import Measure
from sortition.core.selector import Needs
from sortition.core.signals import UPDATE, ModelSize, parse_sketch_name
from sortition.core.streams import stream
from sortition.core.turn import Turn
from sortition.federation.driver import AnyTurn, Arrivals
from sortition.federation.members import MemberDirectory, Members
from sortition.federation.messages import UNKNOWN_CLIENT, Ask, Handle, Peer, Profile, Reply, Transport
from sortition.federation.model_engine import Engine, Step
from sortition.federation.model_screening import Judge, ModelCheck, move_model, not_finite, reported_rows
from sortition.federation.options import Options
from sortition.federation.pace import first_come
from sortition.federation.policies import Eligible, PolicyKeeper, facts_of

FIRST_LOOK = 0.02  # seconds between the first two looks for replies; later ones are further apart
LONGEST_LOOK = 0.5  # seconds between two looks for replies
LONGEST_RECHECK = 10.0  # seconds between two looks for somebody who is idle and eligible
LONGEST_PAUSE = 3600.0  # seconds between two questions to a stranger that was silent or refused
PRESENT = 100_000  # members up to which a record says who was there
LONGEST_REASON = 500  # characters of what a client says went wrong, in records
LOG_EVERY = 30.0  # seconds between two lines of the log while clients are waited for
WITNESSES = 2  # clients that must fail before their program is said to be at fault: one may be broken, or hostile
TRIALS = 3  # clients that train on trial, at most, before their program is said not to report what is wanted
REMEMBERED_LAPSED = 10_000  # trainings that missed their deadline whose clients are still known by the handle


class StoppedError(Exception):
    """The federation is to stop while it waits for clients: no round has begun."""


@dataclass
class Pending:
    """A message that is not answered yet."""

    ask: Ask
    expires: float


@dataclass
class Training:
    """The training of one cohort.

    Attributes:
        asks: what each member is to do, by client.
        handles: of the messages that were sent, by client.
        began: when it was dispatched.
        replies: what came back, by client.
        seconds: when it came, since the dispatch.
        countable: how many of the replies can fill a place, as far as each shows by itself.
        is_over: whether the round is closed: what comes now is late.
        closed_early: whether enough had answered before everybody had; the others were not waited for.
        faults: why answers that came cannot be used, by client.
        models: the models that count, by client.
        shortened: the same, none further from the model than the guards allow.
    """

    asks: dict[int, Ask] = field(default_factory=dict)
    handles: dict[int, Handle] = field(default_factory=dict)
    began: float = 0.0
    replies: dict[int, Reply] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)
    countable: int = 0
    is_over: bool = False
    closed_early: bool = False
    faults: dict[int, str] = field(default_factory=dict)
    models: dict[int, Model] = field(default_factory=dict)
    shortened: dict[int, Model] = field(default_factory=dict)


@dataclass(frozen=True)
class _Appointment:
    """When a stranger is asked next, and how long the pause after that is."""

    time_to_ask: float
    next_pause: float


class Messenger:
    """Asks and trains the members of a federation.

    Args:
        transport: moves messages.
        engine: owns the model.
        options: of the federation.
        logger: where it is said who is left out, and why.
        clock: seconds; tests give another one.
        stopping: whether to give up waiting for clients, with :class:`StoppedError`.

    Attributes:
        check: which models can be used.
        policy: how often and when devices may be used.
    """

    def __init__(
        self,
        transport: Transport,
        engine: Engine,
        options: Options,
        *,
        logger: logging.Logger | None = None,
        clock: Callable[[], float] = time.monotonic,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.transport = transport
        self.engine = engine
        self.options = options
        self.check = ModelCheck(options.guards, free_shapes=engine.free_shapes)
        self.logger = logger or logging.getLogger("sortition")
        self.clock = clock
        self.stopping = stopping
        self.needs: Needs = options.selector.needs  # as the registrar resolved it, once there is one
        kept_facts = options.arrangement.kept_facts
        self.members = Members(
            (*self.needs.reads, *kept_facts),
            tuple(fact for fact in self.needs.optional if fact not in kept_facts),
            watched=options.watched,
            signals=_asked_of_clients(self.needs, type(options.selector).__name__),
            owner_of=options.owner_of,
            bind_keys=options.bind_names,
            logger=self.logger,
        )
        self.policy = PolicyKeeper(options.policies, MemberDirectory(self.members, self.model_size), seed=options.seed)
        self.begun = False  # whether all who were online before the first round have said who they are
        self.has_moved_model = False  # whether any round has moved the model
        self.reports_are_proven = False  # whether it is known that clients can report what the method wants
        self.training = Training()
        self.busy = 0  # clients that were online and at work when this round began
        self.counted = {"duplicate": 0, "late": 0}  # messages since the last round that answer nothing open
        self._started = clock()
        self._ends = np.inf  # when the round must be over
        self._questions_end = np.inf  # when its questions must be
        self.candidates: Ids = np.empty(0, np.int64)  # who could be chosen this round
        self.present: Ids = self.candidates  # the same with those that a policy leaves out, as the record has them
        self._pending: dict[Handle, Pending] = {}
        self._answered: set[Handle] = set()  # of this round, so that a second answer is known as one
        self._inbox: dict[Handle, Reply] = {}
        self._awaited: set[Handle] = set()  # questions that are waited for now
        self._late: set[int] = set()
        self._lapsed: dict[Handle, int] = {}  # trainings that missed their deadline → client, the oldest first
        self._answered_signals: set[str] = set()  # that somebody answered
        self._failed_trials: dict[int, str] = {}  # clients whose training on trial failed, and why
        self._failed_trainings: dict[int, str] = {}  # clients that failed to train before any round moved the model
        self._said_of_eligible: dict[int, str] = {}  # what was last logged of clients that ``eligible`` failed on
        self._profiles: dict[str, Profile] = {}  # answers that are not entered yet
        self._peers: Mapping[str, Peer] = {}
        self._appointments: dict[str, _Appointment] = {}  # of strangers that were silent or refused, by session
        self._name_holders: dict[str, str] = {}  # session → the one that has its name, while that is online

    def elapsed(self) -> float:
        """Return the seconds since the start, those before a restart included."""
        return self.clock() - self._started

    def go_on_from(self, seconds: float) -> None:
        """Count on from so many seconds, for which the federation had run before its server stopped."""
        self._started = self.clock() - seconds

    # -- who is there --------------------------------------------------------------------------------------------------

    def available(self) -> Ids:
        """Return who can be chosen now: members that are online, idle, answering and eligible."""
        self.members.selections += 1
        self._answered.clear()
        self._late.clear()
        self.training = Training()
        self.candidates = self._wait_for_candidates()
        self._try_reports()
        pace = self.options.pace
        self._ends = self.clock() + pace.deadline
        self._questions_end = np.inf  # until the first one is put
        self.present = self.policy.with_excluded(self.candidates)
        return self.present

    def _wait_for_candidates(self) -> Ids:
        """Wait until somebody who is online is idle and eligible too; return nobody if ``patience`` runs out before."""
        began = self.clock()
        next_line = began
        pauses = growing_pauses(LONGEST_RECHECK)
        while True:
            present = self.wait_for_clients()
            candidates = self._idle_and_eligible(present)
            out_of_patience = self.clock() - began >= self.options.patience
            if candidates.size or not present.size or out_of_patience:
                self._say_nobody_is_eligible(candidates)
                return candidates
            if self.clock() >= next_line:
                self._say_who_is_waited_for(present, until=began + self.options.patience)
                next_line = self.clock() + LOG_EVERY
            self._receive(min(next(pauses), max(self.options.patience, 0.01)))

    def _say_who_is_waited_for(self, present: Ids, until: float) -> None:
        """Log why nobody of these clients can be chosen, and when the round is skipped."""
        reasons = ""
        if self.policy.excluded:
            reasons = f": {self.policy.said()}"
        end = ""
        if until != np.inf:
            end = f"; the round is skipped in {until - self.clock():.0f} s (patience)"
        self.logger.info(
            "Waiting: of %d clients online, %d are busy, and the others are not eligible%s%s",
            present.size,
            self.busy,
            reasons,
            end,
        )

    def _say_nobody_is_eligible(self, candidates: Ids) -> None:
        """Log that a round is skipped since a policy leaves nobody eligible."""
        if not candidates.size and self.policy.excluded:
            self.logger.warning(
                "Round %d is skipped: the policy leaves nobody eligible; left out are %s",
                self.policy.round,
                self.policy.said(),
            )

    def _idle_and_eligible(self, present: Ids) -> Ids:
        """Return those of these clients that can be chosen, and count who is busy."""
        idle = self._idle(present)
        self.busy = int(present.size - idle.size)
        return self.policy.admit(idle, self._with_fresh_facts)

    def _with_fresh_facts(self, clients: Ids) -> Eligible:
        """Return those of these clients that give their facts and that the operator calls eligible."""
        with_fresh_facts = self._refreshed(clients)
        eligible = self._called_eligible(with_fresh_facts)
        facts = {
            fact: np.array([_number(self.members[client].facts.get(fact)) for client in eligible])
            for fact in facts_of(self.policy.policies)
        }
        return Eligible(np.array(eligible, np.int64), facts)

    def _called_eligible(self, clients: Ids) -> list[int]:
        """Return those of these clients that the operator calls eligible.

        A client on which the operator's function fails is not; that it fails on all of them is said at once.
        """
        eligible: list[int] = []
        faults: dict[int, str] = {}
        for client in clients.tolist():
            member = self.members[client]
            try:
                if self.options.is_eligible(member.name, member.tags, member.facts):
                    eligible.append(client)
            except InputError as error:
                faults[client] = str(error)
        if len(faults) == clients.size >= WITNESSES:
            raise InputError(next(iter(faults.values())))
        for client, fault in faults.items():
            if self._said_of_eligible.get(client) != fault:
                self.logger.warning("Client %s is not eligible: %s", self.members[client].name, fault)
        self._said_of_eligible |= faults
        return eligible

    def busy_sessions(self) -> set[str]:
        """Return the sessions that are still at work on a question or a training."""
        self._forget_expired()
        return {pending.ask.session for pending in self._pending.values() if not _is_enrolment(pending.ask)}

    def _idle(self, present: Ids) -> Ids:
        """Return those of these clients that have no open message."""
        at_work = self.busy_sessions()
        return present[[self.members[client].session not in at_work for client in present.tolist()]]

    def wait_for_clients(self) -> Ids:
        """Wait until enough clients are online, and one of them answers; return nobody if ``patience`` runs out before.

        While all members are silent, every look counts as a selection: they are asked again, and no round is spent.
        A federation that has not begun, and whose first client was never met, is waited for without end.
        """
        options = self.options
        least_online = options.least_online
        if not self.begun:
            least_online = max(options.wait_for, options.least_online)
        began = self.clock()
        next_line = began
        pauses = growing_pauses(LONGEST_LOOK)
        while True:
            if self.stopping():
                raise StoppedError
            online = self._look_around()
            enough = len(online) >= least_online
            nobody_is_asked = self.begun or not self._open_enrolments()
            somebody_met = len(self.members) > 0 or len(self._profiles) > 0
            out_of_patience = somebody_met and self.clock() - began >= options.patience
            if (enough and nobody_is_asked) or out_of_patience:
                present = self._entered(online, least_online)
                if present.size or out_of_patience:
                    self.begun = True
                    return present
            if self.clock() >= next_line:
                self.logger.info("Waiting for clients: %s", self._what_is_missing(online, least_online))
                next_line = self.clock() + LOG_EVERY
            self._receive(min(next(pauses), max(options.patience, 0.01)))

    def _what_is_missing(self, online: Mapping[str, Peer], least_online: int) -> str:
        """Say why no round can begin yet."""
        if len(online) < least_online:
            return f"{len(online)} nodes are online, {least_online} are needed"
        n_asked = len(self._open_enrolments())
        if n_asked:
            return f"{len(online)} nodes are online, and {n_asked} of them have not said yet who they are"
        return f"{len(online)} nodes are online, and none of them answers"

    def _entered(self, online: Mapping[str, Peer], least_online: int) -> Ids:
        """Enter those who have said who they are; return the members that answer, if enough clients are online."""
        self._enter(online)
        enough = len(online) >= least_online
        if not (enough or self.begun):
            patience = self.options.patience
            raise InputError(
                f"{least_online} clients must be online before the first round; got {len(online)} in {patience:g} s. "
                "Lower wait_for, or raise patience."
            )
        present = np.empty(0, np.int64)
        if enough:
            present = self.members.keep_answering(self.members.find_present(online))
        if len(self.members) and not present.size:
            self.members.selections += 1  # those whose pause is over are asked again, and no round is spent
        return present

    def _look_around(self) -> Mapping[str, Peer]:
        """Return who is online; ask strangers, and those whose silence is over, who they are."""
        online = self.transport.online()
        self._peers = online
        self._receive(0.0)
        self._ask_who(online)
        self._receive(0.0)
        return online

    # -- who is who ----------------------------------------------------------------------------------------------------

    def _open_enrolments(self) -> list[Pending]:
        """Return the questions who somebody is that are not answered yet."""
        return [pending for pending in self._pending.values() if _is_enrolment(pending.ask)]

    def _ask_who(self, online: Mapping[str, Peer]) -> None:
        """Ask who they are; the answers are taken when they come."""
        self._forget_who_left(online)
        strangers = [session for session in self.members.find_strangers(online) if session not in self._name_holders]
        due = [session for session in strangers if self._is_due(session)]
        returning = [self.members.session_of(client) for client in self.members.to_ask_again(online)]
        answering = {pending.ask.session for pending in self._open_enrolments()} | self._profiles.keys()
        sessions = [session for session in due + returning if session not in answering]
        self._post(
            [
                Ask(
                    kind="profile",
                    session=session,
                    round=self.members.selections - 1,
                    seconds=self.options.profile_timeout,
                    facts=self.members.wanted,
                    optional=self.members.optional,
                )
                for session in sessions
            ]
        )

    def _is_due(self, session: str) -> bool:
        """Tell whether a stranger may be asked now."""
        appointment = self._appointments.get(session)
        return appointment is None or appointment.time_to_ask <= self.clock()

    def _forget_who_left(self, online: Mapping[str, Peer]) -> None:
        """Keep pauses and claims on names of sessions that are online, so that neither grows without end."""
        self._appointments = {
            session: appointment
            for session, appointment in self._appointments.items()
            if session in online or not self._is_due(session)
        }
        self._name_holders = {
            session: holder for session, holder in self._name_holders.items() if session in online and holder in online
        }

    def _take_profile(self, ask: Ask, reply: Reply) -> None:
        """Take the answer of a client that was asked who it is."""
        client = self.members.client_of(ask.session)
        if reply.outcome == "ok":
            self._profiles[ask.session] = reply.profile
        elif client is not None:
            self.members.note_silence(client)
        elif reply.outcome == "lost":
            self._postpone(ask.session)
        else:
            self._refuse({ask.session: f"does not say who it is ({reply.reason.strip()})"})

    def _missed_profile(self, ask: Ask) -> None:
        """Leave out, for a while, a client that did not say who it is."""
        client = self.members.client_of(ask.session)
        if client is not None:
            self.members.note_silence(client)
            return
        seconds = self.options.profile_timeout
        self.logger.warning("Node %s did not say who it is in %g s; it is asked later.", ask.session, seconds)
        self._postpone(ask.session)

    def _enter(self, online: Mapping[str, Peer]) -> None:
        """Enter those who have said who they are, if they can take part."""
        profiles = {session: profile for session, profile in self._profiles.items() if session in online}
        self._profiles = {}  # who has left by now is asked anew: what the transport proves of it is not known
        n_nameless = sum(not (profile.name or online[session].name) for session, profile in profiles.items())
        if n_nameless:
            self.logger.warning(
                "%d clients have no stable name; without authentication they become new clients when they restart. "
                "Let them give one (Flower: --node-config 'name=\"…\"' or partition-id=…).",
                n_nameless,
            )
        refused = self.members.meet(profiles, online, online, now=self.clock())
        for session in refused:
            holder = self.members.holder(profiles[session].name)
            if holder is not None and holder in online and holder != session:
                self._name_holders[session] = holder
        self._refuse(refused)

    def _refuse(self, refused: Mapping[str, str]) -> None:
        """Log who cannot take part; that nobody of those who are waited for can is said at once.

        It is a mistake of the clients' program. One client that is refused alone shows nothing of the others.
        """
        for session, reason in refused.items():
            self.logger.warning("Node %s cannot take part: %s", self._called(session), reason)
            if session not in self._name_holders:
                self._postpone(session)
        nobody_else = not (len(self.members) or self._open_enrolments() or self._profiles)
        enough_online = len(self._peers) >= max(WITNESSES, self.options.wait_for, self.options.least_online)
        if refused and nobody_else and enough_online and self._peers.keys() <= self._appointments.keys():
            session, reason = next(iter(refused.items()))
            raise InputError(
                f"No node can take part; node {self._called(session)}: {reason.rstrip('.')}. "
                "Let the clients' program answer with the signals and facts that are needed."
            )

    def _called(self, session: str) -> str:
        """Return what a session is called in a message."""
        return self._peers.get(session, Peer()).name or session

    def _postpone(self, session: str) -> None:
        """Ask a stranger after a pause, which doubles every time."""
        pause = self.options.profile_timeout
        if session in self._appointments:
            pause = self._appointments[session].next_pause
        self._appointments[session] = _Appointment(
            time_to_ask=self.clock() + pause, next_pause=min(2 * pause, LONGEST_PAUSE)
        )

    def _refreshed(self, clients: Ids) -> Ids:
        """Bring the facts for eligibility up to date; return these clients without those who did not say."""
        outdated = self.members.outdated(clients, self.clock())
        if not outdated:
            return clients
        seconds = min(self.options.answer_timeout, self.options.pace.seconds_for_questions)
        ask = Ask(
            kind="profile",
            round=self.members.selections - 1,
            seconds=seconds,
            facts=tuple(self.members.watched),
        )
        without_facts = set(outdated)
        for client, reply in self._exchange(self._addressed(outdated, ask), seconds, "facts").items():
            reason = reply.reason or self.members.refresh(client, reply.profile.facts, self.clock())
            if reply.outcome == "ok" and not reason:
                without_facts.discard(client)
            else:
                self.logger.warning("Facts of client %s cannot be used: %s", self.members[client].name, reason)
        return clients[[client not in without_facts for client in clients.tolist()]]

    def _try_reports(self) -> None:
        """Find out before the first round is paid for whether the clients' training gives what the method wants.

        Where only a training shows that, one client trains on trial, and nothing of it is kept. Where it fails, others
        do: their program is at fault where all of them fail, and one client alone shows nothing.
        """
        untried = self.candidates[~np.isin(self.candidates, list(self._failed_trials))]
        if self.reports_are_proven or not untried.size:
            return
        client = int(untried[0])
        if self._failed_trials:  # whoever sorts first by a name of its own choice does not decide alone
            draw = stream(self.options.seed, "trial", len(self._failed_trials))
            client = int(draw.choice(untried))
        member = self.members[client]
        names = dict.fromkeys(signal.name for signal in self.needs.reports)
        unsure = [name for name in names if parse_sketch_name(name)[0] in member.unsure]
        if not unsure:
            self.reports_are_proven = True
            return
        seconds = self.options.pace.deadline
        self._ends = self.clock() + seconds
        ask = Ask(
            kind="query",
            session=self.members.session_of(client),
            client=client,
            seconds=seconds,
            model=self.engine.model,
            purpose="rehearsal",
            trains=True,
        )
        self.policy.claim(np.array([client]))
        for name in unsure:
            reply = self._exchange([replace(ask, signals=(name,))], seconds, name).get(client)
            if reply is None:  # nothing is learnt from silence: another client is tried before the next round
                self.candidates = self.candidates[self.candidates != client]
                return
            if reply.outcome == "failed":
                self._failed_trials[client] = reply.reason.strip()
                self._check_trials(name, n_others=untried.size - 1)
                self._try_reports()
                return
        self.reports_are_proven = True

    def _check_trials(self, signal: str, n_others: int) -> None:
        """Log the trial that failed last; raise where nobody else is to be tried."""
        failed = len(self._failed_trials)
        client, reason = next(reversed(self._failed_trials.items()))
        fault = (
            f"{type(self.options.selector).__name__} wants {signal!r} reported, and the training of client "
            f"{self.members[client].name} does not give it: {reason}"
        )
        if failed >= TRIALS or (failed >= WITNESSES and not n_others):
            raise InputError(fault)
        self.logger.warning("%s", fault)

    # -- what the driver asks for --------------------------------------------------------------------------------------

    def population(self) -> Population | None:
        """Return what is known of the clients, if it has changed."""
        if not self.members.changed:
            return None
        self.members.changed = False
        if self.members.optional:
            self.members.settle()
        self._check_output_layer()
        return self.members.population()

    def _check_output_layer(self) -> None:
        """Refuse, before the first round, a model without the layer that the method looks at."""
        size = self.model_size()
        signals = [signal for signal in (*self.needs.asks, *self.needs.reports) if signal.width in ("classes", "head")]
        if not signals or size.classes is not None or size.parameters is None:
            return
        name, array = list(self.engine.model.items())[-1]
        raise InputError(
            f"{type(self.options.selector).__name__} looks at the output layer ({signals[0].name}), which has a row "
            f"per class; the model ends in {name!r} of shape {array.shape}, which is none. Choose a method that reads "
            "facts, losses or whole updates."
        )

    def model_size(self) -> ModelSize:
        """Return how long the vectors are that belong to the model."""
        return model_size(self.engine.model)

    def ask(self, turn: Turn, question: Measure) -> Answers:
        """Ask clients and return the rows that came back, by client; silence makes a shorter reading."""
        signal = question.signal
        model = self.engine.model
        purpose: Literal["train", "rehearsal"] = "train"
        if question.after is not None:
            model = self._rehearsed(turn, question.after, model)
            purpose = "rehearsal"
        ids = question.ids
        if signal in self.needs.may_ask:
            ids = self.members.keep_able(ids, signal.name)
        ask = Ask(
            kind="query",
            round=turn.index,
            model=model,
            signals=(signal.name,),
            purpose=purpose,
            trains=signal.of == "training",
            payload=dict(signal.payload),
        )
        asks = self._addressed(ids.tolist(), ask)
        replies = self._asked(asks, signal.name, is_needed=signal not in self.needs.may_ask)
        return {
            client: reply.rows[signal.name]
            for client, reply in replies.items()
            if reply.outcome == "ok" and signal.name in reply.rows
        }

    def _rehearsed(self, turn: Turn, cohort: Cohort, model: Model) -> Model:
        """Return w + Σ a_k Δ_k of a training that leaves no trace."""
        ask = Ask(kind="rehearse", round=turn.index, model=model, purpose="rehearsal", trains=True)
        replies = self._asked(self._addressed(cohort.ids.tolist(), ask), "rehearsal")
        received = {client: reply.model or {} for client, reply in replies.items() if reply.outcome == "ok"}
        models, _ = self.check.screen(received, model)
        trained = cohort.ids[[client in models for client in cohort.ids.tolist()]]
        if not trained.size:
            return model
        weights, _ = cohort.weights_of(trained)
        return {**model, **move_model(model, models, trained, weights)}

    def _asked(self, asks: Sequence[Ask], subject: str, *, is_needed: bool = True) -> dict[int, Reply]:
        """Ask within the round's seconds for questions; log who cannot answer what.

        Where none of these seconds is left, nobody is asked, and nobody is taken for silent.
        That nobody can answer what the method needs is a mistake of their program, said at once.
        """
        if self._questions_end == np.inf:
            self._questions_end = self.clock() + self.options.pace.seconds_for_questions
        seconds_left = self._questions_end - self.clock()
        if seconds_left <= 0:
            self.logger.warning("%s is not asked: the seconds for questions of this round are over", subject)
            return {}
        seconds = min(self.options.answer_timeout, seconds_left)
        replies = self._exchange([replace(ask, seconds=seconds) for ask in asks], seconds, subject)
        failed = {client: reply.reason for client, reply in replies.items() if reply.outcome == "failed"}
        for client, reason in failed.items():
            self.logger.warning("Client %s failed to answer %s: %s", self.members[client].name, subject, reason.strip())
        if any(reply.outcome == "ok" for reply in replies.values()):
            self._answered_signals.add(subject)
        was_ever_answered = subject in self._answered_signals or self.has_moved_model
        if is_needed and len(failed) == len(asks) >= WITNESSES and not was_ever_answered:
            reason = next(iter(failed.values())).strip()
            raise InputError(f"None of the {len(asks)} clients asked can answer {subject!r}: {reason}")
        return replies

    # -- training ------------------------------------------------------------------------------------------------------

    def orders(self, turn: AnyTurn, cohort: Cohort) -> dict[int, Ask]:
        """Return what each member of the cohort is to do."""
        ask = Ask(
            kind="train",
            round=turn.index,
            seconds=self._seconds_for_training(),
            model=self.engine.model,
            signals=self._reported_signals(),
            trains=True,
        )
        return {ask.client: ask for ask in self._addressed(cohort.ids.tolist(), ask)}

    def _seconds_for_training(self) -> float:
        """Return how long an update is waited for."""
        return max(self._ends - self.clock(), 0.0)

    def _reported_signals(self) -> tuple[str, ...]:
        """Return the signals that clients report beside their trained model."""
        return tuple(signal.name for signal in self.needs.reports if signal != UPDATE)

    def dispatch(self, turn: Turn, cohort: Cohort) -> None:
        """Send every member its work."""
        self.training = Training(self.orders(turn, cohort), began=self.clock())
        self.training.handles = self._post(list(self.training.asks.values()))

    def dispatched_by_others(self, turn: AnyTurn, cohort: Cohort) -> None:
        """Note a training whose messages somebody else sent, and whose replies will be handed over."""
        self.training = Training(self.orders(turn, cohort), began=self.clock(), is_over=True)

    def wait_for_training(self, cohort: Cohort) -> None:
        """Wait until the round is over: enough have answered, everybody has, or its deadline has come.

        A round without a deadline is also over when the federation is to stop.
        """
        training = self.training
        target = self.options.pace.target(cohort)

        def has_enough() -> bool:
            self._sort_into(training)
            everybody_answered = len(training.replies) == len(training.handles)
            training.closed_early = training.countable >= target and not everybody_answered
            return everybody_answered or training.closed_early

        if not training.is_over:
            self._receive_until(has_enough, self._ends)
            training.is_over = True
        self._withdraw([handle for client, handle in training.handles.items() if client not in training.replies])

    def _seconds_until(self, end: float) -> float:
        """Return how long to wait until this moment; not at all for one that never comes, if the federation stops."""
        if end == np.inf and self.stopping():
            return 0.0
        return end - self.clock()

    def _sort_into(self, training: Training) -> None:
        """Hand a training the replies that have come."""
        seconds = self.clock() - training.began  # what came in one look came at one moment: ties go by id
        for client, handle in training.handles.items():
            if handle in self._inbox:
                reply = self._inbox.pop(handle)
                training.replies[client] = reply
                training.seconds[client] = seconds
                training.countable += self._can_count(reply)

    def hand_over(self, replies: Iterable[tuple[int | None, Reply]]) -> None:
        """Take the replies of a training that somebody else collected: a client, or None for a message of nobody."""
        training = self.training
        training.replies = {}
        training.is_over = True
        for client, reply in replies:
            if client is None or client not in training.asks:
                self.counted["late"] += 1
            elif client in training.replies:
                self.counted["duplicate"] += 1
            else:
                training.replies[client] = reply
                training.seconds.setdefault(client, 0.0)

    def collect(self, turn: Turn, cohort: Cohort) -> Arrivals:
        """Wait until the round is over; return whose update can be used, of those who answered first."""
        self.wait_for_training(cohort)
        training = self.training
        replies = {client: training.replies[client] for client in self._who_answered(cohort)}
        sound_models = self._screened(replies, turn.judge_updates)
        ids = self.used(cohort)
        self._keep_models({client: sound_models[client] for client in ids.tolist()})
        self._log_training(cohort)
        return Arrivals(ids, training.faults, reports=self._reports(ids))

    def _keep_models(self, models: dict[int, Model]) -> None:
        """Keep the models that the step is made of."""
        self.training.models = models
        self.training.shortened = self.check.shortened(models, self.engine.model)

    def _screened(self, replies: Mapping[int, Reply], judge: Judge | None) -> dict[int, Model]:
        """Return the models that can be used, by client; note what is wrong with the others."""
        received = {client: reply.model or {} for client, reply in replies.items() if not reply.fault}
        sound_models, faults = self.check.screen(received, self.engine.model, judge)
        faults |= {client: reply.fault for client, reply in replies.items() if reply.fault}
        faults |= self.engine.objections({client: replies[client] for client in sound_models})
        self.training.faults = {client: reason[:LONGEST_REASON] for client, reason in faults.items()}
        return sound_models

    def _can_count(self, reply: Reply) -> bool:
        """Tell whether an answer by itself can fill a place; the guards compare answers when all are there."""
        if reply.outcome != "ok" or reply.fault:
            return False
        rule = self.options.pace.settings
        everybody_is_needed = rule.overselect <= 1 and rule.waits_for_all
        if everybody_is_needed:
            return True
        arrays = reply.model or {}
        model = self.engine.model
        if self.check.names is None:  # which arrays clients send is decided when all answers are there
            return bool(arrays) and not not_finite(arrays, model)
        return not (self.check.fault(arrays, model) or not_finite(arrays, model))

    def _who_answered(self, cohort: Cohort) -> list[int]:
        """Return the members whose training succeeded, in the cohort's order."""
        replies = self.training.replies
        return [client for client in cohort.ids.tolist() if client in replies and replies[client].outcome == "ok"]

    def used(self, cohort: Cohort) -> Ids:
        """Return the members whose answers count: at most as many as the round is meant to use, the first by the clock.

        Answers that are unsound take no place.
        """
        seconds = np.full(cohort.ids.size, np.inf)
        sound = set(self._who_answered(cohort)) - self.training.faults.keys()
        for row, client in enumerate(cohort.ids.tolist()):
            if client in sound:
                seconds[row] = self.training.seconds[client]
        counts = first_come(cohort.ids, seconds, target=self.options.pace.target(cohort), deadline=np.inf)
        return cohort.ids[counts]

    def _reports(self, ids: Ids) -> Mapping[str, Answers]:
        """Return what these members reported with their models."""
        return reported_rows(
            self.needs.reports, ids, replies=self.training.replies, models=self.training.models, model=self.engine.model
        )

    def step(self, cohort: Cohort, ids: Ids, weights: Floats) -> Mapping[str, object]:
        """Let the engine make the next model."""
        earlier_model = self.engine.model
        notes = self.engine.step(
            Step(
                cohort=cohort,
                ids=ids,
                weights=weights,
                models=self.training.shortened,
                norm_limit=self.check.norm_limit,
                replies=self.training.replies,
                clients=len(self.members),
            )
        )
        self.has_moved_model = self.has_moved_model or self.engine.model is not earlier_model
        return notes

    def costs(self, turn: AnyTurn, arrivals: Arrivals) -> Mapping[str, object]:
        """Return names and fates: who stood by, was silent, failed or was left out, and whose late answer came."""
        cohort = turn.cohort or Cohort.uniform([])
        fates = self.fates(cohort)
        record = self._federation_record(turn, cohort.ids.tolist())
        record["answered"] = arrivals.ids.tolist()
        record["busy"] = self.busy
        record["silent"] = fates.silent
        record["failed"] = {str(client): reason for client, reason in fates.failed.items()}
        if fates.standby:
            record["standby"] = fates.standby
        for client in fates.silent:
            self.members.note_silence(client)
        return record

    def _federation_record(self, turn: AnyTurn, dispatched: Sequence[int]) -> dict[str, object]:
        """Return what a federation's record says whatever its pace; note whose training counted."""
        record: dict[str, object] = {
            "members": len(self.members),
            "names": [self.members[client].name for client in dispatched],
            "left_out": {str(client): reason for client, reason in self.training.faults.items()},
            "clock": round(self.elapsed(), 3),
        }
        if len(self.members) <= PRESENT:
            record["present"] = encode_ids(self.present)
            if turn.excluded:
                record["excluded_ids"] = encode_excluded(turn.excluded)
        if self._late:
            record["late"] = sorted(self._late)
        for client in self.training.models:
            self.members.note_training(client)
        return record

    def fates(self, cohort: Cohort) -> Fates:
        """Say what became of the members whose answer does not count."""
        counted = set(self.used(cohort).tolist())
        more_than_enough = self.options.pace.target(cohort) <= len(counted) < cohort.ids.size
        fates = Fates()
        for client in cohort.ids.tolist():
            reply = self.training.replies.get(client)
            if client in counted or client in self.training.faults or client not in self.training.asks:
                continue
            if reply is not None and reply.outcome == "failed":
                fates.failed[client] = reply.reason.strip()[:LONGEST_REASON]
            elif self.training.closed_early or more_than_enough:
                fates.standby.append(client)
            else:
                fates.silent.append(client)
        return fates

    def check_progress(self) -> None:
        """Raise where no client at all can train: a mistake of their program, said at once."""
        training = self.training
        failed = {client: reply.reason for client, reply in training.replies.items() if reply.outcome == "failed"}
        failed |= self.training.faults
        if self.has_moved_model or not training.asks or len(failed) < len(training.asks):
            return
        self._failed_trainings |= failed
        n_failed = len(self._failed_trainings)
        if n_failed >= WITNESSES:
            client, reason = next(iter(failed.items()))
            name = self.members[client].name
            raise InputError(f"None of the {n_failed} chosen clients can train; client {name}: {reason.strip()}")

    def _log_training(self, cohort: Cohort) -> None:
        """Log who is left out, could not report, was not needed or was silent."""
        fates = self.fates(cohort)
        names = [member.name for member in self.members.members]
        for client, reason in {**fates.failed, **self.training.faults}.items():
            self.logger.warning("Client %s is left out: %s", names[client], reason)
        for client, reply in self.training.replies.items():
            if reply.unreported:
                reason = reply.unreported[:LONGEST_REASON]
                self.logger.warning("Client %s failed to report after training: %s", names[client], reason)
        if fates.standby:
            standby = ", ".join(names[client] for client in fates.standby)
            self.logger.info("Not needed, since enough had answered: %s", standby)
        if fates.silent:
            silent = ", ".join(names[client] for client in fates.silent)
            self.logger.warning("No answer in time from %s", silent)

    # -- messages ------------------------------------------------------------------------------------------------------

    def _addressed(self, clients: Iterable[int], ask: Ask) -> list[Ask]:
        """Address the same work to each of these members."""
        return [replace(ask, client=client, session=self.members.session_of(client)) for client in clients]

    def _post(self, asks: Sequence[Ask]) -> dict[int, Handle]:
        """Send messages and remember them; return the handles of those to members, by client."""
        if not asks:
            return {}
        posted_at = self.clock()
        handles: dict[int, Handle] = {}
        for ask, handle in zip(asks, self.transport.post(asks), strict=True):
            if handle is not None:
                self._pending[handle] = Pending(ask, expires=posted_at + ask.seconds)
                handles[ask.client] = handle
        return handles

    def _exchange(self, asks: Sequence[Ask], seconds: float, subject: str) -> dict[int, Reply]:
        """Ask members and wait for their replies, so many seconds at most; leave out who is silent, for a while."""
        handles = self._post(asks)
        self._await(set(handles.values()), seconds)
        arrived = {client: self._inbox.pop(handle) for client, handle in handles.items() if handle in self._inbox}
        replies = {client: reply for client, reply in arrived.items() if reply.outcome != "lost"}
        silent = [ask.client for ask in asks if ask.client not in replies]
        for client in silent:
            self.members.note_silence(client)
        if silent:
            names = ", ".join(self.members[client].name for client in silent)
            self.logger.warning("No answer to %s from %s in %g s", subject, names, seconds)
        return replies

    def _await(self, handles: set[Handle], seconds: float) -> None:
        """Wait until these are answered, so many seconds at most; what comes later is late."""
        self._awaited = handles
        self._receive_until(lambda: handles <= self._inbox.keys(), self.clock() + seconds)
        self._awaited = set()
        self._withdraw(handles - self._inbox.keys())

    def _withdraw(self, handles: Collection[Handle]) -> None:
        """Withdraw the messages that nobody waits for; clients that never saw theirs are not busy."""
        for handle in self.transport.cancel(sorted(handles)):
            self._pending.pop(handle, None)

    def _receive_until(self, is_over: Callable[[], bool], end: float) -> None:
        """Take what comes until this is over, or until this moment; look less and less often."""
        pauses = growing_pauses(LONGEST_LOOK)
        while True:
            self._receive(0.0)
            if is_over():
                return
            seconds_left = self._seconds_until(end)
            if seconds_left <= 0:
                return
            self._receive(min(next(pauses), seconds_left))

    def _receive(self, wait: float) -> None:
        """Sort in whatever has come; wait so many seconds for the first message."""
        for reply in self.transport.poll(wait):
            pending = self._pending.pop(reply.handle, None)
            if pending is None:
                self._count_unexpected(reply.handle)
                continue
            self._answered.add(reply.handle)
            if _is_enrolment(pending.ask):
                self._take_profile(pending.ask, reply)
            elif self._is_late(pending.ask, reply.handle):
                self.counted["late"] += 1
                self._late.add(pending.ask.client)
            else:
                self._inbox[reply.handle] = reply
        self._forget_expired()

    def _count_unexpected(self, handle: Handle) -> None:
        """Count a message that answers nothing open: a second answer, or one that comes after its deadline."""
        if handle in self._answered:
            self.counted["duplicate"] += 1
            return
        self.counted["late"] += 1
        client = self._lapsed.pop(handle, None)
        if client is not None:
            self._answered.add(handle)
            self._late.add(client)

    def _is_late(self, ask: Ask, handle: Handle) -> bool:
        """Tell whether it answers a question or a round that is closed."""
        if ask.kind != "train":
            return handle not in self._awaited
        return self.training.is_over or self.training.handles.get(ask.client) != handle

    def _forget_expired(self) -> None:
        """Stop waiting for messages that have lapsed: their clients are no longer busy."""
        clock = self.clock()
        for handle in [handle for handle, pending in self._pending.items() if pending.expires <= clock]:
            pending = self._pending.pop(handle)
            if _is_enrolment(pending.ask):
                self._missed_profile(pending.ask)
            elif pending.ask.kind == "train":
                self._lapsed[handle] = pending.ask.client
                if len(self._lapsed) > REMEMBERED_LAPSED:
                    del self._lapsed[next(iter(self._lapsed))]


@dataclass
class Fates:
    """What became of the members of a cohort whose answers do not count."""

    standby: list[int] = field(default_factory=list)
    silent: list[int] = field(default_factory=list)
    failed: dict[int, str] = field(default_factory=dict)


def growing_pauses(longest: float) -> Iterator[float]:
    """Yield the seconds between looks for replies: each pause is half as long again as the one before."""
    pause = FIRST_LOOK
    while True:
        yield pause
        pause = min(pause * 1.5, longest)


def _asked_of_clients(needs: Needs, method_name: str) -> dict[str, str]:
    """Return the signals that every client must be able to answer, each with the method that needs it."""
    names = [signal.name for signal in needs.asks] + [signal.name for signal in needs.reports if signal != UPDATE]
    return dict.fromkeys(names, method_name)


def _number(fact: Array | None) -> float:
    """Return a fact that is one number; NaN for what is none, and is not known."""
    if fact is None or fact.size != 1:
        return np.nan
    return float(fact.reshape(()))


def _is_enrolment(ask: Ask) -> bool:
    """Tell whether it asks who somebody is, beside training; fresh facts are asked of members, and waited for."""
    return ask.kind == "profile" and ask.client == UNKNOWN_CLIENT
