"""Updates of a cluster's workers, with a stand-in for Ray that answers as Ray does."""

from types import SimpleNamespace

from sortition.studies.workers.ray_scheduler import RayScheduler
from sortition.studies.workers.scheduler import Event


class FakeUpdates:
    """Every call of a worker's ``updates`` returns a new reply, named by the worker and the call."""

    def __init__(self, worker):
        self.worker = worker
        self.n_calls = 0

    def remote(self, stopping=False):
        self.n_calls += 1
        return (self.worker, self.n_calls)


class FakeRay:
    """Ray with workers whose first replies are all there, and whose later replies never come."""

    exceptions = SimpleNamespace(RayError=RuntimeError)

    def __init__(self):
        self.n_actors = 0

    def remote(self, **resources):
        return lambda actor_class: SimpleNamespace(remote=self._start_actor)

    def _start_actor(self, registered):
        self.n_actors += 1
        submit = SimpleNamespace(remote=lambda *job: None)
        return SimpleNamespace(updates=FakeUpdates(self.n_actors - 1), submit=submit)

    def wait(self, replies, *, num_returns=1, timeout=None):
        arrived = [reply for reply in replies if reply[1] == 1][:num_returns]
        return arrived, [reply for reply in replies if reply not in arrived]

    def get(self, reply):
        return [Event("started", reply[0])], []

    def kill(self, actor):
        pass


def test_all_workers_that_have_updates_are_served_by_one_call():
    fake_ray = FakeRay()
    cluster = SimpleNamespace(ray=fake_ray, needs={}, places=lambda: 3)
    tasks = [SimpleNamespace(path=None) for _ in range(3)]
    events = []
    scheduler = RayScheduler(cluster, tasks, None, events.append)
    scheduler.start_workers()
    scheduler.receive()
    assert [event.index for event in events] == [0, 1, 2]
    assert [worker.has_answered for worker in scheduler.workers] == [True, True, True]
    scheduler.receive()  # the later replies are not there
    assert len(events) == 3
