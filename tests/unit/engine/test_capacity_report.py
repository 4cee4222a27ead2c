"""Everything about a pool's GPUs in one value."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from airflow_gpu_placement.engine.capacity_report import (
    could_ever_fit,
    fits_now,
    reclaimable,
    reclaimable_by_admission,
    report,
)
from airflow_gpu_placement.model.kube import Node, Pod, Toleration
from tests.unit.engine.builders import A100_40, H100, container, kube_node, kube_pod, pool


def pod_with(
    gpus: str, *, priority: int | None = None, labels: dict[str, str] | None = None, **more: Any
) -> Pod:
    """Build a pod with a priority and labels."""
    built = msgspec.to_builtins(kube_pod(container(gpus), **more))
    built["spec"]["priority"] = priority
    built["metadata"]["labels"] = labels or {}
    return msgspec.convert(built, Pod)


def test_a_pool_is_told_in_numbers() -> None:
    """Total, withdrawn, used, free, demand, and where the largest block is."""
    found = report(
        [kube_node("a", allocatable="5"), kube_node("b"), kube_node("c", unschedulable=True)],
        [
            kube_pod(container("4"), node="a"),
            kube_pod(container("1"), node="b", deleting=True),
            kube_pod(container("8"), node="b", phase="Succeeded"),
            kube_pod(container("6"), node="", phase="Pending"),
        ],
        pool(),
    )
    assert (found.total, found.withdrawn, found.used, found.free) == (24, 3, 5, 8)
    assert (found.pending_demand, found.usable_nodes, found.largest_block) == (6, 2, 7)
    assert (found.model, found.memory_gb, found.form_factor, found.kind) == ("H100", 80, "SXM", "whole")
    assert found.reasons == ("c: cordoned",)
    assert found.warn_nodes == ("a",)


def test_gpus_behind_a_taint_are_counted_by_its_key() -> None:
    """For each taint that the pool does not tolerate; with a toleration they are free."""
    taints = [{"key": "spot", "effect": "NoSchedule"}, {"key": "team", "value": "x", "effect": "NoExecute"}]
    nodes = [kube_node("a", taints=taints), kube_node("b", taints=taints[:1])]
    pods = [kube_pod(container("2"), node="b")]
    assert report(nodes, pods, pool()).excluded_by_taint == {"spot": 14, "team": 8}
    tolerant = pool(tolerations=(Toleration(key="spot", operator="Exists"),))
    found = report(nodes, pods, tolerant)
    assert (found.excluded_by_taint, found.free) == ({"team": 8}, 6)


def test_preemption_frees_what_less_important_pods_hold() -> None:
    """Kueue's topology-aware scheduling evicts only what Kueue admitted; a terminating pod goes anyway."""
    pods = [
        pod_with("2", priority=-10),
        pod_with("1", priority=0, labels={"kueue.x-k8s.io/queue-name": "team"}),
        pod_with("1"),
        pod_with("2", priority=100),
        pod_with("1", priority=-10, deleting=True),
        pod_with("1", priority=-10, phase="Succeeded"),
    ]
    assert reclaimable_by_admission([kube_node()], pods, pool(), priority=50) == {
        "kube-scheduler": 4,
        "kueue-tas": 1,
    }
    assert reclaimable([kube_node()], pods, pool(), priority=0, admission="kube-scheduler") == 2
    closed = [kube_node(unschedulable=True)]
    assert reclaimable(closed, pods, pool(), priority=50, admission="kube-scheduler") == 0


def test_pods_of_kueue_are_known_by_annotations_too() -> None:
    """Topology-aware scheduling names the workload of a pod in one."""
    pod = msgspec.to_builtins(pod_with("2", priority=0))
    pod["metadata"]["annotations"] = {"kueue.x-k8s.io/workload": "w"}
    found = reclaimable_by_admission([kube_node()], [msgspec.convert(pod, Pod)], pool(), priority=1)
    assert found == {"kube-scheduler": 2, "kueue-tas": 2}


def test_what_is_promised_is_not_held_yet() -> None:
    """The share of a pod that the scheduler has promised a node is neither free nor used."""
    pod = msgspec.to_builtins(kube_pod(container("6"), node="", phase="Pending"))
    pod["status"]["nominatedNodeName"] = "n1"
    pods = [kube_pod(container("1")), msgspec.convert(pod, Pod)]
    found = report([kube_node()], pods, pool())
    assert (found.used, found.free, found.pending_demand) == (1, 1, 6)


def test_a_node_without_a_pod_slot_takes_nothing() -> None:
    """Its free GPUs are for nobody; pods that gave way would make room again."""
    nodes = [kube_node("full", more={"pods": "1"}), kube_node("open", capacity="4", more={"pods": "9"})]
    pods = [kube_pod(container("1"), node="full")]
    found = report(nodes, pods, pool())
    assert (found.total, found.free, found.usable_nodes, found.largest_block) == (12, 4, 1, 4)
    assert found.reasons == ("full: no pod slot is free",)
    assert reclaimable(nodes, pods, pool(), priority=1, admission="kube-scheduler") == 1


@pytest.mark.parametrize(
    ("pods_wanted", "gpus", "now", "ever"),
    [
        (1, 4, True, True),
        (2, 4, False, True),
        (1, 5, False, True),
        (1, 6, False, False),
        (3, 4, False, False),
    ],
)
def test_a_gang_fits_now_or_could(pods_wanted: int, gpus: int, now: bool, ever: bool) -> None:
    """Node by node, and never more than is allocatable."""
    nodes = [kube_node("a", allocatable="5"), kube_node("b", capacity="4")]
    pods = [kube_pod(container("1"), node="a"), kube_pod(container("1"), node="b")]
    wanted = {"gpus_per_pod": gpus, "pods_wanted": pods_wanted}
    assert fits_now(nodes, pods, pool(), **wanted) is now
    assert could_ever_fit(nodes, pods, pool(), **wanted) is ever


