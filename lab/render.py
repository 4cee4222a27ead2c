"""Tables of the command line."""

from __future__ import annotations

import http.client
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from lab import controlplane, launch
from lab.errors import LabApiError, LabError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lab.api import Cluster, Lab
    from lab.paths import LabPaths

_SERVERS = (
    controlplane.API_SERVER,
    controlplane.CONTROLLER_MANAGER,
    controlplane.SCHEDULER,
    controlplane.ETCD,
)


def labs(found: Sequence[LabPaths], home: Path) -> None:
    """Print one line for each lab."""
    console = Console()
    if not found:
        console.print(f"no lab in {home}. Start one with: python -m lab up", soft_wrap=True)
        return
    table = Table("lab", "state", "keeper", "folder")
    for paths in found:
        process = launch.keeper_process(paths)
        if process is None:
            state = "dead; 'python -m lab down' removes its folder"
        else:
            state = "ready" if paths.state_file.is_file() else "starting"
        table.add_row(paths.name, state, str(process.pid) if process else "-", str(paths.folder))
    console.print(table)


def lab(running: Lab) -> None:
    """Print the clusters and nodes of one lab."""
    status = running.status()
    columns = ("cluster", "address", "API server pid", "controllers", "scheduler", "etcd")
    table = Table(*columns, title=f"lab {running.name}")
    for name, cluster in status["clusters"].items():
        pids = {controlplane.ETCD: status["etcd"]} | cluster["servers"]
        table.add_row(name, cluster["server"], *[_process(pids[program]) for program in _SERVERS])
    console = Console()
    console.print(table)
    nodes(running)


def nodes(running: Lab) -> None:
    """Print the nodes of one lab: the process as the keeper sees it, Ready as the API server says it."""
    status = running.status()
    table = Table("cluster", "node", "profile", "GPUs", "agent pid", "Ready")
    for cluster in running.clusters:
        objects = _node_objects(cluster)
        for name, node in status["clusters"][cluster.name]["nodes"].items():
            found = objects.get(name) if objects is not None else None
            ready = "API server down" if objects is None else _ready(found)
            table.add_row(cluster.name, name, node["profile"], _gpus(found), _process(node["agent"]), ready)
    Console().print(table)


def _process(pid: int | None) -> str:
    return str(pid) if pid is not None else "[red]stopped[/red]"


def _node_objects(cluster: Cluster) -> dict[str, Any] | None:
    try:
        items = cluster.api.get("/api/v1/nodes")["items"]
    except (LabApiError, LabError, OSError, http.client.HTTPException):
        return None
    return {item["metadata"]["name"]: item for item in items}


def _ready(node: dict[str, Any] | None) -> str:
    if node is None:
        return "[red]no Node object[/red]"
    for condition in node.get("status", {}).get("conditions", ()):
        if condition["type"] == "Ready":
            return str(condition["status"])
    return "-"


def _gpus(node: dict[str, Any] | None) -> str:
    capacity = (node or {}).get("status", {}).get("capacity", {})
    return str(next((capacity[name] for name in ("nvidia.com/gpu", "amd.com/gpu") if name in capacity), "-"))
