"""Each reason code: what brings it about, and what does not."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_gpu_placement.model.decision import Decision, History, Setting
from airflow_gpu_placement.model.estimate import Estimate, Knowledge
from airflow_gpu_placement.model.money import BUILT_IN_PROFILES, Dataset, Egress, Profile, Tenant
from airflow_gpu_placement.model.pool import CapacityType, Execution, KueueQueue, PoolNetwork
from airflow_gpu_placement.model.reasons import Verdict
from airflow_gpu_placement.model.request import GpuRequest
from airflow_gpu_placement.model.signals import QuotaSignals
from tests.unit.engine.builders import A100_40, NOW, codes, decide, pool, seen, signals, verdict_of

PCIE = "NVIDIA-H100-PCIe"
ONE = {"gpus_per_node": 8}
GANG = {"gpus_per_node": 8, "nodes": 2}


def judged(
    request: dict[str, Any],
    *nodes: Any,
    setting: Setting | None = None,
    history: History | None = None,
    seen_as: dict[str, Any] | None = None,
    **fields: Any,
) -> Decision:
    """Decide about one pool that has these nodes."""
    return decide(
        GpuRequest(**request),
        [pool(**fields)],
        signals("p", *(nodes or (seen(),)), **(seen_as or {})),
        setting=setting,
        history=history,
    )


@pytest.mark.parametrize(
    ("request_", "nodes", "fields", "want"),
    [
        pytest.param({"form_factors": ["SXM"]}, [seen()], {}, [], id="SXM"),
        pytest.param(
            {"form_factors": ["SXM"]}, [seen(product=PCIE)], {}, ["FormFactorNotOffered"], id="PCIe"
        ),
        pytest.param({"form_factors": ["NVL", "PCIe"]}, [seen(product=PCIE)], {}, [], id="any of several"),
        pytest.param({"form_factors": ["HGX"]}, [seen()], {}, [], id="a board of eight"),
        pytest.param(
            {"form_factors": ["HGX"]}, [seen(gpus=4)], {}, ["FormFactorNotOffered"], id="half a board"
        ),
        pytest.param(
            {"form_factors": ["HGX"]},
            [seen(product=PCIE)],
            {},
            ["FormFactorNotOffered"],
            id="eight PCIe cards",
        ),
        pytest.param(
            {"form_factors": ["SXM"]},
            [seen(product="NEW-9")],
            {},
            ["FormFactorNotOffered"],
            id="unknown form",
        ),
        pytest.param({"interconnect": "nvlink"}, [seen(gpus=4)], {}, [], id="SXM has NVLink"),
        pytest.param({"interconnect": "nvswitch"}, [seen()], {}, [], id="a full board has switches"),
        pytest.param(
            {"interconnect": "nvswitch"}, [seen(gpus=4)], {}, ["InterconnectNotOffered"], id="no full board"
        ),
        pytest.param(
            {"interconnect": "nvlink"},
            [seen(product=PCIE)],
            {},
            ["InterconnectNotOffered"],
            id="unknown between cards",
        ),
        pytest.param(
            {"interconnect": "nvlink"},
            [seen(product=PCIE)],
            {"interconnect": "nvlink"},
            [],
            id="bridges declared",
        ),
        pytest.param({"architecture": "amd64"}, [seen(architecture="amd64")], {}, [], id="right processor"),
        pytest.param(
            {"architecture": "amd64"}, [seen(architecture="arm64")], {}, ["ArchitectureMismatch"], id="arm64"
        ),
        pytest.param(
            {"architecture": "amd64"}, [seen()], {}, ["ArchitectureMismatch"], id="unknown processor"
        ),
        pytest.param(
            {"architecture": "amd64"}, [seen()], {"architecture": "amd64"}, [], id="processor declared"
        ),
        pytest.param(
            {"models": ["H100"], "architecture": "amd64"},
            [seen("a", architecture="arm64"), seen("b", product=A100_40, architecture="amd64")],
            {},
            ["ArchitectureMismatch"],
            id="two nodes with half of it each",
        ),
        pytest.param(
            {"min_memory_gb": 80, "architecture": "amd64", "gpus_per_node": 4},
            [seen("a", gpus=4, architecture="amd64"), seen("b", architecture="arm64")],
            {},
            [],
            id="only nodes with all of it count",
        ),
        pytest.param(
            {"min_memory_gb": 80, "architecture": "amd64", "gpus_per_node": 8},
            [seen("a", gpus=4, architecture="amd64"), seen("b", architecture="arm64")],
            {},
            ["ExceedsPoolSize", "InsufficientFreeGpus"],
            id="nodes of another architecture do not count",
        ),
        pytest.param(
            {"where": {"capacity_types": ["spot"]}}, [seen()], {}, ["CapacityTypeNotAllowed"], id="no spot"
        ),
        pytest.param(
            {"where": {"capacity_types": ["spot"]}},
            [seen()],
            {"capacity_type": CapacityType.SPOT},
            [],
            id="spot",
        ),
        pytest.param({"where": {"regions": ["eu"]}}, [seen()], {"region": "eu"}, [], id="region"),
        pytest.param(
            {"where": {"regions": ["eu"]}}, [seen()], {"region": "us"}, ["RegionNotAllowed"], id="abroad"
        ),
        pytest.param({"where": {"regions": ["eu"]}}, [seen()], {}, ["RegionNotAllowed"], id="nowhere known"),
        pytest.param(
            {"where": {"denied_regions": ["us"]}},
            [seen()],
            {"region": "us"},
            ["RegionNotAllowed"],
            id="denied",
        ),
        pytest.param(
            {"where": {"denied_regions": ["us"]}}, [seen()], {}, ["RegionNotAllowed"], id="perhaps denied"
        ),
        pytest.param({"where": {"denied_regions": ["us"]}}, [seen()], {"region": "eu"}, [], id="not denied"),
        pytest.param(
            {"price_cap_usd_per_gpu_hour": 2},
            [seen()],
            {"gpu_hour_usd": 2.5},
            ["PriceCapExceeded"],
            id="too dear",
        ),
        pytest.param({"price_cap_usd_per_gpu_hour": 2}, [seen()], {"gpu_hour_usd": 2.0}, [], id="at the cap"),
        pytest.param(
            {"price_cap_usd_per_gpu_hour": 2}, [seen()], {}, ["PriceUnknown"], id="no price under a cap"
        ),
        pytest.param({}, [seen()], {}, [], id="no price and no cap"),
    ],
)
def test_what_the_request_asks_of_a_pool(
    request_: dict[str, Any], nodes: list[Any], fields: dict[str, Any], want: list[str]
) -> None:
    """One need at a time; what nothing tells is never enough."""
    assert codes(judged(request_, *nodes, **fields)) == want


INFINIBAND = PoolNetwork(kind="infiniband", gbps=400, fabric_label="island")


@pytest.mark.parametrize(
    ("need", "nodes", "fields", "want"),
    [
        pytest.param(
            {"kinds": ["infiniband"]}, [seen("a"), seen("b")], {"network": INFINIBAND}, [], id="kind"
        ),
        pytest.param(
            {"kinds": ["roce"]},
            [seen("a"), seen("b")],
            {"network": INFINIBAND},
            ["NetworkNotOffered"],
            id="other",
        ),
        pytest.param(
            {"kinds": ["roce"]}, [seen("a"), seen("b")], {}, ["NetworkNotOffered"], id="unknown kind"
        ),
        pytest.param(
            {"min_gbps": 400}, [seen("a"), seen("b")], {"network": INFINIBAND}, [], id="fast enough"
        ),
        pytest.param(
            {"min_gbps": 800},
            [seen("a"), seen("b")],
            {"network": INFINIBAND},
            ["NetworkNotOffered"],
            id="slow",
        ),
        pytest.param({"min_gbps": 1}, [seen("a"), seen("b")], {}, ["NetworkNotOffered"], id="unknown speed"),
        pytest.param(
            {"same_zone": True}, [seen("a", zone="x"), seen("b", zone="x")], {}, [], id="one zone has room"
        ),
        pytest.param(
            {"same_zone": True},
            [seen("a", zone="x"), seen("b", zone="y")],
            {},
            ["NetworkNotOffered", "GangDoesNotFit"],
            id="the sum of two zones is not one zone",
        ),
        pytest.param(
            {"same_zone": True},
            [seen("a", zone="x"), seen("b", zone="x", used=8), seen("c", zone="y")],
            {},
            ["GangDoesNotFit"],
            id="one zone is large enough, but not now",
        ),
        pytest.param(
            {"same_zone": True},
            [seen("a"), seen("b")],
            {"zone": "x"},
            [],
            id="the pool's zone stands for its nodes'",
        ),
        pytest.param(
            {"same_fabric": True}, [seen("a", fabric="x"), seen("b", fabric="x")], {}, [], id="one fabric"
        ),
        pytest.param(
            {"same_fabric": True},
            [seen("a", fabric="x"), seen("b", fabric="y")],
            {},
            ["NetworkNotOffered", "GangDoesNotFit"],
            id="two fabrics",
        ),
        pytest.param(
            {"same_fabric": True},
            [seen("a"), seen("b")],
            {},
            ["NetworkNotOffered", "GangDoesNotFit"],
            id="unknown is never the same",
        ),
        pytest.param(
            {"same_fabric": True}, [seen("a", gpus=16)], {}, [], id="two pods on one node are on one fabric"
        ),
        pytest.param(
            {"same_zone": True, "same_fabric": True},
            [seen("a", zone="x", fabric="f"), seen("b", zone="y", fabric="f")],
            {},
            ["NetworkNotOffered", "GangDoesNotFit"],
            id="both at once",
        ),
        pytest.param(
            {"same_zone": True},
            [seen("a", zone="x")],
            {"zone": "x", "max_nodes": 2, "per_node": 8},
            [],
            id="a growing pool adds to its zone",
        ),
        pytest.param(
            {"same_fabric": True},
            [seen("a", fabric="x")],
            {"max_nodes": 4, "per_node": 8},
            ["NetworkNotOffered", "InsufficientFreeGpus"],
            id="nobody knows the fabric of a new node",
        ),
    ],
)
def test_a_gang_needs_its_network(
    need: dict[str, Any], nodes: list[Any], fields: dict[str, Any], want: list[str]
) -> None:
    """Kind, speed, and room inside one zone or fabric, never over the sum."""
    assert codes(judged({**GANG, "network": need}, *nodes, **fields)) == want


def test_a_gang_is_kept_inside_the_zone_that_it_fits_into() -> None:
    """The nodes of other zones are named, for the launch to avoid them."""
    nodes = [seen("a", zone="x"), seen("b", zone="y"), seen("c", zone="y"), seen("d", zone=None)]
    verdict = verdict_of(judged({**GANG, "network": {"same_zone": True}}, *nodes))
    assert (verdict.avoid_nodes, verdict.gang_fits) == (("a", "d"), 2)


HERE = Dataset(name="d", size_gib=1, locations=("eu",), egress=Egress.DENY)
EUROPE = Dataset(name="d", size_gib=1, locations=("eu",), residency=("eu-2",))


@pytest.mark.parametrize(
    ("dataset", "region", "want"),
    [
        pytest.param(HERE, "eu", [], id="where it is"),
        pytest.param(HERE, "us", ["EgressDenied"], id="it may not leave"),
        pytest.param(HERE, None, ["EgressDenied"], id="who knows where"),
        pytest.param(EUROPE, "eu-2", [], id="where it may be"),
        pytest.param(EUROPE, "us", ["EgressDenied"], id="where it may not be"),
        pytest.param(Dataset(name="d", size_gib=1, locations=("eu",)), "us", [], id="it may go anywhere"),
        pytest.param(None, "eu", ["EgressDenied"], id="nobody described it"),
    ],
)
def test_data_decides_where_a_job_may_run(
    dataset: Dataset | None, region: str | None, want: list[str]
) -> None:
    """Before any price: a free pool abroad is no choice for data that must stay."""
    setting = Setting(datasets={"d": dataset} if dataset else {})
    decision = judged({"data": ["d"]}, setting=setting, region=region, gpu_hour_usd=0.0)
    assert codes(decision) == want


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


KNOWN = Setting(knowledge=Knowledge(runtime_hours={"*": Estimate(value=3.0, source="history(5)")}))


@pytest.mark.parametrize(
    ("time", "setting", "want"),
    [
        pytest.param({"runtime_hours": 1, "complete_within_hours": 2}, None, [], id="in time"),
        pytest.param(
            {"runtime_hours": 3, "complete_within_hours": 2}, None, ["DeadlineUnreachable"], id="too late"
        ),
        pytest.param({"complete_within_hours": 2}, KNOWN, ["DeadlineUnreachable"], id="too late as learnt"),
        pytest.param({"complete_within_hours": 0.5}, None, [], id="a guess refuses nothing"),
        pytest.param(
            {"runtime_hours": 1, "deadline": NOW - timedelta(hours=1)},
            None,
            ["DeadlineUnreachable"],
            id="passed",
        ),
    ],
)
def test_a_hard_deadline_refuses_what_is_known_to_be_late(
    time: dict[str, Any], setting: Setting | None, want: list[str]
) -> None:
    """The runtime is given or learnt; a default proves nothing."""
    assert codes(judged({"time": {**time, "deadline_is_hard": True}}, setting=setting)) == want


def test_the_time_to_complete_counts_from_the_first_attempt() -> None:
    """A retry does not get the whole time again."""
    request = {"time": {"runtime_hours": 1, "complete_within_hours": 3, "deadline_is_hard": True}}
    assert codes(judged(request, history=History(since=NOW - timedelta(hours=1)))) == []
    late = History(since=NOW - timedelta(hours=2, minutes=30))
    assert codes(judged(request, history=late)) == ["DeadlineUnreachable"]


def test_a_soft_deadline_prefers_the_earliest_end_and_warns() -> None:
    """When nothing makes it, money is no longer the question."""
    decision = decide(
        GpuRequest(time={"runtime_hours_by_model": {"H100": 5, "A100": 9}, "complete_within_hours": 2}),  # type: ignore[arg-type]  # a dict is read
        [pool("cheap", gpu_hour_usd=0.5), pool("fast", gpu_hour_usd=5.0)],
        signals("cheap", seen(product=A100_40)),
        signals("fast", seen()),
    )
    assert decision.chosen == "fast"
    assert decision.warnings == (
        "no pool makes the deadline in 2.00 h: fast ends earliest, in 5.00 h (runtime: given)",
    )


def test_a_pool_that_makes_the_deadline_is_preferred_to_a_cheaper_one() -> None:
    """And nothing is warned of, since one of them makes it."""
    decision = decide(
        GpuRequest(time={"runtime_hours_by_model": {"H100": 1, "A100": 9}, "complete_within_hours": 2}),  # type: ignore[arg-type]  # a dict is read
        [pool("cheap", gpu_hour_usd=0.1), pool("fast", gpu_hour_usd=5.0)],
        signals("cheap", seen(product=A100_40)),
        signals("fast", seen()),
    )
    assert (decision.chosen, decision.warnings) == ("fast", ())


def test_old_signals_are_unknown() -> None:
    """They refuse their pool, and no free GPU is told of it."""
    decision = judged(ONE, seen_as={"age_seconds": 121})
    assert codes(decision) == ["SignalsTooOld"]
    assert verdict_of(decision).free_gpus is None
    assert codes(judged(ONE, seen_as={"age_seconds": 121}, max_signal_age_seconds=300)) == []


def test_history_rules_out_pools_and_processors() -> None:
    """What an earlier try showed to be impossible is not tried again."""
    ruled_out = History(excluded_pools={"p": "ImagePullFailed"})
    assert codes(judged(ONE, history=ruled_out)) == ["ExcludedByHistory"]
    wrong = History(excluded_architectures={"arm64": "ExecFormatError in pool x"})
    assert codes(judged(ONE, seen(architecture="arm64"), history=wrong)) == ["ArchitectureMismatch"]
    assert codes(judged(ONE, seen(architecture="amd64"), history=wrong)) == []


def test_all_filters_are_asked() -> None:
    """A pool is told everything at once, the worst first."""
    request = {
        **GANG,
        "models": ["A100"],
        "where": {"regions": ["eu"], "capacity_types": ["spot"]},
        "price_cap_usd_per_gpu_hour": 1,
    }
    decision = judged(request, seen(used=8), setting=Setting(profile=BUILT_IN_PROFILES[1]), gpu_hour_usd=2.0)
    assert codes(decision) == [
        "GpuModelNotOffered",
        "ExceedsPoolSize",
        "RegionNotAllowed",
        "CapacityTypeNotAllowed",
        "PriceCapExceeded",
        "InsufficientFreeGpus",
    ]
