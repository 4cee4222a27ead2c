"""GPU models that the catalogue adds: what nodes report and requests name is read through them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from airflow_gpu_placement.engine.gpu import identify
from airflow_gpu_placement.engine.own_models import (
    by_spelling,
    read_own,
    recognise,
    recognise_all,
    with_canonical_models,
)
from airflow_gpu_placement.model.gpu_model import GpuModel
from airflow_gpu_placement.model.pool import GpuIdentity
from airflow_gpu_placement.model.request import GpuRequest, TimeNeed
from airflow_gpu_placement.model.signals import NodeCapacity, PoolSignals, Snapshot

B400 = GpuModel(name="B400", memory_gb=320, form_factor="SXM", aliases=("NVIDIA-B400-HBM4",))
OWN = by_spelling((B400,))
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        pytest.param(
            {"nvidia.com/gpu.product": "NVIDIA-B400-HBM4"},
            GpuIdentity(model="B400", memory_gb=320, form_factor="SXM"),
            id="an alias is the model",
        ),
        pytest.param(
            {"nvidia.com/gpu.product": "nvidia b400"},
            GpuIdentity(model="B400", memory_gb=320, form_factor="SXM"),
            id="the name is the model in any spelling",
        ),
        pytest.param(
            {"nvidia.com/gpu.product": "NVIDIA-B400-HBM4", "nvidia.com/gpu.memory": "311296"},
            GpuIdentity(model="B400", memory_gb=320, form_factor="SXM"),
            id="304 GiB measured are a card of 320 GB",
        ),
        pytest.param(
            {"nvidia.com/gpu.product": "NVIDIA-B400-HBM4", "nvidia.com/gpu.memory": "147456"},
            GpuIdentity(model="B400", memory_gb=144, form_factor="SXM"),
            id="half the memory is measured and believed",
        ),
        pytest.param(
            {"nvidia.com/gpu.product": "NVIDIA-B400-LITE"},
            GpuIdentity(model="B400-LITE"),
            id="a longer name is another model",
        ),
        pytest.param(
            {"nvidia.com/gpu.product": "NVIDIA-L4"},
            GpuIdentity(model="L4", memory_gb=24, form_factor="PCIe"),
            id="a known model stays what it is",
        ),
    ],
)
def test_what_a_node_reports_is_recognised(labels: dict[str, str], want: GpuIdentity) -> None:
    """Only names and aliases count, never a part of one."""
    gpu = identify(labels)
    assert gpu is not None
    assert recognise(gpu, OWN) == want


def test_every_node_of_a_snapshot_is_recognised() -> None:
    """The decision sees the catalogue's name; a node without a GPU stays as it is."""
    nodes = (NodeCapacity(name="a", gpu=GpuIdentity(model="B400-HBM4")), NodeCapacity(name="b"))
    snapshot = Snapshot(
        taken_at=NOW, pools={"p": PoolSignals(pool="p", observed_at=NOW, source="s", nodes=nodes)}
    )

    first, second = recognise_all(snapshot, (B400,)).pools["p"].nodes

    assert str(first.gpu) == "B400 320 GB SXM"
    assert second.gpu is None
    assert recognise_all(snapshot, ()) is snapshot


def test_a_request_is_read_in_the_catalogues_names() -> None:
    """An alias in a request means the model; known and unknown names stay as they are written."""
    request = GpuRequest(
        models=("nvidia-b400-hbm4", "H100", "X1"), time=TimeNeed(runtime_hours_by_model={"B400-HBM4": 3})
    )

    read = with_canonical_models(request, (B400,))

    assert read.models == ("B400", "H100", "X1")
    assert read.time.runtime_hours_by_model == {"B400": 3}
    assert with_canonical_models(request, ()) is request


def test_the_table_comes_first() -> None:
    """A model that the release knows is read from its table."""
    assert read_own("H100", OWN) == GpuIdentity(model="H100")
    assert read_own("X1", OWN) is None
