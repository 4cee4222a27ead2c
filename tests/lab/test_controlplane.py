"""The servers of a lab behave as Kubernetes: rights, restarts, identity."""

from __future__ import annotations

import dataclasses
import http.client
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from lab import Cluster, LabApiError, LabError, LabTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab import Lab

pytestmark = pytest.mark.lab

NODES = "/api/v1/nodes"


def test_servers_are_the_pinned_version(lab: Lab) -> None:
    """Every API server calls itself v1.36.3."""
    assert [cluster.api.get("/version")["gitVersion"] for cluster in lab.clusters] == ["v1.36.3", "v1.36.3"]


def test_clusters_are_told_apart_by_uid(lab: Lab) -> None:
    """The uid of a cluster is that of its kube-system namespace, and differs from the other's."""
    read = [cluster.api.get("/api/v1/namespaces/kube-system")["metadata"]["uid"] for cluster in lab.clusters]

    assert [cluster.uid for cluster in lab.clusters] == read
    assert len(set(read)) == 2


def test_client_of_one_cluster_refuses_the_other(onprem: Cluster, gke: Cluster) -> None:
    """Clusters have different authorities: an address that was mixed up fails at TLS."""
    mixed = dataclasses.replace(onprem.api, server=gke.server)

    with pytest.raises(OSError, match="certificate verify failed"):
        mixed.get(NODES)


def test_user_without_rights_gets_403(onprem: Cluster) -> None:
    """A listed user is known and may do nothing; the message names user, verb and resource."""
    with pytest.raises(LabApiError) as caught:
        onprem.client("visitor").get(NODES)

    assert (caught.value.status, caught.value.reason) == (403, "Forbidden")
    assert 'User "visitor" cannot list resource "nodes"' in caught.value.message


def test_bad_token_gets_401(onprem: Cluster) -> None:
    """A token that nobody has is refused as unauthorized."""
    with pytest.raises(LabApiError) as caught:
        dataclasses.replace(onprem.api, token="wrong").get(NODES)

    assert (caught.value.status, caught.value.reason) == (401, "Unauthorized")


def test_kubeconfig_is_private_and_enough_for_a_stock_client(onprem: Cluster) -> None:
    """The file is readable by its owner alone and the official client works with nothing else."""
    path = onprem.kubeconfig_path()
    program = (
        "import sys; from kubernetes import client, config; config.load_kube_config(sys.argv[1]); "
        "print(client.CoreV1Api().read_namespace('kube-system').metadata.uid)"
    )
    found = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, timeout=60, check=True
    )

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(onprem.paths.folder.stat().st_mode) == 0o700
    assert found.stdout.strip() == onprem.uid
    assert onprem.kubeconfig()["clusters"][0]["cluster"]["server"] == onprem.server


def test_unknown_names_are_answered_with_the_known(lab: Lab, onprem: Cluster) -> None:
    """A misspelt cluster, node or user is refused with the nearest name and the list."""
    with pytest.raises(LabError, match=r"no cluster 'onprme'\. Did you mean 'onprem'\? Known: gke, onprem\."):
        lab.cluster("onprme")
    with pytest.raises(LabError, match=r"no node of cluster 'onprem' 'h100-2'\. Did you mean 'h100-1'\?"):
        onprem.node("h100-2")
    with pytest.raises(LabError, match=r"no user of cluster 'onprem' 'vistor'\. Did you mean 'visitor'\?"):
        onprem.kubeconfig_path("vistor")
    with pytest.raises(LabError, match=r"no user of cluster 'onprem' 'nobody'"):
        onprem.client("nobody")


def test_api_server_crash_and_restart_keep_objects(
    gke: Cluster, make_namespace: Callable[[Cluster], str]
) -> None:
    """After SIGKILL connections are refused; started again at the same address, all objects are there."""
    namespace = make_namespace(gke)
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    gke.api.post(path, {"metadata": {"name": "kept"}, "data": {"a": "b"}})

    gke.api_server.kill()
    try:
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            gke.api.get("/version")
        with pytest.raises(
            LabTimeoutError, match=r"not within 0\.2 s: an answer\. Last answer of GET /version"
        ):
            gke.api.wait("/version", lambda found: found, 0.2, "an answer")
    finally:
        gke.api_server.start()

    assert gke.api.get(f"{path}/kept")["data"] == {"a": "b"}


def test_controllers_and_scheduler_work(gke: Cluster, make_namespace: Callable[[Cluster], str]) -> None:
    """A Job gets its pod, and a pod that asks for too many GPUs stays unscheduled with the reason."""
    namespace = make_namespace(gke)
    container = {"name": "c", "image": "x", "command": ["true"]}
    container["resources"] = {"limits": {"nvidia.com/gpu": "64"}}  # type: ignore[assignment]  # mixed JSON
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = {"metadata": {"name": "big"}, "spec": {"template": template}}
    gke.api.post(f"/apis/batch/v1/namespaces/{namespace}/jobs", job)

    pods = gke.api.wait(
        f"/api/v1/namespaces/{namespace}/pods",
        lambda found: found["items"] and found["items"][0].get("status", {}).get("conditions"),
        30,
        "the Job's pod was looked at by the scheduler",
    )

    condition = pods["items"][0]["status"]["conditions"][0]
    assert (condition["type"], condition["reason"]) == ("PodScheduled", "Unschedulable")
    assert "Insufficient nvidia.com/gpu" in condition["message"]


def test_machine_without_proxy_settings_is_not_assumed(gke: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy in the environment is not asked for loopback addresses."""
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")

    assert gke.api.get("/readyz") == "ok"
