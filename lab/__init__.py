"""A rootless local fleet of real Kubernetes control planes with process nodes, for tests and the demo.

Real etcd, kube-apiserver, kube-controller-manager and kube-scheduler run as plain processes on the loopback
interface; nodes are processes that really run what a container would run. ``python -m lab --help`` is the
command line.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lab.api import Cluster, Lab
    from lab.client import ApiClient
    from lab.errors import LabApiError, LabError, LabSpecError, LabTimeoutError
    from lab.nodes import Node
    from lab.servers import Server
    from lab.spec import ClusterSpec, LabSpec, NodeSpec

__all__ = [
    "ApiClient",
    "Cluster",
    "ClusterSpec",
    "Lab",
    "LabApiError",
    "LabError",
    "LabSpec",
    "LabSpecError",
    "LabTimeoutError",
    "Node",
    "NodeSpec",
    "Server",
]

_HOMES = {
    "lab.api": ("Cluster", "Lab"),
    "lab.client": ("ApiClient",),
    "lab.errors": ("LabApiError", "LabError", "LabSpecError", "LabTimeoutError"),
    "lab.nodes": ("Node",),
    "lab.servers": ("Server",),
    "lab.spec": ("ClusterSpec", "LabSpec", "NodeSpec"),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: each node's agent imports this package and needs none."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
