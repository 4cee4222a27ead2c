"""Nodes that exist in the API alone, for scale: a KWOK controller looks after them and after their pods.

They stand beside process nodes in one cluster. What steers their pods is said in ``lab/go/kwok/stages.yaml``.
"""

from __future__ import annotations

import contextlib
import http.client
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lab import build
from lab.client import MERGE_PATCH
from lab.errors import LabApiError, LabError, unknown_name
from lab.node import profiles
from lab.servers import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lab.api import Cluster
    from lab.client import ApiClient

LABEL = {"lab/node": "kwok"}
"""On every KWOK node, for a pod's nodeSelector."""
MANAGED = {"kwok.x-k8s.io/node": "fake"}
"""Annotation of the nodes that the controller looks after."""

_WRITERS = 16
_READY_TIMEOUT_SECONDS = 180.0
_NODES = "/api/v1/nodes"
_KUBELET_VERSION = "v1.36.3"


@dataclass(frozen=True, slots=True)
class Kwok:
    """The KWOK nodes of one cluster."""

    cluster: Cluster

    @property
    def controller(self) -> Server:
        """The controller, to be harmed: without it no KWOK node renews its Lease and no pod goes on."""
        return Server(f"{self.cluster.name}/kwok", self.cluster.paths)

    def add_nodes(
        self,
        count: int,
        profile: str,
        *,
        prefix: str = "kwok",
        gpus: int | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> list[str]:
        """Add nodes, start the controller if it does not run, and wait until all are Ready.

        The controller is built when it is first needed, which takes a minute and module downloads.

        :param profile: name of a machine profile, as for process nodes.
        :param prefix: the nodes are called ``PREFIX-0`` and so on.
        :return: their names.
        """
        if profile not in profiles.PROFILES:
            raise LabError(unknown_name("profile", profile, profiles.PROFILES))
        program = build.ensure_extra("kwok", progress or (lambda _line: None))
        self.cluster.order("kwok-start", program=str(program))
        names = [f"{prefix}-{number}" for number in range(count)]
        bodies = [
            _node(name, profiles.materialise(profile, node_name=name, gpus=gpus, extra_labels=LABEL))
            for name in names
        ]
        _write_all(self.cluster.api, [("POST", _NODES, body) for body in bodies])
        self._wait_ready(set(names))
        return names

    def remove_nodes(self, names: list[str] | None = None) -> None:
        """Delete Node objects, all of KWOK's by default; their pods go with them, as with any node."""
        chosen = self.names() if names is None else names
        _write_all(self.cluster.api, [("DELETE", f"{_NODES}/{name}", None) for name in chosen])

    def names(self) -> list[str]:
        """Return the names of the KWOK nodes."""
        found = self.cluster.api.get(_NODES, labelSelector="lab/node=kwok")["items"]
        return [node["metadata"]["name"] for node in found]

    def finish_pods(self, namespace: str, selector: str) -> int:
        """Let running pods on KWOK nodes succeed now; return how many were told.

        :param selector: label selector.
        """
        api, path = self.cluster.api, f"/api/v1/namespaces/{namespace}/pods"
        mine = set(self.names())
        names = [
            pod["metadata"]["name"]
            for pod in api.get(path, labelSelector=selector)["items"]
            if pod["spec"].get("nodeName") in mine
        ]
        change = {"metadata": {"annotations": {"lab/complete-after": "0s"}}}
        return _write_all(api, [("PATCH", f"{path}/{name}", change) for name in names])

    def _wait_ready(self, names: set[str]) -> None:
        def all_ready(found: Any) -> bool:
            ready = {
                node["metadata"]["name"]
                for node in found["items"]
                if not any(
                    taint["key"].startswith("node.kubernetes.io/")
                    for taint in node["spec"].get("taints") or ()
                )
                and any(
                    each["type"] == "Ready" and each["status"] == "True"
                    for each in node["status"].get("conditions") or ()
                )
            }
            return names <= ready

        self.cluster.api.wait(
            _NODES,
            all_ready,
            _READY_TIMEOUT_SECONDS,
            f"{len(names)} KWOK nodes are Ready",
            labelSelector="lab/node=kwok",
        )


def _write_all(api: ApiClient, requests: Sequence[tuple[str, str, Any]]) -> int:
    """Send many requests over few connections; return how many found what they change."""

    def write(share: Sequence[tuple[str, str, Any]]) -> int:
        done = 0
        with contextlib.closing(api.connect()) as connection:
            for method, path, body in share:
                kind = MERGE_PATCH if method == "PATCH" else "application/json"
                try:
                    api.request(method, path, body=body, content_type=kind, connection=connection)
                except LabApiError as error:
                    if error.status != http.client.NOT_FOUND:
                        raise
                else:
                    done += 1
        return done

    with ThreadPoolExecutor(_WRITERS) as pool:
        return sum(pool.map(write, [requests[start::_WRITERS] for start in range(_WRITERS)]))


def _node(name: str, profile: Mapping[str, Any]) -> dict[str, Any]:
    """Describe a node; the controller keeps what its status says and adds Ready."""
    spec: dict[str, Any] = {"taints": profile["taints"]} if profile["taints"] else {}
    if profile["provider_id"]:
        spec["providerID"] = profile["provider_id"]
    texts = ("machineID", "systemUUID", "bootID", "kernelVersion", "kubeProxyVersion")
    info = dict.fromkeys(texts, "") | {
        "osImage": "simulated",
        "containerRuntimeVersion": "kwok://0.8.0",
        "kubeletVersion": _KUBELET_VERSION,
        "operatingSystem": "linux",
        "architecture": "amd64",
    }
    status = {
        "capacity": profile["capacity"],
        "allocatable": profile["capacity"],
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}],
        "nodeInfo": info,
    }
    metadata = {"name": name, "labels": profile["labels"], "annotations": MANAGED}
    return {"metadata": metadata, "spec": spec, "status": status}