MIG = {"nvidia.com/mig-1g.10gb": "6", "nvidia.com/mig-2g.20gb": "4", "nvidia.com/mig-3g.40gb": "0"}


def test_slices_are_counted_by_profile() -> None:
    """Mixed: under their own resources; what pods hold of them is not free."""
    node = kube_node(capacity="0", more=MIG)
    pod = msgspec.to_builtins(kube_pod())
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/mig-1g.10gb": "2"}}
    found = report([node], [msgspec.convert(pod, Pod)], pool())
    assert (found.mig, found.mig_free) == ({"1g.10gb": 6, "2g.20gb": 4}, {"1g.10gb": 4, "2g.20gb": 4})
    assert (found.kind, found.whole_gpus, found.slice_units_used, found.slice_units_per_card) == (
        "mig",
        0,
        14,
        7,
    )


def test_the_same_cards_twice_are_not_trusted() -> None:
    """Whole and in slices at once: none of them counts as whole."""
    labels = {"nvidia.com/gpu.product": A100_40, "nvidia.com/gpu.count": "2"}
    found = report([kube_node(capacity="2", labels=labels, more=MIG)], [], pool())
    assert (found.whole_gpus_trusted, found.whole_gpus, found.total) == (False, 0, 0)
    assert len(found.warnings) == 1


def test_slices_of_one_kind_come_under_the_gpu_resource() -> None:
    """Single: the product label tells the profile, and the count is of slices."""
    labels = {"nvidia.com/gpu.product": f"{H100}-MIG-1g.10gb", "nvidia.com/gpu.count": "56"}
    found = report([kube_node(capacity="56", labels=labels)], [], pool())
    assert (found.mig, found.whole_gpus, found.kind, found.model) == ({"1g.10gb": 56}, 0, "mig", "H100")


SHARED = {
    "nvidia.com/gpu.product": "Tesla-T4-SHARED",
    "nvidia.com/gpu.count": "1",
    "nvidia.com/gpu.replicas": "12",
}


@pytest.mark.parametrize(
    ("node", "physical", "slots"),
    [
        pytest.param(kube_node(capacity="12", labels=SHARED), 1, 8, id="time-slicing"),
        pytest.param(
            kube_node(
                capacity="12",
                labels={
                    "nvidia.com/gpu.product": "NVIDIA-L4",
                    "nvidia.com/gpu.count": "3",
                    "nvidia.com/gpu.sharing-strategy": "mps",
                },
            ),
            3,
            8,
            id="MPS",
        ),
        pytest.param(
            kube_node(
                capacity="0",
                labels={"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.count": "1"},
                more={"nvidia.com/gpu.shared": "12"},
            ),
            1,
            12,
            id="renamed",
        ),
    ],
)
def test_shares_are_counted_as_shares(node: Node, physical: int, slots: int) -> None:
    """Never as whole GPUs; a pod holds 4 of the resource ``nvidia.com/gpu``."""
    found = report([node], [kube_pod(container("4"))], pool())
    assert (found.kind, found.physical_gpus, found.shared_slots_free) == ("shared", physical, slots)
    assert (found.whole_gpus, found.total, found.free, found.largest_block) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    "listed",
    [
        pytest.param("GPU-1,10,24576,100,NVIDIA-L4,0,true:GPU-2,10,24576,100,NVIDIA-L4,0,true:", id="text"),
        pytest.param(json.dumps([{"id": "GPU-1"}, {"id": "GPU-2"}]), id="JSON"),
    ],
)
def test_a_vgpu_plugin_multiplies_cards(listed: str) -> None:
    """The cards are in its annotation; what it offers are shares of them."""
    node = msgspec.to_builtins(kube_node(capacity="20"))
    node["metadata"]["annotations"] = {"hami.io/node-nvidia-register": listed}
    found = report([msgspec.convert(node, Node)], [], pool())
    assert (found.kind, found.physical_gpus, found.whole_gpus) == ("shared", 2, 0)


def test_a_gpu_without_a_name_is_told_and_not_guessed() -> None:
    """Unless the catalogue says what it is."""
    node = kube_node(labels={"kubernetes.azure.com/accelerator": "nvidia"})
    found = report([node], [], pool())
    assert found.models == {"n1": None}
    assert found.warnings == ("node n1: no label tells its GPU model; set gpu.model of the pool",)
    assert report([node], [], pool(model="H100")).warnings == ()


@pytest.mark.parametrize("text", ["eight", "", "-8", "8 GPUs"])
def test_an_odd_quantity_is_a_warning_and_counts_as_none(text: str) -> None:
    """Nothing is raised for what an API server would not send."""
    found = report([kube_node("odd", capacity=text), kube_node("good")], [], pool())
    assert (found.free, found.warn_nodes) == (8, ("odd",))
    assert repr(text) in found.warnings[0]


@pytest.mark.parametrize(
    ("type_", "status", "want"),
    [("XIDErrors", "True", 0), ("XIDErrors", "False", 8), ("AcceleratedHardwareReady", "False", 0)],
)
def test_a_fault_that_a_monitor_reports_closes_a_node(type_: str, status: str, want: int) -> None:
    """Monitors do not agree on which status is bad."""
    node = msgspec.to_builtins(kube_node())
    node["status"]["conditions"] = [*node["status"]["conditions"], {"type": type_, "status": status}]
    assert report([msgspec.convert(node, Node)], [], pool()).free == want
