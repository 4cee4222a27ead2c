"""Machines that are about to go or to be worked on take no new job, whatever it tolerates."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from airflow_gpu_placement.engine.capacity import node_capacities
from airflow_gpu_placement.model.kube import Condition, Node, Toleration
from tests.unit.engine.builders import H100, kube_node, pool

ALL = pool(tolerations=(Toleration(operator="Exists"),))


def tainted(key: str, effect: str = "NoSchedule") -> Node:
    """Build a node with a taint."""
    return kube_node(taints=[{"key": key, "effect": effect}])


def labelled(**labels: str) -> Node:
    """Build a node with labels beside that of its GPU; the last part of a key is enough."""
    keys = {
        "ongoing": "cloud.google.com/active-node-maintenance",
        "asked": "cloud.google.com/perform-maintenance",
        "scheduled": "cloud.google.com/scheduled-maintenance-time",
        "action": "aws-node-termination-handler/action",
        "slices": "nvidia.com/mig.config.state",
        "driver": "nvidia.com/gpu-driver-upgrade-state",
    }
    return kube_node(
        labels={"nvidia.com/gpu.product": H100, **{keys[one]: value for one, value in labels.items()}}
    )


def in_condition(kind: str, status: str) -> Node:
    """Build a node with a condition beside Ready."""
    node = kube_node()
    conditions = (*node.status.conditions, Condition(type=kind, status=status))
    return msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, conditions=conditions))


@pytest.mark.parametrize(
    ("node", "want"),
    [
        *(
            pytest.param(tainted(key), f"taint {key}:NoSchedule", id=key)
            for key in (
                "ToBeDeletedByClusterAutoscaler",
                "karpenter.sh/disrupted",
                "karpenter.sh/unregistered",
                "cloud.google.com/impending-node-termination",
                "aws-node-termination-handler/spot-itn",
                "aws-node-termination-handler/rebalance-recommendation",
                "node.kubernetes.io/out-of-service",
                "node.kubernetes.io/network-unavailable",
                "node.cloudprovider.kubernetes.io/shutdown",
            )
        ),
        pytest.param(
            tainted("DeletionCandidateOfClusterAutoscaler", "PreferNoSchedule"), None, id="only a candidate"
        ),
        pytest.param(tainted("example.com/mine"), None, id="a taint that is tolerated"),
        pytest.param(labelled(ongoing="ONGOING"), "under maintenance", id="under maintenance"),
        pytest.param(labelled(ongoing="NONE"), None, id="not under maintenance"),
        pytest.param(labelled(asked="true"), "maintenance is asked for", id="maintenance asked for"),
        pytest.param(labelled(asked="false"), None, id="no maintenance asked for"),
        pytest.param(labelled(scheduled="soon"), "maintenance is scheduled", id="scheduled, who knows when"),
        pytest.param(labelled(scheduled="9" * 40), "maintenance is scheduled", id="scheduled for no date"),
        pytest.param(labelled(action="cordon-and-drain"), "about to be taken away", id="to be drained"),
        pytest.param(labelled(driver="drain-required"), "its driver is about to be replaced", id="driver"),
        pytest.param(labelled(driver="upgrade-required"), None, id="a driver that is not the newest"),
        pytest.param(labelled(driver="upgrade-done"), None, id="the newest driver"),
        pytest.param(labelled(slices="pending"), "its MIG slices are being changed", id="being cut"),
        pytest.param(labelled(slices="success"), None, id="cut"),
        *(
            pytest.param(in_condition(kind, status), want, id=f"{kind} {status}")
            for kind, status, want in (
                ("VMEventScheduled", "True", "VMEventScheduled=True"),
                ("VMEventScheduled", "False", None),
                ("CSPMaintenance", "True", "CSPMaintenance=True"),
                ("KernelReady", "False", "KernelReady=False"),
                ("KernelReady", "True", None),
                ("NetworkingReady", "False", "NetworkingReady=False"),
                ("StorageReady", "False", "StorageReady=False"),
                ("ContainerRuntimeReady", "False", "ContainerRuntimeReady=False"),
                ("MemoryPressure", "True", "MemoryPressure=True"),
                ("DiskPressure", "True", "DiskPressure=True"),
                ("DiskPressure", "False", None),
                ("PIDPressure", "True", "PIDPressure=True"),
                ("NetworkUnavailable", "True", "NetworkUnavailable=True"),
            )
        ),
    ],
)
def test_a_machine_that_leaves_is_closed(node: Node, want: str | None) -> None:
    """To a job that tolerates every taint as well."""
    (found,) = node_capacities([node], [], ALL)
    assert (found.unusable_because, found.free) == (want, 8 if want is None else 0)


@pytest.mark.parametrize(("state", "whole"), [("pending", True), ("rebooting", True), ("success", False)])
def test_slices_that_are_being_changed_say_nothing_yet(state: str, *, whole: bool) -> None:
    """What the devices will be is not known, so they are not taken for slices for good."""
    more: dict[str, Any] = {"nvidia.com/mig-1g.10gb": "56"}
    labels = {"nvidia.com/gpu.product": H100, "nvidia.com/mig.config.state": state}
    (found,) = node_capacities([kube_node(capacity="0", labels=labels, more=more)], [], ALL)
    assert (found.whole, found.free) == (whole, 0)
