"""What the streams say, put together; who is woken; and what may not be concluded yet."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from airflow_gpu_placement.model.kube import (
    Condition,
    ContainerState,
    ContainerStatus,
    Job,
    JobStatus,
    Lease,
    LeaseSpec,
    Node,
    NodeInfo,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    Taint,
    Terminated,
)
from airflow_gpu_placement.watch.followed import JobRef, Subscription
from airflow_gpu_placement.watch.store import ClusterStore

REF = JobRef("ml", "gp-a", "uid-a")


class Now:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.at


def job(uid: str = "uid-a", name: str = "gp-a", **status: Any) -> Job:
    """Return a Job."""
    return Job(metadata=ObjectMeta(name=name, namespace="ml", uid=uid), status=JobStatus(**status))


def pod(uid: str, node: str = "", owner: str = "uid-a", namespace: str = "ml", **status: Any) -> Pod:
    """Return a pod of a Job."""
    labels = {"batch.kubernetes.io/controller-uid": owner}
    metadata = ObjectMeta(name=f"pod-{uid}", namespace=namespace, uid=uid, labels=labels)
    return Pod(metadata=metadata, spec=PodSpec(node_name=node), status=PodStatus(**status))


def node(name: str, ready: str = "True", *taints: Taint) -> Node:
    """Return a Node."""
    status = NodeStatus(conditions=(Condition(type="Ready", status=ready),))
    return Node(metadata=ObjectMeta(name=name), spec=NodeSpec(taints=taints), status=status)


def lease(name: str, beat: int) -> Lease:
    """Return a Lease with a period of 10 s."""
    return Lease(
        metadata=ObjectMeta(name=name), spec=LeaseSpec(lease_duration_seconds=40, renew_time=str(beat))
    )


def woken(subscription: Subscription) -> bool:
    """Tell whether a follower was woken, and let it sleep again."""
    was = subscription.has_news
    subscription._news = False
    return was


@pytest.fixture
def now() -> Now:
    """Return the clock of the store."""
    return Now()


@pytest.fixture
def store(now: Now) -> ClusterStore:
    """Return an empty store."""
    return ClusterStore(now)


def seen(store: ClusterStore, ref: JobRef = REF) -> Any:
    """Return the observation of a job in a cluster that answers."""
    return store.observation(ref, unreachable_seconds=0.0)


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


def test_only_those_concerned_are_woken(store: ClusterStore) -> None:
    """Events of other jobs, and renewals in time, wake nobody."""
    mine = store.subscribe(REF)
    store.subscribe(JobRef("ml", "gp-b", "uid-b"))
    store.leases_listed([lease("n1", 0)])
    store.pod_changed("ADDED", pod("1", "n1"))
    assert woken(mine)
    store.pod_changed("ADDED", pod("2", "n2", owner="uid-b"))
    store.job_changed("ml", "MODIFIED", job(uid="uid-b", name="gp-b"))
    store.node_changed("MODIFIED", node("n2"))
    store.lease_changed("MODIFIED", lease("n1", 1))
    store.wake_some(100)
    assert not woken(mine)
    store.node_changed("MODIFIED", node("n1", "Unknown"))
    assert woken(mine)


def test_time_alone_wakes_those_on_an_overdue_node(store: ClusterStore, now: Now) -> None:
    """Each tick while it is overdue, and once when it is heard again."""
    mine = store.subscribe(REF)
    store.nodes_listed([node("n1")])
    store.leases_listed([lease("n1", 0)])
    store.pod_changed("ADDED", pod("1", "n1"))
    woken(mine)
    now.at += 21
    store.wake_some(100)
    assert woken(mine)
    assert seen(store).nodes["n1"].silent_seconds == 21
    store.lease_changed("MODIFIED", lease("n1", 1))
    assert woken(mine)
    store.wake_some(100)
    assert not woken(mine)


def test_a_node_is_gone_when_its_stream_says_so(store: ClusterStore) -> None:
    """At once by its deletion, or by a list that had it before."""
    store.subscribe(REF)
    store.pods_listed("ml", [pod("1", "n1"), pod("2", "n2")])
    store.nodes_listed([node("n1"), node("n2", "Unknown")])
    assert {view.ready for view in seen(store).nodes.values()} == {"True", "Unknown"}
    store.node_changed("DELETED", node("n1"))
    store.nodes_listed([])
    assert [view.exists for view in seen(store).nodes.values()] == [False, False]
    store.node_changed("ADDED", node("n1"))
    assert seen(store).nodes["n1"].exists


def test_a_node_that_no_stream_has_shown_gets_a_moment(store: ClusterStore, now: Now) -> None:
    """The stream of pods may be ahead of that of nodes, but not for long."""
    mine = store.subscribe(REF)
    store.nodes_listed([])
    store.pods_listed("ml", [pod("1", "new")])
    assert seen(store).nodes["new"].exists
    now.at += 4
    assert seen(store).nodes["new"].exists
    woken(mine)
    store.wake_some(100)
    assert woken(mine)
    now.at += 2
    assert not seen(store).nodes["new"].exists


def test_an_out_of_service_node_is_shown(store: ClusterStore) -> None:
    """An operator's word, passed on."""
    store.subscribe(REF)
    store.pods_listed("ml", [pod("1", "n1")])
    taint = Taint(key="node.kubernetes.io/out-of-service", effect="NoExecute")
    store.nodes_listed([node("n1", "Unknown", taint)])
    assert seen(store).nodes["n1"].out_of_service


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


