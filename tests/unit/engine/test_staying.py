"""Scheduled maintenance keeps those jobs off a node that would still run when it begins."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from airflow_gpu_placement.engine.capacity import node_capacities
from airflow_gpu_placement.engine.capacity_report import could_ever_fit, fits_now, report
from airflow_gpu_placement.engine.counterfactual import apply_all, counterfactual
from airflow_gpu_placement.engine.explain import details, from_json, to_json
from airflow_gpu_placement.engine.place import replay
from airflow_gpu_placement.engine.staying import horizon
from airflow_gpu_placement.model.decision import Decision, History, Setting
from airflow_gpu_placement.model.estimate import Estimate, Knowledge
from airflow_gpu_placement.model.request import GpuRequest
from airflow_gpu_placement.model.signals import PoolSignals
from tests.unit.engine.builders import A100_40, H100, NOW, codes, decide, kube_node, pool, verdict_of

if TYPE_CHECKING:
    from airflow_gpu_placement.model.kube import Node

SCHEDULED = "cloud.google.com/scheduled-maintenance-time"
EIGHT: dict[str, Any] = {"gpus_per_node": 8}
KEPT: dict[str, Any] = {"uri": "s3://bucket/llm", "interval_minutes": 30}


def node(hours: float | None, name: str = "n1", product: str = H100, **labels: str) -> Node:
    """Build a node whose maintenance begins in so many hours, as GKE tells it."""
    told = {"nvidia.com/gpu.product": product, **labels}
    if hours is not None:
        told[SCHEDULED] = str(int((NOW + timedelta(hours=hours)).timestamp()))
    return kube_node(name, labels=told)


def placed(
    request: dict[str, Any],
    *nodes: Node,
    setting: Setting | None = None,
    history: History | None = None,
    **fields: Any,
) -> Decision:
    """Decide about one pool on Node objects as a cluster sends them."""
    one = pool(**fields)
    seen = node_capacities(nodes, (), one)
    observed = PoolSignals(pool="p", observed_at=NOW, source="nodes", nodes=seen)
    return decide(GpuRequest(**request), [one], observed, setting=setting, history=history)


@pytest.mark.parametrize(
    ("time", "hours", "want"),
    [
        pytest.param({"runtime_hours": 5}, 6, True, id="done in time, with an hour to spare"),
        pytest.param({"runtime_hours": 5}, 5.9, False, id="too tight"),
        pytest.param({"runtime_hours": 5}, 500, True, id="weeks ahead"),
        pytest.param({"runtime_hours": 200}, 100, False, id="a long job"),
        pytest.param({"runtime_hours": 0.1}, -1, False, id="it has begun"),
        pytest.param({}, 24, True, id="nothing tells how long, a day ahead"),
        pytest.param({}, 23.9, False, id="nothing tells how long, today"),
        pytest.param({"runtime_hours_by_model": {"H100": 2, "A100": 50}}, 3, True, id="on this model"),
        pytest.param({"runtime_hours_by_model": {"A100": 2}}, 3, False, id="on another model"),
    ],
)
def test_maintenance_closes_a_node_to_jobs_that_would_still_run(
    time: dict[str, Any], hours: float, *, want: bool
) -> None:
    """However far ahead it is, a job that is done before is not kept waiting."""
    decision = placed({**EIGHT, "time": time}, node(hours))
    assert (codes(decision) == []) is want
    assert want or codes(decision) == ["NodesNotSchedulable"]


@pytest.mark.parametrize(
    ("hours", "want"), [pytest.param(30, True, id="tomorrow"), pytest.param(20, False, id="today")]
)
def test_a_job_with_checkpoints_is_not_kept_waiting_for_maintenance_far_ahead(
    hours: float, *, want: bool
) -> None:
    """What it does until then is kept; idle GPUs would do nothing."""
    request = {**EIGHT, "time": {"runtime_hours": 200}, "checkpoint": KEPT}
    assert (codes(placed(request, node(hours))) == []) is want


def test_what_was_learnt_tells_how_long_it_takes() -> None:
    """As the cost terms take it."""
    setting = Setting(knowledge=Knowledge(runtime_hours={"*": Estimate(value=3, source="history(4)")}))
    assert codes(placed(EIGHT, node(4), setting=setting)) == []
    assert codes(placed(EIGHT, node(3.5), setting=setting)) == ["NodesNotSchedulable"]


def test_each_node_is_judged_by_its_own_model() -> None:
    """What is done in time on the faster one is not on the slower."""
    request = {**EIGHT, "time": {"runtime_hours_by_model": {"H100": 2, "A100": 9}}}
    verdict = verdict_of(placed(request, node(5, "fast"), node(5, "slow", A100_40)))
    assert (verdict.free_gpus, verdict.avoid_nodes) == (8, ("slow",))


def test_the_job_is_kept_off_by_name_alone() -> None:
    """Nothing else keeps the scheduler off; other nodes with the same labels are right."""
    machines = {"node.kubernetes.io/instance-type": "a3-highgpu-8g"}
    request = {**EIGHT, "time": {"runtime_hours": 5}}
    right = node(None, "n2", **machines), node(9, "n3", **machines)
    verdict = verdict_of(placed(request, node(2, "n1"), *right))
    assert (verdict.avoid_nodes, verdict.node_labels, verdict.free_gpus) == (("n1",), {}, 16)


def test_when_it_begins_is_told() -> None:
    """In the reason, so that nobody has to look for the label."""
    decision = placed({**EIGHT, "time": {"runtime_hours": 5}}, node(2))
    assert "take no new pod: 1 maintenance at 2026-01-05 14:00 UTC" in details(decision)
    assert not decision.never


def test_a_node_that_is_closed_anyway_says_why() -> None:
    """Maintenance is not its first trouble."""
    cordoned = msgspec.structs.replace(
        node(2), spec=msgspec.structs.replace(node(2).spec, unschedulable=True)
    )
    assert "1 cordoned" in details(placed(EIGHT, cordoned))


def test_a_record_keeps_the_moment_itself() -> None:
    """Decided again it says the same; without the maintenance, another thing."""
    decision = from_json(to_json(placed({**EIGHT, "time": {"runtime_hours": 5}}, node(2))))
    (seen,) = decision.snapshot.pools["p"].nodes
    assert (seen.leaves_at, seen.free, seen.closed) == (NOW + timedelta(hours=2), 8, False)
    assert replay(decision) == decision
    pools = {
        "p": msgspec.structs.replace(
            decision.snapshot.pools["p"], nodes=(msgspec.structs.replace(seen, leaves_at=None),)
        )
    }
    off = msgspec.structs.replace(decision, snapshot=msgspec.structs.replace(decision.snapshot, pools=pools))
    assert replay(off).chosen == "p"


def test_the_counterfactual_takes_the_maintenance_away() -> None:
    """All of its changes make the pool fit."""
    decision = placed({**EIGHT, "nodes": 2}, node(2, "n1"), node(3, "n2"))
    assert apply_all(decision, "p", counterfactual(decision, "p")).chosen == "p"


def test_people_are_told_what_a_job_of_unknown_length_could_get() -> None:
    """Within a day it is not free; without a clock nobody knows whether it is."""
    nodes = [node(20, "today"), node(30, "tomorrow")]
    found = report(nodes, (), pool(), until=horizon(NOW))
    assert (found.free, found.usable_nodes) == (8, 1)
    assert found.reasons == ("today: maintenance at 2026-01-06 08:00 UTC",)
    assert report(nodes, (), pool()).free == 0
    assert not fits_now(nodes, (), pool(), gpus_per_pod=8)
    assert could_ever_fit(nodes, (), pool(), gpus_per_pod=8, pods_wanted=2)
