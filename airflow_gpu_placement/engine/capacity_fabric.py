"""Which nodes lie close together: zone and fabric, from the labels of real clusters."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow_gpu_placement.model.kube import Node

ZONE_LABELS = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
ARCHITECTURE_LABELS = ("kubernetes.io/arch", "beta.kubernetes.io/arch")

FABRIC_LABELS = (
    # NVLink domains that span nodes
    "nvidia.com/gpu.clique",
    "topology.k8s.aws/ultraserver-id",
    "oci.oraclecloud.com/host.gpu_memory_fabric_id",
    "accelerator.topograph.run/domain",
    # AWS counts its layers from the top: the highest number is nearest
    "topology.k8s.aws/network-node-layer-4",
    "topology.k8s.aws/network-node-layer-3",
    "cloud.google.com/gce-topology-subblock",
    "cloud.google.com/gce-topology-block",
    "backend.coreweave.cloud/leafgroup",
    "ib.coreweave.cloud/leafgroup",
    "backend.coreweave.cloud/fabric",
    "ib.coreweave.cloud/fabric",
    "oci.oraclecloud.com/rdma.local_block_id",
    "oci.oraclecloud.com/rdma.network_block_id",
    "oci.oraclecloud.com/host.network_block_id",
    "oci.oraclecloud.com/rdma.hpc_island_id",
    "topology.k8s.aws/network-node-layer-2",
    "topology.k8s.aws/network-node-layer-1",
)
"""Labels that name what several nodes share, nearest level first. Those that name one host are left out."""


def fabric_label_of(nodes: Iterable[Node]) -> str | None:
    """Choose the label that tells a pool's fabrics: the one that most nodes carry, then the nearest level.

    :return: ``None``: the nodes carry no such label, so nothing is known to be on one fabric.
    """
    carried = Counter(key for node in nodes for key in FABRIC_LABELS if node.metadata.labels.get(key))
    if not carried:
        return None
    most = max(carried.values())
    return next(key for key in FABRIC_LABELS if carried[key] == most)


def zone_of(labels: Mapping[str, str]) -> str | None:
    """Return a node's zone."""
    return _first(labels, ZONE_LABELS)


def architecture_of(labels: Mapping[str, str]) -> str | None:
    """Return the architecture of a node's processors."""
    return _first(labels, ARCHITECTURE_LABELS)


def _first(labels: Mapping[str, str], keys: Iterable[str]) -> str | None:
    return next((labels[key] for key in keys if labels.get(key)), None)
