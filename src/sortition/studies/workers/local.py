"""Runs side by side in processes of one thread each; a process that dies loses only its own runs."""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, ForkServerProcess, SpawnContext, SpawnProcess

from sortition.core.errors import SortitionError
from sortition.studies import python_objects
from sortition.studies.config import Data, RunConfig
from sortition.studies.lockstep import groups
from sortition.studies.python_objects import RegisteredObject
from sortition.studies.workers.lockstep_runs import attempt_all
from sortition.studies.workers.process_control import ignoring_interrupts, interruptible, one_thread, unaware_of_main
from sortition.studies.workers.scheduler import ENDS, Event, Job, OnEvent, Scheduler, WorkerHandle

Objects = Mapping[str, RegisteredObject]
Check = Callable[[Sequence[RunConfig], Objects], list[str]]
Group = dict[int, Job]  # jobs that one process plays together, by their number
HAS_FORK_SERVER = "forkserver" in multiprocessing.get_all_start_methods()
PRELOADED = "SORTITION_PRELOAD_DATA"  # the environment variable that names the data to the fork server


class ThisMachine:
    """Run on this machine; :class:`~sortition.studies.workers.ray_cluster.RayCluster` is the other choice."""

    def __init__(self, jobs: int | None = None) -> None:
        self.jobs = jobs

    def call(self, function: Check, runs: Sequence[RunConfig], objects: Objects) -> list[str]:
        """Call a function on runs where they will be played, and return what it remarks.

        That is a process of the fork server, so that this one needs no PyTorch; it is this process where the runs are
        played in it, or where a study names code, which may be imported under this process's policy alone.
        """
        names_code = any(":" in name for run in runs for name in (run.data.name, run.model.name))
        if not HAS_FORK_SERVER or self.jobs == 1 or len(runs) == 1 or names_code:
            return function(runs, objects)
        return _call_in_process(function, runs, objects)

    def run(self, tasks: Sequence[Job], jobs: int | None, on_event: OnEvent) -> bool:
        """Play all tasks, at most ``jobs`` at a time, and return whether all were played."""
        return run(tasks, jobs, on_event)


def _call_in_process(function: Check, runs: Sequence[RunConfig], objects: Objects) -> list[str]:
    parent_end, child_end = fork_server().Pipe()
    arguments = (child_end, function, runs, objects, dict(os.environ))
    process = fork_server().Process(target=_answer, args=arguments, daemon=True)
    with one_thread(), ignoring_interrupts(), unaware_of_main(), preloading(runs[0].data):
        process.start()
    child_end.close()
    try:
        answer: list[str] | Exception = parent_end.recv()
    except EOFError:
        process.join()
        text = f"The process that checks the study ended with code {process.exitcode} (memory used up, or killed)."
        answer = SortitionError(text)
    process.join()
    if isinstance(answer, Exception):
        raise answer
    return answer


def _answer(
    pipe: Connection,
    function: Check,
    runs: Sequence[RunConfig],
    objects: Objects,
    environment: Mapping[str, str],
) -> None:
    """Call a function in this process, and send what it remarks or raises; the fork server may have other variables."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(environment)
    try:
        remarks = function(runs, objects)
    except SortitionError as error:
        pipe.send(error)
    except Exception:
        pipe.send(RuntimeError(traceback.format_exc()))
    else:
        pipe.send(remarks)


def fork_server() -> ForkServerContext | SpawnContext:
    """Return where processes come from: a fork server that has imported what they need, or new interpreters."""
    if not HAS_FORK_SERVER:
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["sortition.studies.workers.preload"])
    return context


def cores() -> int:
    """Return how many processes this one may use at a time."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run(tasks: Sequence[Job], jobs: int | None, on_event: OnEvent) -> bool:
    """Play all tasks, at most ``jobs`` at a time (default: all cores), and return whether all were played.

    Ctrl-C lets the rounds in progress end.
    """
    processes = max(1, cores() if jobs is None else jobs)
    grouped_tasks = [{index: tasks[index] for index in group} for group in groups(tasks, processes)]
    if processes == 1 or len(grouped_tasks) <= 1:
        return _run_in_this_process(grouped_tasks, on_event)
    return ProcessScheduler(grouped_tasks, min(processes, len(grouped_tasks)), on_event).run()


