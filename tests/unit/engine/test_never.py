"""What passes or is not known yet is never taken for "never"."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_gpu_placement.engine.certainty import never_by_declaration, never_in_order
from airflow_gpu_placement.engine.counterfactual import apply_all, counterfactual
from airflow_gpu_placement.model.decision import Decision, History
from airflow_gpu_placement.model.request import GpuRequest
from airflow_gpu_placement.model.signals import GapKind, NodeCapacity
from tests.unit.engine.builders import A100_40, L40S, codes, decide, judged, pool, seen, signals, verdict_of

EIGHT = {"gpus_per_node": 8}
GANG = {"gpus_per_node": 8, "nodes": 2}
HGX = {**EIGHT, "form_factors": ["HGX"]}
SWITCHED = {**EIGHT, "interconnect": "nvswitch"}


def down(name: str = "n1", **more: Any) -> NodeCapacity:
    """Build a node whose device plugin has been gone for so long that it shows no device at all."""
    return seen(name, gpus=0, unusable="offers no nvidia.com/gpu", **more)


def bare(name: str = "new", **more: Any) -> NodeCapacity:
    """Build a node that has its devices and not yet its labels."""
    return seen(name, product=None, **more)


CLOSED = ["NodesNotSchedulable"]
UNTOLD = ["SignalsMissing"]


@pytest.mark.parametrize(
    ("request_", "nodes", "fields", "want"),
    [
        pytest.param(EIGHT, [down()], {}, CLOSED, id="no device"),
        pytest.param(GANG, [down(), seen("n2")], {}, CLOSED, id="no device beside a good node"),
        pytest.param(HGX, [down()], {"per_node": 8}, CLOSED, id="a board of eight, by the catalogue"),
        pytest.param(SWITCHED, [down()], {"per_node": 8}, CLOSED, id="its switches, by the catalogue"),
        pytest.param(
            {**HGX, "nodes": 2}, [down(), seen("n2")], {}, CLOSED, id="a board of eight, as its sibling"
        ),
        pytest.param(HGX, [down()], {}, [*CLOSED, *UNTOLD], id="a board of who knows how many"),
        pytest.param(SWITCHED, [down()], {}, [*CLOSED, *UNTOLD], id="who knows how many that are joined"),
        pytest.param({**EIGHT, "interconnect": "nvlink"}, [down()], {}, CLOSED, id="joined in any case"),
        pytest.param(
            {**HGX, "nodes": 2},
            [down(), seen("n2", gpus=4)],
            {},
            ["FormFactorNotOffered", "ExceedsPoolSize", "InsufficientFreeGpus"],
            id="half boards are half boards",
        ),
        pytest.param({**EIGHT, "models": ["H100"]}, [bare()], {}, UNTOLD, id="which GPU"),
        pytest.param({**EIGHT, "min_memory_gb": 40}, [bare()], {}, UNTOLD, id="how much memory"),
        pytest.param({**EIGHT, "form_factors": ["SXM"]}, [bare()], {}, UNTOLD, id="which form"),
        pytest.param({**EIGHT, "interconnect": "nvlink"}, [bare()], {}, UNTOLD, id="joined by what"),
        pytest.param(
            {**EIGHT, "models": ["H100"]}, [seen(product=A100_40), bare()], {}, UNTOLD, id="one of two"
        ),
        pytest.param(
            {**EIGHT, "models": ["H100"], "architecture": "amd64"},
            [seen(architecture="arm64"), bare(architecture="amd64")],
            {},
            UNTOLD,
            id="the right GPU with other processors",
        ),
        pytest.param(
            {**EIGHT, "models": ["H100"], "architecture": "amd64"},
            [seen(product=A100_40, architecture="amd64"), bare(architecture="arm64")],
            {},
            ["GpuModelNotOffered"],
            id="it has what rules it out already",
        ),
        pytest.param(
            {**GANG, "models": ["H100"]},
            [seen(), bare()],
            {},
            ["InsufficientFreeGpus"],
            id="a second node that may be right",
        ),
        pytest.param(
            {**GANG, "models": ["H100"]},
            [seen(), seen("n2", product=L40S)],
            {},
            ["ExceedsPoolSize", "InsufficientFreeGpus"],
            id="a second node that is another",
        ),
        pytest.param(
            {**GANG, "network": {"same_zone": True}},
            [seen(zone="x"), seen("n2")],
            {},
            ["GangDoesNotFit"],
            id="it may turn out to be in the zone",
        ),
        pytest.param(
            {**GANG, "network": {"same_fabric": True}},
            [seen(fabric="f"), bare()],
            {},
            ["GangDoesNotFit"],
            id="it may turn out to be on the fabric",
        ),
    ],
)
def test_what_is_not_told_yet_is_waited_for(
    request_: dict[str, Any], nodes: list[NodeCapacity], fields: dict[str, Any], want: list[str]
) -> None:
    """Devices and labels that are not there are unknown; and what would mend it is told right."""
    decision = judged(request_, *nodes, **fields)
    assert codes(decision) == want
    assert codes(apply_all(decision, "p", counterfactual(decision, "p"))) == []


def test_who_has_not_told_is_named_with_what_to_write() -> None:
    """The nodes, and the key that would tell it for good."""
    (reason,) = verdict_of(judged({**EIGHT, "models": ["H100"]}, bare("a"), bare("b"))).reasons
    assert reason.message == (
        "no label tells the GPU of a, b in pool p yet; if that lasts, set gpu.model of the pool in the "
        "catalogue"
    )
    (reason,) = verdict_of(judged({**EIGHT, "form_factors": ["SXM"]}, bare("a"), model="H100")).reasons
    assert reason.message == (
        "no label tells the kind of the H100 of a in pool p yet; if that lasts, set gpu.memory_gb and "
        "gpu.form_factor of the pool in the catalogue"
    )
    *_, reason = verdict_of(judged(HGX, down())).reasons
    assert reason.message == (
        "no device is shown of n1 in pool p yet; if that lasts, set gpu.per_node of the pool in the catalogue"
    )


def test_slices_are_no_devices_to_come() -> None:
    """A node that is cut into slices has told all."""
    cut = seen(whole=False, unusable="all its GPUs are cut into MIG slices")
    assert codes(judged(HGX, cut)) == ["FormFactorNotOffered", "ExceedsPoolSize"]


LOST = History(lost_nodes={"p": ("n2",)}, losses={"p": 1})


@pytest.mark.parametrize(
    ("request_", "nodes", "want"),
    [
        pytest.param(GANG, [seen()], ["NodesLost", "InsufficientFreeGpus"], id="one of two"),
        pytest.param(EIGHT, [], ["NodesLost", "NodesNotSchedulable"], id="the only one"),
        pytest.param(EIGHT, [seen()], [], id="another is enough"),
        pytest.param(
            {**GANG, "network": {"same_zone": True}},
            [seen(zone="x")],
            ["NodesLost", "InsufficientFreeGpus"],
            id="of one zone",
        ),
        pytest.param(
            {**GANG, "nodes": 3},
            [seen()],
            ["ExceedsPoolSize", "InsufficientFreeGpus"],
            id="too small with it as well",
        ),
    ],
)
def test_a_lost_node_that_is_gone_comes_back(
    request_: dict[str, Any], nodes: list[NodeCapacity], want: list[str]
) -> None:
    """A cloud deletes the Node object of a machine that it repairs."""
    request = GpuRequest.model_validate(request_)
    decision = decide(request, [pool()], signals("p", *nodes), history=LOST)
    assert codes(decision) == want
    assert codes(apply_all(decision, "p", counterfactual(decision, "p"))) == []


def test_the_switches_of_an_own_model_have_to_be_declared() -> None:
    """Of a model that the catalogue adds nothing says what joins a full board."""
    own: dict[str, Any] = {"model": "B400", "memory_gb": 320, "form_factor": "SXM"}
    (reason,) = verdict_of(judged(SWITCHED, seen(product=None), **own)).reasons
    assert (reason.code, reason.observed) == ("InterconnectNotOffered", "unknown")
    assert reason.message.endswith("set gpu.interconnect of the pool in the catalogue")
    assert codes(judged(SWITCHED, seen(product=None), **own, interconnect="nvswitch")) == []
    assert codes(judged({**EIGHT, "interconnect": "nvlink"}, seen(product=None), **own)) == []
    (half,) = verdict_of(judged({**SWITCHED, "gpus_per_node": 4}, seen(gpus=4, product=None), **own)).reasons
    assert half.observed == "nvlink"


def _withdrawn() -> Decision:
    worn = seen(unusable=None)
    return judged(EIGHT, NodeCapacity(name="n1", gpu=worn.gpu, capacity=8, allocatable=7, free=7))


def test_withdrawn_gpus_are_named() -> None:
    """Where they are what is missing: asking for less is no better advice then."""
    (reason, *_) = verdict_of(_withdrawn()).reasons
    assert reason.message.endswith(
        "no node of pool p has more than 7; GPUs of n1 are withdrawn until somebody repairs or boots the node"
    )
    (reason, *_) = verdict_of(judged({**GANG, "gpus_per_node": 16}, seen())).reasons
    assert reason.message.endswith("has more than 8; ask for fewer gpus_per_node and more nodes")


@pytest.mark.parametrize(
    ("decision", "declared", "in_order"),
    [
        pytest.param(
            judged({"models": ["L4"]}, seen(), model="H100"), True, True, id="the catalogue says so"
        ),
        pytest.param(judged({"models": ["L4"]}, seen()), False, True, id="the labels say so"),
        pytest.param(
            judged({"where": {"regions": ["eu"]}}, seen(), region="us"), True, True, id="the region"
        ),
        pytest.param(_withdrawn(), False, False, id="for a GPU that is withdrawn"),
        pytest.param(
            decide(GpuRequest(), [pool()], signals("p", gap=GapKind.FORBIDDEN)), False, True, id="forbidden"
        ),
        pytest.param(judged(EIGHT, down()), False, False, id="not never at all"),
    ],
)
def test_how_certain_never_is(decision: Decision, *, declared: bool, in_order: bool) -> None:
    """By what is written, or only by what the nodes show, withdrawn GPUs apart."""
    assert (never_by_declaration(decision), never_in_order(decision)) == (declared, in_order)
