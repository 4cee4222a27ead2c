"""Node objects as real clusters show them, for tests of the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from airflow_gpu_placement.model.kube import Node
from airflow_gpu_placement.model.pool import ClusterRef
from lab.node.profiles import materialise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CLUSTER = ClusterRef(kubernetes_conn_id="gpu_us", uid="uid-1", namespace="training")


def node(
    name: str,
    profile: str = "gke-a100-80",
    *,
    gpus: int | None = None,
    zone: str | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] | None = None,
) -> Node:
    """Build a ready node of one of the lab's profiles.

    :param labels: more labels; an empty value takes a label away.
    :param taints: instead of the profile's own.
    """
    made = materialise(profile, node_name=name, gpus=gpus, zone=zone, extra_labels=labels)
    kept = {key: value for key, value in made["labels"].items() if value}
    return msgspec.convert(
        {
            "metadata": {"name": name, "labels": kept},
            "spec": {
                "taints": made["taints"] if taints is None else list(taints),
                "providerID": made["provider_id"],
            },
            "status": {
                "capacity": made["capacity"],
                "allocatable": made["capacity"],
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        },
        Node,
    )


def matched(nodes: Sequence[Node], selector: Mapping[str, str]) -> set[str]:
    """Return the names of the nodes that a selector matches."""
    return {one.metadata.name for one in nodes if selector.items() <= one.metadata.labels.items()}


def arguments(**values: Any) -> dict[str, Any]:
    """Return parsed arguments with nothing given but these."""
    from airflow_gpu_placement.cli.request_flags import REQUEST_FLAGS

    empty = dict.fromkeys(flag.attribute for flag in REQUEST_FLAGS)
    others = {
        "request": None,
        "dag": None,
        "task": None,
        "team": None,
        "profile": None,
        "counterfactual": None,
        "bundle_name": None,
        "catalog": None,
    }
    return {**empty, **others, "signal_deadline": None, "output": "table", "verbose": False, **values}
