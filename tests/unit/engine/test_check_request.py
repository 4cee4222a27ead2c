"""Requests that contradict the known GPU models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_gpu_placement.engine.check_request import contradictions_of
from airflow_gpu_placement.engine.identity import effective_gpu
from airflow_gpu_placement.model.gpu_model import GpuModel
from airflow_gpu_placement.model.request import GpuRequest
from tests.unit.engine.builders import A100_40, H100, L40S, decide, pool, seen, signals

if TYPE_CHECKING:
    from airflow_gpu_placement.model.pool import GpuPool

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
            {"models": "H100-40GB, L4-SXM"},
            "gpu.models: there is no H100-40GB or L4-SXM; write the model alone (H100, L4), or what there is "
            "of it: H100-64GB, H100-80GB, H100-94GB, H100-96GB, L4-24GB (PCIe)",
            id="cards that there are not",
        ),
        pytest.param(
            {"models": "H100-PCIe-94GB"},
            "gpu.models: there is no H100-PCIe-94GB; write the model alone (H100), or what there is "
            "of it: H100-64GB, H100-80GB, H100-94GB, H100-96GB",
            id="memory that only another form factor has",
        ),
        pytest.param(
            {"models": "L4, H100-NVL", "form_factors": "SXM, OAM"},
            "gpu.form_factors: L4 or H100-NVL is never SXM or OAM; write NVL or PCIe, or leave form_factors "
            "out, or name another model",
            id="a form factor that the models do not have",
        ),
        pytest.param(
            {"models": "H100-PCIe", "form_factors": "HGX", "interconnect": "nvswitch"},
            "gpu.form_factors: H100-PCIe is never HGX; write PCIe, or leave form_factors out, or name "
            "another model",
            id="a board of single cards",
        ),
        pytest.param(
            {"models": "L4, MI300X", "interconnect": "nvswitch"},
            "gpu.interconnect: L4 or MI300X is never joined by nvswitch (OAM or PCIe); leave interconnect "
            "out, or name a model on SXM boards",
            id="a switch between cards that have none",
        ),
        pytest.param(
            {"models": "MI300A", "interconnect": "nvlink"},
            "gpu.interconnect: MI300A is never joined by nvlink (APU); leave interconnect out, or name a "
            "model on SXM boards",
            id="a link of another maker",
        ),
        pytest.param(
            {"models": "GH200, GB200", "architecture": "amd64"},
            "gpu.architecture: GH200 or GB200 is never beside amd64 processors; write arm64, or leave "
            "architecture out, or name another model",
            id="a module with other processors",
        ),
        pytest.param(
            {"time": {"runtime_hours": 10, "complete_within_hours": 5, "deadline_is_hard": True}},
            "gpu.time.complete_within_hours: the job takes at least 10 h and has 5 h; write more than 10, or "
            "set deadline_is_hard to false, to be told instead of refused",
            id="less time than it takes",
        ),
        pytest.param(
            {
                "models": "H100-SXM, B400",
                "time": {
                    "runtime_hours_by_model": {"H100": 7, "B400": 6},
                    "complete_within_hours": 5,
                    "deadline_is_hard": True,
                },
            },
            "gpu.time.complete_within_hours: the job takes at least 6 h and has 5 h; write more than 6, or "
            "set deadline_is_hard to false, to be told instead of refused",
            id="less time than it takes on any of the models",
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
        pytest.param({"models": "L4, A100", "form_factors": "SXM"}, id="one model has the form factor"),
        pytest.param({"models": "L4, X9", "form_factors": "SXM"}, id="nobody knows one of the models' form"),
        pytest.param({"models": "B400", "form_factors": "PCIe"}, id="the form of a model of the catalogue"),
        pytest.param({"models": "H100-40GB, H100"}, id="one of the names is of a card"),
        pytest.param({"models": "A100-PCIe", "interconnect": "nvlink"}, id="a bridge"),
        pytest.param({"models": "A100", "form_factors": "HGX", "gpus_per_node": 16}, id="two boards"),
        pytest.param({"models": "GH200, H100", "architecture": "amd64"}, id="one is beside any processors"),
        pytest.param({"models": "MI300A", "architecture": "arm64"}, id="processors that no table tells"),
        pytest.param(
            {
                "models": "H100, A100",
                "time": {
                    "runtime_hours_by_model": {"H100": 7},
                    "complete_within_hours": 5,
                    "deadline_is_hard": True,
                },
            },
            id="a runtime that nobody knows",
        ),
        pytest.param(
            {"time": {"runtime_hours": 10, "complete_within_hours": 5}}, id="less time than it takes, softly"
        ),
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


@pytest.mark.parametrize(
    ("gpu", "said"),
    [
        pytest.param({"models": "B200-192GB"}, pool(model="B200", memory_gb=192), id="memory"),
        pytest.param({"models": "B200", "min_memory_gb": 192}, pool(memory_gb=192), id="least memory"),
        pytest.param({"models": "L4", "form_factors": "SXM"}, pool(form_factor="SXM"), id="form factor"),
        pytest.param(
            {"models": "L4-SXM", "interconnect": "nvswitch"},
            pool(model="L4", form_factor="SXM"),
            id="form factor in the name",
        ),
        pytest.param(
            {"models": "L4", "interconnect": "nvswitch"}, pool(interconnect="nvswitch"), id="interconnect"
        ),
        pytest.param(
            {"models": "GH200", "architecture": "amd64"}, pool(architecture="amd64"), id="processor"
        ),
    ],
)
def test_the_word_of_a_pool_counts_as_that_of_the_table(gpu: dict[str, Any], said: GpuPool) -> None:
    """It is believed when a job is placed, so that a job must not be refused for what there is."""
    request = GpuRequest.model_validate(gpu)
    assert len(contradictions_of(request)) == 1
    assert contradictions_of(request, pools=(pool(model="T4"), said)) == []
    assert len(contradictions_of(request, pools=(pool(model="T4", memory_gb=99, form_factor="APU"),))) == 1


PRODUCTS = st.sampled_from(
    [H100, A100_40, L40S, "NVIDIA-L4", "NVIDIA-H100-PCIe", "NVIDIA-H100-NVL", "NVIDIA-GH200-480GB"]
)


def maybe(*values: Any) -> st.SearchStrategy[Any]:
    """Draw one of the values, or nothing."""
    return st.sampled_from([None, None, *values])


@settings(max_examples=300, deadline=None)
@given(
    asked=st.sets(st.sampled_from(["form", "memory", "named form", "named memory", "architecture"])),
    interconnect=maybe("nvlink", "nvswitch"),
    product=PRODUCTS,
    where=st.builds(
        pool,
        model=maybe("H100", "L4", "GH200", "MI300X"),
        memory_gb=maybe(40, 80, 94, 192),
        form_factor=maybe("SXM", "PCIe", "NVL"),
        interconnect=maybe("nvlink", "nvswitch"),
        architecture=maybe("amd64", "arm64"),
    ),
)
def test_nothing_is_refused_that_a_pool_would_take(
    asked: set[str], interconnect: Any, product: str, where: GpuPool
) -> None:
    """Whatever its nodes and the catalogue say: here a request for just what the pool has."""
    node = seen(product=product)
    if "GH200" in product:
        node = msgspec.structs.replace(node, architecture="arm64")
    gpu = effective_gpu(where, node.gpu)
    assert gpu is not None
    named = [gpu.model]
    if "named form" in asked and gpu.form_factor is not None:
        named.append(gpu.form_factor)
    if "named memory" in asked and gpu.memory_gb is not None:
        named.append(f"{gpu.memory_gb:g}GB")
    architecture: Any = (where.architecture or node.architecture) if "architecture" in asked else None
    try:
        request = GpuRequest(
            models=("-".join(named),),
            form_factors=(gpu.form_factor,) if "form" in asked and gpu.form_factor is not None else (),
            interconnect=interconnect,
            architecture=architecture,
            min_memory_gb=gpu.memory_gb if "memory" in asked else None,
        )
    except ValueError:  # a contradiction in itself
        return
    if decide(request, [where], signals("p", node)).chosen is not None:
        assert contradictions_of(request, (), (where,)) == []
