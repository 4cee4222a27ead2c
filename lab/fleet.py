"""The whole lab inside the keeper: etcd, the clusters, and the orders that change them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab import controlplane, specfile
from lab.cluster import RunningCluster
from lab.errors import LabError, LabSpecError, unknown_name
from lab.etcd import Etcd
from lab.node import faults, profiles
from lab.pki import write_private
from lab.processes import ProcessId, wait_gone
from lab.spec import check_name

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from lab.component import Component
    from lab.paths import LabPaths
    from lab.spec import LabSpec

_END_TIMEOUT_SECONDS = 10.0
_NODE_ORDERS: Mapping[str, Callable[[RunningCluster, str], Awaitable[Any]]] = {
    "node-start": RunningCluster.start_node,
    "node-power-off": RunningCluster.power_off,
    "node-kill-agent": RunningCluster.kill_agent,
    "node-partition": RunningCluster.partition_node,
    "node-heal": RunningCluster.heal_node,
    "node-freeze": RunningCluster.freeze_node,
    "node-freeze-agent": RunningCluster.freeze_agent,
    "node-thaw": RunningCluster.thaw_node,
}


async def _kill(server: Component) -> None:
    server.kill()
    await server.gone()


async def _terminate(server: Component) -> None:
    server.retire()


async def _freeze(server: Component) -> None:
    server.send(signal.SIGSTOP)


async def _thaw(server: Component) -> None:
    server.send(signal.SIGCONT)


async def _start(server: Component) -> None:
    if server.pid is not None:
        raise LabError(f"{server.name} already runs (pid {server.pid}); if it is frozen, thaw it")
    if server.again is None:
        raise LabError(f"{server.name} cannot be started again; end the lab and start it anew")
    await server.again()


_SERVER_ORDERS: Mapping[str, Callable[[Component], Awaitable[None]]] = {
    "server-kill": _kill,
    "server-terminate": _terminate,
    "server-freeze": _freeze,
    "server-thaw": _thaw,
    "server-start": _start,
}


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
        self._etcd = Etcd(controlplane.ETCD, paths.component(controlplane.ETCD), programs[controlplane.ETCD])
        # One order at a time changes the process of the etcd that clusters share.
        self._lock = asyncio.Lock()
        self._clusters = {
            each.name: RunningCluster(paths, spec, each, programs, progress) for each in spec.clusters
        }

    async def start(self) -> None:
        """Start everything, the clusters side by side, and wait until all of it is ready."""
        if not all(cluster.own_etcd for cluster in self._spec.clusters):
            await self._etcd.start()
        async with asyncio.TaskGroup() as group:
            for cluster in self._clusters.values():
                group.create_task(cluster.start(self._etcd.port))
        self._write_state()
        self.ready = True

    def components(self) -> list[Component]:
        """Return every process of the lab, started or not."""
        found = [self._etcd.component]
        for cluster in self._clusters.values():
            found += [*cluster.components(), *cluster.nodes.values()]
        return found

    def reap(self) -> None:
        """Collect every child that has ended, orphans of dead node agents among them."""
        known = {child.pid: child for each in self.components() for child in each.children}
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
        if operation in _SERVER_ORDERS:
            component, lock = self._server(arguments["server"])
            async with lock:
                return await _SERVER_ORDERS[operation](component)
        cluster = self._cluster(arguments["cluster"])
        async with cluster.lock:
            if operation == "node-add":
                return await self._add_node(cluster, arguments["node"])
            if operation == "kwok-start":
                return await cluster.start_kwok(arguments["program"])
            if operation == "proxy-add":
                return await self._add_proxy(cluster, arguments["proxy"])
            if operation in _NODE_ORDERS:
                return await _NODE_ORDERS[operation](cluster, arguments["node"])
        raise LabError(f"the keeper knows no order {operation!r}; it may be of another version: start anew")

    def _server(self, name: str) -> tuple[Component, asyncio.Lock]:
        """Return a server and the lock of who changes it."""
        found = {}
        if self._etcd.port:
            found[self._etcd.component.name] = self._etcd.component, self._lock
        for cluster in self._clusters.values():
            found |= {server.name: (server, cluster.lock) for server in cluster.components()}
        if name not in found:
            raise LabError(unknown_name("server", name, found))
        return found[name]

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

    async def _add_proxy(self, cluster: RunningCluster, name: str) -> int:
        check_name("name of the proxy", name)
        await cluster.add_proxy(name)
        return cluster.proxies[name].port

    def status(self) -> dict[str, Any]:
        """Return what runs."""
        return {
            "ready": self.ready,
            "etcd": self._etcd.component.pid,
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
                    "own_etcd": cluster.spec.own_etcd,
                    "etcd_port": cluster.etcd_port,
                }
                for name, cluster in self._clusters.items()
            },
        }
        scratch = self._paths.state_file.with_suffix(".new")
        write_private(scratch, json.dumps(state, indent=1).encode())
        scratch.rename(self._paths.state_file)


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
