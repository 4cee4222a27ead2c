"""Every key of a pool: how it is read and what it means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from airflow_gpu_placement.catalog import fields as read
from airflow_gpu_placement.catalog.reader import Key, Keys, Reader, fields, section, section_schema, shown
from airflow_gpu_placement.engine.gpu_models import suggest
from airflow_gpu_placement.engine.own_models import read_own
from airflow_gpu_placement.model.kube import Toleration
from airflow_gpu_placement.model.pool import CapacityType, Execution
from airflow_gpu_placement.model.request import MOST_GPUS
from airflow_gpu_placement.model.words import ARCHITECTURES, FORM_FACTORS, INTERCONNECTS, NETWORK_KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_gpu_placement.catalog.problems import Problems
    from airflow_gpu_placement.model.gpu_model import GpuModel

_MOST_NODES = 100_000
"""More than any cluster has; each node that a pool may still add is counted."""

MERGED = ("gpu", "node_selector", "network", "kueue")
"""Sections that are laid over one another key by key; every other value is replaced as a whole."""


def gpu_keys(own: Mapping[str, GpuModel]) -> Keys:
    """Build the keys of ``gpu``.

    :param own: models that the catalogue adds, by spelling.
    """
    return {
        "model": Key(
            read.optional(_model(own)), "Model, in any spelling: `H100`, `nvidia-a100-80gb`.", FROM_NODES
        ),
        "memory_gb": Key(
            read.optional(read.number(above=0)), "Marketed memory class in GB: 40, 80, 141.", FROM_NODES
        ),
        "form_factor": Key(
            read.optional(read.word("form factor", *FORM_FACTORS)),
            f"How it is mounted: {', '.join(FORM_FACTORS)}.",
            FROM_NODES,
        ),
        "per_node": Key(
            read.optional(read.whole_number(1, MOST_GPUS)),
            "GPUs of one node; needed with `max_nodes`, `node_hour_usd` and `machine_hour_usd`.",
            FROM_NODES,
        ),
        "interconnect": Key(
            read.optional(read.word("interconnect", *INTERCONNECTS)),
            f"Between the GPUs of a node: {', '.join(INTERCONNECTS)}.",
            "from model and form factor",
        ),
        "resource_name": Key(
            read.text,
            "Extended resource that a pod asks for; read from the nodes when none has the usual one.",
            "nvidia.com/gpu",
        ),
    }


FROM_NODES = "read from the nodes"


def _model(own: Mapping[str, GpuModel]) -> Reader:
    def parse(value: Any, path: str, problems: Problems) -> str | None:
        found: str | None = read.text(value, path, problems)
        if found is not None and read_own(found, own) is None:
            problems.add(
                path,
                f"{found!r} is not a known GPU model; {suggest(found, tuple(_names(own)))} For a model newer "
                "than this release leave the key out: the nodes' own labels then name it; or describe it "
                "below gpu_models",
            )
            return None
        return found

    return Reader(parse, read.text.schema)


def _names(own: Mapping[str, GpuModel]) -> list[str]:
    return sorted({model.name for model in own.values()})


def _gpu(own: Mapping[str, GpuModel]) -> Reader:
    keys = gpu_keys(own)

    def parse(value: Any, path: str, problems: Problems) -> dict[str, Any]:
        found = fields(value, path, problems, keys)
        named = read_own(found["model"], own) if found.get("model") is not None else None
        memory_gb = found.get("memory_gb")
        if named is not None and None not in {named.memory_gb, memory_gb} and named.memory_gb != memory_gb:
            problems.add(
                f"{path}.memory_gb", f"is {memory_gb:g}, but the model says {named.memory_gb:g}; keep one"
            )
        return found

    return Reader(parse, section_schema(keys))


def _tolerations(value: Any, path: str, problems: Problems) -> tuple[Toleration, ...]:
    if not isinstance(value, list):
        problems.add(path, f"must be a list of tolerations, not {shown(value)}")
        return ()
    found = []
    for index, item in enumerate(value):
        inside = f"{path}[{index}]"
        before = len(problems.found)
        given = fields(item, inside, problems, TOLERATION_KEYS)
        if len(problems.found) > before:
            continue
        if given.get("operator", "Equal") == "Exists" and given.get("value"):
            problems.add(inside, "operator Exists takes no value")
        elif not given.get("key") and given.get("operator") != "Exists":
            problems.add(inside, "needs a key, or operator: Exists to tolerate everything")
        else:
            found.append(msgspec.convert(given, Toleration))
    return tuple(found)


TOLERATION_KEYS: Keys = {
    "key": Key(read.text, "Key of the taint."),
    "operator": Key(read.choice("Exists", "Equal"), "How the value is compared.", "Equal"),
    "value": Key(read.text, "Value of the taint; not with `Exists`."),
    "effect": Key(read.choice("NoSchedule", "PreferNoSchedule", "NoExecute"), "Effect of the taint.", "any"),
    "tolerationSeconds": Key(
        read.optional(read.whole_number(0)), "How long `NoExecute` is borne.", "for ever"
    ),
}

PRICE_KEYS: Keys = {
    "gpu_hour_usd": Key(
        read.optional(read.number(least=0)),
        "Price of one GPU for an hour in USD; 0 is a real price.",
        "unknown",
    ),
    "node_hour_usd": Key(
        read.optional(read.number(least=0)),
        "The same for a whole node; instead of `gpu_hour_usd`.",
        "unknown",
    ),
    "machine_hour_usd": Key(
        read.optional(read.number(least=0)),
        "What a node costs beside its GPUs, where a cloud bills them apart; added to any price.",
        "0",
    ),
    "source": Key(read.optional(read.text), "Where the price comes from; shown beside it."),
    "rank_gpu_hour_usd": Key(
        read.optional(read.number(least=0)),
        "Price that orders pools instead, such as what reserved GPUs would earn elsewhere; never spent.",
        "the price",
    ),
    "preference_usd": Key(
        read.number(), "Own bias in USD a job, for the order only: negative attracts, positive repels.", "0"
    ),
}

NETWORK_KEYS: Keys = {
    "kind": Key(
        read.optional(read.word("kind of network", *NETWORK_KINDS)),
        f"Between nodes: {', '.join(NETWORK_KINDS)}.",
        "unknown",
    ),
    "gbps": Key(read.optional(read.number(above=0)), "Bandwidth of one node in Gbit/s.", "unknown"),
    "fabric_label": Key(
        read.optional(read.label_key),
        "Node label whose value names the fabric that a node is on.",
        "the first that is known",
    ),
}

KUEUE_KEYS: Keys = {
    "local_queues": Key(
        read.by_name(read.object_name, lambda _: None, {"type": "string"}),
        'Tenant -> LocalQueue in the pool\'s namespace; `"*"` stands for any tenant.',
    ),
    "flavor": Key(
        read.optional(read.object_name), "ResourceFlavor that is this pool.", "found by its node labels"
    ),
}


def pool_keys(own: Mapping[str, GpuModel]) -> Keys:
    """Build the keys of a pool.

    :param own: models that the catalogue adds, by spelling.
    """
    return {
        "name": Key(read.name, "Unique; it appears in decisions and labels.", needed="a pool needs a name"),
        **_where_keys(),
        "capacity_type": Key(
            read.choice(*(kind.value for kind in CapacityType)),
            "How it is bought: reserved, on_demand or spot.",
            "on_demand",
        ),
        "gpu": Key(_gpu(own), "What the GPUs are; overrides what the nodes say."),
        "network": Key(section(NETWORK_KEYS), "What is between the nodes."),
        "architecture": Key(
            read.optional(read.choice(*ARCHITECTURES)), "Of the processors: amd64 or arm64.", FROM_NODES
        ),
        "node_selector": Key(
            read.labels, "Labels of the pool's nodes; also put on the remote job.", "all nodes"
        ),
        "tolerations": Key(
            Reader(_tolerations, {"type": "array", "items": section_schema(TOLERATION_KEYS)}),
            "Put on the remote job; a taint that they do not cover makes a node unusable.",
            "only the taint named as the GPU resource",
        ),
        "price": Key(read.optional(section(PRICE_KEYS)), "What the GPUs cost.", "unknown"),
        "max_nodes": Key(
            read.optional(read.whole_number(1, _MOST_NODES)),
            "Most nodes of a pool that grows by itself; up to 100000.",
            "it does not grow",
        ),
        "provisioning_seconds": Key(
            read.number(least=0), "Time until a node that the pool adds can be used.", "300"
        ),
        **_risk_keys(),
        "execution": Key(
            read.choice(*(path.value for path in Execution)),
            "How jobs get to the nodes: job, kueue or multikueue.",
            "job",
        ),
        "kueue": Key(section(KUEUE_KEYS), "How the pool is reached through Kueue."),
    }


def _where_keys() -> Keys:
    return {
        "kubernetes_conn_id": Key(
            read.conn_id,
            "Airflow connection of the cluster; credentials live there.",
            needed="name the Airflow connection of the pool's cluster",
        ),
        "context": Key(read.optional(read.text), "Context of the kubeconfig.", "its current one"),
        "cluster_uid": Key(
            read.optional(read.text),
            "uid of the namespace `kube-system`; a cluster that answers with another is refused.",
            "not compared",
        ),
        "namespace": Key(read.namespace, "Where remote jobs are created.", "default"),
        "cloud": Key(
            read.optional(read.text), "`aws`, `gcp`, `azure` or another name; for egress and prices."
        ),
        "region": Key(
            read.optional(read.text), "Where the machines are; compared with data and requests.", FROM_NODES
        ),
        "zone": Key(
            read.optional(read.text), "The same, finer; for prices, and for nodes that do not tell theirs."
        ),
    }


def _risk_keys() -> Keys:
    return {
        "interruptions_per_gpu_hour": Key(
            read.optional(read.number(least=0)),
            "How often a GPU is lost in an hour, before anything was observed.",
            "by capacity type",
        ),
        "max_signal_age_seconds": Key(read.number(above=0), "Older signals count as unknown.", "120"),
        "node_grace_seconds": Key(read.number(above=0), "Silence of a node after which it is lost.", "120"),
        "cluster_grace_seconds": Key(
            read.number(above=0), "Silence of a cluster after which its jobs are lost.", "900"
        ),
        "node_deletion_is_proof": Key(
            read.flag, "A deleted Node proves that the machine is gone, as in most clouds.", "false"
        ),
        "start_timeout_seconds": Key(
            read.number(above=0),
            "Time until every pod of a job has started, after which it is placed elsewhere.",
            "600",
        ),
        "unschedulable_timeout_seconds": Key(
            read.number(above=0),
            "The same once the scheduler finds no node for a pod; not in a pool with `max_nodes`.",
            "60",
        ),
    }
