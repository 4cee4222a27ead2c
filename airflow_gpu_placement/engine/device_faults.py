"""What a node and a container say about broken devices.

Node conditions have no common polarity: one monitor writes ``True`` for bad, another ``False``. So each type
is listed with the status that means a fault.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_gpu_placement.model.kube import Node, Pod

FAULT_CONDITIONS: dict[str, str] = {
    # node-problem-detector of AKS for GPUs
    "GPUMissing": "True",
    "NVLinkStatusInactive": "True",
    "XIDErrors": "True",
    "IBLinkFlapping": "True",
    "UnhealthyNvidiaDevicePlugin": "True",
    # NVSentinel; the watches of one kind of part follow a pattern, see below
    "SysLogsXIDError": "True",
    "SysLogsSXIDError": "True",
    "SysLogsGPUFallenOff": "True",
    "NVSwitchFatalError": "True",
    "NVSwitchDown": "True",
    "DCGMError": "True",
    # node monitoring agent of EKS
    "AcceleratedHardwareReady": "False",
}
"""Condition type -> status that means that a device of the node is at fault."""

_WATCH = re.compile(r"Gpu[A-Z][a-z]+Watch")
"""NVSentinel's conditions, such as ``GpuMemWatch``: True means a fault."""


def faults_of(node: Node) -> tuple[str, ...]:
    """Return the conditions of a node that report a broken device."""
    return tuple(
        one.type
        for one in node.status.conditions
        if one.status == FAULT_CONDITIONS.get(one.type, "True" if _WATCH.fullmatch(one.type) else None)
    )


def unhealthy_devices(pod: Pod) -> tuple[str, ...]:
    """Return the devices of a pod that its node reports unhealthy, with what it says of each.

    The node reports and does nothing: a container with a dead GPU is not stopped for it.
    """
    return tuple(
        f"{resource.name} {device.resource_id}{f' ({device.message})' if device.message else ''}"
        for container in (*pod.status.init_container_statuses, *pod.status.container_statuses)
        for resource in container.allocated_resources_status
        for device in resource.resources
        if device.health == "Unhealthy"
    )
