"""How nodes are bought, and in which region they are: their labels beside the catalogue."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from airflow_gpu_placement.engine.bought import SPOT_LABELS, may_be_taken_away
from airflow_gpu_placement.engine.capacity import node_capacities
from airflow_gpu_placement.engine.counterfactual import apply_all, counterfactual
from airflow_gpu_placement.engine.place import replay
from airflow_gpu_placement.model.decision import Decision, History, Setting
from airflow_gpu_placement.model.estimate import Estimate, Knowledge
from airflow_gpu_placement.model.money import Profile
from airflow_gpu_placement.model.pool import CapacityType
from airflow_gpu_placement.model.request import GpuRequest, WhereNeed
from airflow_gpu_placement.model.signals import PoolSignals
from tests.unit.engine.builders import H100, NOW, codes, decide, kube_node, pool, verdict_of

PRODUCT = "nvidia.com/gpu.product"
KARPENTER = "karpenter.sh/capacity-type"
EKS = "eks.amazonaws.com/capacityType"
REGION = "topology.kubernetes.io/region"
GKE_SPOT = {"cloud.google.com/gke-spot": "true", "cloud.google.com/gke-provisioning": "spot"}
SPOT_NODES = [
    pytest.param({KARPENTER: "spot"}, id="Karpenter"),
    pytest.param(GKE_SPOT, id="GKE"),
    pytest.param({"cloud.google.com/gke-preemptible": "true"}, id="GKE, preemptible"),
    pytest.param({EKS: "SPOT"}, id="EKS"),
    pytest.param({"kubernetes.azure.com/scalesetpriority": "spot"}, id="AKS"),
]


def bought(names: tuple[str, ...]) -> WhereNeed:
    """Allow these kinds of capacity."""
    return WhereNeed(capacity_types=tuple(CapacityType(name) for name in names))


FIRM = GpuRequest(gpus_per_node=8, where=bought(("on_demand",)))
ANY = GpuRequest(gpus_per_node=8)
FIRM_PROFILE = Profile(name="firm", value_of_time_usd_per_hour=1.0, capacity_types=(CapacityType.ON_DEMAND,))


def node(name: str, **labels: str) -> Any:
    """Return an H100 node; ``capacity`` is Karpenter's label, ``region`` the usual one."""
    keys = {"capacity": KARPENTER, "region": REGION}
    return kube_node(name, labels={PRODUCT: H100, **{keys.get(key, key): labels[key] for key in labels}})


def placed(
    request: GpuRequest,
    *nodes: Any,
    history: History | None = None,
    setting: Setting | None = None,
    **fields: Any,
) -> Decision:
    """Decide about one pool on Node objects as a cluster sends them."""
    one = pool(**{"gpu_hour_usd": 2.0, **fields})
    seen = node_capacities(nodes, (), one)
    observed = PoolSignals(pool="p", observed_at=NOW, source="nodes", nodes=seen)
    return decide(request, [one], observed, history=history, setting=setting)


def interruption_rate(decision: Decision) -> Estimate:
    """Return the rate that the cost of the chosen pool rests on."""
    cost = verdict_of(decision).cost
    assert cost is not None
    return cost.estimates["interruptions_per_gpu_hour"]


@pytest.mark.parametrize("labels", SPOT_NODES)
def test_a_job_for_on_demand_never_gets_a_node_that_its_label_calls_spot(labels: dict[str, str]) -> None:
    """The catalogue's silence counts as on demand, so nothing but the label tells."""
    decision = placed(FIRM, node("s", **labels))
    assert codes(decision) == ["CapacityTypeNotAllowed"]
    (reason,) = verdict_of(decision).reasons
    assert (reason.observed, reason.needed) == ("spot", "on_demand")
    assert "labels of the nodes of pool p say spot" in reason.message
    firm = Setting(profile=FIRM_PROFILE)
    assert codes(placed(ANY, node("s", **labels), setting=firm)) == ["CapacityTypeNotAllowed"]


@pytest.mark.parametrize("labels", SPOT_NODES)
def test_a_pool_of_both_kinds_is_used_without_its_spot_nodes(labels: dict[str, str]) -> None:
    """They are kept out by name, and those that join later by label, whatever the right nodes carry."""
    decision = placed(FIRM, node("d"), node("s", **labels))
    verdict = verdict_of(decision)
    assert (decision.chosen, verdict.avoid_nodes, verdict.gang_fits) == ("p", ("s",), 1)
    assert verdict.barred_labels == SPOT_LABELS
    assert any(labels.get(key) in values for key, values in verdict.barred_labels.items())
    assert verdict_of(replay(decision)) == verdict


def test_every_job_that_must_not_be_taken_away_bars_spot_nodes() -> None:
    """Also where none is there yet: a pool may get some. Who allows spot bars nothing."""
    assert verdict_of(placed(FIRM, node("d"))).barred_labels == SPOT_LABELS
    assert verdict_of(placed(ANY, node("d"))).barred_labels == {}
    both = GpuRequest(gpus_per_node=8, where=bought(("on_demand", "spot")))
    assert verdict_of(placed(both, node("d"))).barred_labels == {}


def test_a_job_for_spot_is_kept_on_the_nodes_that_are() -> None:
    """By the label that they have in common and others lack."""
    spot = GpuRequest(gpus_per_node=8, where=bought(("spot",)))
    verdict = verdict_of(placed(spot, node("d", capacity="on-demand"), node("s", capacity="spot")))
    assert (verdict.avoid_nodes, verdict.node_labels) == (("d",), {KARPENTER: ("spot",)})


