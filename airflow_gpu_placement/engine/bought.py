"""How a node's capacity is bought, from the labels of real clouds: reserved, on demand, spot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.model.pool import CapacityType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_gpu_placement.model.decision import Decision
    from airflow_gpu_placement.model.pool import GpuPool

REGION_LABELS = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")

_RESERVED = CapacityType.RESERVED
_ON_DEMAND = CapacityType.ON_DEMAND
_SPOT = CapacityType.SPOT

_MEANINGS: dict[str, Mapping[str, CapacityType]] = {
    "cloud.google.com/gke-spot": {"true": _SPOT},
    "cloud.google.com/gke-preemptible": {"true": _SPOT},
    "kubernetes.azure.com/scalesetpriority": {"spot": _SPOT, "regular": _ON_DEMAND},
    "karpenter.sh/capacity-type": {"spot": _SPOT, "on-demand": _ON_DEMAND, "reserved": _RESERVED},
    "eks.amazonaws.com/capacityType": {
        "SPOT": _SPOT,
        "ON_DEMAND": _ON_DEMAND,
        "CAPACITY_BLOCK": _RESERVED,
    },
    "cloud.google.com/gke-provisioning": {"spot": _SPOT, "preemptible": _SPOT, "standard": _ON_DEMAND},
}
"""Label -> its values and what they mean, strongest first."""

PURCHASE_LABELS = tuple(_MEANINGS)
"""Labels that tell how a node is bought, as the clouds spell them; a node has them before it boots."""

RESERVATION_LABELS = (
    "cloud.google.com/reservation-name",
    "karpenter.k8s.aws/capacity-reservation-id",
    "topology.k8s.aws/capacity-block-id",
)
"""Labels that name the reservation which a node uses."""

SPOT_LABELS: dict[str, tuple[str, ...]] = {
    key: tuple(value for value, kind in meaning.items() if kind is _SPOT)
    for key, meaning in _MEANINGS.items()
}
"""Label -> its values on nodes that may be taken away."""


def capacity_type_of(labels: Mapping[str, str]) -> CapacityType | None:
    """Tell how a node's capacity is bought from the labels of GKE, EKS, Karpenter and AKS.

    Capacity that may be taken away is told apart first; a reservation that a node uses comes next.

    :return: ``None``: no label tells.
    """
    said = [
        kind
        for key, meaning in _MEANINGS.items()
        if key in labels and (kind := meaning.get(labels[key])) is not None
    ]
    if _SPOT in said:
        return _SPOT
    if any([labels.get(key) for key in RESERVATION_LABELS]):
        return _RESERVED
    return said[0] if said else None


def region_of(labels: Mapping[str, str]) -> str | None:
    """Return the region that a node's labels name."""
    return next((labels[key] for key in REGION_LABELS if labels.get(key)), None)


def counts_as(pool: GpuPool, told: CapacityType | None) -> CapacityType:
    """Return how a node of a pool counts: never safer than its label says, nor than the catalogue.

    A pool of which nothing is written is on demand, so there the label knows better. A reservation is often
    bought as on-demand nodes and known to the catalogue alone.

    :param told: what the node's labels say.
    """
    said = pool.capacity_type
    if told is None or (said is not _ON_DEMAND and told is not _SPOT):
        return said
    return told


def may_be_taken_away(decision: Decision, pool: GpuPool) -> bool:
    """Whether the job may land on capacity that may be taken away in the chosen pool."""
    if pool.capacity_type is _SPOT:
        return True
    avoided = decision.verdicts[0].avoid_nodes  # fitting pools come first, the chosen one before all
    nodes = decision.snapshot.pools[pool.name].nodes
    return any(node.capacity_type is _SPOT and node.name not in avoided for node in nodes)
