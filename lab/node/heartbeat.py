"""The node's own objects: registration, then a renewed Lease and Ready condition."""

from __future__ import annotations

import asyncio
import datetime
import logging
import math
import platform
import sys
from typing import TYPE_CHECKING, Any

from lab.node.api import CONNECTION_ERRORS, MERGE, Api, ApiError
from lab.node.config import boot_id
from lab.node.status import now

if TYPE_CHECKING:
    from lab.node.config import NodeConfig

LOG = logging.getLogger(__name__)
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
RETRY_SECONDS = 0.5
KUBELET_VERSION = "v1.36.3"
CALM = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)


class Heartbeat:
    """Registers the node once in the agent's life, and says that it lives."""

    def __init__(self, config: NodeConfig, api: Api, log_port: int) -> None:
        self._config = config
        self._api = api
        self._port = log_port
        self._path = f"/api/v1/nodes/{config.name}"
        self._since = now()
        self._uid = ""
        self._missing = False
        self._beaten_at = 0.0

    async def register(self) -> None:
        """Create the Node object (or take over the one that is there) and make it Ready."""
        while True:
            try:
                await self._create()
                await self._beat()
            except (ApiError, *CONNECTION_ERRORS) as error:
                LOG.warning("cannot register yet: %s: %s", type(error).__name__, error)
                await asyncio.sleep(RETRY_SECONDS)
            else:
                LOG.info("registered as %s", self._config.name)
                return

    async def run(self) -> None:
        """Renew for ever. A node whose object was deleted stays away until the agent starts again."""
        period = self._config.renew_seconds
        loop = asyncio.get_running_loop()
        due = loop.time() + period
        while True:
            await asyncio.sleep(max(0.0, due - loop.time()))
            try:
                async with asyncio.timeout(max(period, 1.0)):
                    await self._beat()
            except (ApiError, *CONNECTION_ERRORS) as error:
                LOG.warning("cannot renew: %s: %s", type(error).__name__, error)
                due = loop.time() + min(period, RETRY_SECONDS)
            else:
                due = max(due + period, loop.time())

    async def _create(self) -> None:
        config = self._config
        spec: dict[str, Any] = {"providerID": config.provider_id} if config.provider_id else {}
        spec |= {"taints": config.taints} if config.taints else {}
        body = {"metadata": {"name": config.name, "labels": config.labels}, "spec": spec}
        try:
            node = await self._api.request("POST", "/api/v1/nodes", body)
        except ApiError as error:
            if error.status != 409:
                raise
            node = await self._api.get(self._path)
            self._keep_transition(node)
        self._uid = node["metadata"]["uid"]
        await self._api.patch(self._path + "/status", {"status": self._static_status()})

    def _keep_transition(self, node: dict[str, Any]) -> None:
        """Keep the time since which the node is Ready, when nobody has noticed its absence."""
        for condition in (node.get("status") or {}).get("conditions") or ():
            if condition["type"] == "Ready" and condition["status"] == "True":
                self._since = condition["lastTransitionTime"]

    def _static_status(self) -> dict[str, Any]:
        config = self._config
        info = {
            "machineID": config.name,
            "systemUUID": config.name,
            "bootID": boot_id(config.root_dir),
            "kernelVersion": platform.release(),
            "osImage": "process node",
            "containerRuntimeVersion": f"lab://{platform.python_version()}",
            "kubeletVersion": KUBELET_VERSION,
            "kubeProxyVersion": "",
            "operatingSystem": sys.platform,
            "architecture": "amd64" if platform.machine() == "x86_64" else "arm64",
        }
        return {
            "capacity": config.capacity,
            "allocatable": config.capacity,
            "addresses": [
                {"type": "InternalIP", "address": "127.0.0.1"},
                {"type": "Hostname", "address": config.name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._port}},
            "nodeInfo": info,
        }

    def _conditions(self) -> list[dict[str, str]]:
        heard = now()
        times = {"lastHeartbeatTime": heard, "lastTransitionTime": self._since}
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "the process node is ready",
        }
        calm = [
            {"type": kind, "status": "False", "reason": reason, "message": text}
            for kind, reason, text in CALM
        ]
        return [condition | times for condition in (*calm, ready)]

    async def _notice_absence(self) -> None:
        """After a silence see whether the node was called lost: its return is a transition then."""
        clock = asyncio.get_running_loop().time()
        if clock - self._beaten_at < 1.5 * self._config.renew_seconds:
            return
        node = await self._api.get(self._path)
        for condition in (node.get("status") or {}).get("conditions") or ():
            if condition["type"] == "Ready" and condition["status"] != "True":
                self._since = now()

    async def _beat(self) -> None:
        try:
            await self._notice_absence()
            status = {"conditions": self._conditions()}
            node = await self._api.patch(self._path + "/status", {"status": status})
        except ApiError as error:
            if error.status != 404:
                raise
            if not self._missing:
                LOG.warning("the node's object was deleted; restart the agent to register it again")
            self._missing = True
            return
        self._missing = False
        self._beaten_at = asyncio.get_running_loop().time()
        self._uid = node["metadata"]["uid"]
        await self._renew()

    async def _renew(self) -> None:
        name = self._config.name
        moment = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": math.ceil(4 * self._config.renew_seconds),
            "renewTime": moment,
        }
        try:
            await self._api.patch(f"{LEASES}/{name}", {"spec": spec}, MERGE)
        except ApiError as error:
            if error.status != 404:
                raise
            owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": self._uid}
            metadata = {"name": name, "namespace": "kube-node-lease", "ownerReferences": [owner]}
            await self._api.request("POST", LEASES, {"metadata": metadata, "spec": spec})
