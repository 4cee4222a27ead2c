"""What is read from a Node object: faults with their polarity, taints that announce an end, a new boot."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from airflow_gpu_placement.engine.node_evidence import node_view
from airflow_gpu_placement.model.kube import Node


def node_of(conditions: dict[str, str], *taints: str, **more: Any) -> Node:
    """Build a node with conditions (type -> status) and taints (keys)."""
    return msgspec.convert(
        {
            "metadata": {"name": "n1", **more},
            "spec": {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints]},
            "status": {
                "conditions": [{"type": type_, "status": status} for type_, status in conditions.items()],
                "nodeInfo": {"bootID": "b2", "architecture": "arm64"},
            },
        },
        Node,
    )


@pytest.mark.parametrize(
    ("type_", "status", "fault"),
    [
        ("XIDErrors", "True", True),
        ("XIDErrors", "False", False),
        ("AcceleratedHardwareReady", "False", True),
        ("AcceleratedHardwareReady", "True", False),
        ("GpuMemWatch", "True", True),
        ("GpuMemWatch", "False", False),
        ("GpuNvlinkWatch", "Unknown", False),
        ("MemoryPressure", "True", False),
        ("Ready", "False", False),
    ],
)
def test_a_fault_is_read_with_its_polarity(type_: str, status: str, fault: bool) -> None:
    """True is bad in one monitor and good in another."""
    assert bool(node_view("n1", node_of({type_: status})).faults) is fault


@pytest.mark.parametrize(
    ("taint", "leaves"),
    [
        ("cloud.google.com/impending-node-termination", True),
        ("aws-node-termination-handler/spot-itn", True),
        ("karpenter.sh/disrupted", True),
        ("ToBeDeletedByClusterAutoscaler", True),
        ("node.kubernetes.io/unreachable", True),
        ("nvidia.com/gpu", False),
        ("node.kubernetes.io/unschedulable", False),
    ],
)
def test_a_node_that_leaves_says_so_by_a_taint(taint: str, leaves: bool) -> None:
    """A taint of its owner is none of these."""
    assert bool(node_view("n1", node_of({"Ready": "True"}, taint)).leaving) is leaves
    by_condition = node_view("n1", node_of({"Ready": "True", "VMEventScheduled": "True"}))
    assert by_condition.leaving == "its cloud has announced an event"


def test_a_node_is_summed_up() -> None:
    """Boot, processor, pressure."""
    seen_node = node_of({"Ready": "True", "MemoryPressure": "True"})
    view = node_view("n1", seen_node, known_boot_id="b1")
    assert (view.rebooted, view.architecture, view.pressure) == (True, "arm64", ("MemoryPressure",))
    assert not node_view("n1", seen_node, known_boot_id="b2").rebooted
    assert not node_view("n1", seen_node).rebooted
    gone = node_view("n1", None, exists=False)
    assert (gone.exists, gone.ready) == (False, "Unknown")
