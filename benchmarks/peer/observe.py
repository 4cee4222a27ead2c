"""Look at cluster, Airflow, processes and checkpoints again and again."""

from __future__ import annotations

import http.client
import re
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from benchmarks.peer.contenders import FIRST_NODE, TRAINING
from benchmarks.peer.samples import Sample, View
from lab import LabApiError
from lab.airflow.rest import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.peer.contenders import Contender
    from lab import Cluster
    from lab.airflow.client import AirflowClient

PERIOD_SECONDS = 0.5
_RESUMED = re.compile(r"resumed after epoch (\d+)")
_STEP = re.compile(r"step-(\d+)")
#: Lines by which the product's log tells what it has found out.
_LOGGED = {"suspected": re.compile(r"suspected: "), "lost": re.compile(r"\bNodeLost: ")}
_TROUBLE = (LabApiError, ApiError, httpx.TransportError, OSError, http.client.HTTPException)


class Observer:
    """Takes samples of all contenders.

    :param shared: folder that holds a checkpoint folder for each contender.
    :param runs: DAG run of each contender by key.
    """

    def __init__(
        self,
        cluster: Cluster,
        airflow: AirflowClient,
        contenders: Sequence[Contender],
        shared: Path,
        runs: dict[str, str],
    ) -> None:
        self._api = cluster.api
        self._airflow = airflow
        self._contenders = contenders
        self._shared = shared
        self._runs = runs
        self.zero = time.time()
        self.missed = 0
        self.resumed_after: dict[str, int] = {}

    def sample(self) -> Sample:
        """Look once."""
        tasks = {
            entry["dag_id"]: entry
            for entry in self._airflow.get("/dags/~/dagRuns/~/taskInstances", limit=1000)["task_instances"]
        }
        node = self._api.get(f"/api/v1/nodes/{FIRST_NODE}")
        copies = _training_folders()
        views = {one.key: self._view(one, tasks[one.dag_id], copies) for one in self._contenders}
        return Sample(at_seconds=time.time() - self.zero, node_ready=ready(node), views=views)

    def watch(
        self, seconds: float, stop: Callable[[Sample], bool], tell: Callable[[Sample], None]
    ) -> list[Sample]:
        """Look until a time has passed or a condition holds; what cannot be read is looked at again."""
        samples: list[Sample] = []
        deadline = time.monotonic() + seconds
        while not samples or time.monotonic() < deadline:
            started = time.monotonic()
            try:
                samples.append(self.sample())
            except _TROUBLE:
                self.missed += 1
                if time.monotonic() > deadline:
                    raise
            else:
                tell(samples[-1])
                if stop(samples[-1]):
                    break
            time.sleep(max(0.0, started + PERIOD_SECONDS - time.monotonic()))
        return samples

    def logged(self, contender: Contender, try_number: int) -> dict[str, float]:
        """Return the moments that the log of one try tells."""
        text = self._airflow.task_log(contender.dag_id, self._runs[contender.key], "train", try_number)
        return logged_moments(text, self.zero)

    def not_ended(self, contender: Contender) -> tuple[str, ...]:
        """Describe the Jobs and pods that have not ended, and the processes that live."""
        jobs, pods = self._jobs(contender.key), self._pods(contender.key)
        processes = _training_folders().count(self._shared / contender.key)
        return (
            *filter(None, map(open_job, jobs)),
            *filter(None, map(open_pod, pods)),
            *["a process of the program"] * processes,
        )

    def _view(self, contender: Contender, task: dict[str, Any], copies: Sequence[Path]) -> View:
        key = contender.key
        pods = self._pods(key)
        folder = self._shared / key
        self._note_resumption(key, pods)
        return View(
            task_state=task["state"] or "none",
            try_number=task["try_number"],
            jobs=frozenset(job["metadata"]["name"] for job in self._jobs(key)),
            pods=frozenset(pod["metadata"]["name"] for pod in pods),
            deleting=frozenset(
                pod["metadata"]["name"] for pod in pods if pod["metadata"].get("deletionTimestamp")
            ),
            copies=copies.count(folder),
            epoch=newest_epoch(folder),
        )

    def _note_resumption(self, key: str, pods: Sequence[dict[str, Any]]) -> None:
        """Remember after which epoch a later copy went on, as its own log says."""
        if key in self.resumed_after:
            return
        for pod in pods:
            name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
            if node in (None, FIRST_NODE) or pod["status"].get("phase") == "Pending":
                continue
            found = _RESUMED.search(self._api.get(f"/api/v1/namespaces/{key}/pods/{name}/log"))
            if found:
                self.resumed_after[key] = int(found[1])

    def _jobs(self, namespace: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._api.get(f"/apis/batch/v1/namespaces/{namespace}/jobs")["items"]
        return found

    def _pods(self, namespace: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        return found


def ready(node: dict[str, Any]) -> str:
    """Return the status of a node's Ready condition."""
    conditions = node["status"].get("conditions", ())
    return next((str(each["status"]) for each in conditions if each["type"] == "Ready"), "Unknown")


def newest_epoch(folder: Path) -> int:
    """Return the newest epoch of which a complete checkpoint is anywhere below a folder, 0 for none."""
    steps = (_STEP.fullmatch(manifest.parent.name) for manifest in folder.rglob("step-*/manifest.json"))
    return max((int(step[1]) for step in steps if step), default=0)


def logged_moments(log: str, zero: float) -> dict[str, float]:
    """Return the seconds after ``zero`` at which a log first told of a suspicion and of a loss.

    :param log: lines that begin with a time in ISO 8601.
    """
    found: dict[str, float] = {}
    for line in log.splitlines():
        for name, pattern in _LOGGED.items():
            stamp = line.partition(" ")[0]
            if name not in found and pattern.search(line) and re.match(r"\d{4}-\d\d-\d\dT", stamp):
                found[name] = datetime.fromisoformat(stamp).timestamp() - zero
    return found


def open_job(job: dict[str, Any]) -> str | None:
    """Describe a Job that has not ended."""
    status = job["status"]
    said = [each["type"] for each in status.get("conditions", ()) if each["status"] == "True"]
    if {"Complete", "Failed"} & set(said):
        return None
    pods = [f"{status[name]} {name}" for name in ("active", "terminating") if status.get(name)]
    deletion = ["being deleted"] if job["metadata"].get("deletionTimestamp") else []
    return f"Job ({', '.join([*deletion, *said, *pods]) or 'idle'})"


def open_pod(pod: dict[str, Any]) -> str | None:
    """Describe a pod that has not ended."""
    phase = pod["status"].get("phase", "Unknown")
    if phase in ("Succeeded", "Failed"):
        return None
    return f"pod ({'Terminating' if pod['metadata'].get('deletionTimestamp') else phase})"


def _training_folders() -> list[Path]:
    """Return the checkpoint folder of every process of the training program that is alive."""
    folders = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")[:-1]
        except OSError:  # it has just ended
            continue
        if len(words) > 2 and words[1] == str(TRAINING):
            folders.append(Path(words[-1]))
    return folders
