"""Labels that let a job onto the right nodes and keep it off wrong ones, also those that join later."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from airflow_gpu_placement.engine.capacity import node_capacities
from airflow_gpu_placement.engine.counterfactual import apply_all, counterfactual
from airflow_gpu_placement.engine.pinning import Asked, pins, telling_labels
from airflow_gpu_placement.launch.manifest import manifest
from airflow_gpu_placement.launch.spec import LaunchSpec
from airflow_gpu_placement.model.attempt import Attempt, LogicalTask
from airflow_gpu_placement.model.decision import Decision, History
from airflow_gpu_placement.model.pool import CapacityType
from airflow_gpu_placement.model.request import GpuRequest, NetworkNeed, WhereNeed
from airflow_gpu_placement.model.signals import PoolSignals, Snapshot
from tests.unit.engine.builders import A100_40, H100, NOW, decide, kube_node, pool, verdict_of

A100_80 = "NVIDIA-A100-SXM4-80GB"
PRODUCT = "nvidia.com/gpu.product"
GKE = "cloud.google.com/gke-accelerator"
KARPENTER = "karpenter.k8s.aws/instance-gpu-name"
KARPENTER_MEMORY = "karpenter.k8s.aws/instance-gpu-memory"
MACHINE = "node.kubernetes.io/instance-type"
ARCH = "kubernetes.io/arch"
ZONE = "topology.kubernetes.io/zone"
AMD = "amd.com/gpu.product-name"


def labelled(name: str, **more: str) -> Any:
    """Return an H100 node with further labels, such as ``zone="a"``."""
    keys = {"zone": ZONE, "arch": ARCH, "gke": GKE, "machine": MACHINE}
    return kube_node(name, labels={PRODUCT: H100, **{keys[key]: value for key, value in more.items()}})


def placed(request: GpuRequest, *nodes: Any, history: History | None = None, **fields: Any) -> Decision:
    """Decide on Node objects as a cluster sends them."""
    one = pool(**fields)
    seen = node_capacities(nodes, (), one)
    signals = PoolSignals(pool=one.name, observed_at=NOW, source="nodes", nodes=seen)
    return decide(request, [one], signals, history=history)


def node_labels_of(request: GpuRequest, *nodes: Any, **fields: Any) -> dict[str, tuple[str, ...]]:
    """Return what a node must carry to take the job, which fits."""
    decision = placed(request, *nodes, **fields)
    assert decision.chosen == "p"
    return verdict_of(decision).node_labels


@pytest.mark.parametrize(
    ("request_", "nodes", "want"),
    [
        pytest.param(
            GpuRequest(models=("A100-80GB",), gpus_per_node=8),
            [kube_node("a40", product=A100_40), kube_node("a80", product=A100_80)],
            {PRODUCT: (A100_80,)},
            id="a mixed pool",
        ),
        pytest.param(
            GpuRequest(models=("H100",)),
            [kube_node("a")],
            {PRODUCT: (H100,)},
            id="no wrong node is there yet",
        ),
        pytest.param(
            GpuRequest(min_memory_gb=80),
            [kube_node("a")],
            {PRODUCT: (H100,)},
            id="the product tells the memory",
        ),
        pytest.param(GpuRequest(), [kube_node("a")], {}, id="every node will do"),
        pytest.param(
            GpuRequest(models=("A100",)),
            [kube_node("a", product=A100_80), kube_node("b", product=A100_40), kube_node("c")],
            {PRODUCT: (A100_40, A100_80)},
            id="several right kinds",
        ),
        pytest.param(
            GpuRequest(min_memory_gb=80),
            [kube_node("a", labels={KARPENTER: "a100", KARPENTER_MEMORY: "81920"})],
            {KARPENTER: ("a100",), KARPENTER_MEMORY: ("81920",)},
            id="the product does not tell the memory",
        ),
        pytest.param(
            GpuRequest(models=("H100",)),
            [kube_node("a"), kube_node("b", labels={GKE: "nvidia-h100-80gb"})],
            {},
            id="no label that all right nodes carry",
        ),
        pytest.param(
            GpuRequest(models=("H100",)),
            [kube_node("a", labels={MACHINE: "p5.48xlarge"})],
            {MACHINE: ("p5.48xlarge",)},
            id="the machine type is all there is",
        ),
        pytest.param(
            GpuRequest(),
            [kube_node("a"), kube_node("s", product=f"{H100}-SHARED")],
            {PRODUCT: (H100,)},
            id="shared GPUs beside whole ones",
        ),
        pytest.param(
            GpuRequest(architecture="amd64"),
            [labelled("a", arch="amd64"), labelled("b", arch="arm64")],
            {ARCH: ("amd64",)},
            id="processors",
        ),
        pytest.param(
            GpuRequest(nodes=2, gpus_per_node=8, network=NetworkNeed(same_zone=True)),
            [labelled("a1", zone="a"), labelled("a2", zone="a"), labelled("b1", zone="b")],
            {ZONE: ("a",)},
            id="a gang in one zone",
        ),
    ],
)
def test_what_is_asked_of_a_node(
    request_: GpuRequest, nodes: list[Any], want: dict[str, tuple[str, ...]]
) -> None:
    """The best evidence that all right nodes carry, with the values that were seen."""
    assert node_labels_of(request_, *nodes) == want


def test_amd_s_labels_pin_too() -> None:
    """As a value, and where the labeller writes the product into the key."""
    fields = {"resource_name": "amd.com/gpu"}
    more = {"amd.com/gpu": "8"}
    for labels, want in (
        ({AMD: "AMD_Instinct_MI300X_OAM"}, {AMD: ("AMD_Instinct_MI300X_OAM",)}),
        ({"amd.com/mi300x": "true"}, {"amd.com/mi300x": ("true",)}),
    ):
        node = kube_node("a", labels=labels, capacity="0", more=more)
        assert node_labels_of(GpuRequest(models=("MI300X",)), node, **fields) == want


def test_what_the_pool_s_selector_demands_is_not_said_twice() -> None:
    """The remote job carries the selector anyway."""
    node = kube_node("a", labels={GKE: "nvidia-h100-80gb"})
    selector = {GKE: "nvidia-h100-80gb"}
    assert node_labels_of(GpuRequest(models=("H100",)), node, node_selector=selector) == {}


def test_a_job_that_needs_new_nodes_asks_for_what_new_nodes_have() -> None:
    """An autoscaler adds no node for labels that only a program on the node would put on it."""
    gang = GpuRequest(models=("H100",), nodes=2, gpus_per_node=8)
    nodes = [labelled("a", machine="a3-highgpu-8g")]
    assert node_labels_of(gang, *nodes, max_nodes=3) == {MACHINE: ("a3-highgpu-8g",)}
    assert node_labels_of(gang, kube_node("a"), max_nodes=3) == {}
    one = GpuRequest(models=("H100",))
    assert node_labels_of(one, *nodes, max_nodes=3) == {PRODUCT: (H100,)}


def test_a_lost_node_says_nothing_of_the_others() -> None:
    """It is kept out by name, so a label that it lacks can still be asked for."""
    lost = History(lost_nodes={"p": ("z",)}, losses={"p": 1})
    decision = placed(
        GpuRequest(models=("H100",)),
        kube_node("a"),
        kube_node("z", labels={GKE: "nvidia-h100-80gb"}),
        history=lost,
    )
    verdict = verdict_of(decision)
    assert (verdict.avoid_nodes, verdict.node_labels) == (("z",), {PRODUCT: (H100,)})


def test_wrong_nodes_that_one_label_does_not_tell_apart_take_a_second_one() -> None:
    """As few as keep out all of them."""
    right = [{PRODUCT: "x", ARCH: "amd64", ZONE: "a"}]
    wrong = [{PRODUCT: "x", ARCH: "arm64", ZONE: "a"}, {PRODUCT: "y", ARCH: "amd64", ZONE: "a"}]
    assert pins(right, wrong, Asked(gpu=True)) == {PRODUCT: ("x",), ARCH: ("amd64",)}
    assert pins(right, right, Asked()) == {}
    assert pins([], wrong, Asked(gpu=True)) == {}


def test_only_telling_labels_are_kept() -> None:
    """A node has dozens; empty ones tell nothing."""
    labels = {PRODUCT: H100, GKE: "", "team": "a", "fabric": "f1", "kubernetes.io/hostname": "n"}
    assert telling_labels(labels, "fabric") == {PRODUCT: H100, "fabric": "f1"}
    assert telling_labels(labels) == {PRODUCT: H100}
    old = "beta.kubernetes.io/arch"
    assert telling_labels({ARCH: "amd64", old: "amd64"}) == {ARCH: "amd64"}
    assert telling_labels({old: "amd64"}) == {old: "amd64"}


def test_the_job_names_the_label_of_the_right_gpu() -> None:
    """GPU-03, from Node objects to the Job: the 80 GB card, whatever joins the pool later."""
    nodes = [kube_node("a40", product=A100_40), kube_node("a80", product=A100_80)]
    decision = placed(GpuRequest(models=("A100-80GB",), gpus_per_node=8), *nodes)
    where = verdict_of(decision)
    task = LogicalTask(dag_id="d", run_id="r", task_id="t")
    spec = LaunchSpec(
        attempt=Attempt(task=task, attempt_id="0", try_number=1, fence=1),
        pool=decision.pools[0],
        image="i",
        excluded_nodes=where.avoid_nodes,
        node_labels=where.node_labels,
    )
    affinity = manifest(spec)[0]["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    assert affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] == [
        {
            "matchExpressions": [{"key": PRODUCT, "operator": "In", "values": [A100_80]}],
            "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["a40"]}],
        }
    ]


def test_the_labels_travel_with_the_decision() -> None:
    """A stored record leads to the same labels."""
    decision = placed(GpuRequest(models=("H100",)), kube_node("a"))
    again = msgspec.json.decode(msgspec.json.encode(decision), type=Decision)
    assert again == decision
    assert isinstance(again.snapshot, Snapshot)
    assert verdict_of(again).node_labels == {PRODUCT: (H100,)}


GANG = GpuRequest(models=("H100",), nodes=3, gpus_per_node=8)


@pytest.mark.parametrize(
    ("request_", "nodes", "fields", "fits"),
    [
        pytest.param(GANG, ["H100"], {}, True, id="all that were seen are right"),
        pytest.param(GANG, ["H100", "A100"], {}, False, id="one of them is another"),
        pytest.param(GANG, ["H100", "A100"], {"model": "H100"}, True, id="the catalogue tells the model"),
        pytest.param(GANG, ["H100", None], {}, True, id="a fresh node has no labels yet"),
        pytest.param(GANG, [], {"model": "H100", "per_node": 8}, True, id="none yet, the catalogue tells"),
        pytest.param(
            GpuRequest(nodes=3, gpus_per_node=8), ["H100", "A100"], {}, True, id="any of them will do"
        ),
        pytest.param(
            GpuRequest(nodes=3, gpus_per_node=8, where=WhereNeed(capacity_types=(CapacityType.ON_DEMAND,))),
            ["H100", "spot"],
            {},
            False,
            id="one of them is spot",
        ),
        pytest.param(
            GpuRequest(nodes=3, gpus_per_node=8, architecture="amd64"),
            ["H100", "arm"],
            {},
            False,
            id="one of them has other processors",
        ),
        pytest.param(
            GpuRequest(nodes=3, gpus_per_node=8, form_factors=("HGX",)),
            ["H100", "half"],
            {"per_node": 8},
            True,
            id="the catalogue tells how many GPUs they have",
        ),
    ],
)
def test_a_node_to_come_may_be_like_any_that_was_seen(
    request_: GpuRequest, nodes: list[str | None], fields: dict[str, Any], fits: bool
) -> None:
    """It counts only if each of those would do: a pool with two kinds may add the wrong one."""
    amd64 = {PRODUCT: H100, ARCH: "amd64"}
    kinds = {
        "H100": kube_node("h", labels=amd64),
        "A100": kube_node("a", product=A100_80),
        None: kube_node("u", labels={}),
        "spot": kube_node("s", labels={**amd64, "karpenter.sh/capacity-type": "spot"}),
        "arm": kube_node("r", labels={**amd64, ARCH: "arm64"}),
        "half": kube_node("f", capacity="4", labels=amd64),
    }
    decision = placed(request_, *[kinds[name] for name in nodes], max_nodes=5, **fields)
    verdict = verdict_of(decision)
    assert (decision.chosen == "p") is fits
    assert not decision.never
    told = [note for note in verdict.notes if "nodes that it may add are not counted" in note]
    assert bool(told) is not fits
    if not fits:
        assert apply_all(decision, "p", counterfactual(decision, "p")).chosen == "p"
