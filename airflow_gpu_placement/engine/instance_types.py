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
    "g4dn": _gpu("T4", 16),
    "g5": _gpu("A10G", 24),
    "g6": _gpu("L4", 24),
    "g6e": _gpu("L40S", 48),
    # Google Cloud: everything before the size
    "a2-highgpu": _gpu("A100", 40, "SXM"),
    "a2-ultragpu": _gpu("A100", 80, "SXM"),
    "a3-highgpu": _gpu("H100", 80, "SXM"),
    "a3-megagpu": GpuIdentity(model="H100", memory_gb=80, form_factor="SXM", variant="MEGA"),
    "a3-ultragpu": _gpu("H200", 141, "SXM"),
    "a4-highgpu": _gpu("B200", 180, "SXM"),
    "g2-standard": _gpu("L4", 24),
}

# Oracle: everything before the number of GPUs
_ORACLE: dict[str, GpuIdentity] = {
    "gpu4": _gpu("A100", 40, "SXM"),
    "gpu.a100-v2": _gpu("A100", 80, "SXM"),
    "gpu.h100": _gpu("H100", 80, "SXM"),
    "gpu.h200": _gpu("H200", 141, "SXM"),
    "gpu.b200": _gpu("B200", 180, "SXM"),
    "gpu.l40s": _gpu("L40S", 48),
    "gpu.a10": _gpu("A10", 24),
    "gpu.mi300x": _gpu("MI300X", 192, "OAM"),
}
_ORACLE_SHAPE = re.compile(r"(?:bm|vm)\.(gpu.*)\.\d+")

_COREWEAVE_SHAPE = re.compile(r"gd-\d+x([a-z0-9]+?)(?:ib)?(?:-.*)?")

_AZURE = (
    (re.compile(r"standard_nc\d+as_t4_v3"), _gpu("T4", 16)),
    (re.compile(r"standard_nc\d+(?:r)?s_v3"), _gpu("V100", 16, "PCIe")),
    (re.compile(r"standard_nd40rs_v2"), _gpu("V100", 32, "SXM")),
    (re.compile(r"standard_nc\d+ads_a100_v4"), _gpu("A100", 80, "PCIe")),
    (re.compile(r"standard_nd\d+asr_v4"), _gpu("A100", 40, "SXM")),
    (re.compile(r"standard_nd\d+amsr_a100_v4"), _gpu("A100", 80, "SXM")),
    (re.compile(r"standard_nc(?:c)?\d+a(?:d)?i?s_h100_v5"), _gpu("H100", 94, "NVL")),
    (re.compile(r"standard_nd\d+isr_h100_v5"), _gpu("H100", 80, "SXM")),
    (re.compile(r"standard_nd\d+isr_h200_v5"), _gpu("H200", 141, "SXM")),
    (re.compile(r"standard_nd\d+isr_mi300x_v5"), _gpu("MI300X", 192, "OAM")),
)


@lru_cache(maxsize=1024)
def gpu_of_instance_type(instance_type: str) -> GpuIdentity | None:
    """Return the GPU of a cloud's machine type; ``None``: not a known GPU machine."""
    name = instance_type.strip().lower()
    oracle = _ORACLE_SHAPE.fullmatch(name)
    if oracle is not None:
        return _ORACLE.get(oracle[1])
    coreweave = _COREWEAVE_SHAPE.fullmatch(name)
    if coreweave is not None:
        return read_model(coreweave[1])
    if "." in name:
        return _FAMILIES.get(name.split(".", 1)[0])
    if name.startswith("standard_"):
        return next((gpu for shape, gpu in _AZURE if shape.fullmatch(name)), None)
    return _FAMILIES.get(name.rsplit("-", 1)[0])
