"""Machine types of clouds: which GPU each has, and which are left unknown."""

from __future__ import annotations

import pytest

from airflow_gpu_placement.engine.instance_types import gpu_of_instance_type


@pytest.mark.parametrize(
    ("machine", "model", "memory_gb"),
    [
        ("p5.4xlarge", "H100", 80),
        ("p6e-gb200.36xlarge", "GB200", 192),
        ("gr6.8xlarge", "L4", 24),
        ("g7e.48xlarge", "RTX-PRO-6000", 96),
        ("a2-megagpu-16g", "A100", 40),
        ("a3-edgegpu-8g", "H100", 80),
        ("a3-megagpu-8g-nolssd", "H100", 80),
        ("a4x-highgpu-4g", "GB200", 192),
        ("a4x-maxgpu-4g-metal", "GB300", 288),
        ("g4-standard-384", "RTX-PRO-6000", 96),
        ("Standard_NC24rs_v3", "V100", 16),
        ("Standard_NC24s_v2", "P100", 16),
        ("Standard_NC24r", "K80", 12),
        ("Standard_ND24rs", "P40", 24),
        ("Standard_NV72ads_A10_v5", "A10", 24),
        ("Standard_ND96is_H100_v5", "H100", 80),
        ("Standard_ND128isr_NDR_GB200_v6", "GB200", 192),
        ("BM.GPU.B4.8", "A100", 40),
        ("BM.GPU.L40S-NC.4", "L40S", 48),
        ("VM.GPU3.2", "V100", 16),
        ("BM.GPU.GB200.4", "GB200", 192),
        ("gd-8xh100ib-i128", "H100", None),
        ("gb200-4x", "GB200", None),
        ("gpu-h100-sxm", "H100", None),
    ],
)
def test_a_machine_type_tells_its_gpu(machine: str, model: str, memory_gb: int | None) -> None:
    """Exact families; the memory where the family has one kind."""
    gpu = gpu_of_instance_type(machine)
    assert gpu is not None
    assert (gpu.model, gpu.memory_gb) == (model, memory_gb)


@pytest.mark.parametrize(
    "machine",
    [
        "g4-standard-24",
        "Standard_NV6ads_A10_v5",
        "g6f.xlarge",
        "g5g.xlarge",
        "trn1.32xlarge",
        "Standard_D8s_v5",
        "n2-standard-8",
        "cpu-d3",
        "",
    ],
)
def test_a_part_of_a_card_and_no_card_at_all_are_no_gpu(machine: str) -> None:
    """Some families have small machines with a part of a card; their memory is not the card's."""
    assert gpu_of_instance_type(machine) is None