@pytest.mark.parametrize(
    ("said", "label", "counts_as"),
    [
        pytest.param("on_demand", "reserved", "reserved", id="the label over the default"),
        pytest.param("reserved", "on-demand", "reserved", id="a reservation bought as on demand"),
        pytest.param("reserved", "spot", "spot", id="spot over any word"),
        pytest.param("spot", "on-demand", "spot", id="never safer than the catalogue says"),
    ],
)
def test_where_label_and_catalogue_differ(said: str, label: str, counts_as: str) -> None:
    """One of both counts, and the difference is told."""
    request = GpuRequest(gpus_per_node=8, where=bought((counts_as,)))
    decision = placed(request, node("n", capacity=label), capacity_type=CapacityType(said))
    assert decision.chosen == "p"
    (note,) = verdict_of(decision).notes
    told = label.replace("-", "_")
    assert note.startswith(f"SignalContradictsCatalog: capacity_type={said} but labels say {told} on n; ")
    assert note.endswith("the labels are believed" if counts_as == told else "the catalogue is believed")
    others = tuple(one for one in ("on_demand", "reserved", "spot") if one != counts_as)
    refused = GpuRequest(gpus_per_node=8, where=bought(others))
    assert codes(placed(refused, node("n", capacity=label), capacity_type=CapacityType(said))) == [
        "CapacityTypeNotAllowed"
    ]


def test_a_job_that_may_land_on_spot_is_counted_as_taken_away_that_often() -> None:
    """Even if only one node of the pool is; the catalogue's own number still goes first."""
    mixed = [node("d"), node("s", capacity="spot")]
    assert interruption_rate(placed(ANY, *mixed)).value == 2e-3
    assert interruption_rate(placed(FIRM, *mixed)).value == 2e-5
    told = interruption_rate(placed(ANY, *mixed, interruptions_per_gpu_hour=0.5))
    assert (told.value, told.source) == (0.5, "prior")


def test_what_was_learnt_of_a_pool_does_not_make_its_spot_nodes_safe() -> None:
    """It was learnt on the understanding that nothing there is taken away."""
    calm = Knowledge(interruptions_per_gpu_hour={"p": Estimate(value=1e-5, source="history(3)")})
    setting = Setting(knowledge=calm)
    assert interruption_rate(placed(ANY, node("d"), setting=setting)).value == 1e-5
    assert interruption_rate(placed(ANY, node("s", capacity="spot"), setting=setting)).value == 2e-3
    on_spot = placed(ANY, node("s"), setting=setting, capacity_type=CapacityType.SPOT)
    assert interruption_rate(on_spot).value == 1e-5


def test_a_job_that_leaves_spot_leaves_nodes_that_are() -> None:
    """The pool whose labels say spot comes last although it is cheaper."""
    pools = [pool("cheap", gpu_hour_usd=1.0), pool("firm", gpu_hour_usd=2.0)]
    seen = {
        "cheap": node_capacities([node("s", capacity="spot")], (), pools[0]),
        "firm": node_capacities([node("d")], (), pools[1]),
    }
    observed = [
        PoolSignals(pool=name, observed_at=NOW, source="n", nodes=nodes) for name, nodes in seen.items()
    ]
    assert decide(ANY, pools, *observed).chosen == "cheap"
    assert decide(ANY, pools, *observed, history=History(leave_spot=True)).chosen == "firm"


def test_the_record_of_a_launch_tells_whether_it_may_be_taken_away() -> None:
    """From the nodes that the job was not kept off."""
    mixed = [node("d"), node("s", capacity="spot")]
    for request, nodes, said, want in (
        (ANY, mixed, "on_demand", True),
        (FIRM, mixed, "on_demand", False),
        (ANY, mixed[:1], "on_demand", False),
        (ANY, mixed[:1], "spot", True),
        (ANY, [], "spot", True),
    ):
        decision = placed(request, *nodes, capacity_type=CapacityType(said), max_nodes=2, per_node=8)
        assert decision.chosen_pool is not None
        assert may_be_taken_away(decision, decision.chosen_pool) is want


@pytest.mark.parametrize("asked", ["request", "profile", "both"])
def test_what_would_have_to_change_is_told(asked: str) -> None:
    """Spot has to be allowed by whoever leaves it out."""
    decision = placed(
        ANY if asked == "profile" else FIRM,
        node("s", capacity="spot"),
        setting=Setting() if asked == "request" else Setting(profile=FIRM_PROFILE),
    )
    changed = apply_all(decision, "p", counterfactual(decision, "p"))
    assert changed.chosen == "p"


def test_a_node_in_another_region_than_the_catalogue_says_is_told() -> None:
    """The catalogue's explicit word counts; where it says nothing there is nothing to contradict."""
    request = GpuRequest(gpus_per_node=8, where=WhereNeed(regions=("eu-west-1",)))
    decision = placed(request, node("n1", region="us-east-1"), region="eu-west-1")
    (note,) = verdict_of(decision).notes
    assert note == (
        "SignalContradictsCatalog: region=eu-west-1 but labels say us-east-1 on n1; the catalogue is believed"
    )
    assert verdict_of(placed(request, node("n1", region="eu-west-1"), region="eu-west-1")).notes == ()
    assert verdict_of(placed(ANY, node("n1", region="us-east-1"))).notes == ()


def test_a_node_keeps_what_its_labels_say() -> None:
    """In the snapshot, so that a decision can be made again from it."""
    (seen,) = node_capacities([node("n", capacity="spot", region="r1")], (), pool())
    assert (seen.capacity_type, seen.region) == (CapacityType.SPOT, "r1")
    assert seen.labels == {PRODUCT: H100, KARPENTER: "spot"}
    again = msgspec.json.decode(msgspec.json.encode(seen), type=type(seen))
    assert again == seen
