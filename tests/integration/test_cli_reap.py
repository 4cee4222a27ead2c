"""The reaper against a real cluster and a real metadata database."""

from __future__ import annotations

import json
import sqlite3
import uuid
from contextlib import closing
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from airflow_gpu_placement.launch.manifest import manifest
from airflow_gpu_placement.model.attempt import Attempt, LogicalTask
from tests.integration.cli_support import AirflowHome, connection, pool_entry, write_catalog
from tests.integration.cluster_support import pool_of, spec_of

if TYPE_CHECKING:
    from pathlib import Path

    from lab import Cluster

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

RUNNING = "trap 'exit 0' TERM; sleep 600 & wait"
RUN = "scheduled__2026-11-30T00:00:00+00:00"


class Airflow(AirflowHome):
    """An Airflow whose database says what a test wants."""

    def __init__(self, cluster: Cluster, namespace: str, home: Path) -> None:
        dark = json.loads(json.dumps(cluster.kubeconfig("admin")))
        dark["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"  # discard: nothing listens there
        off = {"conn_type": "kubernetes", "extra": {"kube_config": json.dumps(dark)}}
        super().__init__(
            home / "airflow", {"gpu": connection(cluster), "again": connection(cluster), "dark": off}
        )
        self.cluster, self.namespace = cluster, namespace
        self.jobs_path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        healthy = (
            pool_entry("h100", namespace=namespace, cluster_uid=cluster.uid),
            pool_entry("h100-too", namespace=namespace),
            pool_entry("h100-again", kubernetes_conn_id="again", namespace=namespace),
        )
        self.healthy = write_catalog(home / "healthy.yaml", *healthy)
        self.catalog = write_catalog(
            home / "c.yaml",
            *healthy,
            pool_entry("mixed-up", namespace=namespace, cluster_uid=str(uuid.uuid4())),
            pool_entry("dark", kubernetes_conn_id="dark", namespace=namespace),
        )

    def run_exists(self, dag_id: str) -> None:
        """Write down a DAG run."""
        self._insert(
            "dag_run",
            dag_id=dag_id,
            run_id=RUN,
            run_type="scheduled",
            run_after="2026-11-30 00:00:00",
            state="running",
        )

    def task_is(self, dag_id: str, state: str, *tries: str, map_index: int = -1) -> None:
        """Write down a task instance in a state; the last of its tries is the present one."""
        common = {
            "dag_id": dag_id,
            "run_id": RUN,
            "task_id": "train",
            "map_index": map_index,
            "pool": "default_pool",
            "pool_slots": 1,
        }
        for number, attempt_id in enumerate(tries, start=1):
            ident = uuid.UUID(attempt_id).hex
            if number == len(tries):
                self._insert("task_instance", id=ident, state=state, try_number=number, **common)
            else:
                self._insert(
                    "task_instance_history",
                    task_instance_id=ident,
                    state="failed",
                    try_number=number,
                    **common,
                )

    def _insert(self, table: str, **values: Any) -> None:
        names, marks = ", ".join(values), ", ".join("?" * len(values))
        with closing(sqlite3.connect(self.home / "airflow.db", timeout=30)) as database, database:
            database.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(values.values()))

    def launch(
        self,
        dag_id: str,
        attempt_id: str,
        *,
        map_index: int = -1,
        installation: str | None = None,
        move: int = 0,
        script: str = RUNNING,
        **metadata: Any,
    ) -> str:
        """Create the remote job of an attempt; return its name."""
        task = LogicalTask(dag_id=dag_id, run_id=RUN, task_id="train", map_index=map_index)
        attempt = Attempt(
            task=task,
            attempt_id=attempt_id,
            try_number=1,
            fence=1 + move,
            move=move,
            installation=installation,
        )
        spec = spec_of(pool_of(self.cluster, self.namespace), script, attempt=attempt)
        body = json.loads(msgspec.json.encode(manifest(spec)[0]))
        for key, value in metadata.items():
            body["metadata"][key].update(value)
        self.cluster.api.post(self.jobs_path, body)
        return attempt.job_name

    def reap(
        self, *flags: str, code: int, dark: bool = False, installation: str = ""
    ) -> dict[str, dict[str, Any]]:
        """Run the command and return its rows by the name of the job, each of which has one row.

        :param dark: with two places more that cannot be read; it has to say so.
        """
        catalog = self.catalog if dark else self.healthy
        ran = self.shell_argv(
            ["airflow", "gpu-placement", "reap", "--catalog", str(catalog), "-o", "json", *flags],
            AIRFLOW__GPU_PLACEMENT__INSTALLATION=installation,
            AIRFLOW__GPU_PLACEMENT__FENCE_TIMEOUT_SECONDS="60",
        )
        assert ran.returncode == code, (ran.stdout, ran.stderr)
        rows = json.loads(ran.stdout)
        unread = {row["connection"]: row["result"] for row in rows if row["verdict"] == "not read"}
        assert unread.keys() == ({"dark", "gpu"} if dark else set())
        for conn_id, why in unread.items():
            assert {"dark": "127.0.0.1:9", "gpu": f"leads to cluster {self.cluster.uid}"}[conn_id] in why
            told = f"connection {conn_id!r}, namespace {self.namespace!r} was not read: {why}"
            assert " ".join(told.split()) in ran.stderr
        found = {row["job"]: row for row in rows if row["verdict"] != "not read"}
        assert len(found) + len(unread) == len(rows)
        return found

    def left(self) -> set[str]:
        """Return the names of the jobs whose deletion nobody asked for."""
        items = self.cluster.api.get(self.jobs_path)["items"]
        return {job["metadata"]["name"] for job in items if "deletionTimestamp" not in job["metadata"]}


