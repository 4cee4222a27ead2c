"""Free whole GPUs from Node and Pod objects."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from airflow_gpu_placement.engine.capacity import (
    capacity_warnings,
    gang_fits,
    node_capacities,
    pod_devices,
    used_devices,
)
from airflow_gpu_placement.model.kube import Node, Pod, Toleration
from tests.unit.engine.builders import A100_40, container, kube_node, kube_pod, pool, seen


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(kube_pod(container("2"), container("1")), 3, id="containers add up"),
        pytest.param(kube_pod(container(limit="4")), 4, id="a limit alone is a request"),
        pytest.param(kube_pod(container("2", limit="4")), 2, id="a request goes before a limit"),
        pytest.param(kube_pod(container("1"), init=[container("4")]), 4, id="the neediest init container"),
        pytest.param(
            kube_pod(container("4"), init=[container("1"), container("2")]),
            4,
            id="init containers take turns",
        ),
        pytest.param(
            kube_pod(container("1"), init=[container("1", always=True)]),
            2,
            id="a sidecar adds to the containers",
        ),
        pytest.param(
            kube_pod(container("1"), init=[container("2", always=True), container("4")]),
            6,
            id="a sidecar runs beside later init containers",
        ),
        pytest.param(
            kube_pod(container("1"), init=[container("4"), container("2", always=True)]),
            4,
            id="a sidecar does not run beside earlier init containers",
        ),
        pytest.param(kube_pod(container("2"), overhead={"nvidia.com/gpu": "1"}), 3, id="overhead"),
        pytest.param(kube_pod(container("1500m")), 2, id="a part of a device is held whole"),
        pytest.param(kube_pod(container()), 0, id="no GPU"),
    ],
)
def test_a_pod_holds_what_the_scheduler_counts(pod: Pod, want: int) -> None:
    """The scheduler's sum over containers, init containers, sidecars and overhead."""
    assert pod_devices(pod.spec, "nvidia.com/gpu") == want


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(kube_pod(container("2"), phase="Running"), 2, id="running"),
        pytest.param(kube_pod(container("2"), phase="Running", deleting=True), 2, id="terminating"),
        pytest.param(kube_pod(container("2"), phase="Pending"), 2, id="bound and not yet started"),
        pytest.param(kube_pod(container("2"), phase="Unknown"), 2, id="on a node that is silent"),
        pytest.param(kube_pod(container("2"), phase="Succeeded"), 0, id="succeeded"),
        pytest.param(kube_pod(container("2"), phase="Failed"), 0, id="failed"),
        pytest.param(kube_pod(container("2"), phase="Pending", node=""), 0, id="not bound"),
        pytest.param(kube_pod(container("2"), node="other"), 0, id="on another node"),
    ],
)
def test_a_pod_holds_its_gpus_from_binding_to_end(pod: Pod, want: int) -> None:
    """Terminating pods still hold, ended and unbound ones do not."""
    assert used_devices([pod], "nvidia.com/gpu").get("n1", 0) == want


@pytest.mark.parametrize(
    ("node", "want"),
    [
        pytest.param(kube_node(), None, id="a good node"),
        pytest.param(kube_node(unschedulable=True), "cordoned", id="cordoned"),
        pytest.param(kube_node(deleting=True, unschedulable=True), "being deleted", id="being deleted"),
        pytest.param(kube_node(ready="False"), "not ready (Ready=False)", id="not ready"),
        pytest.param(kube_node(ready="Unknown"), "not ready (Ready=Unknown)", id="silent"),
        pytest.param(kube_node(ready=None), "not ready (Ready=missing)", id="without a Ready condition"),
        pytest.param(
            kube_node(
                taints=[
                    {"key": "a", "value": "b", "effect": "NoSchedule"},
                    {"key": "c", "effect": "NoExecute"},
                ]
            ),
            "taint a=b:NoSchedule, c:NoExecute",
            id="taints that nobody tolerates",
        ),
        pytest.param(
            kube_node(taints=[{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]),
            None,
            id="the taint that every GPU job tolerates",
        ),
        pytest.param(
            kube_node(taints=[{"key": "ours", "effect": "NoSchedule"}]),
            None,
            id="a taint that the pool tolerates",
        ),
        pytest.param(kube_node(capacity="0"), "offers no nvidia.com/gpu", id="labels without devices"),
        pytest.param(
            kube_node(
                labels={"nvidia.com/gpu.product": "Tesla-T4-SHARED", "nvidia.com/gpu.count": "1"},
                capacity="12",
            ),
            "sharing: 12 shares of 1 GPU",
            id="shares",
        ),
        pytest.param(
            kube_node(capacity="0", more={"nvidia.com/mig-1g.10gb": "56"}),
            "all its GPUs are cut into MIG slices",
            id="slices only",
        ),
        pytest.param(
            kube_node(capacity="8", allocatable="0", more={"nvidia.com/mig-1g.10gb": "56"}),
            "no GPU of it is offered whole, MIG slices are",
            id="slices beside devices of before",
        ),
        pytest.param(
            kube_node(
                capacity="2",
                labels={"nvidia.com/gpu.product": A100_40, "nvidia.com/gpu.count": "2"},
                more={"nvidia.com/mig-1g.10gb": "6", "nvidia.com/mig-2g.20gb": "4"},
            ),
            "offers 2 nvidia.com/gpu and MIG slices of at least 2 cards, but has 2: the same cards twice",
            id="the same cards twice",
        ),
        pytest.param(
            kube_node(
                capacity="4",
                labels={"nvidia.com/gpu.product": A100_40, "nvidia.com/gpu.count": "8"},
                more={"nvidia.com/mig-1g.5gb": "28"},
            ),
            None,
            id="half whole and half sliced",
        ),
    ],
)
def test_a_node_is_closed_for_one_reason(node: Node, want: str | None) -> None:
    """The free GPUs of a node that cannot be used are none, and the reason is named."""
    ours = pool(tolerations=(Toleration(key="ours", operator="Exists"),))
    (found,) = node_capacities([node], [], ours)
    assert found.unusable_because == want
    assert (found.free == 0) is (want is not None)


def test_withdrawn_devices_are_not_free() -> None:
    """Allocatable counts, not capacity."""
    (node,) = node_capacities([kube_node(allocatable="5")], [kube_pod(container("4"))], pool())
    assert (node.capacity, node.allocatable, node.used, node.free) == (8, 5, 4, 1)


def test_free_is_never_negative() -> None:
    """Running pods may hold more than is allocatable; that is nothing free, not less than nothing."""
    (node,) = node_capacities([kube_node(allocatable="0")], [kube_pod(container("4"))], pool())
    assert node.free == 0


def test_only_nodes_of_the_selector_and_with_gpus_count() -> None:
    """Nodes of other pools and CPU nodes are not there."""
    nodes = [
        kube_node("ours", labels={"nvidia.com/gpu.product": A100_40, "pool": "a"}),
        kube_node("theirs", labels={"nvidia.com/gpu.product": A100_40, "pool": "b"}),
        kube_node("cpu", labels={"pool": "a"}, capacity="0"),
    ]
    found = node_capacities(nodes, [], pool(node_selector={"pool": "a"}))
    assert [node.name for node in found] == ["ours"]


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        ({"nvidia.com/gpu.present": "true"}, ["bare"]),
        ({"kubernetes.azure.com/accelerator": "nvidia"}, ["bare"]),
        ({"feature.node.kubernetes.io/pci-10de.present": "true"}, ["bare"]),
        ({"nvidia.com/gpu.present": "false", "accelerator": ""}, []),
        ({"kubernetes.io/os": "linux"}, []),
    ],
)
def test_a_node_that_only_says_that_it_has_gpus_is_told(labels: dict[str, str], want: list[str]) -> None:
    """Its driver or its device plugin is missing, and nothing tells which GPU it would be."""
    found = node_capacities([kube_node("bare", capacity="0", labels=labels)], [], pool())
    assert [one.name for one in found] == want
    assert [one.free for one in found] == [0] * len(want)
    assert len(capacity_warnings(found)) == len(want)


