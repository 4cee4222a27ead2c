"""Claims hold what the cluster does not show yet."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_gpu_placement.model.pool import Execution, KueueQueue
from airflow_gpu_placement.model.request import GpuRequest
from airflow_gpu_placement.model.signals import Claim, QuotaSignals
from tests.unit.engine.builders import NOW, codes, decide, pool, seen, signals, verdict_of

NODE = GpuRequest(gpus_per_node=8)


def claim(**fields: Any) -> Claim:
    """Build a claim of one node in pool ``p``."""
    return Claim(**{"pool": "p", "attempt_id": "a", "gpus_per_node": 8, "nodes": 1, **fields})


@pytest.mark.parametrize(
    ("one", "want"),
    [
        pytest.param(claim(), ["InsufficientFreeGpus"], id="it is promised"),
        pytest.param(claim(seen_gpus=8), [], id="its pods are there and count themselves"),
        pytest.param(claim(seen_gpus=4), ["InsufficientFreeGpus"], id="half of them are there"),
        pytest.param(claim(released_at=NOW - timedelta(seconds=1)), [], id="released before the look"),
        pytest.param(
            claim(released_at=NOW + timedelta(seconds=1)),
            ["InsufficientFreeGpus"],
            id="released after the look",
        ),
        pytest.param(claim(pool="elsewhere"), [], id="of another pool"),
    ],
)
def test_a_claim_holds_what_is_not_seen(one: Claim, want: list[str]) -> None:
    """Never twice and never not at all."""
    assert codes(decide(NODE, [pool()], signals("p", seen()), claims=[one])) == want


@pytest.mark.parametrize(
    ("one", "want"),
    [
        pytest.param(claim(gpus_per_node=1), 2, id="one pod breaks one node"),
        pytest.param(claim(gpus_per_node=1, nodes=3), 0, id="three pods may be on three nodes"),
        pytest.param(claim(gpus_per_node=8, nodes=2), 1, id="two whole nodes"),
    ],
)
def test_unseen_pods_are_where_they_are_worst(one: Claim, want: int) -> None:
    """Nobody knows on which nodes they will land."""
    decision = decide(NODE, [pool()], signals("p", seen("a"), seen("b"), seen("c")), claims=[one])
    assert verdict_of(decision).gang_fits == want


def test_pools_over_the_same_nodes_share_their_claims() -> None:
    """One node cannot be promised through two pools."""
    pools = [pool("p"), pool("q"), pool("other", conn="elsewhere")]
    observed = [signals(one.name, seen()) for one in pools]
    decision = decide(NODE, pools, *observed, claims=[claim()])
    assert codes(decision, "q") == ["InsufficientFreeGpus"]
    assert decision.chosen == "other"


def test_pools_over_other_nodes_do_not() -> None:
    """Two kinds of node in one cluster are two capacities."""
    pools = [pool("p"), pool("q")]
    decision = decide(NODE, pools, signals("p", seen("a")), signals("q", seen("b")), claims=[claim()])
    assert decision.chosen == "q"


def test_a_claim_takes_from_what_a_pool_can_still_grow_to() -> None:
    """A pool with room for one more node cannot promise it twice."""
    growing = pool(max_nodes=1, per_node=8, model="H100")
    assert decide(NODE, [growing], signals("p")).chosen == "p"
    assert decide(NODE, [growing], signals("p"), claims=[claim()]).chosen is None


def test_a_claim_takes_from_the_quota() -> None:
    """Kueue does not know of it yet either."""
    quota = QuotaSignals(local_queue="lq", cluster_queue="cq", flavor="f", available=8, potential=64)
    queued = pool(execution=Execution.KUEUE, kueue=KueueQueue(local_queues={"*": "lq"}))
    observed = signals("p", seen("a"), seen("b"), quota={"lq": quota})
    assert decide(NODE, [queued], observed).chosen == "p"
    assert codes(decide(NODE, [queued], observed, claims=[claim()])) == ["QuotaExhausted"]
