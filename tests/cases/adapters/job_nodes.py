"""The nodes of a remote job -> the product's view of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from airflow_gpu_placement.engine.node_evidence import node_view
from airflow_gpu_placement.model.kube import Node
from tests.cases.adapters.conditions import condition
from tests.cases.adapters.reading import by_key, by_type, known_keys, raw_or, without_nulls
from tests.cases.adapters.units import status_word

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_gpu_placement.model.kube import Pod
    from airflow_gpu_placement.model.outcome import NodeView
    from tests.cases.adapters.reading import Facts

A_NODE = "the-node"
"""Name of a node that a case does not name."""


def nodes_of(facts: Facts, hosts: list[str]) -> dict[str, NodeView]:
    """Read the nodes of the job by name; a single one is the node of the pod, whatever it is called."""
    views: dict[str, NodeView] = by_key(
        facts,
        {
            "nodes": _several,
            "node": lambda node: by_type(
                node,
                {
                    int: lambda _: {host: node_view(host, None, exists=False) for host in hosts},
                    dict: lambda given: {host: _view(given, host) for host in _hosts(given, hosts)},
                },
            ),
            "node_ready": lambda ready: {host: _view({"ready": ready}, host) for host in hosts},
        },
        default={},
    )
    return views


def raw_nodes_of(facts: Facts, pods: tuple[Pod, ...]) -> list[Node]:
    """Read the nodes that the API shows; without a word about them the pods' nodes are there and ready."""
    hosts = {0: [A_NODE]}.get(len(pods), list({pod.spec.node_name: pod for pod in pods}))
    nodes: list[Node] = by_key(
        facts,
        {
            "nodes": lambda many: [_raw_node(one, _name(one)) for one in many],
            "node": lambda node: by_type(
                node,
                {
                    int: lambda _: [],
                    dict: lambda given: [_raw_node(given, host) for host in _hosts(given, hosts)],
                },
            ),
            "node_ready": lambda ready: [_raw_node({"ready": ready}, host) for host in hosts],
        },
        default=[_raw_node({}, host) for host in hosts],
    )
    return nodes


def _raw_node(given: Mapping[str, Any], name: str) -> Node:
    node = msgspec.convert(raw_or(given, _node), Node)
    return msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, name=name))


def _hosts(given: Mapping[str, Any], hosts: list[str]) -> list[str]:
    """Return the pods' nodes that one node stands for: the only one, else the one with its name, else all."""
    named = {host: [host] for host in hosts}
    return {1: hosts}.get(len(hosts), named.get(_name(given), hosts))


def _name(given: Mapping[str, Any]) -> str:
    metadata: Mapping[str, str] = given.get("metadata", {"name": given.get("name", A_NODE)})
    return metadata["name"]


def _several(value: Any) -> dict[str, NodeView]:
    views: dict[str, NodeView] = by_type(
        value,
        {
            list: lambda many: {_name(one): _view(one, _name(one)) for one in many},
            dict: lambda many: {name: _view_or_gone(one, name) for name, one in many.items()},
        },
    )
    return views


def _view_or_gone(value: Any, name: str) -> NodeView:
    view: NodeView = by_type(
        value,
        {int: lambda _: node_view(name, None, exists=False), dict: lambda given: _view(given, name)},
    )
    return view


def _view(given: Mapping[str, Any], name: str) -> NodeView:
    raw = without_nulls(raw_or(given, _node))
    return node_view(
        name, msgspec.convert(raw, Node), ready_seconds=float(by_key(given, {"for_s": float}, default=0.0))
    )


def _node(short: Mapping[str, Any]) -> dict[str, Any]:
    known_keys(short, "ready", "for_s", "name", "arch", "labels", "taints", "unschedulable", "conditions")
    labels = by_key(short, {"arch": lambda arch: {"kubernetes.io/arch": arch}}, default={})
    ready = by_key(short, {"ready": _ready}, default=[{"type": "Ready", "status": "True"}])
    return {
        "metadata": {"name": _name(short), "labels": {**labels, **short.get("labels", {})}},
        "spec": {"taints": short.get("taints", [])},
        "status": {"conditions": [*ready, *map(condition, short.get("conditions", []))]},
    }


def _ready(value: Any) -> list[dict[str, str]]:
    return [{"type": "Ready", "status": status_word(value)}]
