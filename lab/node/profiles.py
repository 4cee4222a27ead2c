"""Kinds of nodes, with the labels, taints and capacity that real ones show."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lab.node.cloud_machines import CLOUD_MACHINES
from lab.node.labels import common
from lab.node.own_machines import OWN_MACHINES
from lab.node.profile import NodeProfile, sizes

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PROFILES", "NodeProfile", "materialise"]

_CPU = NodeProfile(
    name="cpu", description="a node without GPUs", labels=common("cpu-16"), capacity=sizes(16, 64)
)

PROFILES: Mapping[str, NodeProfile] = MappingProxyType(
    {profile.name: profile for profile in (*OWN_MACHINES, *CLOUD_MACHINES, _CPU)}
)


def materialise(
    profile: NodeProfile | str,
    *,
    node_name: str,
    gpus: int | None = None,
    zone: str | None = None,
    region: str | None = None,
    extra_labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the "profile" object of one node's config.json; extra labels win over the profile's own."""
    if isinstance(profile, str):
        if profile not in PROFILES:
            raise ValueError(f"no node profile {profile!r}; choose one of {', '.join(sorted(PROFILES))}")
        profile = PROFILES[profile]
    if gpus is not None and gpus < 0:
        raise ValueError(f"node {node_name!r}: gpus is {gpus}; write 0 or more")
    if gpus and not profile.gpus:
        raise ValueError(f"node {node_name!r}: profile {profile.name!r} has no GPUs; choose one that has")
    count = profile.gpus if gpus is None else gpus
    devices = {name: count * number for name, number in profile.devices.items()} if profile.gpus else {}
    facts: dict[str, Any] = {
        "node_name": node_name,
        "gpus": str(count),
        "devices": list(devices.values()),
        "zone": zone or profile.zone,
        "region": region or profile.region,
    }
    return {
        "labels": {key: value.format(**facts) for key, value in profile.labels.items()}
        | dict(extra_labels or {}),
        "taints": [dict(taint) for taint in profile.taints],
        "capacity": dict(profile.capacity) | {name: str(number) for name, number in devices.items()},
        "provider_id": profile.provider_id_template.format(**facts),
    }
