"""Machine types of clouds that name no GPU in any label: exact families, never a guess."""

from __future__ import annotations

import re
from functools import lru_cache

from airflow_gpu_placement.engine.gpu_models import read_model
from airflow_gpu_placement.model.pool import GpuIdentity


def _gpu(model: str, memory_gb: float, form_factor: str | None = None) -> GpuIdentity:
    return GpuIdentity(model=model, memory_gb=memory_gb, form_factor=form_factor)


_FAMILIES: dict[str, GpuIdentity] = {
    # AWS: the part before the dot
    "p2": _gpu("K80", 12, "PCIe"),
    "p3": _gpu("V100", 16, "SXM"),
    "p3dn": _gpu("V100", 32, "SXM"),
    "p4d": _gpu("A100", 40, "SXM"),
    "p4de": _gpu("A100", 80, "SXM"),
    "p5": _gpu("H100", 80, "SXM"),
    "p5e": _gpu("H200", 141, "SXM"),
    "p5en": _gpu("H200", 141, "SXM"),
    "p6-b200": _gpu("B200", 180, "SXM"),
    "p6-b300": _gpu("B300", 288, "SXM"),
    "p6e-gb200": _gpu("GB200", 192),
    "p6e-gb300": _gpu("GB300", 288),
    "g4dn": _gpu("T4", 16),
    "g5": _gpu("A10G", 24),
    "g6": _gpu("L4", 24),
    "gr6": _gpu("L4", 24),
    "g6e": _gpu("L40S", 48),
    "g7e": _gpu("RTX-PRO-6000", 96),
    # Google Cloud: everything before the size
    "a2-highgpu": _gpu("A100", 40, "SXM"),
    "a2-megagpu": _gpu("A100", 40, "SXM"),
    "a2-ultragpu": _gpu("A100", 80, "SXM"),
    "a3-highgpu": _gpu("H100", 80, "SXM"),
    "a3-edgegpu": _gpu("H100", 80, "SXM"),
    "a3-megagpu": GpuIdentity(model="H100", memory_gb=80, form_factor="SXM", variant="MEGA"),
    "a3-ultragpu": _gpu("H200", 141, "SXM"),
    "a4-highgpu": _gpu("B200", 180, "SXM"),
    "a4x-highgpu": _gpu("GB200", 192),
    "a4x-maxgpu": _gpu("GB300", 288),
    "g2-standard": _gpu("L4", 24),
}
_WHOLE_RTX_PRO = re.compile(r"g4-standard-(?:48|96|192|384)")
"""Smaller machines of this family of Google's have parts of a card."""

_GOOGLE_ENDINGS = re.compile(r"-(?:metal|nolssd)$")

# Oracle: everything before the number of GPUs
_ORACLE: dict[str, GpuIdentity] = {
    "gpu2": _gpu("P100", 16),
    "gpu3": _gpu("V100", 16, "SXM"),
    "gpu4": _gpu("A100", 40, "SXM"),
    "gpu.b4": _gpu("A100", 40, "SXM"),
    "gpu.a100-v2": _gpu("A100", 80, "SXM"),
    "gpu.h100": _gpu("H100", 80, "SXM"),
    "gpu.h200": _gpu("H200", 141, "SXM"),
    "gpu.b200": _gpu("B200", 180, "SXM"),
    "gpu.b300": _gpu("B300", 288, "SXM"),
    "gpu.gb200": _gpu("GB200", 192),
    "gpu.gb300": _gpu("GB300", 288),
    "gpu.l40s": _gpu("L40S", 48),
    "gpu.a10": _gpu("A10", 24),
    "gpu.mi300x": _gpu("MI300X", 192, "OAM"),
    "gpu.mi355x": _gpu("MI355X", 288, "OAM"),
}
_ORACLE_SHAPE = re.compile(r"(?:bm|vm)\.(gpu.*?)(?:-nc|-v1)?\.\d+")

_COREWEAVE_SHAPES = (
    re.compile(r"gd-\d+x([a-z0-9]+?)(?:ib)?(?:-.*)?"),
    re.compile(r"([a-z]+\d+[a-z]?)-\d+x(?:-.*)?"),
)
_NEBIUS_SHAPE = re.compile(r"gpu-([a-z]+\d+[a-z]?)-(?:sxm|[a-d])")

_AZURE = (
    (re.compile(r"standard_nc\d+as_t4_v3"), _gpu("T4", 16)),
    (re.compile(r"standard_nc\d+r?"), _gpu("K80", 12)),
    (re.compile(r"standard_nc\d+r?s_v2"), _gpu("P100", 16, "PCIe")),
    (re.compile(r"standard_nd\d+r?s"), _gpu("P40", 24)),
    (re.compile(r"standard_nc\d+r?s_v3"), _gpu("V100", 16, "PCIe")),
    (re.compile(r"standard_nd40rs_v2"), _gpu("V100", 32, "SXM")),
    (re.compile(r"standard_nc\d+ads_a100_v4"), _gpu("A100", 80, "PCIe")),
    (re.compile(r"standard_nd\d+asr_v4"), _gpu("A100", 40, "SXM")),
    (re.compile(r"standard_nd\d+amsr_a100_v4"), _gpu("A100", 80, "SXM")),
    (re.compile(r"standard_nc(?:c)?\d+a(?:d)?i?s_h100_v5"), _gpu("H100", 94, "NVL")),
    (re.compile(r"standard_nd\d+isr?_h100_v5"), _gpu("H100", 80, "SXM")),
    (re.compile(r"standard_nd\d+isr?_h200_v5"), _gpu("H200", 141, "SXM")),
    (re.compile(r"standard_nd\d+isr?_mi300x_v5"), _gpu("MI300X", 192, "OAM")),
    (re.compile(r"standard_nd\d+isr(?:_ndr)?_gb200_v6"), _gpu("GB200", 192)),
    (re.compile(r"standard_nd\d+isr(?:_ndr)?_gb300_v6"), _gpu("GB300", 288)),
    (re.compile(r"standard_nc\d+ads_a10_v4"), _gpu("A10", 24)),
    # The smaller machines of this family have parts of a card.
    (re.compile(r"standard_nv(?:36|72)adm?s_a10_v5"), _gpu("A10", 24)),
)


@lru_cache(maxsize=1024)
def gpu_of_instance_type(instance_type: str) -> GpuIdentity | None:
    """Return the GPU of a cloud's machine type; ``None``: not a known GPU machine."""
    name = instance_type.strip().lower()
    oracle = _ORACLE_SHAPE.fullmatch(name)
    if oracle is not None:
        return _ORACLE.get(oracle[1])
    for shape in (*_COREWEAVE_SHAPES, _NEBIUS_SHAPE):
        named = shape.fullmatch(name)
        if named is not None:
            return read_model(named[1])
    if "." in name:
        return _FAMILIES.get(name.split(".", 1)[0])
    if name.startswith("standard_"):
        return next((gpu for shape, gpu in _AZURE if shape.fullmatch(name)), None)
    if _WHOLE_RTX_PRO.fullmatch(name):
        return _gpu("RTX-PRO-6000", 96)
    return _FAMILIES.get(_GOOGLE_ENDINGS.sub("", name).rsplit("-", 1)[0])