def test_what_pods_may_use_is_there() -> None:
    """A report of a node may leave out its capacity."""
    node = msgspec.structs.replace(
        kube_node(), status=msgspec.structs.replace(kube_node().status, capacity={})
    )
    (found,) = node_capacities([node], [], pool())
    assert (found.capacity, found.free) == (8, 8)


def test_the_zone_is_read_from_either_label() -> None:
    """The old zone label still counts."""
    label = {"failure-domain.beta.kubernetes.io/zone": "z1"}
    (node,) = node_capacities([kube_node(labels=label)], [], pool())
    assert node.zone == "z1"


def test_another_resource_can_be_counted() -> None:
    """A pool of another vendor counts its own resource."""
    other = kube_node(
        labels={"amd.com/gpu.product-name": "Instinct_MI300X"}, capacity="0", more={"amd.com/gpu": "8"}
    )

    amd = pool("amd", resource_name="amd.com/gpu")
    (node,) = node_capacities([other], [], amd)
    assert (node.free, str(node.gpu)) == (8, "MI300X 192 GB OAM")


@pytest.mark.parametrize(
    ("gpus_per_node", "excluded", "want"),
    [
        pytest.param(8, (), 1, id="one node is empty"),
        pytest.param(4, (), 3, id="a node takes as many pods as fit"),
        pytest.param(5, (), 1, id="rests of nodes do not add up"),
        pytest.param(4, ("a",), 1, id="an excluded node takes none"),
    ],
)
def test_the_gang_is_packed_node_by_node(gpus_per_node: int, excluded: tuple[str, ...], want: int) -> None:
    """The sum over nodes of whole pods, never the sum of GPUs."""
    nodes = (seen("a"), seen("b", used=4), seen("c", used=7), seen("d", unusable="cordoned"))
    assert gang_fits(nodes, gpus_per_node, excluded) == want


def test_odd_nodes_are_told() -> None:
    """Withdrawn devices, labels without devices and over-use are warned about."""
    nodes = node_capacities(
        [
            kube_node("withdrawn", allocatable="5"),
            kube_node("bare", capacity="0"),
            kube_node("good"),
        ],
        [],
        pool(),
    )
    assert capacity_warnings(nodes) == (
        "node bare is labelled as a GPU node but has no whole GPU: offers no nvidia.com/gpu",
        "node withdrawn: 3 of 8 GPUs are withdrawn",
    )


def test_five_thousand_nodes_and_forty_thousand_pods_take_well_under_a_second() -> None:
    """The arithmetic is linear in nodes and pods."""
    nodes = [kube_node(f"n{index}") for index in range(5_000)]
    pods = [kube_pod(container("1", limit="1"), node=f"n{index % 5_000}") for index in range(40_000)]
    ours: Any = pool()
    started = time.process_time()
    found = node_capacities(nodes, pods, ours)
    seconds = time.process_time() - started
    assert sum(node.free for node in found) == 0
    assert gang_fits(found, 1, ()) == 0
    assert seconds < 0.8
