"""GPUs of a process node, and a gang that holds them on two nodes."""

from __future__ import annotations

import pytest

from lab.ports import free_port
from tests.lab.node_support import Workspace, condition, container, job_body, pod_spec

pytestmark = pytest.mark.lab


@pytest.fixture
def node_name(sandboxed_node: str) -> str:
    """Return a node of each kind of sandbox in turn."""
    return sandboxed_node


def test_gpus_are_given_once(work: Workspace) -> None:
    """Each container gets GPUs of its own; a pod that finds too few is refused, not started."""
    node = work.cluster.api.get(f"/api/v1/nodes/{work.node}")
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    names = [work.run(pod_spec(_gpu_container(count), volumes=_go_volume())) for count in (3, 4)]
    held = [work.wait_log(name, "\n").split() for name in names]
    sets = [set(text[0].split(",")) for text in held]
    assert [len(indexes) for indexes in sets] == [3, 4]
    assert not sets[0] & sets[1]
    refused = work.finish(pod_spec(_gpu_container(2), volumes=_go_volume()))
    assert refused["status"]["phase"] == "Failed"
    assert refused["status"]["reason"] == "UnexpectedAdmissionError"
    assert "Requested: 2, Available: 1" in refused["status"]["message"]
    assert "containerStatuses" not in refused["status"]
    for name in names:
        work.delete(name)
        work.wait_pod(name, lambda pod: pod is None, "is gone")
    assert work.finish(pod_spec(_gpu_container(8, "true")))["status"]["phase"] == "Succeeded"


def test_a_node_without_gpus_refuses(other: Workspace) -> None:
    """A GPU pod that is forced on a node without GPUs fails as OutOfnvidia.com/gpu."""
    cpu = next(node.name for node in other.cluster.nodes if "cpu" in node.name)
    refused = other.finish(pod_spec(_gpu_container(1, "true"), nodeName=cpu))
    assert refused["status"]["reason"] == "OutOfnvidia.com/gpu"


def test_a_gang_meets_over_two_nodes(work: Workspace) -> None:
    """An Indexed Job of 4 ranks on 2 nodes adds its ranks up over TCP, found by the rank-0 host name."""
    main = container(None, command=["python3", "-u", "-c", ALL_REDUCE])
    main["env"] = [
        {"name": "MASTER_ADDR", "value": "gang-0.gang"},
        {"name": "MASTER_PORT", "value": str(free_port())},
    ]
    main["resources"] = {"limits": {"nvidia.com/gpu": "4"}}
    names = [work.node, "l40s-1"]
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": names}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    spec = pod_spec(main, subdomain="gang", affinity={"nodeAffinity": required})
    path = work.job(job_body("gang", spec, completions=4, parallelism=4, completionMode="Indexed"))
    work.cluster.api.wait(path, lambda job: condition(job, "Complete"), 60, "the gang completes")
    pods = work.job_pods("gang")
    assert {pod["spec"]["nodeName"] for pod in pods} == set(names)
    ranks = {work.log(pod["metadata"]["name"]) for pod in pods}
    assert ranks == {f"rank {rank} of 4: sum 10\n" for rank in range(4)}


ALL_REDUCE = """
import os, socket, time
rank, size = int(os.environ["JOB_COMPLETION_INDEX"]), 4
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    server = socket.create_server(address)
    peers = [server.accept()[0] for _ in range(size - 1)]
    total = 1 + sum(int(peer.recv(16)) for peer in peers)
    for peer in peers:
        peer.sendall(str(total).encode())
        peer.close()
else:
    deadline = time.monotonic() + 50
    while True:
        try:
            peer = socket.create_connection(address, timeout=50)
            break
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    peer.sendall(str(rank + 1).encode())
    total = int(peer.recv(16))
print(f"rank {rank} of {size}: sum {total}")
"""


def _go_volume() -> list[dict[str, object]]:
    return [{"name": "go", "emptyDir": {}}]


def _gpu_container(
    count: int, script: str = "echo $NVIDIA_VISIBLE_DEVICES; exec sleep 60"
) -> dict[str, object]:
    return container(script, resources={"limits": {"nvidia.com/gpu": str(count)}})
