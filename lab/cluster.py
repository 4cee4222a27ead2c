"""One running cluster inside the keeper: its servers and its nodes."""

from __future__ import annotations

import asyncio
import http.client
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab import controlplane, pki
from lab.client import ApiClient
from lab.component import Component, on_free_port
from lab.errors import LabApiError, LabError, unknown_name
from lab.etcd import Etcd
from lab.helpers import RunningKwok, RunningProxy
from lab.node import faults, profiles
from lab.ports import free_port, wait_free
from lab.spec import ADMIN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lab.paths import LabPaths
    from lab.spec import ClusterSpec, LabSpec, NodeSpec

_CHECKOUT = Path(__file__).resolve().parent.parent
_POLL_TIMEOUT_SECONDS = 5.0


class RunningCluster:
    """The servers and nodes of one cluster.

    :param programs: path of each server program.
    :param progress: gets one line for each step.
    """

    def __init__(
        self,
        paths: LabPaths,
        lab: LabSpec,
        spec: ClusterSpec,
        programs: Mapping[str, Path],
        progress: Callable[[str], None],
    ) -> None:
        self.spec = spec
        self.uid = ""
        self.port = 0
        self._paths = paths
        self._lab = lab
        self._programs = programs
        self._progress = progress
        self.etcd_port = 0
        self.files = controlplane.create_files(paths, spec)
        starts = {
            controlplane.API_SERVER: self._start_api_server_again,
            controlplane.CONTROLLER_MANAGER: self._start_controller_manager,
            controlplane.SCHEDULER: self._start_scheduler,
        }
        self.servers = {
            program: Component(
                self._component(program), paths.component(self._component(program)), again=start
            )
            for program, start in starts.items()
        }
        self._etcd: Etcd | None = None
        if spec.own_etcd:
            name = self._component(controlplane.ETCD)
            self._etcd = Etcd(name, paths.component(name), programs[controlplane.ETCD])
            self.servers[controlplane.ETCD] = self._etcd.component
        self.nodes: dict[str, Component] = {}
        self.node_specs: dict[str, NodeSpec] = {}
        self.proxies: dict[str, RunningProxy] = {}
        self._kwok = RunningKwok(self.files, lab.node_monitor_grace_seconds)
        # One order at a time changes the processes of a cluster.
        self.lock = asyncio.Lock()

    @property
    def api(self) -> ApiClient:
        """Client with all rights."""
        server = controlplane.server_url(self.port)
        return ApiClient(server, self.files.keys.ca, self.files.tokens[ADMIN], _POLL_TIMEOUT_SECONDS)

    def _component(self, program: str) -> str:
        return f"{self.spec.name}/{program}"

    async def start(self, etcd_port: int) -> None:
        """Start the servers and the nodes and wait until all of it is ready.

        :param etcd_port: of the lab's etcd; a cluster with an etcd of its own does not use it.
        """
        self.etcd_port = etcd_port
        if self._etcd is not None:
            await self._etcd.start()
            self.etcd_port = self._etcd.port
        await on_free_port(self._start_first_api_server)
        self._progress(f"{self.spec.name}: API server is ready at {controlplane.server_url(self.port)}")
        await self._start_controller_manager()
        await self._start_scheduler()
        for node in self.spec.all_nodes():
            self._prepare_node(node)
            self._start_node(node.name)
        await self.servers[controlplane.API_SERVER].until(self._has_uid)
        await self.nodes_ready(list(self.nodes))
        self._progress(f"{self.spec.name}: {len(self.nodes)} nodes are ready")

    async def _start_first_api_server(self) -> None:
        self.port = free_port()
        self.files.write_kubeconfigs(self.port)
        await self._run_api_server()

    async def _run_api_server(self) -> None:
        server = self.servers[controlplane.API_SERVER]
        program = self._programs[controlplane.API_SERVER]
        server.start(controlplane.api_server_command(program, self.files, self.etcd_port, self.port))
        await server.until(lambda: self._answers("/readyz"))

    def _answers(self, path: str) -> bool:
        return self._try_read(path) is not None

    def _try_read(self, path: str) -> Any:
        """Return what the API server answers, ``None`` while it does not."""
        try:
            return self.api.get(path)
        except (LabApiError, OSError, http.client.HTTPException):
            return None

    def _has_uid(self) -> bool:
        """Read the uid of the namespace that the API server makes itself soon after its start."""
        namespace = self._try_read("/api/v1/namespaces/kube-system")
        if namespace is not None:
            self.uid = namespace["metadata"]["uid"]
        return bool(self.uid)

    async def _start_api_server_again(self) -> None:
        """Start the API server on the port that its clients know; a predecessor may still be ending."""
        await wait_free(self.port, f"{self.spec.name}'s API server")
        await self._run_api_server()

    async def _start_controller_manager(self) -> None:
        program, grace = controlplane.CONTROLLER_MANAGER, self._lab.node_monitor_grace_seconds
        self.servers[program].start(
            controlplane.controller_manager_command(self._programs[program], self.files, grace)
        )

    async def _start_scheduler(self) -> None:
        program = controlplane.SCHEDULER
        self.servers[program].start(controlplane.scheduler_command(self._programs[program], self.files))

    def components(self) -> list[Component]:
        """Return every process but those of nodes, started or not."""
        helpers = [proxy.component for proxy in self.proxies.values()]
        if self._kwok.component.children:
            helpers.append(self._kwok.component)
        return [*self.servers.values(), *helpers]

    async def start_kwok(self, program: str) -> None:
        """Start the KWOK controller; one that runs already is left as it is."""
        if self._kwok.component.pid is None:
            await self._kwok.start(program)

    async def add_proxy(self, name: str) -> None:
        """Start a proxy before the API server; one that is there already is left as it is."""
        if name in self.proxies:
            return
        proxy = RunningProxy(self.files, name, self.port)
        await proxy.start()
        self.proxies[name] = proxy

    # -- nodes --

    async def add_node(self, node: NodeSpec) -> None:
        """Start one node more and wait until it is ready."""
        self._prepare_node(node)
        self._start_node(node.name)
        await self.nodes_ready([node.name])

    async def start_node(self, name: str) -> None:
        """Start the agent of a node that is off."""
        self._node(name)
        self._start_node(name)

    async def power_off(self, name: str) -> int:
        """End everything that runs on a node at once; return how many processes died."""
        component = self._node(name)
        died: int = await asyncio.to_thread(faults.power_off, component.folder)
        # An agent that was just started has no record of its own yet.
        component.kill()
        await component.gone()
        return died

    async def kill_agent(self, name: str) -> None:
        """End a node's agent; its containers run on."""
        component = self._node(name)
        await asyncio.to_thread(faults.kill_agent, component.folder)
        component.kill()
        await component.gone()

    async def partition_node(self, name: str) -> None:
        """Cut a node off from the API server."""
        await asyncio.to_thread(faults.partition, self._node(name).folder)

    async def heal_node(self, name: str) -> None:
        """Give a node its network back."""
        await asyncio.to_thread(faults.heal, self._node(name).folder)

    async def freeze_node(self, name: str) -> int:
        """Stop everything that runs on a node."""
        return await asyncio.to_thread(faults.freeze, self._node(name).folder)

    async def freeze_agent(self, name: str) -> None:
        """Stop a node's agent; its containers run on."""
        await asyncio.to_thread(faults.freeze_agent, self._node(name).folder)

    async def thaw_node(self, name: str) -> None:
        """Let everything on a node go on."""
        await asyncio.to_thread(faults.thaw, self._node(name).folder)

    async def nodes_ready(self, names: list[str]) -> None:
        """Wait until nodes are Ready and no taint of a node that is not is left."""
        for name in names:
            await self.nodes[name].until(lambda name=name: self._is_node_ready(name))  # type: ignore[misc]  # default binds the loop variable

    def _is_node_ready(self, name: str) -> bool:
        node = self._try_read(f"/api/v1/nodes/{name}")
        return (
            node is not None
            and node_is_ready(node)
            and not any(
                taint["key"].startswith("node.kubernetes.io/") for taint in node["spec"].get("taints", ())
            )
        )

    def _node(self, name: str) -> Component:
        if name not in self.nodes:
            raise LabError(unknown_name(f"node of cluster {self.spec.name!r}", name, self.nodes))
        return self.nodes[name]

    def _prepare_node(self, node: NodeSpec) -> None:
        if node.name in self.nodes:
            raise LabError(f"cluster {self.spec.name!r} already has a node {node.name!r}; give another name")
        folder = self._paths.node(self.spec.name, node.name)
        folder.mkdir(parents=True)
        keys = self.files.keys
        profile = profiles.materialise(
            profiles.PROFILES[node.profile],
            node_name=node.name,
            gpus=node.gpus,
            zone=node.zone,
            region=node.region,
            extra_labels=dict(node.labels),
        )
        config = {
            "name": node.name,
            "cluster": self.spec.name,
            "server": controlplane.server_url(self.port),
            "ca_file": str(keys.ca),
            "token": self.files.tokens[controlplane.NODE_USER],
            "kubelet_cert_file": str(keys.certificate("kubelet")),
            "kubelet_key_file": str(keys.key("kubelet")),
            "kubelet_client_ca_file": str(keys.ca),
            "root_dir": str(folder),
            "lifeline": str(self._paths.lifeline),
            "profile": profile,
            "renew_seconds": node.renew_seconds,
            "sandbox": node.sandbox,
            "images": list(node.images),
            "backoff_seconds": node.backoff_seconds,
        }
        pki.write_private(folder / "config.json", json.dumps(config, indent=1).encode())
        # -m looks for the package in the working directory, whatever the user's path settings are.
        self.nodes[node.name] = Component(
            f"{self.spec.name}/node/{node.name}", folder, "agent.log", cwd=_CHECKOUT
        )
        self.node_specs[node.name] = node

    def _start_node(self, name: str) -> None:
        component = self.nodes[name]
        component.start([sys.executable, "-m", "lab.node", str(component.folder / "config.json")])


def node_is_ready(node: Mapping[str, Any]) -> bool:
    """Say whether a Node object reports Ready."""
    conditions = node.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
