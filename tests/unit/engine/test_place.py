"""Filters and order: which pool is chosen, and why the others are not."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_gpu_placement.engine.counterfactual import apply_all, counterfactual
from airflow_gpu_placement.model.reasons import Verdict
from airflow_gpu_placement.model.request import GpuRequest
from airflow_gpu_placement.model.signals import GapKind
from tests.unit.engine.builders import A100_40, L40S, codes, decide, pool, seen, signals, verdict_of
from tests.unit.engine.one_pool import GANG, ONE, one_pool


@pytest.mark.parametrize(
    ("request_", "nodes", "want"),
    [
        pytest.param(ONE, [seen()], [], id="it fits"),
        pytest.param(GpuRequest(gpus_per_node=8), [seen()], [], id="any model"),
        pytest.param(GpuRequest(models=("L4", "H100")), [seen()], [], id="one of several models"),
        pytest.param(ONE, [seen(product=A100_40)], ["GpuModelNotOffered"], id="another model"),
        pytest.param(ONE, [seen(product=None)], ["SignalsMissing"], id="a model that nothing tells"),
        pytest.param(
            GpuRequest(models=("A100-80GB",)),
            [seen(product=A100_40)],
            ["GpuModelNotOffered"],
            id="another memory",
        ),
        pytest.param(
            GpuRequest(min_memory_gb=80),
            [seen(product=A100_40)],
            ["GpuMemoryTooSmall"],
            id="too little memory",
        ),
        pytest.param(GpuRequest(min_memory_gb=80), [seen()], [], id="just enough memory"),
        pytest.param(
            GpuRequest(min_memory_gb=1), [seen(product=None)], ["SignalsMissing"], id="nothing tells the GPU"
        ),
        pytest.param(
            GpuRequest(gpus_per_node=16),
            [seen()],
            ["ExceedsPoolSize", "InsufficientFreeGpus"],
            id="more GPUs than any node has",
        ),
        pytest.param(
            GpuRequest(gpus_per_node=8, nodes=3),
            [seen("a"), seen("b")],
            ["ExceedsPoolSize", "InsufficientFreeGpus"],
            id="more pods than the empty pool could hold",
        ),
        pytest.param(ONE, [seen(used=1)], ["InsufficientFreeGpus"], id="too few GPUs free"),
        pytest.param(
            GpuRequest(gpus_per_node=4),
            [seen("a", used=6), seen("b", used=6)],
            ["GangDoesNotFit"],
            id="enough GPUs free, but not together",
        ),
        pytest.param(ONE, [seen(unusable="cordoned")], ["NodesNotSchedulable"], id="no node open"),
        pytest.param(
            GANG,
            [seen("a"), seen("b", unusable="cordoned")],
            ["NodesNotSchedulable"],
            id="opening one would help",
        ),
        pytest.param(
            GANG,
            [seen("a", used=1), seen("b", used=1), seen("c", used=8, unusable="cordoned")],
            ["InsufficientFreeGpus"],
            id="opening the closed one would not help",
        ),
        pytest.param(ONE, [], ["NodesNotSchedulable", "SignalsMissing"], id="no node and nothing declared"),
        pytest.param(
            GpuRequest(), [seen(whole=False, unusable="shares")], ["ExceedsPoolSize"], id="no whole GPU"
        ),
    ],
)
def test_a_pool_is_refused_for_what_it_lacks(request_: GpuRequest, nodes: list[Any], want: list[str]) -> None:
    """Each shortage has its code, and only those that are true are told."""
    decision = one_pool(request_, *nodes)
    assert codes(decision) == want
    assert (decision.chosen == "p") is (want == [])


@pytest.mark.parametrize(
    ("gap", "want", "never"),
    [
        pytest.param(GapKind.CONNECTION_MISSING, "ConnectionMissing", False, id="no connection"),
        pytest.param(GapKind.WRONG_CLUSTER, "WrongCluster", True, id="another cluster"),
        pytest.param(GapKind.UNAUTHORIZED, "CredentialsRefused", False, id="unknown there"),
        pytest.param(GapKind.FORBIDDEN, "AccessForbidden", True, id="not allowed there"),
        pytest.param(GapKind.UNREACHABLE, "ClusterUnreachable", False, id="no answer"),
        pytest.param(GapKind.TIMEOUT, "ClusterUnreachable", False, id="no answer in time"),
        pytest.param(GapKind.INVALID, "SignalsMissing", False, id="an answer that cannot be read"),
    ],
)
def test_a_gap_is_that_pool_s_reason(gap: GapKind, want: str, never: bool) -> None:
    """What could not be seen refuses its pool alone; the other one is still used."""
    decision = decide(ONE, [pool("p"), pool("q")], signals("p", gap=gap), signals("q", seen()))
    assert codes(decision) == [want]
    assert (verdict_of(decision).verdict is Verdict.UNRESOLVABLE) is never
    assert verdict_of(decision).free_gpus is None
    assert decision.chosen == "q"


def test_a_pool_without_any_signal_is_unknown() -> None:
    """A pool that nothing was read of is never free."""
    assert codes(decide(ONE, [pool()])) == ["SignalsMissing"]


def test_a_declared_model_speaks_while_the_cluster_is_silent() -> None:
    """What the catalogue alone rules out is never, whatever the cluster would say."""
    decision = decide(ONE, [pool(model="L4")], signals("p", gap=GapKind.UNREACHABLE))
    assert codes(decision) == ["GpuModelNotOffered", "ClusterUnreachable"]
    assert decision.never


@pytest.mark.parametrize(
    "need",
    [
        pytest.param({"min_memory_gb": 80}, id="memory"),
        pytest.param({"models": ("A100-80GB",)}, id="memory, by the name of the model"),
        pytest.param({"models": ("H100", "A100-80GB")}, id="one of several models"),
        pytest.param({"form_factors": ("SXM",)}, id="form factor"),
        pytest.param({"interconnect": "nvlink"}, id="interconnect"),
        pytest.param({"architecture": "amd64"}, id="processors"),
    ],
)
def test_what_nothing_tells_is_no_no(need: dict[str, Any]) -> None:
    """A declared A100 may have what is asked for: as long as its cluster is silent nobody knows."""
    silent = decide(GpuRequest(**need), [pool(model="A100")], signals("p", gap=GapKind.UNREACHABLE))
    assert codes(silent) == ["ClusterUnreachable"]
    assert not silent.never
    empty = decide(GpuRequest(**need), [pool(model="A100", per_node=8, max_nodes=2)], signals("p"))
    assert codes(empty) == ["SignalsMissing"]
    for decision in (silent, empty):
        assert codes(apply_all(decision, "p", counterfactual(decision, "p"))) == []


def test_a_model_that_is_declared_otherwise_is_a_no() -> None:
    """Only what is unknown may still turn out right."""
    for gpu, asked in (({"model": "A100", "memory_gb": 40}, "A100-80GB"), ({"model": "A100"}, "H100")):
        decision = decide(GpuRequest(models=(asked,)), [pool(**gpu)], signals("p", gap=GapKind.UNREACHABLE))
        assert codes(decision) == ["GpuModelNotOffered", "ClusterUnreachable"]
        assert decision.never


def test_an_unknown_model_is_told_with_the_offer_and_the_nearest_name() -> None:
    """A typing error says what to write instead."""
    decision = decide(
        GpuRequest(models=("H1000",)),
        [pool("p"), pool("q")],
        signals("p", seen()),
        signals("q", seen(product=L40S)),
    )
    assert verdict_of(decision).reasons[0].message == (
        "pool p has H100 80 GB SXM, not H1000; 'H1000' is not a known GPU model: did you mean 'H100'?; "
        "on offer: H100, L40S"
    )


def test_only_matching_nodes_of_a_mixed_pool_count() -> None:
    """The other nodes are neither free GPUs nor places where the job may end up."""
    decision = one_pool(ONE, seen("a"), seen("b", product=A100_40))
    verdict = verdict_of(decision)
    assert (verdict.free_gpus, verdict.gang_fits, verdict.gpu) == (8, 1, "H100 80 GB SXM")
    assert verdict.avoid_nodes == ("b",)
    assert codes(one_pool(GANG, seen("a"), seen("b", product=A100_40))) == [
        "ExceedsPoolSize",
        "InsufficientFreeGpus",
    ]


def test_the_catalogue_s_word_on_the_gpu_wins_and_the_contradiction_is_told() -> None:
    """A declared model is believed; the nodes that say otherwise are named."""
    decision = one_pool(ONE, seen(product=A100_40), model="H100", memory_gb=80)
    assert decision.chosen == "p"
    assert verdict_of(decision).notes == (
        "SignalContradictsCatalog: gpu.memory_gb=80 but labels say 40 on n1; the catalogue is believed",
        "SignalContradictsCatalog: gpu.model=H100 but labels say A100 on n1; the catalogue is believed",
    )


@pytest.mark.parametrize(
    ("nodes", "fields", "request_", "want"),
    [
        pytest.param([], {"max_nodes": 2, "per_node": 8, "model": "H100"}, GANG, [], id="from nothing"),
        pytest.param([seen(used=8)], {"max_nodes": 3}, GANG, [], id="beside a full node"),
        pytest.param(
            [seen("a"), seen("b", used=8)], {"max_nodes": 2}, GANG, ["InsufficientFreeGpus"], id="grown fully"
        ),
        pytest.param(
            [],
            {"max_nodes": 1, "per_node": 8, "model": "H100"},
            GANG,
            ["ExceedsPoolSize", "NodesNotSchedulable"],
            id="not far enough",
        ),
        pytest.param(
            [],
            {"max_nodes": 4, "per_node": 4, "model": "H100"},
            ONE,
            ["ExceedsPoolSize", "NodesNotSchedulable"],
            id="nodes too small",
        ),
        pytest.param(
            [], {"max_nodes": 4}, GpuRequest(), ["NodesNotSchedulable"], id="nothing tells how large"
        ),
        pytest.param(
            [],
            {"max_nodes": 4, "per_node": 8},
            GpuRequest(min_memory_gb=80),
            ["SignalsMissing"],
            id="nothing tells which memory",
        ),
    ],
)
def test_a_pool_that_grows_counts_what_it_can_become(
    nodes: list[Any], fields: dict[str, Any], request_: GpuRequest, want: list[str]
) -> None:
    """Nodes that the pool may still add take pods too; they are never counted as free now."""
    decision = one_pool(request_, *nodes, **fields)
    assert codes(decision) == want
    if not want:
        assert any(note.startswith("fits by growing") for note in verdict_of(decision).notes)
