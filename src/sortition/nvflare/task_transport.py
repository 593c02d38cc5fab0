"""NVFlare's tasks as a transport: asks of one content become one task for many sites, and results wait in a queue.

NVFlare sends a task when a site asks for work, and calls back from threads of its own. Sites are known by their names,
which NVFlare proves, and a site that connects anew has another token.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from queue import Empty, Queue
from typing import cast

import numpy.typing as npt
from nvflare.apis.controller_spec import ClientTask, Task
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.abstract.fl_model import FLModel
from nvflare.app_common.utils.fl_model_utils import FLModelUtils
from nvflare.app_common.workflows.model_controller import ModelController

from sortition.clients.named_arrays import Model
from sortition.core.arrays import Array, as_array
from sortition.core.errors import InputError
from sortition.federation.messages import Ask, Handle, Peer, Profile, Reply
from sortition.nvflare import meta_codec


class JobAbortedError(Exception):
    """NVFlare ends the job: nobody waits any longer."""


@dataclass(frozen=True, eq=False)
class OpenAsk:
    """An ask that is not answered yet.

    Attributes:
        ask: what the site is to do.
        site: the name of the site.
        task: NVFlare's task, which other sites may share.
        lapses_at: the second of the monotonic clock after which nobody waits for the answer; infinite
            without a deadline.
    """

    ask: Ask
    site: str
    task: Task
    lapses_at: float


class NvflareTransport:
    """Sends asks to sites as tasks of an NVFlare controller, and turns the results into replies.

    Args:
        controller: the controller, which NVFlare has started.
        rounds: the number of rounds of the job, which the scripts of the sites may read.

    Attributes:
        train_task: the name of the task for which sites train.
        train_message: the train message of NVFlare's own workflow, whose round and metadata are sent along; None where
            the workflow is Sortition's.
    """

    def __init__(self, controller: ModelController, rounds: int) -> None:
        self.controller = controller
        self.rounds = rounds
        self.train_task = "train"
        self.train_message: FLModel | None = None
        self._site_by_session: dict[str, str] = {}
        self._open_asks: dict[Handle, OpenAsk] = {}
        self._arrived_results: Queue[tuple[Handle, Shareable]] = Queue()
        self._task_numbers = itertools.count()

    def online(self) -> Mapping[str, Peer]:
        """Return the connected sites; one that connects anew has another session."""
        self._stop_if_aborted()
        peers: dict[str, Peer] = {}
        for client in self.controller.engine.get_clients():
            if self.controller.get_client_disconnect_time(client.name) is None:
                session = f"{client.name}/{client.token}"
                peers[session] = Peer(name=client.name)
                self._site_by_session[session] = client.name
        return peers

    def post(self, asks: Sequence[Ask]) -> Sequence[Handle | None]:
        """Make one task of all asks that differ in nothing but the site."""
        groups: dict[Hashable, list[Ask]] = {}
        for ask in asks:
            groups.setdefault(_content(ask), []).append(ask)
        handles: dict[str, Handle] = {}
        for group in groups.values():
            handles |= self._broadcast({self._site_by_session[ask.session]: ask for ask in group})
        return [handles[ask.session] for ask in asks]

    def poll(self, wait: float) -> Sequence[Reply]:
        """Read the results that NVFlare has handed over; report work without a deadline of sites that left as lost."""
        self._stop_if_aborted()
        replies = self._lost()
        try:
            handle, result = self._arrived_results.get(block=wait > 0, timeout=wait)
            while True:
                replies.append(self._read(handle, result))
                handle, result = self._arrived_results.get_nowait()
        except Empty:
            self._forget_lapsed()
            return replies

    def cancel(self, handles: Collection[Handle]) -> Collection[Handle]:
        """Withdraw the asks that sites have not fetched. A site that has fetched its task works on, and may answer.

        NVFlare drops the answer to a task that has ended, so a task stays open while a site works on it.
        """
        withdrawn: list[Handle] = []
        for handle in handles:
            open_ask = self._open_asks.get(handle)
            if open_ask is None or open_ask.site in open_ask.task.last_client_task_map:
                continue
            other_sites = [site for site in open_ask.task.targets or () if site != open_ask.site]
            if other_sites:
                open_ask.task.targets = other_sites
            else:  # no target at all would mean everybody
                self.controller.cancel_task(open_ask.task)
            withdrawn.append(handle)
            del self._open_asks[handle]
        return withdrawn

    def take_late(self, client_task_id: str, result: Shareable) -> None:
        """Take the result of a task that has ended."""
        self._arrived_results.put((client_task_id, result))

    # -- sending -------------------------------------------------------------------------------------------------------

    def _broadcast(self, asks: Mapping[str, Ask]) -> dict[str, Handle]:
        """Send one task to these sites; return the handles, by session."""
        controller = self.controller
        number = next(self._task_numbers)
        first = next(iter(asks.values()))
        message = meta_codec.message_of(asks, self.rounds)
        task_name: str = first.kind
        if first.kind == "train":
            task_name = self.train_task
            if self.train_message is not None:
                message.current_round = self.train_message.current_round
                message.meta = {**(self.train_message.meta or {}), **message.meta}
            controller.set_fl_context(message)
        task = controller._prepare_task(
            data=message,
            task_name=task_name,
            timeout=_whole_seconds(first.seconds),
            callback=_holds_parameters,
        )
        task.result_received_cb = partial(self._on_result, number, task.result_received_cb)
        lapses_at = time.monotonic() + first.seconds
        handles: dict[str, Handle] = {}
        for site, ask in asks.items():
            handle = _handle(number, site)
            self._open_asks[handle] = OpenAsk(ask=ask, site=site, task=task, lapses_at=lapses_at)
            handles[ask.session] = handle
        controller.info(f"Sending task {task_name} to {list(asks)}")
        controller.broadcast(task=task, fl_ctx=controller.fl_ctx, targets=list(asks), min_responses=0)
        return handles

    # -- receiving -----------------------------------------------------------------------------------------------------

    def _on_result(self, number: int, process: Callable[..., None], client_task: ClientTask, fl_ctx: FLContext) -> None:
        """Let the controller fire its events, then queue the result; NVFlare calls this from a thread of its own."""
        result = client_task.result
        try:
            process(client_task=client_task, fl_ctx=fl_ctx)
        finally:
            self._arrived_results.put((_handle(number, client_task.client.name), result))

    def _read(self, handle: Handle, result: Shareable) -> Reply:
        """Read a result, of a task that may have ended."""
        open_ask = self._open_asks.pop(handle, None)
        if open_ask is None:
            return Reply(handle, "lost", "it answers a task that has ended")
        return read_reply(handle, open_ask.site, open_ask.ask, result)

    def _lost(self) -> list[Reply]:
        """Give up work without a deadline of sites that have disconnected, or have connected anew."""
        endless = {handle: open_ask for handle, open_ask in self._open_asks.items() if open_ask.lapses_at == math.inf}
        if not endless:
            return []
        online = self.online()
        replies = []
        for handle, open_ask in endless.items():
            if open_ask.ask.session not in online:
                del self._open_asks[handle]
                replies.append(Reply(handle, "lost", f"site {open_ask.site} has disconnected"))
        return replies

    def _forget_lapsed(self) -> None:
        """Forget what nobody waits for any more."""
        clock = time.monotonic()
        self._open_asks = {
            handle: open_ask for handle, open_ask in self._open_asks.items() if open_ask.lapses_at > clock
        }

    def _stop_if_aborted(self) -> None:
        if self.controller.abort_signal.triggered:
            raise JobAbortedError


def read_reply(handle: Handle, site: str, ask: Ask, result: Shareable) -> Reply:
    """Read the result of a site, as it came over the wire; parts that cannot be read are left out."""
    code = result.get_return_code()
    if code and code != ReturnCode.OK:
        return Reply(handle, "failed", f"its task ended with {code}")
    try:
        message = FLModelUtils.from_shareable(result)
    except Exception as error:  # what a site sends can raise anything
        return Reply(handle, "failed", f"it sent no FLModel ({type(error).__name__}: {error})")
    message.meta["client_name"] = site
    content = meta_codec.content_of(message)
    complaint = str(content.get("error", ""))
    rows = meta_codec.table_of(content.get("rows"))
    if ask.kind in ("train", "rehearse"):
        model = _site_model(message, ask.model)
        return Reply(handle, rows=rows, model=model, unreported=complaint, native=message)
    if complaint:
        return Reply(handle, "failed", complaint)
    if ask.kind == "profile":
        return Reply(handle, profile=read_profile(content))
    return Reply(handle, rows=rows)


def read_profile(content: Mapping[str, object]) -> Profile:
    """Read what a site says of itself; its name is NVFlare's."""
    facts: dict[str, Array] = {}
    for name, value in meta_codec.table_of(content.get("facts")).items():
        try:
            facts[name] = as_array(name, cast(npt.ArrayLike, value))
        except InputError:
            continue
    return Profile.read(content, facts)


def _site_model(message: FLModel, sent: Model) -> Model:
    try:
        return meta_codec.full_model(message, sent)
    except Exception:  # what a site sends can raise anything
        return {}


def _handle(number: int, site: str) -> Handle:
    return f"{number}/{site}"


def _content(ask: Ask) -> Hashable:
    """Return what one task says to all its sites; models and payloads are compared as objects."""
    payload = tuple((name, id(array)) for name, array in ask.payload.items())
    model = 0
    if ask.model:
        model = id(ask.model)
    return (ask.kind, ask.round, ask.purpose, ask.signals, ask.facts, ask.optional, ask.seconds, model, payload)


def _holds_parameters(message: FLModel) -> bool:
    """Tell whether NVFlare may tell its components that a result is accepted."""
    return bool(message.params)


def _whole_seconds(seconds: float) -> int:
    """Round up to whole seconds, as NVFlare counts them; it takes 0 for no limit."""
    if math.isinf(seconds):
        return 0
    return max(math.ceil(seconds), 1)
