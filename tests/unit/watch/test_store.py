"""What the streams say, put together; who is woken; and what may not be concluded yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.model.kube import ContainerState, ContainerStatus, ObjectMeta, Terminated
from airflow_gpu_placement.watch.followed import JobRef
from tests.unit.watch.store_objects import REF, Now, job, node, pod, seen, woken

if TYPE_CHECKING:
    from airflow_gpu_placement.watch.store import ClusterStore


def test_what_has_not_been_seen_is_not_gone(store: ClusterStore) -> None:
    """Before any stream has spoken a followed job exists, and so does the node of its pod."""
    store.subscribe(REF)
    assert seen(store).job is not None
    store.pod_changed("ADDED", pod("1", node="n1"))
    assert seen(store).nodes["n1"].exists


def test_a_list_without_the_job_is_checked_by_name(store: ClusterStore) -> None:
    """The list may be older than the job; the answer to its name is not."""
    subscription = store.subscribe(REF)
    store.jobs_listed("ml", [])
    assert store.doubtful() == []
    store.pods_listed("ml", [])
    assert store.doubtful() == [REF]
    assert seen(store).job is not None
    woken(subscription)
    store.answered(REF, None)
    assert seen(store).job is None
    assert woken(subscription)
    assert store.doubtful() == []


def test_a_job_that_answers_to_its_name_stays(store: ClusterStore) -> None:
    """The stream was late, not the job gone."""
    store.subscribe(REF)
    store.pods_listed("ml", [])
    store.answered(REF, job(active=1))
    store.jobs_listed("ml", [])
    assert seen(store).job is not None
    assert store.doubtful() == [REF]


def test_another_job_of_the_name_means_that_ours_is_gone(store: ClusterStore) -> None:
    """The uid decides."""
    store.subscribe(REF)
    store.pods_listed("ml", [])
    store.answered(REF, job(uid="uid-b"))
    assert seen(store).job is None


def test_a_deletion_is_final(store: ClusterStore) -> None:
    """The stream of Jobs says it itself; nobody needs to ask."""
    store.subscribe(REF)
    store.jobs_listed("ml", [job(active=1)])
    assert seen(store).job == job(active=1)
    store.job_changed("ml", "DELETED", job())
    assert seen(store).job is None
    store.jobs_listed("ml", [])
    assert store.doubtful() == []


def test_the_last_state_of_a_vanished_pod_is_kept(store: ClusterStore) -> None:
    """Its deletion carries it; after a gap in the stream the last one seen is all there is."""
    store.subscribe(REF)
    store.pods_listed("ml", [pod("1", "n1"), pod("2", "n2")])
    store.pod_changed("DELETED", pod("1", "n1", phase="Failed"))
    store.pods_listed("ml", [])
    observation = seen(store)
    assert observation.vanished == {"1", "2"}
    assert {one.metadata.uid: one.status.phase for one in observation.pods} == {"1": "Failed", "2": "Pending"}
    assert set(observation.nodes) == {"n1", "n2"}


def test_pods_of_other_namespaces_and_jobs_do_not_mix(store: ClusterStore) -> None:
    """A list of one namespace says nothing about another."""
    other = JobRef("other", "gp-o", "uid-o")
    store.subscribe(REF)
    store.subscribe(other)
    store.pods_listed("ml", [pod("1")])
    store.pods_listed("other", [pod("9", owner="uid-o", namespace="other")])
    store.pods_listed("ml", [])
    assert seen(store).vanished == {"1"}
    assert [one.metadata.uid for one in seen(store, other).pods] == ["9"]
    assert seen(store, other).vanished == frozenset()


def test_the_time_since_the_first_failure_is_measured(store: ClusterStore, now: Now) -> None:
    """From the first pod that failed, whatever follows."""
    store.subscribe(REF)
    store.pods_listed("ml", [pod("1", "n1")])
    assert seen(store).failing_seconds == 0
    state = ContainerState(terminated=Terminated(exit_code=1))
    store.pod_changed("MODIFIED", pod("1", "n1", container_statuses=(ContainerStatus(state=state),)))
    now.at += 4
    store.pod_changed("MODIFIED", pod("2", "n2", phase="Failed"))
    now.at += 3
    assert seen(store).failing_seconds == 7


def test_two_followers_of_a_job_share_what_is_remembered(store: ClusterStore) -> None:
    """The last one to leave takes it along."""
    first, second = store.subscribe(REF), store.subscribe(REF)
    store.pods_listed("ml", [pod("1")])
    store.pod_changed("DELETED", pod("1"))
    store.unsubscribe(first)
    assert seen(store).vanished == {"1"}
    store.unsubscribe(second)
    store.subscribe(REF)
    assert seen(store).vanished == frozenset()


def test_a_namespace_is_forgotten_as_a_whole(store: ClusterStore) -> None:
    """Old objects do not show up when somebody follows a job there again."""
    store.jobs_listed("ml", [job()])
    store.pods_listed("ml", [pod("1")])
    store.forget("ml")
    store.subscribe(REF)
    assert seen(store).pods == ()
    assert store.doubtful() == []


def test_the_last_state_of_a_job_whose_deletion_is_seen_is_kept(store: ClusterStore) -> None:
    """A job that an answer shows to be gone has none: nobody saw what it was."""
    store.subscribe(REF)
    store.job_changed("ml", "DELETED", job(active=1))
    assert seen(store).deleted_job == job(active=1)
    store.job_changed("ml", "ADDED", job(active=1))
    assert seen(store).deleted_job is None


def test_what_cannot_be_read_has_not_gone(store: ClusterStore, now: Now) -> None:
    """Its last known state stays; a node that was never read exists."""
    store.subscribe(REF)
    store.jobs_listed("ml", [job(active=1)])
    store.pods_listed("ml", [pod("1", "n1"), pod("2", "n2")])
    store.nodes_listed([node("n1")], [ObjectMeta(name="n2")])
    store.jobs_listed("ml", [], [job().metadata])
    store.pods_listed("ml", [pod("1", "n1")], [pod("2").metadata])
    store.nodes_listed([], [ObjectMeta(name="n1"), ObjectMeta(name="n2")])
    now.at += 10
    observation = seen(store)
    assert store.doubtful() == []
    assert observation.job == job(active=1)
    assert observation.vanished == frozenset()
    assert len(observation.pods) == 2
    assert [(view.name, view.exists, view.ready) for view in observation.nodes.values()] == [
        ("n1", True, "True"),
        ("n2", True, "Unknown"),
    ]
    store.pod_changed("ADDED", pod("3", "n3"))
    store.node_unreadable(ObjectMeta(name="n3"))
    now.at += 10
    assert seen(store).nodes["n3"].exists
