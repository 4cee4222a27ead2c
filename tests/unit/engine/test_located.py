"""Where a pool is that the catalogue places nowhere: where all of its nodes say that they are."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from airflow_gpu_placement.engine.certainty import never_by_declaration, never_in_order
from airflow_gpu_placement.engine.counterfactual import apply_all, counterfactual
from airflow_gpu_placement.engine.explain import details, from_json, to_json
from airflow_gpu_placement.engine.place import replay
from airflow_gpu_placement.model.decision import Decision, Setting
from airflow_gpu_placement.model.money import Dataset, Egress
from airflow_gpu_placement.model.pool import Place
from airflow_gpu_placement.model.request import GpuRequest
from airflow_gpu_placement.model.signals import GapKind, NodeCapacity
from tests.unit.engine.builders import codes, decide, judged, pool, seen, signals, verdict_of

EU, US = "eu-west-1", "us-east-1"
IN_EU: dict[str, Any] = {"where": {"regions": [EU]}}
NOT_IN_US: dict[str, Any] = {"where": {"denied_regions": [US]}}
KEPT = Setting(datasets={"d": Dataset(name="d", size_gib=100, locations=(EU,), egress=Egress.DENY)})
MOVED = Setting(datasets={"d": Dataset(name="d", size_gib=100, locations=(EU,))})


def at(name: str, region: str | None, **more: Any) -> NodeCapacity:
    """Return a node with this region on its label."""
    return seen(name, region=region, **more)


def fresh(name: str) -> NodeCapacity:
    """Return a node that its cloud has not put any label on yet, and no pod."""
    return at(name, None, unusable="taint node.cloudprovider.kubernetes.io/uninitialized", closed=True)


@pytest.mark.parametrize(
    ("request_", "setting"),
    [
        pytest.param(IN_EU, Setting(), id="a region that is allowed"),
        pytest.param(NOT_IN_US, Setting(), id="one that is denied"),
        pytest.param({"data": ["d"]}, KEPT, id="data that may not leave"),
    ],
)
@pytest.mark.parametrize(
    ("nodes", "fields", "want"),
    [
        pytest.param([at("n1", EU), at("n2", EU)], {}, True, id="all of them there"),
        pytest.param([at("n1", EU), fresh("n2")], {}, True, id="and a fresh one"),
        pytest.param([at("n1", US)], {}, False, id="elsewhere"),
        pytest.param([at("n1", EU), at("n2", US)], {}, False, id="in two regions"),
        pytest.param([at("n1", EU), at("n2", None)], {}, False, id="one that does not tell"),
        pytest.param([at("n1", US)], {"region": EU}, True, id="the catalogue's word before the labels'"),
        pytest.param([at("n1", EU)], {"region": US}, False, id="whatever it is"),
    ],
)
def test_the_nodes_tell_where_a_pool_is(
    request_: dict[str, Any],
    setting: Setting,
    nodes: list[NodeCapacity],
    fields: dict[str, Any],
    *,
    want: bool,
) -> None:
    """As the catalogue would: for regions allowed and denied, and for data that must stay."""
    decision = judged(request_, *nodes, setting=setting, **fields)
    assert (decision.chosen is not None) is want
    assert want or codes(decision)[0] in {"RegionNotAllowed", "EgressDenied"}


def moving(decision: Decision) -> float:
    """Return what moving data costs in the chosen pool."""
    cost = verdict_of(decision).cost
    assert cost is not None
    return sum(term.usd for term in cost.terms if term.name == "egress")


def test_data_is_near_where_the_nodes_are() -> None:
    """What moving it costs follows the labels."""
    request: dict[str, Any] = {"data": ["d"]}
    assert moving(judged(request, at("n1", EU), setting=MOVED)) == 0
    assert moving(judged(request, at("n1", US), setting=MOVED)) > 0
    assert moving(judged(request, at("n1", None), setting=MOVED)) > 0


def test_the_source_of_the_region_is_shown() -> None:
    """In the record, in what people read of a pool that fits, and of one that does not."""
    fits = judged(IN_EU, at("n1", EU))
    (one,) = fits.pools
    assert one.place == Place(region=EU, region_source="node labels")
    assert "region eu-west-1 is what the node labels say; the catalogue says none" in details(fits)
    (reason,) = verdict_of(judged(IN_EU, at("n1", US))).reasons
    assert reason.observed == "us-east-1 (node labels)"
    (reason,) = verdict_of(judged({"data": ["d"]}, at("n1", US), setting=KEPT)).reasons
    assert reason.message.endswith("pool p is in us-east-1 (node labels)")
    (reason,) = verdict_of(judged(IN_EU, seen(), region=US)).reasons
    assert reason.observed == US
    assert verdict_of(judged({}, at("n1", EU))).notes == ()


def test_nodes_that_disagree_are_named() -> None:
    """With what to do: no one region is right for them all."""
    nodes = [at("n1", EU), at("n2", US), at("n3", US), at("n4", None)]
    decision = judged(IN_EU, *nodes)
    said = "the labels of its nodes name eu-west-1 (n1) and us-east-1 (n2, n3) and nothing (n4)"
    (reason,) = verdict_of(decision).reasons
    assert (reason.code, reason.observed) == ("RegionNotAllowed", "unknown")
    assert reason.message.endswith(
        f"; {said}: make a pool of each region, with its node_selector, or set region of the pool"
    )
    assert verdict_of(decision).notes == (f"region unknown: {said}",)
    (reason,) = verdict_of(judged(IN_EU, seen())).reasons
    assert reason.message.endswith("; set region of the pool in the catalogue")


def test_a_record_is_decided_again_on_its_own_labels() -> None:
    """To the same result, and with another label to another."""
    decision = from_json(to_json(judged(IN_EU, at("n1", EU))))
    assert replay(decision) == decision
    elsewhere = {"p": signals("p", at("n1", US))}
    changed = msgspec.structs.replace(
        decision, snapshot=msgspec.structs.replace(decision.snapshot, pools=elsewhere)
    )
    assert codes(replay(changed)) == ["RegionNotAllowed"]


@pytest.mark.parametrize(("request_", "setting"), [(IN_EU, Setting()), ({"data": ["d"]}, KEPT)])
def test_a_region_that_is_not_told_yet_is_no_never(request_: dict[str, Any], setting: Setting) -> None:
    """A cluster that does not answer for a moment, or a pool that is empty now, ends no wait."""
    request = GpuRequest(**request_)
    silent = decide(request, [pool()], signals("p", gap=GapKind.UNREACHABLE), setting=setting)
    assert codes(silent) == ["ClusterUnreachable"]
    empty = decide(request, [pool(max_nodes=2, model="H100", per_node=8)], signals("p"), setting=setting)
    assert codes(empty) == ["SignalsMissing"]
    assert "has no node now and the catalogue does not say in which region it is" in details(empty)
    assert not silent.never
    assert not empty.never


def test_what_nodes_tell_is_no_declaration() -> None:
    """A task that has waited is not failed at once by the labels of one look; its first look may."""
    decision = judged(IN_EU, at("n1", US))
    assert decision.never
    assert (never_by_declaration(decision), never_in_order(decision)) == (False, True)


def test_a_job_is_kept_off_nodes_that_do_not_tell() -> None:
    """Such a node may be anywhere, and be open again before the job is scheduled."""
    assert verdict_of(judged(IN_EU, at("n1", EU), fresh("n2"))).avoid_nodes == ("n2",)
    assert verdict_of(judged({}, at("n1", EU), fresh("n2"))).avoid_nodes == ()
    assert verdict_of(judged(IN_EU, at("n1", EU), fresh("n2"), region=EU)).avoid_nodes == ()


@pytest.mark.parametrize("nodes", [[at("n1", US)], [at("n1", EU), at("n2", US)], [at("n1", EU, used=8)]])
def test_the_counterfactual_knows_the_labels(nodes: list[NodeCapacity]) -> None:
    """All of its changes make the pool fit."""
    decision = judged(IN_EU, *nodes)
    assert codes(decision) != []
    assert apply_all(decision, "p", counterfactual(decision, "p")).chosen == "p"
