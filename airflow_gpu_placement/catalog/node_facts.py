"""What the labels of a node say about how and where its capacity is bought."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.engine.bought import (
    PURCHASE_LABELS,
    RESERVATION_LABELS,
    capacity_type_of,
    region_of,
)
from airflow_gpu_placement.engine.leaving import LEAVING_TAINTS
from airflow_gpu_placement.model.pool import CapacityType

if TYPE_CHECKING:
    from airflow_gpu_placement.model.kube import Node, Taint

IDENTITY_LABELS = (
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "eks.amazonaws.com/instance-gpu-name",
    "karpenter.azure.com/sku-gpu-name",
    "gpu.nvidia.com/model",
    "gpu.nvidia.com/class",
    "amd.com/gpu.product-name",
    "beta.amd.com/gpu.product-name",
)
"""Labels that name the GPU of a node, best evidence first."""

NODE_POOL_LABELS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "karpenter.sh/nodepool",
    "kubernetes.azure.com/agentpool",
    "oke.oraclecloud.com/pool.name",
)
"""Labels that name the group of machines which a cloud made a node for."""

MACHINE_TYPE_LABEL = "node.kubernetes.io/instance-type"
REGION_LABEL = "topology.kubernetes.io/region"
ZONE_LABEL = "topology.kubernetes.io/zone"
ARCHITECTURE_LABEL = "kubernetes.io/arch"

CAPACITY_LABELS = (*PURCHASE_LABELS, *RESERVATION_LABELS)
"""Labels that tell how a node is bought."""

_CLOUDS = {
    "gce": "gcp",
    "aws": "aws",
    "azure": "azure",
    "oci": "oci",
    "ocid1": "oci",
    "ibm": "ibm",
    "openstack": "openstack",
}

_PASSING_TAINTS = (*LEAVING_TAINTS, "DeletionCandidateOfClusterAutoscaler")


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """How and where one node's capacity is bought; ``None``: no label tells.

    :param node_pool: the group of machines that a cloud made it for.
    """

    cloud: str | None = None
    region: str | None = None
    zone: str | None = None
    capacity_type: CapacityType | None = None
    machine_type: str | None = None
    node_pool: str | None = None
    architecture: str | None = None


def node_facts(node: Node) -> NodeFacts:
    """Read what a node's labels and its provider id say."""
    labels = node.metadata.labels
    return NodeFacts(
        cloud=_CLOUDS.get(node.spec.provider_id.split(":", 1)[0].split(".", 1)[0].lower()),
        region=region_of(labels),
        zone=labels.get(ZONE_LABEL) or None,
        capacity_type=capacity_type_of(labels),
        machine_type=labels.get(MACHINE_TYPE_LABEL) or None,
        node_pool=next((labels[key] for key in NODE_POOL_LABELS if labels.get(key)), None),
        architecture=labels.get(ARCHITECTURE_LABEL) or None,
    )


def lasting_taints(node: Node) -> tuple[Taint, ...]:
    """Return the taints that were put on a node on purpose, without those that come and go with its state."""
    return tuple(
        taint for taint in node.spec.taints if taint.effect and not taint.key.startswith(_PASSING_TAINTS)
    )
