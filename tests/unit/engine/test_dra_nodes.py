"""What DRA adds to the capacity of whole nodes, beside or in place of a device plugin."""

from __future__ import annotations

import msgspec

from airflow_gpu_placement.engine.capacity import used_devices
from airflow_gpu_placement.model.dra import DraObjects
from airflow_gpu_placement.model.kube import Pod
from tests.unit.engine.builders import container, kube_node, kube_pod
from tests.unit.engine.dra_objects import RESOURCE, bare, capacities, claim, device_class, gpu, slice_of


def test_a_node_without_a_device_plugin_has_what_dra_offers() -> None:
    """Its model comes from the devices when no label tells it."""
    offered = (slice_of(*(gpu(f"gpu-{index}") for index in range(8))),)
    objects = DraObjects(slices=offered, classes=(device_class(),), claims=(claim("gpu-0", "gpu-1"),))
    (node,) = capacities(objects, bare())
    assert (node.capacity, node.allocatable, node.used, node.free, str(node.gpu)) == (
        8,
        8,
        2,
        6,
        "H100 80 GB SXM",
    )
    (closed,) = capacities(objects, bare(unschedulable=True))
    assert (closed.free, closed.unusable_because) == (0, "cordoned")


def test_the_driver_s_bare_name_of_a_card_is_that_of_its_sxm_board() -> None:
    """As in the labels; it names the others."""
    for name, want in (("NVIDIA H200", "H200 141 GB SXM"), ("NVIDIA H200 NVL", "H200 141 GB NVL")):
        device = gpu("gpu-0")
        device["attributes"]["productName"] = {"string": name}
        objects = DraObjects(slices=(slice_of(device),), classes=(device_class(),))
        assert str(capacities(objects, bare())[0].gpu) == want


def test_on_a_node_with_a_device_plugin_the_plugin_serves() -> None:
    """Its GPUs are not counted twice."""
    objects = DraObjects(slices=(slice_of(gpu("gpu-0")),), classes=(device_class(),))
    (node,) = capacities(objects, kube_node(capacity="8"))
    assert (node.capacity, node.free) == (8, 8)


def test_a_plugin_that_was_removed_serves_nothing() -> None:
    """It leaves a 0 behind, and the scheduler asks DRA."""
    objects = DraObjects(slices=(slice_of(gpu("gpu-0")),), classes=(device_class(),))
    (node,) = capacities(objects, kube_node(capacity="0"))
    assert (node.capacity, node.free, node.unusable_because) == (1, 1, None)
    (alone,) = capacities(DraObjects(), kube_node(capacity="8", allocatable="0"))
    assert (alone.capacity, alone.free) == (8, 0)


def test_a_pod_that_dra_served_is_counted_by_its_claim_alone() -> None:
    """It asks for the resource and still takes nothing of what is allocatable."""
    pod = msgspec.to_builtins(kube_pod(container("2")))
    pod["status"]["extendedResourceClaimStatus"] = {
        "resourceClaimName": "made-by-the-scheduler",
        "requestMappings": [{"containerName": "main", "resourceName": RESOURCE, "requestName": "r"}],
    }
    served = msgspec.convert(pod, Pod)
    assert used_devices([served], RESOURCE) == {}
    objects = DraObjects(
        slices=(slice_of(*(gpu(f"gpu-{index}") for index in range(8))),),
        classes=(device_class(),),
        claims=(claim("gpu-0", "gpu-1"),),
    )
    (node,) = capacities(objects, bare(), pods=(served,))
    assert (node.used, node.free) == (2, 6)


def test_what_a_claim_does_not_map_is_still_counted() -> None:
    """Another resource of the same pod comes from the device plugin."""
    pod = msgspec.to_builtins(kube_pod(container("2")))
    pod["status"]["extendedResourceClaimStatus"] = {
        "requestMappings": [{"containerName": "main", "resourceName": "other.com/nic"}]
    }
    assert used_devices([msgspec.convert(pod, Pod)], RESOURCE) == {"n1": 2}
