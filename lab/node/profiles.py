"""Kinds of nodes, with the labels, taints and capacity that real ones show."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

GPU = "nvidia.com/gpu"
GKE = "cloud.google.com"


@dataclass(frozen=True)
class NodeProfile:
    """One kind of node. Label values may hold {node_name}, {gpus}, {zone} and {region}."""

    name: str
    description: str
    labels: Mapping[str, str]
    capacity: Mapping[str, str]
    gpu_model: str | None = None
    taints: tuple[Mapping[str, str], ...] = ()
    provider_id_template: str = ""
    zone: str = "lab-a"
    region: str = "lab"
    gpus: int = 0


def _common(instance_type: str) -> dict[str, str]:
    return {
        "kubernetes.io/hostname": "{node_name}",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": instance_type,
        "topology.kubernetes.io/zone": "{zone}",
        "topology.kubernetes.io/region": "{region}",
    }


def _gfd(
    product: str, memory_mib: int, family: str, compute: str, machine: str, *, mig: bool
) -> dict[str, str]:
    """Return the labels of NVIDIA's GPU Feature Discovery for whole, unshared GPUs."""
    major, minor = compute.split(".")
    values = {
        "gpu.present": "true",
        "gpu.product": product,
        "gpu.count": "{gpus}",
        "gpu.replicas": "1",
        "gpu.sharing-strategy": "none",
        "gpu.memory": str(memory_mib),
        "gpu.family": family,
        "gpu.compute.major": major,
        "gpu.compute.minor": minor,
        "gpu.machine": machine,
        "gpu.mode": "compute",
        "mig.capable": "true" if mig else "false",
        "mps.capable": "false",
        "cuda.driver-version.major": "580",
        "cuda.driver-version.minor": "95",
        "cuda.driver-version.revision": "05",
        "cuda.driver-version.full": "580.95.05",
        "cuda.runtime-version.major": "13",
        "cuda.runtime-version.minor": "0",
        "cuda.runtime-version.full": "13.0",
        "gfd.timestamp": "1796000000",
    }
    return {f"nvidia.com/{key}": value for key, value in values.items()}


def _gke(accelerator: str, machine_type: str, pool: str) -> dict[str, str]:
    """Return the labels of GKE, which has a device plugin of its own and no GPU Feature Discovery."""
    values = {
        "gke-accelerator": accelerator,
        "gke-accelerator-count": "{gpus}",
        "gke-nodepool": pool,
        "gke-provisioning": "standard",
        "machine-family": machine_type.split("-")[0],
    }
    return _common(machine_type) | {f"{GKE}/{key}": value for key, value in values.items()}


def _capacity(cpu: int, memory_gib: int, gpus: int) -> dict[str, str]:
    sizes = {"cpu": str(cpu), "memory": f"{memory_gib}Gi", "ephemeral-storage": "1000Gi", "pods": "110"}
    return sizes | ({GPU: str(gpus)} if gpus else {})


def _onprem(
    name: str, description: str, model: str, labels: dict[str, str], cpu: int, memory_gib: int
) -> NodeProfile:
    return NodeProfile(
        name=name,
        description=description,
        labels=labels,
        capacity=_capacity(cpu, memory_gib, 8),
        gpu_model=model,
        zone="dc1-hall-a",
        region="dc1",
        gpus=8,
    )


def _gke_pool(
    name: str, description: str, model: str, labels: dict[str, str], cpu: int, memory_gib: int
) -> NodeProfile:
    return NodeProfile(
        name=name,
        description=description,
        labels=labels,
        capacity=_capacity(cpu, memory_gib, 8),
        gpu_model=model,
        taints=({"key": GPU, "value": "present", "effect": "NoSchedule"},),
        provider_id_template="gce://lab-project/{zone}/{node_name}",
        zone="us-central1-a",
        region="us-central1",
        gpus=8,
    )


_ALL = (
    _onprem(
        "onprem-h100-sxm",
        "8 x H100 SXM 80 GB in an own data centre, with GPU Feature Discovery",
        "H100-SXM-80GB",
        _common("dgx-h100") | _gfd("NVIDIA-H100-80GB-HBM3", 81559, "hopper", "9.0", "DGXH100", mig=True),
        cpu=224,
        memory_gib=2014,
    ),
    _onprem(
        "onprem-a100-80",
        "8 x A100 SXM 80 GB in an own data centre, with GPU Feature Discovery",
        "A100-SXM-80GB",
        _common("dgx-a100")
        | _gfd("NVIDIA-A100-SXM4-80GB", 81920, "ampere", "8.0", "DGXA100-920-23687-2530-000", mig=True),
        cpu=256,
        memory_gib=2014,
    ),
    _onprem(
        "onprem-l40s",
        "8 x L40S 48 GB in an own data centre, with GPU Feature Discovery",
        "L40S",
        _common("sys-421ge-tnrt")
        | _gfd("NVIDIA-L40S", 46068, "ada-lovelace", "8.9", "SYS-421GE-TNRT", mig=False),
        cpu=128,
        memory_gib=1007,
    ),
    _gke_pool(
        "gke-h100",
        "GKE a3-highgpu-8g: 8 x H100 80 GB",
        "H100-SXM-80GB",
        _gke("nvidia-h100-80gb", "a3-highgpu-8g", "h100-pool"),
        cpu=208,
        memory_gib=1872,
    ),
    _gke_pool(
        "gke-a100-80",
        "GKE a2-ultragpu-8g: 8 x A100 80 GB",
        "A100-SXM-80GB",
        _gke("nvidia-a100-80gb", "a2-ultragpu-8g", "a100-pool"),
        cpu=96,
        memory_gib=1360,
    ),
    _gke_pool(
        "gke-l4",
        "GKE g2-standard-96: 8 x L4 24 GB",
        "L4",
        _gke("nvidia-l4", "g2-standard-96", "l4-pool"),
        cpu=96,
        memory_gib=384,
    ),
    NodeProfile(
        name="cpu",
        description="a node without GPUs",
        labels=_common("cpu-16"),
        capacity=_capacity(16, 64, 0),
    ),
)

PROFILES: Mapping[str, NodeProfile] = MappingProxyType({profile.name: profile for profile in _ALL})


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
    facts = {
        "node_name": node_name,
        "gpus": str(count),
        "zone": zone or profile.zone,
        "region": region or profile.region,
    }
    capacity = dict(profile.capacity)
    if profile.gpus:
        capacity[GPU] = str(count)
    return {
        "labels": {key: value.format(**facts) for key, value in profile.labels.items()}
        | dict(extra_labels or {}),
        "taints": [dict(taint) for taint in profile.taints],
        "capacity": capacity,
        "provider_id": profile.provider_id_template.format(**facts),
    }
