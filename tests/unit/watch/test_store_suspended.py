"""What a store remembers of pods that went because somebody suspended their job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.model.kube import ContainerState, ContainerStatus, Job, JobSpec, Pod, Terminated
from tests.unit.watch.store_objects import REF, job, pod, seen

if TYPE_CHECKING:
    from airflow_gpu_placement.watch.store import ClusterStore

KILLED = ContainerStatus(name="training", state=ContainerState(terminated=Terminated(exit_code=143)))


def suspended(*, suspend: bool) -> Job:
    """Return the job, held up or not."""
    return msgspec.structs.replace(job(), spec=JobSpec(suspend=suspend))


def leaving(uid: str) -> Pod:
    """Return a pod that was deleted while its container ran."""
    one = pod(uid, "n1", phase="Failed", container_statuses=(KILLED,))
    metadata = msgspec.structs.replace(one.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    return msgspec.structs.replace(one, metadata=metadata)


def uids(store: ClusterStore) -> set[str]:
    """Return the pods that the job is judged by."""
    return {one.metadata.uid for one in seen(store).pods}


def test_pods_of_before_a_suspension_say_nothing_about_those_after_it(store: ClusterStore) -> None:
    """Also when they go for good only after the job goes on; their failure is nobody's."""
    store.subscribe(REF)
    store.job_changed("ml", "ADDED", suspended(suspend=False))
    store.pod_changed("ADDED", pod("1", "n1", phase="Running"))
    store.pod_changed("ADDED", pod("2", "n1", phase="Running"))
    store.job_changed("ml", "MODIFIED", suspended(suspend=True))
    assert uids(store) == {"1", "2"}, "they have not gone yet"
    store.pod_changed("MODIFIED", leaving("1"))
    store.pod_changed("MODIFIED", leaving("2"))
    assert uids(store) == set()
    store.pod_changed("DELETED", leaving("1"))
    store.job_changed("ml", "MODIFIED", suspended(suspend=False))
    store.pod_changed("ADDED", pod("3", "n1", phase="Running"))
    store.pod_changed("DELETED", leaving("2"))
    assert uids(store) == {"3"}
    assert seen(store).vanished == frozenset()
    assert seen(store).failing_seconds == 0.0


def test_streams_may_come_in_any_order(store: ClusterStore) -> None:
    """The deletion may be known before the suspension, and a new pod before its end."""
    store.subscribe(REF)
    store.pod_changed("ADDED", pod("1", "n1", phase="Running"))
    store.pod_changed("DELETED", leaving("1"))
    assert uids(store) == {"1"}
    store.jobs_listed("ml", [suspended(suspend=True)])
    assert uids(store) == set()
    store.pod_changed("ADDED", pod("2", "n1", phase="Running"))
    assert uids(store) == {"2"}
    store.job_changed("ml", "MODIFIED", suspended(suspend=False))
    assert uids(store) == {"2"}


def test_a_pod_that_is_deleted_while_its_job_goes_on_counts(store: ClusterStore) -> None:
    """Somebody has taken it away, or its node."""
    store.subscribe(REF)
    store.job_changed("ml", "ADDED", suspended(suspend=False))
    store.pod_changed("ADDED", pod("1", "n1", phase="Running"))
    store.pod_changed("DELETED", leaving("1"))
    assert seen(store).vanished == {"1"}
