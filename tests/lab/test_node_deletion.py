"""How a process node ends pods: SIGTERM, grace, SIGKILL, the last word, and the object's removal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from lab.node import faults
from tests.lab.node_support import PodHistory, Workspace, container, pod_spec, state, wait_for

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.lab

STUBBORN = "trap '' TERM; echo up; while :; do sleep 0.1; done"


@pytest.fixture
def node_name(sandboxed_node: str) -> str:
    """Return a node of each kind of sandbox in turn."""
    return sandboxed_node


def test_sigterm_then_a_last_word(work: Workspace) -> None:
    """A deleted pod gets SIGTERM, may finish in its grace, and its end is seen before the object goes."""
    script = "trap 'echo saved > /dev/termination-log; exit 5' TERM; echo up; while :; do sleep 0.1; done"
    name = work.run(pod_spec(container(script), terminationGracePeriodSeconds=20))
    work.wait_log(name, "up")
    history = PodHistory(work, name)
    started = time.monotonic()
    work.delete(name)
    events = history.until_deleted()
    assert time.monotonic() - started < 5, "it did not use up its grace"
    last = events[-2]["object"]
    assert last["status"]["phase"] == "Failed"
    ended = state(last)["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (5, "Error", "saved\n")


def test_sigkill_after_the_grace(work: Workspace) -> None:
    """A process that does not listen to SIGTERM is killed when its grace is over: exit code 137."""
    name = work.run(pod_spec(container(STUBBORN)))
    work.wait_log(name, "up")
    history = PodHistory(work, name)
    started = time.monotonic()
    work.delete(name, gracePeriodSeconds=2)
    events = history.until_deleted()
    assert 1.9 < time.monotonic() - started < 8
    assert state(events[-2]["object"])["terminated"]["exitCode"] == 137
    assert state(events[-2]["object"])["terminated"]["reason"] == "Error"


def test_the_first_process_ignores_an_unhandled_sigterm(work: Workspace) -> None:
    """As the first process of a container, a command without a handler is not ended by SIGTERM."""
    name = work.run(pod_spec(container("echo up; exec sleep 60")))
    work.wait_log(name, "up")
    started = time.monotonic()
    work.delete(name, gracePeriodSeconds=2)
    work.wait_pod(name, lambda pod: pod is None, "is gone")
    assert time.monotonic() - started > 1.9


def test_a_second_deletion_shortens_the_grace(work: Workspace) -> None:
    """A later deletion with a shorter grace counts."""
    name = work.run(pod_spec(container(STUBBORN), terminationGracePeriodSeconds=60))
    work.wait_log(name, "up")
    work.delete(name)
    work.wait_pod(name, lambda pod: "deletionTimestamp" in pod["metadata"], "is being deleted")
    work.delete(name, gracePeriodSeconds=1)
    work.wait_pod(name, lambda pod: pod is None, "is gone", 10)


def test_force_deletion_kills_too(work: Workspace) -> None:
    """A pod whose object is removed at once (grace 0) is ended on the node a second later."""
    name = work.run(pod_spec(container(STUBBORN)))
    work.wait_log(name, "up")
    uid = work.pod(name)["metadata"]["uid"]
    folder = work.cluster.node(work.node).root_dir / "pods" / uid
    shim = (folder / "containers" / "main" / "shim.pid").read_text().split()[0]
    work.delete(name, gracePeriodSeconds=0)
    assert work.pod(name) is None
    assert int(shim) in work.cluster.node(work.node).pids(), "the API forgets the pod before it is dead"
    wait_for(lambda: not folder.exists(), 8, "the node has cleared the pod away")
    assert int(shim) not in work.cluster.node(work.node).pids()


def test_deletion_before_the_process_exists(work: Workspace) -> None:
    """A pod that is deleted right after its creation goes quickly and says that nothing was found."""
    late = {"name": "T", "valueFrom": {"secretKeyRef": {"name": "never", "key": "t"}}}
    name = work.run(pod_spec(container("echo x", env=[late]), terminationGracePeriodSeconds=30))
    history = PodHistory(work, name)
    work.delete(name)
    events = history.until_deleted()
    last = events[-2]["object"]
    assert last["status"]["phase"] == "Failed"
    ended = state(last)["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "ContainerStatusUnknown")


def test_create_and_delete_in_one_breath(work: Workspace) -> None:
    """However soon a deletion comes, the pod is gone in the end and nothing of it runs."""
    names = [work.run(pod_spec(container("exec sleep 60"))) for _ in range(5)]
    for name in names:
        work.delete(name, gracePeriodSeconds=1)
    for name in names:
        work.wait_pod(name, lambda pod: pod is None, "is gone")
    pods_dir = work.cluster.node(work.node).root_dir / "pods"
    wait_for(lambda: not list(pods_dir.iterdir()), 8, "all folders are cleared away")
    assert len(faults.node_processes(pods_dir.parent)) == 1, "the agent alone is left"


def test_daemons_end_with_their_container(work: Workspace, tmp_path: Path) -> None:
    """When the first process ends, so does what it has left behind, also what called setsid."""
    mark = tmp_path / "beats"
    script = f"(setsid sh -c 'while :; do echo x >> {mark}; sleep 0.05; done' &) ; sleep 0.5; exit 0"
    pod = work.finish(pod_spec(container(script)))
    assert state(pod)["terminated"]["exitCode"] == 0
    size = mark.stat().st_size
    assert size > 0
    time.sleep(0.3)  # long enough for several beats
    assert mark.stat().st_size == size


def test_a_restarted_agent_ends_what_is_not_wanted(work: Workspace) -> None:
    """Pods deleted while no agent ran are ended at its start; wanted ones are taken over."""
    node = work.cluster.node(work.node)
    waits = container("echo up; until [ -f /s/go ]; do sleep 0.1; done; exit 9")
    waits["volumeMounts"] = [{"name": "s", "mountPath": "/s"}]
    kept = work.run(pod_spec(waits, volumes=[{"name": "s", "emptyDir": {}}]))
    dropped = work.run(pod_spec(container(STUBBORN)))
    for name in (kept, dropped):
        work.wait_log(name, "up")
    uids = [work.pod(name)["metadata"]["uid"] for name in (kept, dropped)]
    node.kill_agent()
    work.delete(dropped, gracePeriodSeconds=0)
    node.start()
    wait_for(lambda: not (node.root_dir / "pods" / uids[1]).exists(), 10, "the unwanted pod is cleared away")
    (node.root_dir / "pods" / uids[0] / "volumes" / "s" / "go").touch()
    pod = work.ended(kept)
    assert state(pod)["terminated"]["exitCode"] == 9
    assert state(pod)["terminated"]["startedAt"] != "1970-01-01T00:00:00Z"
