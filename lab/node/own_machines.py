"""Nodes of an own data centre: GPU Operator or AMD's plugin, no cloud; also partitioned and shared GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.node.labels import amd, common, gfd, mig, mig_slice
from lab.node.profile import GPU, WHOLE_GPUS, NodeProfile, sizes

if TYPE_CHECKING:
    from collections.abc import Mapping

_DGX_H100 = ("hopper", "9.0", "DGXH100")
_DGX_A100 = ("ampere", "8.0", "DGXA100-920-23687-2530-000")
_H100_SLICES = {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}  # all-balanced on a card of 80 GB


def _onprem(
    name: str,
    description: str,
    model: str,
    labels: dict[str, str],
    cpu: int,
    memory_gib: int,
    gpus: int = 8,
    devices: Mapping[str, int] = WHOLE_GPUS,
) -> NodeProfile:
    return NodeProfile(
        name=name,
        description=description,
        labels=labels,
        capacity=sizes(cpu, memory_gib),
        gpu_model=model,
        zone="dc1-hall-a",
        region="dc1",
        gpus=gpus,
        devices=devices,
    )


def _mixed_labels(product: str) -> dict[str, str]:
    found: dict[str, str] = {}
    facts = {"1g.10gb": (9984, 16), "2g.20gb": (20096, 32), "3g.40gb": (40448, 60)}
    for place, profile in enumerate(_H100_SLICES, start=1):
        resource = f"nvidia.com/mig-{profile}"
        found |= mig_slice(resource, product, profile, *facts[profile])
        found[f"{resource}.count"] = f"{{devices[{place}]}}"
    return found


OWN_MACHINES = (
    _onprem(
        "onprem-h100-sxm",
        "8 x H100 SXM 80 GB in an own data centre, with GPU Feature Discovery",
        "H100-SXM-80GB",
        common("dgx-h100") | gfd("NVIDIA-H100-80GB-HBM3", 81559, *_DGX_H100, mig=True),
        cpu=224,
        memory_gib=2014,
    ),
    _onprem(
        "onprem-h100-pcie",
        "4 x H100 PCIe 80 GB in an own data centre, with GPU Feature Discovery",
        "H100-PCIe-80GB",
        common("sys-741ge-tnrt")
        | gfd("NVIDIA-H100-PCIe", 81559, "hopper", "9.0", "SYS-741GE-TNRT", mig=True),
        cpu=96,
        memory_gib=1007,
        gpus=4,
    ),
    _onprem(
        "onprem-h200",
        "8 x H200 SXM 141 GB in an own data centre, with GPU Feature Discovery",
        "H200-141GB",
        common("dgx-h200") | gfd("NVIDIA-H200", 143771, "hopper", "9.0", "DGXH200", mig=True),
        cpu=224,
        memory_gib=2014,
    ),
    _onprem(
        "onprem-a100-80",
        "8 x A100 SXM 80 GB in an own data centre, with GPU Feature Discovery",
        "A100-SXM-80GB",
        common("dgx-a100") | gfd("NVIDIA-A100-SXM4-80GB", 81920, *_DGX_A100, mig=True),
        cpu=256,
        memory_gib=2014,
    ),
    _onprem(
        "onprem-a100-40",
        "8 x A100 SXM 40 GB in an own data centre, with GPU Feature Discovery",
        "A100-SXM-40GB",
        common("dgx-a100-40")
        | gfd("NVIDIA-A100-SXM4-40GB", 40960, "ampere", "8.0", "DGXA100-920-23687-2510-000", mig=True),
        cpu=256,
        memory_gib=1007,
    ),
    _onprem(
        "onprem-l40s",
        "8 x L40S 48 GB in an own data centre, with GPU Feature Discovery",
        "L40S",
        common("sys-421ge-tnrt")
        | gfd("NVIDIA-L40S", 46068, "ada-lovelace", "8.9", "SYS-421GE-TNRT", mig=False),
        cpu=128,
        memory_gib=1007,
    ),
    _onprem(
        "onprem-mi300x",
        "8 x MI300X 192 GB in an own data centre, with AMD's node labeller",
        "MI300X",
        common("as-8125gs-tnmr2") | amd("AMD_Instinct_MI300X_OAM", "74a1", "192G", 304, "spx_nps1"),
        cpu=192,
        memory_gib=2267,
        devices={"amd.com/gpu": 1},
    ),
    _onprem(
        "onprem-a100-mig-single",
        "8 x A100 80 GB cut into 7 slices each, all offered as nvidia.com/gpu (MIG strategy single)",
        "A100-SXM-80GB",
        common("dgx-a100")
        | gfd("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", 9728, *_DGX_A100, mig=True, count="{devices[0]}")
        | mig_slice(GPU, "NVIDIA-A100-SXM4-80GB", "1g.10gb", 9728, 14)
        | mig("single", "all-1g.10gb"),
        cpu=256,
        memory_gib=2014,
        devices={GPU: 7},
    ),
    _onprem(
        "onprem-h100-mig-mixed",
        "8 x H100 80 GB cut into slices of three kinds, each a resource of its own (MIG strategy mixed)",
        "H100-SXM-80GB",
        common("dgx-h100")
        | gfd("NVIDIA-H100-80GB-HBM3", 81559, *_DGX_H100, mig=True, replicas="0")
        | _mixed_labels("NVIDIA-H100-80GB-HBM3")
        | mig("mixed", "all-balanced"),
        cpu=224,
        memory_gib=2014,
        devices={GPU: 0} | {f"nvidia.com/mig-{profile}": number for profile, number in _H100_SLICES.items()},
    ),
    _onprem(
        "onprem-l40s-shared",
        "4 x L40S 48 GB, each time-sliced into 4 shares",
        "L40S",
        common("sys-421ge-tnrt")
        | gfd(
            "NVIDIA-L40S-SHARED",
            46068,
            "ada-lovelace",
            "8.9",
            "SYS-421GE-TNRT",
            mig=False,
            replicas="4",
            sharing_strategy="time-slicing",
        ),
        cpu=128,
        memory_gib=1007,
        gpus=4,
        devices={GPU: 4},
    ),
)
