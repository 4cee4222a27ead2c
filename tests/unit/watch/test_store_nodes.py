"""What a store knows of nodes, and whom their news and time alone wake."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.model.kube import NodeInfo, NodeStatus, Taint
from airflow_gpu_placement.watch.followed import JobRef
from tests.unit.watch.store_objects import REF, Now, job, lease, node, pod, seen, woken

if TYPE_CHECKING:
    from airflow_gpu_placement.watch.store import ClusterStore


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


def test_renewals_that_come_again_start_the_clocks(store: ClusterStore, now: Now) -> None:
    """A stream may say nothing for a while and never break."""
    store.leases_listed([lease("n1", 0)])
    store.leases.deaf()
    now.at += 100
    store.lease_changed("MODIFIED", lease("n1", 1))
    assert not store.leases.is_deaf
    now.at += 3
    assert store.leases.silent_seconds("n1") == 3


def test_machines_that_come_and_go_are_not_remembered_for_ever(store: ClusterStore, now: Now) -> None:
    """An autoscaler makes thousands of them a day; only one that a followed job was on still matters."""
    mine = store.subscribe(REF)
    store.nodes_listed([node("mine")])
    store.pod_changed("ADDED", pod("1", "mine"))
    for number in range(100):
        store.node_changed("ADDED", node(f"machine-{number}"))
        store.node_changed("DELETED", node(f"machine-{number}"))
    store.nodes_listed([node("mine"), *(node(f"listed-{number}") for number in range(100))])
    store.nodes_listed([node("mine")])
    assert remembered(store) == set()
    store.node_changed("DELETED", node("mine"))
    assert remembered(store) == {"mine"}
    assert not seen(store).nodes["mine"].exists
    store.pod_changed("ADDED", pod("2", "machine-7"))
    now.at += 6
    woken(mine)
    assert not seen(store).nodes["mine"].exists
    assert seen(store).nodes["machine-7"].exists, "its own moment begins with the first look"
    store.wake_some(100)
    now.at += 6
    assert not seen(store).nodes["machine-7"].exists
    store.unsubscribe(mine)
    store.nodes_listed([])
    assert remembered(store) == set()


def remembered(store: ClusterStore) -> set[str]:
    """Return the nodes that are gone and not forgotten."""
    return set(store._nodes._missing_since)
