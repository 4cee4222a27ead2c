"""Short ways to make pods and Jobs on the lab and to wait for what becomes of them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import http.client
import json
import os
import ssl
import tempfile
import threading
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from lab.errors import LabApiError
from lab.node.sandbox import Sandbox, choose_sandbox

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lab import Cluster

Json = Any
POLL_SECONDS = 0.05


def wait_for(condition: Callable[[], Any], timeout_seconds: float, what: str) -> Any:
    """Poll until a condition gives something true, and return that."""
    deadline = time.monotonic() + timeout_seconds
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"not within {timeout_seconds:g} s: {what}"
        time.sleep(POLL_SECONDS)
    return answer


@functools.cache
def namespaces() -> Sandbox:
    """Say which namespaces this machine allows; None when it allows none."""
    with tempfile.TemporaryDirectory() as folder:
        lifeline = os.path.join(folder, "lifeline")
        os.mkfifo(lifeline)
        held = os.open(lifeline, os.O_RDWR)
        try:
            return asyncio.run(choose_sandbox("auto", Path(folder) / "probe", lifeline))
        finally:
            os.close(held)


def sandbox_modes() -> list[str]:
    """List the kinds of sandbox that this machine allows."""
    return ["namespace", "plain"] if namespaces() else ["plain"]


def container(script: str | None = None, **fields: Json) -> dict[str, Json]:
    """Describe a container called main that runs a shell script."""
    command = {"command": ["sh", "-c", script]} if script is not None else {}
    return {"name": "main", "image": "local"} | command | fields


def pod_spec(*containers: dict[str, Json], **fields: Json) -> dict[str, Json]:
    """Describe a pod that is never restarted and ends quickly when it is deleted."""
    base = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 2, "containers": list(containers)}
    return base | fields


def job_body(name: str, spec: dict[str, Json], **fields: Json) -> dict[str, Json]:
    """Describe a Job that is not retried."""
    return {"metadata": {"name": name}, "spec": {"backoffLimit": 0, "template": {"spec": spec}} | fields}


def condition(item: Json, kind: str) -> dict[str, Any]:
    """Return one condition of an object; empty when it has none of that type."""
    conditions = (item or {}).get("status", {}).get("conditions") or ()
    return next((entry for entry in conditions if entry["type"] == kind), {})


def state(pod: Json, index: int = 0) -> dict[str, Any]:
    """Return the state of one container of a pod; empty when nothing is known."""
    statuses = (pod or {}).get("status", {}).get("containerStatuses") or []
    found: dict[str, Any] = statuses[index]["state"] if statuses else {}
    return found


@dataclass(frozen=True)
class Workspace:
    """One namespace of one cluster, and the node that a test uses unless it says otherwise."""

    cluster: Cluster
    namespace: str
    node: str

    @classmethod
    @contextlib.contextmanager
    def scoped(cls, cluster: Cluster, node: str) -> Iterator[Workspace]:
        """Make a namespace and ask for its end afterwards, without waiting: that takes 5 s in Kubernetes."""
        namespace = f"node-{uuid.uuid4().hex[:8]}"
        cluster.api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
        try:
            yield cls(cluster, namespace, node)
        finally:
            cluster.api.delete(f"/api/v1/namespaces/{namespace}/pods", gracePeriodSeconds=1)
            cluster.api.delete(f"/api/v1/namespaces/{namespace}")

    def path(self, plural: str, name: str = "", group: str = "") -> str:
        """Return the API path of an object or a collection of this namespace."""
        root = f"/apis/{group}" if group else "/api/v1"
        return f"{root}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def run(self, spec: dict[str, Json], name: str = "", **metadata: Json) -> str:
        """Create a pod on the node without the scheduler and return its name."""
        name = name or f"p-{uuid.uuid4().hex[:6]}"
        spec = {"nodeName": self.node, "tolerations": [{"operator": "Exists"}]} | spec
        self.cluster.api.post(self.path("pods"), {"metadata": {"name": name} | metadata, "spec": spec})
        return name

    def pod(self, name: str) -> Json:
        """Read a pod; None when it is gone."""
        try:
            return self.cluster.api.get(self.path("pods", name))
        except LabApiError as error:
            if error.status != 404:
                raise
            return None

    def wait_pod(self, name: str, holds: Callable[[Json], object], what: str, seconds: float = 15) -> Json:
        """Wait until something holds of a pod (None when it is gone)."""
        return self.cluster.api.wait(self.path("pods", name), holds, seconds, f"pod {name}: {what}")

    def running(self, name: str) -> Json:
        """Wait until a pod's first container runs."""
        return self.wait_pod(name, lambda pod: "running" in state(pod), "runs")

    def ended(self, name: str, seconds: float = 15) -> Json:
        """Wait until a pod is in a final phase."""

        def over(pod: Json) -> bool:
            return pod is not None and pod["status"].get("phase") in ("Succeeded", "Failed")

        return self.wait_pod(name, over, "ends", seconds)

    def finish(self, spec: dict[str, Json], name: str = "", **metadata: Json) -> Json:
        """Run a pod to its end and return it."""
        return self.ended(self.run(spec, name, **metadata))

    def log(self, name: str, **params: Json) -> str:
        """Read a pod's log."""
        text: str = self.cluster.api.get(self.path("pods", name) + "/log", **params)
        return text

    def wait_log(self, name: str, text: str, seconds: float = 15) -> str:
        """Wait until a pod's log has a text in it."""

        def reads() -> str | None:
            try:
                log = self.log(name)
            except LabApiError:  # the container has not started, or its node's agent is down
                return None
            return log if text in log else None

        found: str = wait_for(reads, seconds, f"{text!r} in the log of {name}")
        return found

    def delete(self, name: str, **options: Json) -> None:
        """Ask for a pod's deletion."""
        self.cluster.api.delete(self.path("pods", name), options or None)

    def job(self, body: dict[str, Json]) -> str:
        """Create a Job and return its path."""
        self.cluster.api.post(self.path("jobs", group="batch/v1"), body)
        return self.path("jobs", body["metadata"]["name"], "batch/v1")

    def job_pods(self, job: str) -> list[Json]:
        """List the pods of a Job."""
        selector = f"batch.kubernetes.io/job-name={job}"
        pods: list[Json] = self.cluster.api.get(self.path("pods"), labelSelector=selector)["items"]
        return pods

    def follow(self, name: str, **params: Json) -> Iterator[bytes]:
        """Follow a pod's log; yields blocks as they arrive."""
        with self._open(self.path("pods", name) + "/log", follow="true", **params) as response:
            while block := response.read1(65536):
                yield block

    def stream(self, path: str, **params: Json) -> Iterator[bytes]:
        """Yield the lines of an answer as they arrive, e.g. of a watch."""
        with self._open(path, **params) as response:
            yield from response

    @contextlib.contextmanager
    def _open(self, path: str, **params: Json) -> Iterator[http.client.HTTPResponse]:
        address = urlsplit(self.cluster.server)
        context = ssl.create_default_context(cafile=str(self.cluster.ca_file))
        port = address.port
        connection = http.client.HTTPSConnection(address.hostname or "", port, timeout=150, context=context)
        headers = {"Authorization": f"Bearer {self.cluster.api.token}"}
        try:
            connection.request("GET", f"{path}?{urlencode(params)}", headers=headers)
            response = connection.getresponse()
            assert response.status == 200, response.read()
            yield response
        finally:
            connection.close()


class PodHistory:
    """All versions of one pod, as a watcher sees them."""

    def __init__(self, work: Workspace, name: str, seconds: int = 20) -> None:
        self._work = work
        self._seconds = seconds
        self._query = {"watch": "true", "fieldSelector": f"metadata.name={name}", "timeoutSeconds": seconds}
        self.events: list[dict[str, Any]] = []
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        wait_for(lambda: self.events, 5, "the watch has begun")

    def _watch(self) -> None:
        for line in self._work.stream(self._work.path("pods"), **self._query):
            self.events.append(json.loads(line))
            if self.events[-1]["type"] == "DELETED":
                return

    def until_deleted(self) -> list[dict[str, Any]]:
        """Wait for the end and return every event."""
        self._thread.join(timeout=self._seconds)
        assert not self._thread.is_alive()
        return self.events
