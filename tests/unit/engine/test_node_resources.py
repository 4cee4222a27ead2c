"""GPUs count as free only with what else the job's pods need on the same node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_gpu_placement.engine.counterfactual import apply_all, counterfactual
from airflow_gpu_placement.engine.explain import details, from_json, to_json
from airflow_gpu_placement.engine.place import replay
from airflow_gpu_placement.model.decision import Setting
from airflow_gpu_placement.model.request import GpuRequest
from tests.unit.engine.builders import codes, decide, judged, pool, seen, signals, verdict_of

if TYPE_CHECKING:
    from airflow_gpu_placement.model.decision import Decision
    from airflow_gpu_placement.model.signals import NodeCapacity

GIB = 2**30
SHORT = ["NodeResourcesTaken"]
HCA, DISK = "rdma/hca", "ephemeral-storage"


def node(name: str = "n1", **spare: int) -> NodeCapacity:
    """Build an empty node of 8 GPUs that has this to spare; CPU in whole ones, sizes in GiB."""
    units = {"cpu": 1000, "memory": GIB, "ephemeral-storage": GIB}
    return seen(name, spare={key: value * units.get(key, 1) for key, value in spare.items()})


def asking(*nodes: NodeCapacity, request: dict[str, Any] | None = None, **found: Any) -> Decision:
    """Decide about 8 GPUs with 64 CPUs and 200 GiB a pod."""
    needs = found.pop("needs", {"cpu": "64", "memory": "200Gi"})
    setting = Setting(pod_resources=needs)
    return judged(request or {"gpus_per_node": 8}, *nodes, setting=setting, **found)


@pytest.mark.parametrize(
    ("spare", "needs", "fits"),
    [
        pytest.param({"pods": 1, "cpu": 64, "memory": 200}, None, True, id="just enough"),
        pytest.param({"pods": 0, "cpu": 64, "memory": 200}, None, False, id="no slot"),
        pytest.param({"pods": 1, "cpu": 63, "memory": 200}, None, False, id="CPU"),
        pytest.param({"pods": 1, "cpu": 64, "memory": 199}, None, False, id="memory"),
        pytest.param({"pods": 1, "memory": 200}, None, False, id="CPU is not told"),
        pytest.param({"cpu": 64, "memory": 200}, None, True, id="slots are not told"),
        pytest.param({"pods": 1}, {}, True, id="nothing is asked for"),
        pytest.param({"pods": 0}, {}, False, id="a slot is always needed"),
        pytest.param({"pods": 1, "cpu": 0, HCA: 4}, {"cpu": "0", HCA: "4"}, True, id="zero, another kind"),
        pytest.param({"pods": 1, HCA: 3}, {HCA: 4}, False, id="RDMA devices"),
        pytest.param({"pods": 1}, {HCA: "1"}, False, id="none of another kind"),
        pytest.param({"pods": 1, DISK: 99}, {DISK: "100Gi"}, False, id="storage"),
        pytest.param({"pods": 1, DISK: 100}, {DISK: "100Gi"}, True, id="enough storage"),
        pytest.param({"pods": 1, "cpu": 1}, {"cpu": 1.0005}, False, id="rounded up"),
    ],
)
def test_what_a_pod_needs_beside_its_gpus(
    spare: dict[str, Any], needs: dict[str, Any] | None, *, fits: bool
) -> None:
    """It is refused for now, can be cleared, and is decided again from the record."""
    decision = asking(node(**spare), **({} if needs is None else {"needs": needs}))
    assert codes(decision) == ([] if fits else SHORT)
    assert not decision.never
    assert replay(from_json(to_json(decision))) == decision
    assert apply_all(decision, "p", counterfactual(decision, "p")).chosen == "p"


def test_the_text_says_what_is_short_and_where() -> None:
    """Two of four nodes have the CPU, so two of four pods find room."""
    nodes = [node(f"n{index}", pods=10, cpu=32 * (1 + index % 2), memory=200) for index in range(4)]
    decision = asking(*nodes, request={"gpus_per_node": 8, "nodes": 4})
    (reason,) = verdict_of(decision).reasons
    assert (reason.needed, reason.observed) == ("64 CPUs and 200 GiB of memory beside 8 GPUs", "2 of 4 nodes")
    assert reason.message == (
        "a pod of the job needs 64 CPUs and 200 GiB of memory beside 8 GPUs; 2 of 4 nodes of pool p with 8 "
        "free GPUs have that, room for 2 of 4 pods (too little: CPUs on 2)"
    )
    (need,) = counterfactual(decision, "p")
    assert [(one.path, one.after) for one in need.changes] == [("/setting/pod_resources/cpu", "0")]


def test_other_kinds_are_named_as_the_cluster_names_them() -> None:
    """Devices by their resource name, sizes in GiB."""
    decision = asking(node(pods=1, cpu=8), needs={"cpu": 4, HCA: "4", DISK: "50Gi"})
    (reason,) = verdict_of(decision).reasons
    assert reason.needed == "4 CPUs, 4 of rdma/hca and 50 GiB of ephemeral-storage beside 8 GPUs"
    assert "(too little: rdma/hca on 1, ephemeral-storage on 1)" in reason.message


def test_several_pods_on_one_node_share_it() -> None:
    """Four pods of two GPUs need four times as much; GPUs that no pod can use are not free for them."""
    small = {"gpus_per_node": 2, "nodes": 4}
    needs = {"cpu": "10"}
    assert asking(node(pods=4, cpu=40), request=small, needs=needs).chosen == "p"
    decision = asking(node(pods=4, cpu=39), request=small, needs=needs)
    assert codes(decision) == SHORT
    assert verdict_of(decision).free_gpus == 6
    assert "room for 3 of 4 pods" in details(decision)


def test_another_shortage_is_named_as_before() -> None:
    """What a pod needs beside GPUs is told only where the GPUs alone would do."""
    full = seen("n1", used=8, spare={"pods": 0})
    assert codes(asking(full)) == ["InsufficientFreeGpus"]
    closed = seen("n2", unusable="cordoned", spare={"pods": 0})
    assert codes(asking(closed)) == ["NodesNotSchedulable"]


GROWS: dict[str, Any] = {"max_nodes": 4, "per_node": 8, "model": "H100"}


@pytest.mark.parametrize(
    ("waiting", "want"),
    [
        pytest.param({}, [], id="nobody"),
        pytest.param({8: 2}, [], id="one node is left"),
        pytest.param({4: 4, 8: 0}, [], id="two on a node"),
        pytest.param({8: 1, 4: 1, 2: 2, 1: 1}, ["InsufficientFreeGpus"], id="three nodes"),
        pytest.param({5: 2, 3: 2}, [], id="small ones fill gaps"),
        pytest.param({16: 20}, [], id="too large for any node"),
        pytest.param({8: 20}, ["InsufficientFreeGpus"], id="many"),
    ],
)
def test_pods_that_wait_get_the_next_nodes(waiting: dict[int, int], want: list[str]) -> None:
    """A pool of one full node that can add three: what is left of those is for the job."""
    full = seen("n1", used=8)
    decision = asking(full, needs={}, seen_as={"waiting": waiting}, **GROWS)
    assert codes(decision) == want
    assert ("pods that wait already get the next 3 nodes that it adds" in details(decision)) is bool(want)
    assert replay(from_json(to_json(decision))) == decision
    assert apply_all(decision, "p", counterfactual(decision, "p")).chosen == "p"


def test_a_pool_that_has_no_node_yet_is_full_for_those_who_wait() -> None:
    """It is no pool whose nodes take no pod."""
    request, one = GpuRequest(gpus_per_node=8), pool(**GROWS)
    empty = [decide(request, [one], signals("p", waiting={8: waiting})) for waiting in (3, 4)]
    assert [codes(decision) for decision in empty] == [[], ["InsufficientFreeGpus"]]
    assert apply_all(empty[1], "p", counterfactual(empty[1], "p")).chosen == "p"


@pytest.mark.parametrize(
    ("largest", "needs", "want"),
    [
        pytest.param({"pods": 110, "cpu": 95_000}, {"cpu": "64"}, [], id="enough"),
        pytest.param({"pods": 110, "cpu": 95_000}, {"cpu": "96"}, SHORT, id="no node has that"),
        pytest.param({"pods": 110}, {"cpu": "1"}, SHORT, id="not told"),
        pytest.param({}, {"cpu": "96"}, [], id="no node was seen"),
    ],
)
def test_a_node_to_come_is_like_those_that_were_seen(
    largest: dict[str, int], needs: dict[str, str], want: list[str]
) -> None:
    """Growing does not help a job that asks for more than any node has; it is not said for ever, though."""
    full = seen("n1", used=8, spare={"pods": 100})
    decision = asking(full, needs=needs, seen_as={"largest": largest}, **GROWS)
    assert codes(decision) == want
    assert apply_all(decision, "p", counterfactual(decision, "p")).chosen == "p"


def test_a_node_to_come_is_paid_whole_though_cpu_fills_it() -> None:
    """Two pods of four GPUs on nodes whose CPU is enough for one of them: two nodes are paid."""
    full = seen("n1", used=8, spare={"pods": 100})
    small = {"gpus_per_node": 4, "nodes": 2}
    spent = [
        verdict_of(
            asking(
                full,
                request=small,
                needs={"cpu": cpu},
                seen_as={"largest": {"cpu": 95_000}},
                **GROWS,
                gpu_hour_usd=1.0,
            )
        ).usd_per_hour
        for cpu in ("40", "64")
    ]
    assert spent == [8.0, 16.0]