def test_how_long_a_node_is_not_ready_is_measured(store: ClusterStore, now: Now) -> None:
    """From the first time that its condition was seen so; a node that is ready again starts anew."""
    mine = store.subscribe(REF)
    store.pods_listed("ml", [pod("1", "n1")])
    store.nodes_listed([node("n1")])
    now.at += 100
    store.node_changed("MODIFIED", node("n1", "Unknown"))
    now.at += 7
    store.node_changed("MODIFIED", node("n1", "Unknown"))
    assert seen(store).nodes["n1"].ready_seconds == 7
    woken(mine)
    store.wake_some(100)
    assert woken(mine)
    store.node_changed("MODIFIED", node("n1"))
    assert seen(store).nodes["n1"].ready_seconds == 0
    woken(mine)
    store.wake_some(100)
    assert not woken(mine)


def test_a_boot_while_a_job_is_there_is_noticed(store: ClusterStore) -> None:
    """By another boot id than when the job was first seen on the node."""
    store.subscribe(REF)
    store.pods_listed("ml", [pod("1", "n1")])
    for boot_id, rebooted in (("b1", False), ("b1", False), ("b2", True)):
        status = NodeStatus(node_info=NodeInfo(boot_id=boot_id))
        store.nodes_listed([msgspec.structs.replace(node("n1"), status=status)])
        assert seen(store).nodes["n1"].rebooted is rebooted


def test_the_last_state_of_a_job_whose_deletion_is_seen_is_kept(store: ClusterStore) -> None:
    """A job that an answer shows to be gone has none: nobody saw what it was."""
    store.subscribe(REF)
    store.job_changed("ml", "DELETED", job(active=1))
    assert seen(store).deleted_job == job(active=1)
    store.job_changed("ml", "ADDED", job(active=1))
    assert seen(store).deleted_job is None


def test_when_all_are_concerned_a_few_are_woken_at_a_time(store: ClusterStore, now: Now) -> None:
    """A cluster that falls silent does not stop the event loop, and everybody gets a turn."""
    everybody = [store.subscribe(JobRef("ml", f"gp-{i}", f"uid-{i}")) for i in range(10)]
    store.leases_listed([lease("n1", 0)])
    for i in range(10):
        store.pod_changed("ADDED", pod(str(i), "n1", owner=f"uid-{i}"))
    assert all([woken(one) for one in everybody])
    now.at += 21
    for all_jobs in (False, True):
        rounds = []
        for _ in range(3):
            store.wake_some(4, all_jobs=all_jobs)
            rounds.append({i for i, one in enumerate(everybody) if woken(one)})
        assert [len(one) for one in rounds] == [4, 4, 4]
        assert set.union(*rounds) == set(range(10))


def test_an_overdue_node_is_named_only_when_a_followed_job_is_there(store: ClusterStore, now: Now) -> None:
    """Nobody asks after the others."""
    mine = store.subscribe(REF)
    store.leases_listed([lease("n1", 0), lease("n2", 0)])
    store.pod_changed("ADDED", pod("1", "n1"))
    assert store.overdue_node() is None
    now.at += 21
    assert store.overdue_node() == "n1"
    store.unsubscribe(mine)
    assert store.overdue_node() is None


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


def test_renewals_that_come_again_start_the_clocks(store: ClusterStore, now: Now) -> None:
    """A stream may say nothing for a while and never break."""
    store.leases_listed([lease("n1", 0)])
    store.leases.deaf()
    now.at += 100
    store.lease_changed("MODIFIED", lease("n1", 1))
    assert not store.leases.is_deaf
    now.at += 3
    assert store.leases.silent_seconds("n1") == 3
