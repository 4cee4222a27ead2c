"""Who pays, how much is left, and which queue leads to the pool."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_gpu_placement.model.decision import Setting
from airflow_gpu_placement.model.estimate import Knowledge
from airflow_gpu_placement.model.money import Profile, Tenant
from airflow_gpu_placement.model.pool import CapacityType, Execution, KueueQueue
from airflow_gpu_placement.model.reasons import Verdict
from airflow_gpu_placement.model.signals import QuotaSignals
from tests.unit.engine.builders import codes, judged, verdict_of

PCIE = "NVIDIA-H100-PCIe"
ONE = {"gpus_per_node": 8}
GANG = {"gpus_per_node": 8, "nodes": 2}


def of_tenant(knowledge: Knowledge | None = None, *, waits: bool = False, **fields: Any) -> Setting:
    """Return a setting with a tenant."""
    return Setting(
        tenant=Tenant(name="research", **fields),
        knowledge=knowledge or Knowledge(),
        may_wait_for_budget=waits,
    )


@pytest.mark.parametrize(
    ("setting", "fields", "want"),
    [
        pytest.param(of_tenant(pools=("p*",)), {}, [], id="its pool"),
        pytest.param(of_tenant(pools=("q*",)), {}, ["TenantNotAllowed"], id="another's pool"),
        pytest.param(of_tenant(max_gpus=8), {}, [], id="as many as it may"),
        pytest.param(of_tenant(max_gpus=7), {}, ["TenantNotAllowed"], id="more than it ever may"),
        pytest.param(
            of_tenant(Knowledge(held_gpus={"research": 1}), max_gpus=8),
            {},
            ["QuotaExhausted"],
            id="more than now",
        ),
        pytest.param(of_tenant(monthly_budget_usd=100), {"gpu_hour_usd": 2.0}, [], id="it can pay"),
        pytest.param(
            of_tenant(Knowledge(spent_usd={"research": 90.0}), monthly_budget_usd=100),
            {"gpu_hour_usd": 2.0},
            ["BudgetExhausted"],
            id="it cannot pay any more",
        ),
        pytest.param(
            of_tenant(monthly_budget_usd=100), {}, ["PriceUnknown"], id="nobody knows what it would pay"
        ),
        pytest.param(
            of_tenant(Knowledge(spent_usd={"research": 100.0}), monthly_budget_usd=100),
            {"gpu_hour_usd": 0.0},
            [],
            id="what is free can always be paid",
        ),
    ],
)
def test_the_tenant_owns_the_budget(setting: Setting, fields: dict[str, Any], want: list[str]) -> None:
    """Pools, GPUs and money of the one who pays."""
    assert codes(judged(ONE, setting=setting, **fields)) == want


@pytest.mark.parametrize("waits", [False, True])
def test_an_exhausted_budget_is_waited_for_only_when_asked(waits: bool) -> None:
    """Else the pool is out until the month ends."""
    decision = judged(ONE, setting=of_tenant(waits=waits, monthly_budget_usd=1), gpu_hour_usd=2.0)
    assert (verdict_of(decision).verdict is Verdict.UNSCHEDULABLE) is waits
    assert decision.never is not waits


def test_the_profile_limits_too() -> None:
    """The platform team's profile has a cap and kinds of capacity of its own; the lower cap counts."""
    profile = Profile(
        name="thrifty",
        value_of_time_usd_per_hour=0,
        capacity_types=(CapacityType.SPOT,),
        price_cap_usd_per_gpu_hour=1.0,
    )
    decision = judged({"price_cap_usd_per_gpu_hour": 5}, setting=Setting(profile=profile), gpu_hour_usd=2.0)
    assert codes(decision) == ["CapacityTypeNotAllowed", "PriceCapExceeded"]


QUOTA = {"local_queue": "lq", "cluster_queue": "cq", "flavor": "f", "available": 8, "potential": 16}
BY_QUEUE = {"execution": Execution.KUEUE, "kueue": KueueQueue(local_queues={"*": "lq"})}


@pytest.mark.parametrize(
    ("quota", "fields", "want"),
    [
        pytest.param({}, BY_QUEUE, [], id="enough quota"),
        pytest.param({"available": 7}, BY_QUEUE, ["QuotaExhausted"], id="not now"),
        pytest.param({"available": -3}, BY_QUEUE, ["QuotaExhausted"], id="overdrawn"),
        pytest.param({"available": 4, "potential": 4}, BY_QUEUE, ["ExceedsPoolSize"], id="never"),
        pytest.param({"stopped_because": "held"}, BY_QUEUE, ["QueueStopped"], id="stopped, 8 GPUs free"),
        pytest.param(None, BY_QUEUE, ["SignalsMissing"], id="nothing read is never free"),
        pytest.param(
            {},
            {"execution": Execution.KUEUE, "kueue": KueueQueue(local_queues={"other": "lq"})},
            ["TenantNotAllowed"],
            id="no queue for this tenant",
        ),
        pytest.param({"available": 0}, {}, [], id="a pool that is reached directly has no queue"),
    ],
)
def test_the_queue_s_quota_counts_beside_the_nodes(
    quota: dict[str, Any] | None, fields: dict[str, Any], want: list[str]
) -> None:
    """Free GPUs are of no use when Kueue would not admit the job."""
    read = {} if quota is None else {"lq": QuotaSignals(**{**QUOTA, **quota})}
    assert codes(judged(ONE, seen_as={"quota": read}, **fields)) == want