@pytest.fixture
def airflow(cluster: Cluster, namespace: str, tmp_path: Path) -> Airflow:
    """Return an Airflow with an empty database over the shared cluster."""
    return Airflow(cluster, namespace, tmp_path)


def ids(count: int) -> list[str]:
    """Return new ids of attempts."""
    return [str(uuid.uuid4()) for _ in range(count)]


def judged(rows: dict[str, dict[str, Any]]) -> dict[str, tuple[str, str]]:
    """Return verdict and finding of each job."""
    return {name: (row["verdict"], row["why"]) for name, row in rows.items()}


def test_what_nobody_waits_for_goes_and_nothing_else(airflow: Airflow) -> None:
    """Dry run, then deletion: ended and superseded tries go; live, foreign and unreadable ones stay."""
    for dag_id in ("ended", "again", "alive", "moved", "mapped", "theirs", "garbled"):
        airflow.run_exists(dag_id)
    ended, old, new, alive, moved, first, second, ours, theirs, gone, garbled = ids(11)
    airflow.task_is("ended", "failed", ended)
    airflow.task_is("again", "deferred", old, new)
    airflow.task_is("alive", "deferred", alive)
    airflow.task_is("moved", "deferred", moved)
    airflow.task_is("mapped", "deferred", first, map_index=0)
    airflow.task_is("mapped", "success", second, map_index=1)
    airflow.task_is("theirs", "success", ours)
    airflow.task_is("garbled", "failed", garbled)
    launched = {
        airflow.launch("ended", ended): ("reap", "task ended"),
        airflow.launch("again", old): ("reap", "superseded"),
        airflow.launch("again", new): ("keep", "alive"),
        airflow.launch("alive", alive): ("keep", "alive"),
        airflow.launch("moved", moved): ("reap", "superseded"),
        airflow.launch("moved", moved, move=1): ("keep", "alive"),
        airflow.launch("mapped", first, map_index=0): ("keep", "alive"),
        airflow.launch("mapped", second, map_index=1): ("reap", "task ended"),
        airflow.launch("theirs", theirs): ("unknown here", "superseded"),
        airflow.launch("gone", gone): ("unknown here", "run gone"),
        airflow.launch(
            "garbled", garbled, annotations={"airflow-gpu-placement/identity": '{"dag_id": "garbled"}'}
        ): ("keep", "no identity"),
    }
    doomed = {name for name, (verdict, _) in launched.items() if verdict == "reap"}

    young = airflow.reap(code=0)
    assert {judged(young)[name] for name in doomed} == {("keep", "young")}
    told = airflow.reap("--min-age-minutes", "0", "--all", code=1)
    assert judged(told) == launched
    assert airflow.left() == launched.keys()

    reaped = airflow.reap("--min-age-minutes", "0", "--delete", code=3, dark=True)
    assert airflow.left() == launched.keys() - doomed
    assert {reaped[name]["result"] for name in doomed} == {"withdrawn, end confirmed"}
    assert ("keep", "alive") not in judged(reaped).values()
    airflow.reap("--min-age-minutes", "0", "--delete", code=0)
    airflow.reap("--min-age-minutes", "0", code=3, dark=True)


def test_a_name_tells_installations_apart(airflow: Airflow) -> None:
    """With one, jobs of deleted runs are known as ours; those of another name are never touched."""
    mine, other, nameless = ids(3)
    ours = airflow.launch("gone", mine, installation="prod")
    theirs = airflow.launch("gone", other, installation="staging")
    unknown = airflow.launch("gone", nameless)

    told = airflow.reap("--min-age-minutes", "0", code=1, installation="prod")
    assert [judged(told)[name] for name in (ours, theirs, unknown)] == [
        ("reap", "run gone"),
        ("keep", "other installation"),
        ("unknown here", "run gone"),
    ]
    airflow.reap("--min-age-minutes", "0", "--delete", "--unknown-runs", code=0, installation="prod")
    assert airflow.left() == {theirs}


def test_pods_whose_job_is_gone_are_found(airflow: Airflow) -> None:
    """Pods that somebody set free have to be deleted by hand, and the command says how."""
    (attempt_id,) = ids(1)
    airflow.run_exists("free")
    airflow.task_is("free", "failed", attempt_id)
    name = airflow.launch("free", attempt_id)
    pods = f"/api/v1/namespaces/{airflow.namespace}/pods"
    airflow.cluster.api.wait(pods, lambda found: len(found["items"]) == 1, 30, "the pod is there")
    airflow.cluster.api.delete(f"{airflow.jobs_path}/{name}", propagationPolicy="Orphan")
    airflow.cluster.api.wait(
        pods,
        lambda found: not found["items"][0]["metadata"].get("ownerReferences"),
        30,
        "the pod is nobody's",
    )

    (row,) = airflow.reap("--min-age-minutes", "0", "--delete", code=3).values()
    assert (row["verdict"], row["why"], row["left"]) == ("reap", "task ended", "pods")
    (pod,) = airflow.cluster.api.get(pods)["items"]
    key, value = row["result"].split("-l ")[1].split("=")
    assert pod["metadata"]["labels"][key] == value
    assert f"kubectl delete pods -n {airflow.namespace}" in row["result"]
