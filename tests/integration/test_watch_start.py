"""Remote jobs that do not start, or not as a whole, on a real cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_gpu_placement.model.outcome import EndGrade, LossPolicy, OutcomeKind
from tests.integration.cluster_support import pool_of, spec_of
from tests.integration.test_watch_follow import Told, run

if TYPE_CHECKING:
    from lab import Cluster

pytestmark = [pytest.mark.lab, pytest.mark.asyncio]


async def test_a_pod_that_finds_no_node_is_not_waited_for_long(cluster: Cluster, namespace: str) -> None:
    """The scheduler's own words are in the message, and nothing of the job can run."""
    spec = spec_of(pool_of(cluster, namespace), "exit 0", resources={"cpu": "1000"})
    told = Told()
    policy = LossPolicy(unschedulable_timeout_seconds=2.0)
    outcome = await run(cluster, spec, told, policy)
    assert (outcome.kind, outcome.cause, outcome.never_started) == (
        OutcomeKind.INFRASTRUCTURE,
        "StartTimeout",
        True,
    ), outcome
    assert "has found no node for" in outcome.message
    assert "Insufficient cpu" in outcome.message
    assert outcome.grade is EndGrade.CONFIRMED


async def test_a_gang_of_which_a_part_runs_has_not_started(cluster: Cluster, namespace: str) -> None:
    """One rank holds the only node; its end is not claimed to be proven."""
    spec = spec_of(pool_of(cluster, namespace), "echo up; sleep 600", nodes=2, gpus_per_node=8)
    told = Told()
    policy = LossPolicy(start_timeout_seconds=8.0, unschedulable_timeout_seconds=None)
    outcome = await run(cluster, spec, told, policy)
    assert outcome.cause == "StartTimeout", (outcome, told.phases)
    assert "not every pod of the job has started after 8 s" in outcome.message
    assert "Insufficient nvidia.com/gpu" in outcome.message
    assert told.log == ["[rank 0] up"] or told.log == ["[rank 1] up"]
    assert outcome.grade is EndGrade.UNKNOWN


async def test_a_pod_that_may_not_be_created_is_told_with_the_clusters_words(
    cluster: Cluster, namespace: str
) -> None:
    """A quota of the namespace leaves the Job without a pod and without a word in its status."""
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    cluster.api.post(f"/api/v1/namespaces/{namespace}/resourcequotas", quota)
    spec = spec_of(pool_of(cluster, namespace), "exit 0")
    told = Told()
    outcome = await run(cluster, spec, told, LossPolicy(start_timeout_seconds=20.0))
    refusals = [line for line in told.phases if line.startswith("the cluster creates no pod of the Job: ")]
    assert len(refusals) == 1, told.phases
    assert "exceeded quota: none" in refusals[0]
    assert outcome.cause == "StartTimeout"
    assert "exceeded quota: none" in outcome.message
