"""Takes pods away from a node as ``kubectl drain`` and the controllers of clouds do."""

from __future__ import annotations

import http.client
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lab.errors import LabApiError, LabError, LabTimeoutError, unknown_name

if TYPE_CHECKING:
    from lab.client import ApiClient

_RETRY_SECONDS = 0.5
_MIRROR = "kubernetes.io/config.mirror"

NOTICES = {
    "gke": "cloud.google.com/impending-node-termination",
    "karpenter": "karpenter.sh/disrupted",
    "aws-spot": "aws-node-termination-handler/spot-itn",
    "aws-maintenance": "aws-node-termination-handler/scheduled-maintenance",
    "cluster-autoscaler": "ToBeDeletedByClusterAutoscaler",
}
"""Who announces the end of a node -> the taint that announces it."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Orders to the API about one node's schedulability and pods."""

    api: ApiClient
    node: str

    @property
    def _path(self) -> str:
        return f"/api/v1/nodes/{self.node}"

    def cordon(self, *, unschedulable: bool = True) -> None:
        """Keep new pods away from the node, or let them come again."""
        self.api.patch(self._path, {"spec": {"unschedulable": unschedulable or None}})

    def run(self, timeout_seconds: float, *, wait: bool = True) -> list[str]:
        """Cordon the node and evict its pods; return them as ``namespace/name``.

        :param wait: until the evicted pods are gone.
        :raises LabTimeoutError: when a disruption budget forbids an eviction, or a pod stays, for too long.
        """
        self.cordon()
        deadline = time.monotonic() + timeout_seconds
        pods = [pod for pod in self._pods() if _is_evicted(pod)]
        for pod in pods:
            self._evict(pod, deadline)
        for pod in pods if wait else ():
            self._wait_gone(pod, deadline)
        return [_title(pod) for pod in pods]

    def _wait_gone(self, pod: dict[str, Any], deadline: float) -> None:
        uid = pod["metadata"]["uid"]
        self.api.wait(
            _path(pod),
            lambda found: found is None or found["metadata"]["uid"] != uid,
            max(0.0, deadline - time.monotonic()),
            f"the evicted pod {_title(pod)} is gone",
        )

    def notice(self, style: str) -> None:
        """Announce that the node will be taken away: the taint that a cloud's controller writes."""
        if style not in NOTICES:
            raise LabError(unknown_name("notice", style, NOTICES))
        taints = self._taints()
        if all(taint["key"] != NOTICES[style] for taint in taints):
            self._write([*taints, {"key": NOTICES[style], "effect": "NoSchedule"}])

    def withdraw_notice(self) -> None:
        """Take back every announcement."""
        self._write([taint for taint in self._taints() if taint["key"] not in NOTICES.values()])

    def _taints(self) -> list[dict[str, Any]]:
        return list(self.api.get(self._path)["spec"].get("taints") or ())

    def _write(self, taints: list[dict[str, Any]]) -> None:
        self.api.patch(self._path, {"spec": {"taints": taints}})

    def _pods(self) -> list[dict[str, Any]]:
        pods: list[dict[str, Any]] = self.api.get("/api/v1/pods", fieldSelector=f"spec.nodeName={self.node}")[
            "items"
        ]
        return pods

    def _evict(self, pod: dict[str, Any], deadline: float) -> None:
        metadata = {key: pod["metadata"][key] for key in ("name", "namespace")}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        while True:
            try:
                self.api.post(f"{_path(pod)}/eviction", body)
            except LabApiError as error:
                if error.status == http.client.NOT_FOUND:
                    return
                if error.status != http.client.TOO_MANY_REQUESTS:
                    raise
                if time.monotonic() > deadline:
                    raise LabTimeoutError(f"pod {_title(pod)} may not be evicted: {error}") from error
                time.sleep(_RETRY_SECONDS)
            else:
                return


def _is_evicted(pod: dict[str, Any]) -> bool:
    """Say whether a drain takes a pod away: those of DaemonSets and static ones stay."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return _MIRROR not in (pod["metadata"].get("annotations") or {}) and all(
        owner["kind"] != "DaemonSet" for owner in owners
    )


def _path(pod: dict[str, Any]) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _title(pod: dict[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
