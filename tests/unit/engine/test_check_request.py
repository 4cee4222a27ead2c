"""Requests that contradict the known GPU models."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_gpu_placement.engine.check_request import contradictions_of
from airflow_gpu_placement.model.gpu_model import GpuModel
from airflow_gpu_placement.model.request import GpuRequest

B400 = GpuModel(name="B400", memory_gb=320, form_factor="SXM", aliases=("NVIDIA-B400-HBM4",))


@pytest.mark.parametrize(
    ("gpu", "want"),
    [
        pytest.param(
            {"models": "A100, L4", "min_memory_gb": 96},
            "gpu.min_memory_gb: 96 GB is more than any of the models has (A100 at most 80 GB, L4 at most "
            "24 GB); lower it to 80 or name a larger model",
            id="more memory than the named models have",
        ),
        pytest.param(
            {"models": "A100-40GB", "min_memory_gb": 80},
            "gpu.min_memory_gb: 80 GB is more than any of the models has (A100-40GB at most 40 GB); lower "
            "it to 40 or name a larger model",
            id="more memory than the name itself says",
        ),
        pytest.param(
            {"models": "NVIDIA B400 HBM4", "min_memory_gb": 400},
            "gpu.min_memory_gb: 400 GB is more than any of the models has (NVIDIA B400 HBM4 at most 320 GB); "
            "lower it to 320 or name a larger model",
            id="more memory than a model of the catalogue has",
        ),
        pytest.param(
            {"models": "H100", "time": {"runtime_hours_by_model": {"A100": 5}}},
            "gpu.time.runtime_hours_by_model.A100: models does not name it; add it there, or remove this "
            "runtime",
            id="a runtime on a model that is not asked for",
        ),
        pytest.param(
            {"time": {"runtime_hours_by_model": {"H1000": 5}}},
            "gpu.time.runtime_hours_by_model.H1000: is not a known GPU model; did you mean 'H100'?",
            id="a runtime on a model that nobody knows",
        ),
    ],
)
def test_a_request_against_the_known_models_is_refused(gpu: dict[str, Any], want: str) -> None:
    """No pool can ever satisfy it, so that waiting is of no use."""
    assert contradictions_of(GpuRequest.model_validate(gpu), (B400,)) == [want]


@pytest.mark.parametrize(
    "gpu",
    [
        pytest.param({"models": "A100, H200", "min_memory_gb": 141}, id="one of the models has enough"),
        pytest.param({"models": "X900, A100", "min_memory_gb": 141}, id="nobody knows one of the models"),
        pytest.param({"min_memory_gb": 1000}, id="no model is named"),
        pytest.param(
            {"models": "H100-80GB", "time": {"runtime_hours_by_model": {"nvidia h100": 5}}},
            id="the same model in two spellings",
        ),
        pytest.param({"time": {"runtime_hours_by_model": {"B400": 5}}}, id="a model of the catalogue"),
    ],
)
def test_what_some_pool_may_satisfy_is_left_to_the_decision(gpu: dict[str, Any]) -> None:
    """What only nodes can tell is not refused beforehand."""
    assert contradictions_of(GpuRequest.model_validate(gpu), (B400,)) == []