def _run_in_this_process(grouped_tasks: Sequence[Group], on_event: OnEvent) -> bool:
    with interruptible() as stopping:
        for group in grouped_tasks:
            if stopping():
                return False
            attempt_all(group, on_event, stopping)
        return not stopping()


def _serve(pipe: Connection, objects: Objects) -> None:
    """Play, as a worker's main loop, what comes through the pipe until None does; None sent back says it was played.

    Whatever arrives while tasks are played means stop: None, or the end of the pipe when the parent has died.
    """
    # the parent handles Ctrl-C, also where another one began the fork server
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    python_objects.receive(objects)
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while (group := pipe.recv()) is not None:
            attempt_all(group, pipe.send, pipe.poll)
            pipe.send(None)


@dataclass(kw_only=True)
class _Process(WorkerHandle):
    process: ForkServerProcess | SpawnProcess
    pipe: Connection

    def stop(self) -> None:
        """Ask the process, once, to end its round and then itself."""
        if not self.stopping:
            self.stopping = True
            with suppress(BrokenPipeError):
                self.pipe.send(None)


@contextmanager
def preloading(data: Data | None) -> Iterator[None]:
    """Let a fork server that starts now read these data, once for all workers; one that runs stays as it is."""
    if data is None or ":" in data.name:  # code of others is imported by those who may
        yield
        return
    os.environ[PRELOADED] = data.model_dump_json()
    try:
        yield
    finally:
        os.environ.pop(PRELOADED, None)


class ProcessScheduler(Scheduler[_Process, Group]):
    """Workers that are processes of this machine; each plays a group of runs at a time."""

    def __init__(self, grouped_tasks: Sequence[Group], processes: int, on_event: OnEvent) -> None:
        super().__init__(grouped_tasks, on_event)
        self.processes = processes
        self.ended: set[int] = set()

    def start_workers(self) -> None:
        """Start as many processes as may run at a time."""
        context = fork_server()
        first_job = next(iter(self.jobs[0].values()))
        config: RunConfig | None = getattr(first_job, "config", None)
        data = None if config is None else config.data
        while len(self.workers) < self.processes:
            parent_end, child_end = context.Pipe()
            process = context.Process(target=_serve, args=(child_end, python_objects.registered_objects()), daemon=True)
            with one_thread(), ignoring_interrupts(), unaware_of_main(), preloading(data):
                process.start()
            child_end.close()
            self.workers.append(_Process(process=process, pipe=parent_end))

    def submit(self, worker: _Process, index: int) -> None:
        """Send a group through the pipe; :meth:`receive` finds a process that has died."""
        with suppress(BrokenPipeError):
            worker.pipe.send(self.jobs[index])

    def receive(self) -> None:
        """Pass on the events that are in the pipes, within half a second."""
        ready = wait([worker.pipe for worker in self.workers], timeout=0.5)
        for worker in [worker for worker in self.workers if worker.pipe in ready]:
            try:
                event = worker.pipe.recv()
            except (EOFError, ConnectionResetError):
                self._worker_failed(worker)
                continue
            if event is None:
                worker.job_index = None
                continue
            if event.kind in ENDS:
                self.ended.add(event.index)
            self.on_event(event)

    def _worker_failed(self, worker: _Process) -> None:
        worker.process.join()
        self.workers.remove(worker)
        if worker.job_index is None:
            return
        text = f"Its process ended with code {worker.process.exitcode} (memory used up, or killed)."
        for index in self.jobs[worker.job_index].keys() - self.ended:
            self.on_event(Event("failed", index, text=text))

    def stop_workers(self) -> None:
        """Let idle processes end themselves, and terminate the others."""
        for worker in self.workers:
            if worker.job_index is None:
                worker.stop()
            else:  # a second Ctrl-C, or an error of ours
                worker.process.terminate()
        for worker in self.workers:
            worker.process.join()
            worker.pipe.close()
