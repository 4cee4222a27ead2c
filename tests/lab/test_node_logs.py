"""Logs through the API server: every parameter, every refusal, and a follow across the agent's death."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from lab.errors import LabApiError
from lab.node import faults
from tests.lab.node_support import Workspace, container, pod_spec, state, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab import Cluster, Node

pytestmark = pytest.mark.lab

SLOW_LINES = "for i in 1 2 3 4 5 6; do echo line $i; sleep 0.5; done"


def _refusal(call: Callable[[], object]) -> LabApiError:
    with pytest.raises(LabApiError) as caught:
        call()
    return caught.value


def test_parameters(work: Workspace) -> None:
    """tailLines, limitBytes, timestamps, sinceTime and sinceSeconds cut the log as a kubelet does."""
    script = "echo one; echo two; sleep 2.1; echo three; printf end"
    name = work.finish(pod_spec(container(script)))["metadata"]["name"]
    assert work.log(name) == "one\ntwo\nthree\nend"
    assert work.log(name, tailLines=2) == "three\nend"
    assert work.log(name, tailLines=0) == ""
    assert work.log(name, tailLines=99) == "one\ntwo\nthree\nend"
    assert work.log(name, limitBytes=6) == "one\ntw"
    assert work.log(name, tailLines=3, limitBytes=5) == "two\nt"
    stamped = [line.split(" ", 1) for line in work.log(name, timestamps=True).splitlines()]
    assert [text for _, text in stamped] == ["one", "two", "three", "end"]
    assert work.log(name, sinceTime=stamped[2][0][:19] + "Z") == "three\nend"
    assert work.log(name, sinceTime="2020-01-01T00:00:00Z") == "one\ntwo\nthree\nend"
    time.sleep(1.0)  # so that a whole second lies between the last line and the request
    assert work.log(name, sinceSeconds=1) == ""


def test_follow_ends_with_the_container(work: Workspace) -> None:
    """A follower gets lines as they are written, and the stream ends when the container does."""
    name = work.run(pod_spec(container(SLOW_LINES)))
    work.running(name)
    blocks, times = [], []
    for block in work.follow(name):
        blocks.append(block)
        times.append(time.monotonic())
    assert b"".join(blocks) == b"".join(b"line %d\n" % number for number in range(1, 7))
    assert len(blocks) >= 4, "the lines came one by one"
    assert times[-1] - times[0] > 1.5
    assert state(work.ended(name))["terminated"]["exitCode"] == 0


def test_follow_from_a_tail(work: Workspace) -> None:
    """A follow with tailLines begins near the end and goes on with what is new."""
    name = work.run(pod_spec(container("echo a; echo b; sleep 1.5; echo c")))
    work.wait_log(name, "b")
    assert b"".join(work.follow(name, tailLines="1")) == b"b\nc\n"


def test_sigterm_lines_reach_the_follower(work: Workspace) -> None:
    """What a process writes after SIGTERM still arrives at a follower."""
    script = "trap 'echo saving; exit 0' TERM; echo up; while :; do sleep 0.1; done"
    name = work.run(pod_spec(container(script), terminationGracePeriodSeconds=10))
    work.wait_log(name, "up")
    seen: list[bytes] = []
    follower = threading.Thread(target=lambda: seen.extend(work.follow(name)))
    follower.start()
    wait_for(lambda: seen, 5, "the follower hears the first line")
    work.delete(name)
    follower.join(timeout=10)
    assert not follower.is_alive()
    assert b"".join(seen) == b"up\nsaving\n"


def test_refusals(work: Workspace) -> None:
    """Unknown pod 404, unknown container 400, previous 400, not yet started 400, not scheduled 204."""
    name = work.finish(pod_spec(container("echo x")))["metadata"]["name"]
    gone = _refusal(lambda: work.log("nobody"))
    assert (gone.status, gone.reason, gone.message) == (404, "NotFound", 'pods "nobody" not found')
    unknown = _refusal(lambda: work.log(name, container="nope"))
    assert (unknown.status, unknown.message) == (400, f"container nope is not valid for pod {name}")
    assert _refusal(lambda: work.log(name, previous=True)).status == 400
    missing = container("x", env=[{"name": "T", "valueFrom": {"secretKeyRef": {"name": "no", "key": "t"}}}])
    waiting = work.run(pod_spec(missing))
    work.wait_pod(waiting, lambda pod: state(pod).get("waiting", {}).get("message"), "waits")
    refusal = _refusal(lambda: work.log(waiting))
    assert refusal.status == 400
    assert "is waiting to start: CreateContainerConfigError" in refusal.message
    body = {"metadata": {"name": "nowhere"}, "spec": pod_spec(container("x"), nodeSelector={"no": "node"})}
    work.cluster.api.post(work.path("pods"), body)
    assert work.log("nowhere") == ""


def test_many_lines_quickly(work: Workspace) -> None:
    """A fast writer loses nothing: 20,000 lines arrive whole and in order, long ones in one piece."""
    script = "import sys\nfor i in range(20000): print(i)\nprint('x' * 100000)"
    name = work.finish(pod_spec(container(None, command=["python3", "-c", script])))["metadata"]["name"]
    lines = work.log(name).splitlines()
    assert lines[:-1] == [str(number) for number in range(20000)]
    assert lines[-1] == "x" * 100000


def test_follow_across_the_agent_s_death(onprem: Cluster, spare_node: Callable[..., Node]) -> None:
    """The agent dies: the follow ends cleanly, the process goes on, and the next agent has the whole log."""
    node = spare_node(onprem)
    with Workspace.scoped(onprem, node.name) as work:
        name = work.run(pod_spec(container("for i in $(seq 1 40); do echo line $i; sleep 0.2; done; exit 4")))
        work.wait_log(name, "line 2")
        follow = work.follow(name)
        seen = next(follow)
        node.kill_agent()
        seen += b"".join(follow)  # ends without an exception, as a finished container's log does
        assert b"line 40" not in seen
        assert faults.node_processes(node.root_dir), "the container's processes live on"
        refusal = _refusal(lambda: work.log(name))
        assert refusal.status == 500
        assert "connection refused" in refusal.message
        assert "running" in state(work.pod(name))
        node.start()
        pod = work.ended(name, 40)
        assert state(pod)["terminated"]["exitCode"] == 4
        assert work.log(name) == "".join(f"line {number}\n" for number in range(1, 41))
