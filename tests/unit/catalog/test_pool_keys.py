"""What a pool may say beyond its GPUs: network, queue, price for the order, risk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_gpu_placement.model.pool import Execution, KueueQueue, PoolNetwork
from tests.unit.catalog.catalogues import one, problems, read

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_gpu_placement.model.pool import GpuPool

EVERYTHING = """
version: 1
defaults:
  network: {kind: InfiniBand}
  kueue: {local_queues: {"*": training}}
tenants:
  - {name: vision, teams: [vision]}
pools:
  - name: a
    kubernetes_conn_id: c
    gpu: {interconnect: NVSwitch, per_node: 8}
    network: {gbps: 3200, fabric_label: topology/fabric}
    architecture: arm64
    price: {gpu_hour_usd: 2, rank_gpu_hour_usd: 3.5, preference_usd: -4}
    max_nodes: 2
    provisioning_seconds: 420
    interruptions_per_gpu_hour: 0.01
    max_signal_age_seconds: 30
    execution: kueue
    kueue: {flavor: h100, local_queues: {vision: vision-queue, "*": rest}}
"""


def the_pool(folder: Path, text: str) -> GpuPool:
    """Read a catalogue of one pool."""
    (pool,) = read(folder, text).pools
    return pool


def test_every_key_reaches_the_pool(tmp_path: Path) -> None:
    """Each key is somewhere in the value that the decision sees; words are read in any spelling."""
    pool = the_pool(tmp_path, EVERYTHING)

    assert (pool.gpu.interconnect, pool.architecture) == ("nvswitch", "arm64")
    assert pool.network == PoolNetwork(kind="infiniband", gbps=3200, fabric_label="topology/fabric")
    assert (pool.price.gpu_hour_usd, pool.price.rank_gpu_hour_usd, pool.price.preference_usd) == (2, 3.5, -4)
    assert (pool.growth.max_nodes, pool.growth.provisioning_seconds) == (2, 420)
    assert (pool.interruptions_per_gpu_hour, pool.max_signal_age_seconds) == (0.01, 30)
    assert pool.execution is Execution.KUEUE
    assert pool.kueue == KueueQueue(local_queues={"vision": "vision-queue", "*": "rest"}, flavor="h100")


@pytest.mark.parametrize(
    ("price", "want"),
    [
        pytest.param("{gpu_hour_usd: 25.82, machine_hour_usd: 9.68}", 35.5, id="GPU and machine apart"),
        pytest.param("{node_hour_usd: 8, machine_hour_usd: 1}", 9.0, id="node and machine apart"),
        pytest.param("{machine_hour_usd: 1}", None, id="the machine alone is not the price"),
    ],
)
def test_the_parts_of_a_price_are_added(tmp_path: Path, price: str, want: float | None) -> None:
    """All parts are of one place; what a GPU costs is unknown while its own part is."""
    usd = the_pool(tmp_path, one(gpu="{per_node: 1}", price=price)).price.gpu_hour_usd
    assert usd == (None if want is None else pytest.approx(want))


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param(
            {"network": "{kind: infinband}"},
            "pools[0].network.kind: 'infinband' is not a known kind of network; did you mean 'infiniband'? "
            "(one of: infiniband, roce, efa, gpudirect-tcpx, gpudirect-tcpxo, gpudirect-rdma, slingshot, "
            "ethernet)",
            id="an unknown kind of network",
        ),
        pytest.param(
            {"network": "{gbp: 100}"},
            "pools[0].network.gbp: is not a known key; did you mean 'gbps'?",
            id="a slip in the network",
        ),
        pytest.param(
            {"network": "{fabric_label: 'a b'}"},
            "pools[0].network.fabric_label: 'a b' is not a label key such as 'nvidia.com/gpu.product'",
            id="a fabric label that is none",
        ),
        pytest.param(
            {"gpu": "{interconnect: nvlnk}"},
            "pools[0].gpu.interconnect: 'nvlnk' is not a known interconnect; did you mean 'nvlink'? "
            "(one of: nvlink, nvswitch, pcie)",
            id="an unknown interconnect",
        ),
        pytest.param(
            {"architecture": "x86"},
            "pools[0].architecture: 'x86' is not possible here; one of: amd64, arm64",
            id="an unknown architecture",
        ),
        pytest.param(
            {"price": "{machine_hour_usd: 1, gpu_hour_usd: 1}"},
            "pools[0].gpu.per_node: is missing; price.machine_hour_usd cannot be split without it",
            id="a machine of an unknown number of GPUs",
        ),
        pytest.param(
            {"interruptions_per_gpu_hour": "-1"},
            "pools[0].interruptions_per_gpu_hour: must be at least 0, not -1",
            id="less than no interruptions",
        ),
        pytest.param(
            {"execution": "kueue"},
            "pools[0].kueue.local_queues: is missing; name the LocalQueue that jobs are put into, such as "
            '{"*": training}',
            id="a queue without a name",
        ),
        pytest.param(
            {"kueue": "{flavor: a}"},
            "pools[0].kueue: has no effect on plain Jobs; write 'execution: kueue', or remove it",
            id="a queue that is not used",
        ),
        pytest.param(
            {"execution": "kueue", "kueue": '{local_queues: {"*": Big}}'},
            "pools[0].kueue.local_queues.*: 'Big' is not a name in Kubernetes: up to 63 lower-case letters, "
            "digits and '-'",
            id="a queue with a name that Kubernetes refuses",
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, fields: dict[str, str], want: str) -> None:
    """File, path and pool, what is wrong, and what to write where that is known."""
    assert problems(tmp_path, one(**fields)) == [f"{want} (pool 'a')"]


def test_the_price_of_a_default_may_be_split_by_each_pool(tmp_path: Path) -> None:
    """The number of GPUs may come from the pool and the price from the defaults."""
    text = "version: 1\ndefaults: {kubernetes_conn_id: c, price: {node_hour_usd: 8}}\npools:\n"
    catalog = read(
        tmp_path, f"{text}  - {{name: a, gpu: {{per_node: 4}}}}\n  - {{name: b, gpu: {{per_node: 8}}}}\n"
    )
    assert [pool.price.gpu_hour_usd for pool in catalog.pools] == [2.0, 1.0]
