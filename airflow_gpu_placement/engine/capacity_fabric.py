"""Which nodes lie close together: zone and fabric, from the labels of real clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ZONE_LABELS = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
ARCHITECTURE_LABELS = ("kubernetes.io/arch", "beta.kubernetes.io/arch")

FABRIC_LABELS = (
    # NVLink domains that span nodes
    "nvidia.com/gpu.clique",
    "topology.k8s.aws/ultraserver-id",
    "oci.oraclecloud.com/host.gpu_memory_fabric_id",
    "accelerator.topograph.run/domain",
    # networks of the same cloud, the widest level first
    "backend.coreweave.cloud/fabric",
    "ib.coreweave.cloud/fabric",
    "backend.coreweave.cloud/leafgroup",
    "ib.coreweave.cloud/leafgroup",
    "oci.oraclecloud.com/rdma.hpc_island_id",
    "oci.oraclecloud.com/rdma.network_block_id",
    "oci.oraclecloud.com/host.network_block_id",
    "oci.oraclecloud.com/rdma.local_block_id",
    "cloud.google.com/gce-topology-block",
    "cloud.google.com/gce-topology-subblock",
    # AWS counts its layers from the top
    "topology.k8s.aws/network-node-layer-1",
    "topology.k8s.aws/network-node-layer-2",
    "topology.k8s.aws/network-node-layer-3",
    "topology.k8s.aws/network-node-layer-4",
)
"""Labels that name the fabric of a node, in the order in which they are looked for.

An NVLink domain that spans nodes comes first: what lies beyond it is another, slower fabric. Of a network the
widest level counts, since all of it is one fabric, whose leaves differ by a hop. Labels that name one host
are left out.
"""


def fabric_label_of(labels: Mapping[str, str]) -> str | None:
    """Choose the label that tells a node's fabric, whatever other nodes carry.

    :return: ``None``: it carries no such label, so nothing is known to be on one fabric with it.
    """
    return next((key for key in FABRIC_LABELS if labels.get(key)), None)


def zone_of(labels: Mapping[str, str]) -> str | None:
    """Return a node's zone."""
    return _first(labels, ZONE_LABELS)


def architecture_of(labels: Mapping[str, str]) -> str | None:
    """Return the architecture of a node's processors."""
    return _first(labels, ARCHITECTURE_LABELS)


def _first(labels: Mapping[str, str], keys: Iterable[str]) -> str | None:
    return next((labels[key] for key in keys if labels.get(key)), None)
