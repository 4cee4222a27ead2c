"""DRA objects as tests write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from airflow_gpu_placement.engine.capacity import node_capacities
from airflow_gpu_placement.engine.dra import dra_view
from airflow_gpu_placement.model.dra import DeviceClass, DraObjects, ResourceClaim, ResourceSlice
from tests.unit.engine.builders import kube_node, pool

if TYPE_CHECKING:
    from airflow_gpu_placement.model.kube import Node, Pod
    from airflow_gpu_placement.model.signals import NodeCapacity

DRIVER = "gpu.nvidia.com"
RESOURCE = "nvidia.com/gpu"
WHOLE_GPUS = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'"


def gpu(name: str, **fields: Any) -> dict[str, Any]:
    """Build a device as NVIDIA's driver describes a whole GPU."""
    kind = fields.pop("type", "gpu")
    return {
        "name": name,
        "attributes": {
            "type": {"string": kind},
            "productName": {"string": "NVIDIA H100 80GB HBM3"},
            "driverVersion": {"version": "580.0.0"},
        },
        "capacity": {"memory": {"value": "81559Mi"}},
        **fields,
    }


def slice_of(
    *devices: dict[str, Any], node: str | None = "n1", generation: int = 1, **spec: Any
) -> ResourceSlice:
    """Build a ResourceSlice of a node's pool."""
    count = spec.pop("count", 1)
    pool_name = spec.pop("pool", node or "shared")
    return msgspec.convert(
        {
            "metadata": {"name": "s"},
            "spec": {
                "driver": DRIVER,
                "pool": {"name": pool_name, "generation": generation, "resourceSliceCount": count},
                **({} if node is None else {"nodeName": node}),
                "devices": list(devices),
                **spec,
            },
        },
        ResourceSlice,
    )


def claim(*devices: str, pool_name: str = "n1", **result: Any) -> ResourceClaim:
    """Build a claim that has devices; nobody has reserved it."""
    base = {"request": "r", "driver": DRIVER, "pool": pool_name, **result}
    devices_of = {"devices": {"results": [{**base, "device": one} for one in devices]}}
    return msgspec.convert({"metadata": {"name": "c"}, "status": {"allocation": devices_of}}, ResourceClaim)


def device_class(name: str = DRIVER, *expressions: str, resource: str | None = RESOURCE) -> DeviceClass:
    """Build the class of whole GPUs, under the name of an extended resource."""
    selectors = [{"cel": {"expression": one}} for one in expressions or (WHOLE_GPUS,)]
    return msgspec.convert(
        {"metadata": {"name": name}, "spec": {"selectors": selectors, "extendedResourceName": resource}},
        DeviceClass,
    )


def bare(name: str = "n1", **fields: Any) -> Node:
    """Build a node without a device plugin."""
    node = kube_node(name, labels={}, **fields)
    return msgspec.structs.replace(
        node, status=msgspec.structs.replace(node.status, capacity={"cpu": "8"}, allocatable={"cpu": "8"})
    )


def capacities(objects: DraObjects, *nodes: Node, pods: tuple[Pod, ...] = ()) -> tuple[NodeCapacity, ...]:
    """Return what a pool over these nodes has."""
    return node_capacities(nodes, pods, pool(), dra=dra_view(objects, RESOURCE))
