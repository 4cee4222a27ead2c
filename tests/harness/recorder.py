"""Follow every remote job of a lab from its creation to its last process, beside the product."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from airflow_gpu_placement.model.attempt import IDENTITY_ANNOTATION, LOGICAL_TASK_LABEL
from lab.errors import LabApiError
from lab.node.processes import read_pid_file
from tests.harness.remote_jobs import Moment, NodeLife, RemoteJob, violations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lab import Cluster, Lab

LOOK_EVERY_SECONDS = 0.2
#: A stream that says nothing for so long is listed anew; a stopped API server keeps silent streams open.
SILENCE_SECONDS = 10.0
RETRY_SECONDS = 0.5
POD_JOB_LABEL = "batch.kubernetes.io/controller-uid"


@dataclass
class _Seen:
    """All that was seen, shared by the threads under one lock."""

    jobs: dict[str, RemoteJob] = field(default_factory=dict)
    nodes: dict[str, NodeLife] = field(default_factory=dict)
    pods: dict[str, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


class JobRecorder:
    """Watches Jobs, pods, Nodes and Leases of all clusters and looks at the container processes of all nodes.

    Use as a context manager around the tests. It writes nothing and asks nothing of the product.

    :param namespace: where remote jobs are looked for.
    """

    def __init__(self, lab: Lab, namespace: str) -> None:
        self._lab = lab
        self._seen = _Seen()
        self._stop = threading.Event()
        work = f"/api/v1/namespaces/{namespace}/pods"
        follows: list[tuple[str, Callable[[str], Callable[[str, dict[str, Any], int], None]]]] = [
            (f"/apis/batch/v1/namespaces/{namespace}/jobs", self._on_job),
            (work, self._on_pod),
            ("/api/v1/nodes", self._on_node),
            ("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", self._on_lease),
        ]
        self._streams = [
            _Stream(cluster, path, handler(cluster.name), self._stop)
            for cluster in lab.clusters
            for path, handler in follows
        ]
        self._threads = [threading.Thread(target=stream.run, daemon=True) for stream in self._streams]
        self._threads.append(threading.Thread(target=self._look_at_processes, daemon=True))

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for stream in self._streams:
            stream.close()
        for thread in self._threads:
            thread.join()

    def jobs(self, dag_id: str, run_id: str | None = None) -> list[RemoteJob]:
        """Return every remote job that a DAG, or one run of it, ever had, the first one first."""
        with self._seen.lock:
            found = [
                job
                for job in self._seen.jobs.values()
                if job.dag_id == dag_id and run_id in (None, job.run_id)
            ]
        return sorted(found, key=lambda job: job.created.version)

    def violations(self, dag_id: str, run_id: str | None = None) -> list[str]:
        """Return where the law of ``tests.harness.remote_jobs.violations`` was broken."""
        with self._seen.lock:
            nodes = {
                name: NodeLife(list(life.renewals), [list(span) for span in life.gone])
                for name, life in self._seen.nodes.items()
            }
        return violations(self.jobs(dag_id, run_id), nodes)

    def _on_job(self, cluster: str) -> Callable[[str, dict[str, Any], int], None]:
        def handle(event: str, item: dict[str, Any], version: int) -> None:
            text = (item["metadata"].get("annotations") or {}).get(IDENTITY_ANNOTATION)
            if text is None:
                return
            now = Moment(version, time.monotonic())
            with self._seen.lock:
                known = self._seen.jobs.setdefault(
                    item["metadata"]["uid"], _new_job(cluster, item, json.loads(text), now)
                )
                _update_job(known, event, item, now)

        return handle

    def _on_pod(self, _cluster: str) -> Callable[[str, dict[str, Any], int], None]:
        def handle(_event: str, item: dict[str, Any], _version: int) -> None:
            metadata = item["metadata"]
            job_uid = (metadata.get("labels") or {}).get(POD_JOB_LABEL)
            with self._seen.lock:
                if job_uid is not None:
                    self._seen.pods[metadata["uid"]] = job_uid
                    node = item["spec"].get("nodeName")
                    if node and job_uid in self._seen.jobs:
                        self._seen.jobs[job_uid].nodes.add(node)

        return handle

    def _on_node(self, _cluster: str) -> Callable[[str, dict[str, Any], int], None]:
        def handle(event: str, item: dict[str, Any], _version: int) -> None:
            with self._seen.lock:
                life = self._seen.nodes.setdefault(item["metadata"]["name"], NodeLife())
                is_open = bool(life.gone) and len(life.gone[-1]) == 1
                if event == "DELETED" and not is_open:
                    life.gone.append([time.monotonic()])
                elif event != "DELETED" and is_open:
                    life.gone[-1].append(time.monotonic())

        return handle

    def _on_lease(self, _cluster: str) -> Callable[[str, dict[str, Any], int], None]:
        def handle(event: str, item: dict[str, Any], _version: int) -> None:
            if event == "MODIFIED":
                with self._seen.lock:
                    life = self._seen.nodes.setdefault(item["metadata"]["name"], NodeLife())
                    life.renewals.append(time.monotonic())

        return handle

    def _look_at_processes(self) -> None:
        folders = [node.root_dir for cluster in self._lab.clusters for node in cluster.nodes]
        while not self._stop.wait(LOOK_EVERY_SECONDS):
            running = {uid for folder in folders for uid in _pods_running(folder)}
            with self._seen.lock:
                for uid in running:
                    job = self._seen.jobs.get(self._seen.pods.get(uid, ""))
                    if job is not None:
                        job.running_at.append(time.monotonic())


def _pods_running(node_folder: Path) -> Iterator[str]:
    """Yield the uid of each pod that has a living container process on a node."""
    for path in node_folder.glob("pods/*/containers/*/shim.pid"):
        process = read_pid_file(path)
        if process is not None and process.is_alive():
            yield path.relative_to(node_folder).parts[1]


def _new_job(cluster: str, item: dict[str, Any], identity: dict[str, Any], now: Moment) -> RemoteJob:
    return RemoteJob(
        uid=item["metadata"]["uid"],
        cluster=cluster,
        name=item["metadata"]["name"],
        dag_id=identity["dag_id"],
        run_id=identity["run_id"],
        task=item["metadata"]["labels"][LOGICAL_TASK_LABEL],
        attempt_id=identity["attempt_id"],
        fence=identity["fence"],
        pool=identity["pool"],
        created=now,
    )


def _update_job(known: RemoteJob, event: str, item: dict[str, Any], now: Moment) -> None:
    conditions = {
        each["type"] for each in item.get("status", {}).get("conditions") or [] if each["status"] == "True"
    }
    if known.deletion is None and (event == "DELETED" or item["metadata"].get("deletionTimestamp")):
        known.deletion = now
    if known.closed is None and (event == "DELETED" or conditions & {"Complete", "Failed"}):
        known.closed = now
    known.succeeded = known.succeeded or "Complete" in conditions


class _Stream:
    """One list-and-watch that goes on over everything that can happen to its API server."""

    def __init__(
        self,
        cluster: Cluster,
        path: str,
        handle: Callable[[str, dict[str, Any], int], None],
        stop: threading.Event,
    ) -> None:
        self._api = cluster.api
        self._path = path
        self._handle = handle
        self._stop = stop
        self._known: dict[str, dict[str, Any]] = {}
        self._version = 0
        self._connection: http.client.HTTPSConnection | None = None

    def run(self) -> None:
        """Follow until told to stop."""
        while not self._stop.is_set():
            try:
                self._list()
                self._watch()
            except (OSError, http.client.HTTPException, LabApiError, ValueError, AttributeError):
                # Closing the connection of another thread shows itself in all of these.
                self._stop.wait(RETRY_SECONDS)

    def close(self) -> None:
        """Let the thread that reads the stream go on to its end."""
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with contextlib.suppress(OSError):  # it has ended by itself meanwhile
                connection.sock.shutdown(socket.SHUT_RDWR)

    def _list(self) -> None:
        answer = self._api.get(self._path)
        items = {item["metadata"]["uid"]: item for item in answer["items"]}
        for uid in self._known.keys() - items.keys():
            # Gone while nobody looked: it went after the last event that was seen.
            self._handle("DELETED", self._known.pop(uid), self._version)
        for item in items.values():
            self._take("ADDED", item)
        self._version = int(answer["metadata"]["resourceVersion"])

    def _watch(self) -> None:
        address = urlsplit(self._api.server)
        connection = http.client.HTTPSConnection(
            address.hostname or "", address.port, timeout=SILENCE_SECONDS, context=self._api._context
        )
        self._connection = connection
        try:
            query = f"watch=true&resourceVersion={self._version}&timeoutSeconds=600"
            headers = {"Authorization": f"Bearer {self._api.token}"}
            connection.request("GET", f"{self._path}?{query}", headers=headers)
            response = connection.getresponse()
            while not self._stop.is_set() and (line := response.readline()):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                self._take(event["type"], event["object"])
        finally:
            connection.close()

    def _take(self, event: str, item: dict[str, Any]) -> None:
        self._version = max(self._version, int(item["metadata"]["resourceVersion"]))
        uid = item["metadata"]["uid"]
        if event == "DELETED":
            self._known.pop(uid, None)
        else:
            self._known[uid] = item
        self._handle(event, item, int(item["metadata"]["resourceVersion"]))
