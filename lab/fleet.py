"""The whole lab inside the keeper: etcd, the clusters, and the orders that change them."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab import controlplane, specfile
from lab.cluster import RunningCluster
from lab.component import Component, on_free_port
from lab.errors import LabError, LabSpecError, unknown_name
from lab.node import faults, profiles
from lab.pki import write_private
from lab.ports import free_port
from lab.processes import ProcessId, wait_gone

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lab.paths import LabPaths
    from lab.spec import LabSpec

_END_TIMEOUT_SECONDS = 10.0


class Fleet:
    """All processes of one lab.

    :param programs: path of each server program.
    :param progress: gets one line for each step.
    """

    def __init__(
        self, paths: LabPaths, spec: LabSpec, programs: Mapping[str, Path], progress: Callable[[str], None]
    ) -> None:
        self.ready = False
        self._paths = paths
        self._spec = spec
        self._programs = programs
        self._etcd = Component("etcd", paths.component("etcd"))
        self._clusters = {
            each.name: RunningCluster(paths, spec, each, programs, progress) for each in spec.clusters
        }

    async def start(self) -> None:
        """Start everything, the clusters side by side, and wait until all of it is ready."""
        etcd_port = await on_free_port(self._start_etcd)
        async with asyncio.TaskGroup() as group:
            for cluster in self._clusters.values():
                group.create_task(cluster.start(etcd_port))
        self._write_state()
        self.ready = True

    async def _start_etcd(self) -> int:
        port, member = free_port(), secrets.token_hex(8)
        data = self._etcd.folder / f"data-{member}"
        self._etcd.start(
            controlplane.etcd_command(self._programs["etcd"], member, data, port, peer_port=free_port())
        )
        await self._etcd.until(lambda: _is_member(port, member))
        return port

    def components(self) -> list[Component]:
        """Return every process of the lab, started or not."""
        found = [self._etcd]
        for cluster in self._clusters.values():
            found += [*cluster.servers.values(), *cluster.nodes.values()]
        return found

    def reap(self) -> None:
        """Collect every child that has ended, orphans of dead node agents among them."""
        known = {each.child.pid: each.child for each in self.components() if each.child is not None}
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            if ended.si_pid in known and known[ended.si_pid].returncode is None:
                known[ended.si_pid].poll()
            else:
                os.waitpid(ended.si_pid, os.WNOHANG)

    async def end(self) -> None:
        """Kill everything and wait until it is gone."""
        for cluster in self._clusters.values():
            for component in cluster.nodes.values():
                await asyncio.to_thread(faults.power_off, component.folder)
        for component in self.components():
            component.kill()
        # Whatever a node left behind is a descendant by now: orphans are given to the keeper.
        leftovers = _descendants(os.getpid())
        for process in leftovers:
            process.signal(signal.SIGKILL)
        left = await asyncio.to_thread(wait_gone, leftovers, _END_TIMEOUT_SECONDS)
        if left:
            raise LabError(
                f"processes {[each.pid for each in left]} did not end within {_END_TIMEOUT_SECONDS:g} s"
            )

    # -- orders --

    async def handle(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        """Carry out one order and return its result, plain values."""
        if operation == "status":
            return self.status()
        if not self.ready:
            raise LabError(f"lab {self._paths.name!r} is still starting; wait for it, or end it with 'down'")
        cluster = self._cluster(arguments["cluster"])
        async with cluster.lock:
            return await self._change(cluster, operation, arguments)

    async def _change(self, cluster: RunningCluster, operation: str, arguments: Mapping[str, Any]) -> Any:
        match operation:
            case "api-stop":
                await cluster.stop_api_server()
            case "api-start":
                await cluster.start_api_server()
            case "node-add":
                await self._add_node(cluster, arguments["node"])
            case "node-start":
                cluster.start_node(arguments["node"])
            case "node-power-off":
                return await cluster.power_off(arguments["node"])
            case "node-kill-agent":
                await cluster.kill_agent(arguments["node"])
            case _:
                raise LabError(
                    f"the keeper knows no order {operation!r}; it may be of another version: start anew"
                )
        return None

    async def _add_node(self, cluster: RunningCluster, plain: Any) -> None:
        node = specfile.node(plain, "node")
        problems = [
            f"{where}: {what}" for where, what in self._spec.node_problems("node", node, profiles.PROFILES)
        ]
        if problems:
            raise LabSpecError(problems)
        await cluster.add_node(node)
        self._spec = self._spec.with_node(cluster.spec.name, node)
        self._write_state()

    def status(self) -> dict[str, Any]:
        """Return what runs."""
        return {
            "ready": self.ready,
            "etcd": self._etcd.pid,
            "clusters": {
                name: {
                    "server": controlplane.server_url(cluster.port) if cluster.port else None,
                    "servers": {program: each.pid for program, each in cluster.servers.items()},
                    "nodes": {
                        node: {"agent": each.pid, "profile": cluster.node_specs[node].profile}
                        for node, each in cluster.nodes.items()
                    },
                }
                for name, cluster in self._clusters.items()
            },
        }

    def _cluster(self, name: str) -> RunningCluster:
        if name not in self._clusters:
            raise LabError(unknown_name("cluster", name, self._clusters))
        return self._clusters[name]

    def _write_state(self) -> None:
        state = {
            "spec": specfile.dump(self._spec),
            "clusters": {
                name: {
                    "server": controlplane.server_url(cluster.port),
                    "ca_file": str(cluster.files.keys.ca),
                    "uid": cluster.uid,
                    "tokens": dict(cluster.files.tokens),
                    "nodes": list(cluster.nodes),
                }
                for name, cluster in self._clusters.items()
            },
        }
        scratch = self._paths.state_file.with_suffix(".new")
        write_private(scratch, json.dumps(state, indent=1).encode())
        scratch.rename(self._paths.state_file)


def _is_member(port: int, member: str) -> bool:
    """Say whether the etcd that answers on a port is the one that was started, not another lab's."""
    query = urllib.request.Request(
        f"http://127.0.0.1:{port}/v3/cluster/member/list", data=b"{}", method="POST"
    )
    try:
        # Loopback is never behind a proxy, whatever the environment says.
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(query, timeout=5) as answer:
            members = json.load(answer).get("members", [])
    except (OSError, ValueError, urllib.error.URLError):
        return False
    return any(each.get("name") == member for each in members)


def _descendants(pid: int) -> list[ProcessId]:
    """Return every process below one, zombies left out."""
    found: list[ProcessId] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(child) for child in task.read_text(encoding="ascii").split()]
        except (FileNotFoundError, ProcessLookupError):
            continue
        for child in children:
            identity = ProcessId.of(child)
            if identity is not None:
                found += [identity, *_descendants(child)]
    return found
