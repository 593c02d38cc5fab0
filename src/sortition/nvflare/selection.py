"""One selection in an NVFlare job, whoever drives it: enrolment, questions, the cohort, and what came back.

The controller lends its ``send_model_and_wait``; the registrar is the same as in the simulator and in Flower.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nvflare.app_common.abstract.fl_model import FLModel

from sortition.audit.log_file import LogFile
from sortition.clients.models import Model, as_vector, from_vector, model_size
from sortition.core import Cohort, InputError, Measure, Needs, Registrar, Turn
from sortition.core.arrays import Ids
from sortition.core.rounds import with_standby
from sortition.core.signals import UPDATE
from sortition.nvflare import wire
from sortition.nvflare.returned import Returned, combined, screen
from sortition.nvflare.settings import Settings
from sortition.nvflare.sites import Sites


class Selection:
    """Chooses sites for a controller, round by round.

    Args:
        settings: what was asked for.
        controller: an NVFlare ``ModelController`` that has started.
        rounds: how many rounds there will be.
    """

    def __init__(self, settings: Settings, controller: Any, rounds: int) -> None:
        self.settings, self.controller, self.rounds = settings, controller, rounds
        self.selector = settings.method()
        self.sites = Sites(self.selector.needs.reads, self.selector.needs.optional, settings.owners)
        self.registrar: Registrar | None = None
        self.log_file = LogFile(settings.audit) if settings.audit else None
        self.before_log: Callable[[Model], object] = lambda model: None  # saves what a run with a log begins with
        self.turn: Turn | None = None
        self.history: list[dict[str, Any]] = []

    @property
    def needs(self) -> Needs:
        """What the method reads, asks and wants reported; as it was resolved, once it has started."""
        return self.selector.needs if self.registrar is None else self.registrar.needs

    # -- who is there ----------------------------------------------------------------------------------------------

    def online(self) -> dict[str, str]:
        """The connected sites and their tokens."""
        clients = self.controller.engine.get_clients()
        there = [one for one in clients if self.controller.get_client_disconnect_time(one.name) is None]
        return {client.name: str(client.token) for client in there}

    def enrol(self, model: Model) -> Ids:
        """The clients that can be chosen now; sites that were not met before are asked for their profile."""
        deadline = time.monotonic() + self.settings.patience
        least = self.settings.wait_for if self.registrar is None else 1
        while True:
            self.sites.enrolments += 1
            online = self.online()
            self._profile(self.sites.to_ask(online), model)
            if self.registrar is None:
                self.sites.in_order()
            ids = self.sites.ids(self.sites.answering(online))
            if ids.size >= least or self.controller.abort_signal.triggered:
                return ids
            if self.registrar is None and len(online) >= least and online.keys() <= self.sites.refused.keys():
                raise InputError(f"No site can take part; {next(iter(self.sites.refused.values()))}")
            if time.monotonic() > deadline:
                break
            time.sleep(0.5)
        if self.registrar is None:
            raise InputError(
                f"{least} sites must be there before the first round; got {ids.size} in {self.settings.patience} s."
            )
        return ids

    def _profile(self, names: Sequence[str], model: Model) -> None:
        """Ask sites who they are; one that is known already shows by its answer that it is back."""
        t = 0 if self.registrar is None else self.registrar.index
        task = wire.SiteTask(wire.PROFILE, t, facts=self.sites.reads, optional=self.sites.optional)
        sent = self._exchange(dict.fromkeys(names, task), model, self.settings.answer_timeout, "profile")
        for name in [name for name in names if name in sent]:
            try:
                self._enter(name, wire.content_of(sent[name]))
                self.sites.heard(name)
            except InputError as error:
                self.controller.warning(f"{name} is left out: {error}")
                self.sites.refuse(name, self.online().get(name, ""), str(error))

    def _enter(self, name: str, content: Mapping[str, Any]) -> None:
        """Take a site in, if it can answer what the selector asks."""
        if "error" in content:
            raise InputError(str(content["error"]))
        needs = self.needs
        able = {signal.name for signal in (*needs.asks, *needs.reports)}
        lacking = able - {UPDATE.name} - _answerable(content.get("signals", ()), able)
        if lacking:
            raise InputError(f"{name} cannot answer {sorted(lacking)[0]!r}. Pass a client to answer().")
        if name not in self.sites.names:
            self.sites.enter(name, wire.arrays_of(content.get("facts")))

    # -- one round -------------------------------------------------------------------------------------------------

    def choose(self, model: Model) -> list[str]:
        """Ask what the selector wants to know; the names of the sites that it chose, in the cohort's order."""
        available = self.enrol(model)
        registrar = self._up_to_date(model)
        budget = with_standby(self.settings.cohort, self.settings.overselect)
        self.turn = turn = registrar.begin(available, budget)
        while turn.question is not None:
            turn.answer(self._ask(turn.question, model, turn.index))
        return [self.sites.names[client] for client in self.cohort.ids.tolist()]

    @property
    def cohort(self) -> Cohort:
        """The cohort of the open turn."""
        if self.turn is None or self.turn.cohort is None:
            return Cohort.uniform([])
        return self.turn.cohort

    @property
    def target(self) -> int:
        """How many answers close the round; 0 for all."""
        early = self.settings.overselect > 1 and not self.cohort.full
        return min(self.settings.cohort, self.cohort.ids.size) if early else 0

    def _up_to_date(self, model: Model) -> Registrar:
        if self.registrar is None:
            self.sites.settle()
            self.registrar = self.new_registrar(model)
            if self.log_file is not None:  # without a checkpoint, which keeps the log's salt, nobody could go on
                self.before_log(model)
                self.log_file.watch(self.registrar)
        elif self.sites.changed:
            self.registrar.join(self.sites.population())
        self.sites.changed = False
        return self.registrar

    def new_registrar(self, model: Model) -> Registrar:
        """A registrar of the sites that are known; the model says how long vectors are."""
        return Registrar(
            self.selector,
            self.sites.population(),
            horizon=self.rounds,
            seed=self.settings.seed,
            guards=self.settings.trust(),
            model=model_size(model),
        )

    def tasks(self, kind: str, clients: Sequence[int], **about: Any) -> dict[str, wire.SiteTask]:
        """One task a site."""
        t = 0 if self.turn is None else self.turn.index
        return {self.sites.names[k]: wire.SiteTask(kind, t, k, **about) for k in clients}

    def training(self) -> dict[str, wire.SiteTask]:
        """The tasks of the cohort's training."""
        names = tuple(signal.name for signal in self.needs.reports if signal != UPDATE)
        return self.tasks(wire.TRAIN, self.cohort.ids.tolist(), signals=names)

    def _ask(self, question: Measure, model: Model, t: int) -> dict[int, Any]:
        """The rows that came back, by client; silence makes a shorter reading."""
        purpose, signal = "train", question.signal
        if question.after is not None:
            purpose, model = "rehearsal", self._rehearsed(question.after, model)
        about: dict[str, Any] = {"signals": (signal.name,), "purpose": purpose, "payload": dict(signal.payload)}
        asked = self.tasks(wire.QUERY, question.ids.tolist(), **about)
        sent = self._exchange(asked, model, self.settings.answer_timeout, signal.name)
        rows: dict[int, Any] = {}
        for name, message in sent.items():
            content = wire.content_of(message)
            if "error" in content:
                self.controller.warning(f"{name} failed to answer {signal.name}: {content['error']}")
            elif signal.name in (found := wire.arrays_of(content.get("rows"))):
                rows[self.sites.names.index(name)] = found[signal.name]
        return rows

    def _rehearsed(self, cohort: Cohort, model: Model) -> Model:
        """w + Σ a_k Δ_k of a training that leaves no trace."""
        asked = self.tasks(wire.REHEARSE, cohort.ids.tolist(), purpose="rehearsal")
        sent = self._exchange(asked, model, self.settings.answer_timeout, "rehearsal")
        returned = self._screened(sent, model)
        done = cohort.ids[[k in returned.models for k in cohort.ids.tolist()]]
        if not done.size:
            return model
        update = combined(cohort, done, returned.models, model)
        return from_vector(as_vector(model) + update, model)

    def _exchange(
        self, asked: Mapping[str, wire.SiteTask], model: Model, timeout: int, what: str
    ) -> dict[str, FLModel]:
        """Send each site its own task and wait; who does not answer in time is left out from now on."""
        found: dict[str, FLModel] = {}
        if not asked:
            return found
        task = next(iter(asked.values())).kind
        results = self.controller.send_model_and_wait(
            task_name=task, data=self.message(asked, model), targets=list(asked), timeout=timeout
        )
        for result in results:
            found[str(result.meta["client_name"])] = result
        self.fell_silent([name for name in asked if name not in found], what)
        return found

    def message(self, asked: Mapping[str, wire.SiteTask], model: Model) -> FLModel:
        """One message for all these sites; it names the id of each."""
        message = next(iter(asked.values())).on(model, self.rounds)
        message.meta[wire.CLIENTS] = {name: one.client for name, one in asked.items()}
        return message

    def fell_silent(self, names: Sequence[str], what: str) -> None:
        """These did not answer in time; they are left out until they answer, and asked less and less often."""
        if not names:
            return
        online = self.online()
        for name in names:
            self.sites.fell_silent(name, online.get(name, ""))
        self.controller.warning(f"No answer to {what} from {', '.join(names)}; they are left out until they answer.")

    # -- what came back --------------------------------------------------------------------------------------------

    def _screened(self, sent: Mapping[str, FLModel], model: Model) -> Returned:
        by_client = {self.sites.names.index(name): message for name, message in sent.items()}
        returned = screen(by_client, model, self.needs.reports, self.settings.trust())
        for client, error in returned.unreported.items():
            self.controller.warning(f"{self.sites.names[client]} failed to report after training: {error}")
        return returned

    def finish(self, sent: Mapping[str, FLModel], model: Model) -> tuple[Ids, Returned]:
        """Close the round; the clients whose updates are aggregated, in the cohort's order, and what was returned."""
        turn, registrar = self.turn, self.registrar
        if turn is None or registrar is None or turn.cohort is None:
            raise InputError("finish must be called after choose.")
        names = [self.sites.names[k] for k in turn.cohort.ids.tolist()]
        if len(sent) < (self.target or len(names)):
            self.fell_silent([name for name in names if name not in sent], "training")
        for name in sent:
            self.sites.trained(name)
        returned = self._screened(sent, model)
        turn.blame(returned.faults)
        done = turn.cohort.ids[[k in returned.models for k in turn.cohort.ids.tolist()]]
        usable = registrar.finish(turn, done, returned.reports)
        self._remember(turn, done, returned.faults)
        for client, reason in returned.faults.items():
            self.controller.warning(f"{self.sites.names[client]} is left out of round {turn.index}: {reason}")
        self.turn = None
        return done if usable.size else usable, returned

    def _remember(self, turn: Turn, done: Ids, faults: Mapping[int, str]) -> None:
        cohort = turn.cohort or Cohort.uniform([])
        names = self.sites.names
        self.history.append(
            {
                "round": turn.index,
                "available": [] if turn.round is None else turn.round.available.tolist(),
                "cohort": cohort.ids.tolist(),
                "names": [names[k] for k in cohort.ids.tolist()],
                "weights": cohort.weights.tolist(),
                "answered": done.tolist(),
                "left_out": {names[k]: reason for k, reason in faults.items()},
                "guards": dict(turn.guarded),
                "asked": [[item.signal, item.asked, item.answered] for item in turn.asked],
            }
        )

    def close(self, *, reveal: bool) -> None:
        """Give the audit log back; when the job is over, its seed is revealed."""
        if self.log_file is not None and self.registrar is not None:
            if reveal:
                self.log_file.reveal()
            self.log_file.close()


def _answerable(known: Any, wanted: set[str]) -> set[str]:
    """Which of the wanted signals a site can answer; a sketch follows from its vector."""
    names = {str(name) for name in known} if isinstance(known, list | tuple | set) else set()
    return {name for name in wanted if name in names or name.partition("-sketch")[0] in names}
