"""How the start of a remote job is measured, and what is asked when no pod of it appears."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest

from airflow_gpu_placement.engine.classify import classify
from airflow_gpu_placement.exceptions import Forbidden, Unreachable
from airflow_gpu_placement.model.kube import ObjectMeta
from airflow_gpu_placement.model.outcome import LossPolicy, OutcomeKind
from airflow_gpu_placement.watch.followed import JobRef, Subscription
from airflow_gpu_placement.watch.starting import JobEvent, Starting
from tests.unit.engine.remote_jobs import RUNNING, job, pod, seen

if TYPE_CHECKING:
    from airflow_gpu_placement.model.outcome import Observation
    from airflow_gpu_placement.watch.cluster import ClusterWatch

NOWHERE = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
POLICY = LossPolicy()


class Watch:
    """Stands for a watch of a cluster: a clock that is turned by hand, and the events of a Job."""

    def __init__(self, events: list[JobEvent] | Exception) -> None:
        self.seconds = 0.0
        self.asked = 0
        self._events = events

    def now(self) -> float:
        """Return the time."""
        return self.seconds

    async def client(self) -> Watch:
        """Return what is asked."""
        return self

    async def list_all(self, path: str, _: Any, query: dict[str, str]) -> tuple[list[JobEvent], str]:
        """Answer with the events."""
        assert (path, query) == ("/api/v1/namespaces/n/events", {"fieldSelector": "involvedObject.uid=u"})
        self.asked += 1
        if isinstance(self._events, Exception):
            raise self._events
        return self._events, ""


def starting(watch: Watch, policy: LossPolicy = POLICY) -> Starting:
    """Begin to follow a job."""
    return Starting(cast("ClusterWatch", watch), JobRef("n", "j", "u"), policy)


def look(watch: Watch, start: Starting, at: float, observation: Observation) -> Observation:
    """Look at a moment."""
    watch.seconds = at
    return asyncio.run(start.measured(observation))


def test_the_wait_is_measured_until_every_pod_has_started() -> None:
    """Afterwards no time of it is of interest any more."""
    watch = Watch([])
    start = starting(watch)
    idle, runs = seen(pod(node="", phase="Pending")), seen(pod(RUNNING))
    assert look(watch, start, 7.0, idle).waited_seconds == 7.0
    assert look(watch, start, 8.0, runs).waited_seconds is None
    assert look(watch, start, 9.0, runs).waited_seconds is None


def test_a_job_that_was_suspended_is_not_late() -> None:
    """It has run for an hour, its pods were taken away, and it has none until somebody lets it go on."""
    watch = Watch([])
    start = starting(watch)
    made = ObjectMeta(name="j", creation_timestamp="2026-01-05T10:00:00Z")
    of = msgspec.structs.replace(job(suspend=True), metadata=made)
    old: dict[str, Any] = {"of": of, "now": datetime(2026, 1, 5, 12, 0, tzinfo=UTC)}
    suspended = seen(**old)
    assert classify(suspended, POLICY).cause == "StartTimeout"
    look(watch, start, 8.0, seen(pod(RUNNING), **old))
    for observation in (suspended, seen(pod(phase="Pending"), **old)):
        measured = look(watch, start, 7200.0, observation)
        assert classify(measured, POLICY).kind is OutcomeKind.RUNNING


def test_the_word_of_the_scheduler_counts_while_it_lasts() -> None:
    """A pod that finds a node and is refused again begins anew."""
    watch = Watch([])
    start = starting(watch)
    nowhere = seen(pod(node="", phase="Pending", conditions=NOWHERE))
    assert look(watch, start, 5.0, nowhere).unschedulable_seconds == 0.0
    assert look(watch, start, 9.0, nowhere).unschedulable_seconds == 4.0
    assert look(watch, start, 10.0, seen(pod(phase="Pending"))).unschedulable_seconds == 0.0
    assert look(watch, start, 20.0, nowhere).unschedulable_seconds == 0.0


def test_the_events_are_read_when_no_pod_appears() -> None:
    """Once, after a while; the latest refusal is the one that is told."""
    events = [
        JobEvent(reason="FailedCreate", message="new", last_timestamp="2026-01-05T10:00:09Z"),
        JobEvent(reason="FailedCreate", message="old", last_timestamp="2026-01-05T10:00:01Z"),
        JobEvent(reason="SuccessfulCreate", message="other", last_timestamp="2026-01-05T10:00:10Z"),
    ]
    watch = Watch(events)
    start = starting(watch)
    assert look(watch, start, 14.0, seen()).create_refusal == ""
    assert look(watch, start, 15.0, seen()).create_refusal == "new"
    assert look(watch, start, 16.0, seen()).create_refusal == "new"
    assert watch.asked == 1


@pytest.mark.parametrize(
    "observation",
    [
        pytest.param(seen(pod(phase="Pending")), id="there is a pod"),
        pytest.param(seen(of=job(suspend=True)), id="it is suspended"),
        pytest.param(seen(pods_listed=False), id="the pods were not read yet"),
        pytest.param(seen(gone=True), id="there is no Job"),
    ],
)
def test_nothing_is_asked_without_need(observation: Observation) -> None:
    """Most jobs get their pods within the second."""
    watch = Watch([])
    look(watch, starting(watch), 100.0, observation)
    assert watch.asked == 0


def test_a_right_that_is_missing_is_told() -> None:
    """What cannot be asked now is asked again later and says nothing meanwhile."""
    watch = Watch(Forbidden("403 events is forbidden"))
    assert "403 events is forbidden" in look(watch, starting(watch), 20.0, seen()).create_refusal
    watch = Watch(Unreachable("no answer"))
    start = starting(watch)
    assert look(watch, start, 20.0, seen()).create_refusal == ""
    assert look(watch, start, 79.0, seen()).create_refusal == ""
    assert watch.asked == 1
    look(watch, start, 80.0, seen())
    assert watch.asked == 2


def test_time_alone_wakes_the_follower() -> None:
    """Nothing changes about a job that does not start."""
    watch = Watch([])
    start = starting(watch, LossPolicy(start_timeout_seconds=0.05))
    subscription = Subscription(JobRef("n", "j", "u"))

    async def wait() -> None:
        async with asyncio.timeout(10):
            await start.changed(subscription)

    asyncio.run(wait())


def test_a_job_that_runs_wakes_nobody_by_time() -> None:
    """A thousand of them are watched at the cost of their changes."""
    watch = Watch([])
    start = starting(watch, LossPolicy(start_timeout_seconds=0.01))
    subscription = Subscription(JobRef("n", "j", "u"))
    look(watch, start, 0.0, seen(pod(RUNNING)))

    async def wait() -> None:
        async with asyncio.timeout(0.5):
            await start.changed(subscription)

    with pytest.raises(TimeoutError):
        asyncio.run(wait())
