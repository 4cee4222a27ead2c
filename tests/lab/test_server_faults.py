"""Faults of servers and of what they answer, each with its heal."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from lab import LabApiError, LabError
from lab.throttle import throttled
from tests.lab.node_support import Workspace, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lab import ApiClient, Cluster, Lab

pytestmark = pytest.mark.lab

QUICK_SECONDS = 2.0
BACK_SECONDS = 90.0  # after an etcd outage the API server waits before it connects again


@pytest.fixture
def work(gke: Cluster) -> Iterator[Workspace]:
    """Return a namespace of the cluster that has an etcd of its own."""
    with Workspace.scoped(gke, "a100-1") as found:
        yield found


def _quick(client: ApiClient) -> ApiClient:
    return dataclasses.replace(client, timeout_seconds=QUICK_SECONDS)


def _wait_back(cluster: Cluster) -> None:
    cluster.api.wait("/readyz", lambda text: text == "ok", BACK_SECONDS, "the API server is ready")
    cluster.api.wait("/api/v1/namespaces/default", lambda found: found, BACK_SECONDS, "it reads again")


class Watch:
    """A watch of ConfigMaps in a thread, from a version on."""

    def __init__(self, work: Workspace, version: str) -> None:
        self.events: list[dict[str, Any]] = []
        self.ended = threading.Event()
        self._lines = work.stream(work.path("configmaps"), watch="true", resourceVersion=version)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def names(self) -> list[str]:
        """Name the objects that were added."""
        added = [event["object"] for event in self.events if event["type"] == "ADDED"]
        return [item["metadata"]["name"] for item in added]

    def _run(self) -> None:
        try:
            with contextlib.suppress(TimeoutError):  # long after the test: nobody writes anything any more
                for line in self._lines:
                    self.events.append(json.loads(line))
        finally:
            self.ended.set()


def _version(work: Workspace) -> str:
    version: str = work.cluster.api.get(work.path("configmaps"))["metadata"]["resourceVersion"]
    return version


def _write(work: Workspace, name: str) -> None:
    work.cluster.api.post(work.path("configmaps"), {"metadata": {"name": name}})


def test_frozen_api_server_is_silent_and_answers_after_the_thaw(work: Workspace) -> None:
    """A stopped API server takes connections and answers nothing; then it goes on with what it had."""
    server = work.cluster.api_server
    server.freeze()
    try:
        with pytest.raises(TimeoutError):
            _quick(work.cluster.api).get("/version")
    finally:
        server.thaw()
    _wait_back(work.cluster)


def test_api_server_that_is_terminated_keeps_open_watches(work: Workspace) -> None:
    """After SIGTERM a successor serves the same port while the old process keeps its watches open."""
    watch = Watch(work, _version(work))
    _write(work, "before")
    wait_for(lambda: watch.events, 10, "the watch is fed")
    server = work.cluster.api_server
    server.terminate()
    server.start()
    _wait_back(work.cluster)
    _write(work, "after")
    fresh = Watch(work, str(int(_version(work)) - 1))
    wait_for(lambda: fresh.events or fresh.ended.is_set(), 15, "a new watch is fed")
    assert not watch.ended.is_set()
    assert (watch.names()[0], fresh.names()[-1]) == ("before", "after")

    server.kill()
    assert watch.ended.wait(10), "the kill ends the predecessor too"
    server.start()
    _wait_back(work.cluster)


@pytest.mark.timeout(240)
def test_etcd_of_one_cluster_dies_and_comes_back(lab: Lab, work: Workspace) -> None:
    """Without its etcd a cluster is not ready and the other does not notice; nothing written is lost."""
    _write(work, "kept")
    etcd = work.cluster.etcd
    assert (etcd.name, lab.cluster("onprem").etcd, lab.etcd.name) == ("gke/etcd", lab.etcd, "etcd")
    etcd.kill()
    try:
        wait_for(lambda: _readiness(work.cluster) == 500, 30, "the API server says that it is not ready")
        assert _readiness(lab.cluster("onprem")) == 200
    finally:
        etcd.start()
    _wait_back(work.cluster)
    assert work.cluster.api.get(work.path("configmaps", "kept"))


def test_frozen_etcd_holds_writes_back(work: Workspace) -> None:
    """A stopped etcd answers no write; after the thaw writes work."""
    etcd = work.cluster.etcd
    etcd.freeze()
    try:
        with pytest.raises((TimeoutError, LabApiError)):
            _quick(work.cluster.api).post(work.path("configmaps"), {"metadata": {"name": "held"}})
    finally:
        etcd.thaw()
    _wait_back(work.cluster)
    _write(work, "written")


def _readiness(cluster: Cluster) -> int:
    try:
        cluster.api.get("/readyz")
    except LabApiError as error:
        return error.status
    except OSError:
        return 0
    return 200


def test_unknown_server_and_wrong_order_are_told(lab: Lab, gke: Cluster) -> None:
    """A server that runs cannot be started twice, and one that does not exist is answered with the names."""
    with pytest.raises(LabError, match=r"gke/kube-scheduler already runs \(pid \d+\); if it is frozen, thaw"):
        gke.scheduler.start()
    with pytest.raises(LabError, match=r"no server 'gke/kube-schedular'\. Did you mean 'gke/kube-scheduler'"):
        dataclasses.replace(gke.scheduler, name="gke/kube-schedular").kill()
    gke.scheduler.kill()
    with pytest.raises(LabError, match="gke/kube-scheduler does not run; start it first"):
        gke.scheduler.freeze()
    gke.scheduler.start()
    assert lab.status()["clusters"]["gke"]["servers"]["kube-scheduler"] is not None


def test_history_that_expired_answers_410(work: Workspace) -> None:
    """A watch from a version of before is answered with 410 in its first event; a new one works."""
    version = _version(work)
    work.cluster.expire_history()
    watch = Watch(work, version)
    wait_for(lambda: watch.events, 10, "the watch is answered")
    status = watch.events[0]
    assert (status["type"], status["object"]["code"], status["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert "too old resource version" in status["object"]["message"]
    fresh = Watch(work, _version(work))
    _write(work, "new")
    wait_for(lambda: fresh.events, 10, "a watch from now on is fed")
    assert fresh.events[0]["type"] == "ADDED"


def test_throttled_user_gets_429_and_nobody_else(
    onprem: Cluster, readers_role: Callable[[Cluster, str], None]
) -> None:
    """One user is told to come later, for as long as the block lasts."""
    readers_role(onprem, "visitor")
    visitor = onprem.client("visitor")
    with onprem.throttled("visitor"):
        answers = [_status(visitor) for _ in range(50)]
        assert answers.count(429) >= 30, "one request at a time may slip through"
        assert _status(onprem.api) == 200
    wait_for(lambda: _status(visitor) == 200, 10, "the visitor is served again")


def test_user_who_cannot_be_throttled_is_told(onprem: Cluster) -> None:
    """Without the right to list nodes the one seat cannot be held, and the error says so."""
    credential = onprem.credential("no-rights")
    with (
        pytest.raises(LabError, match=r"cannot be throttled: 403 .*give it the right to list nodes"),
        throttled(onprem.api, credential.client, credential.user),
    ):
        pytest.fail("the block was entered")


def _status(client: ApiClient) -> int:
    try:
        client.get("/version")
    except LabApiError as error:
        return error.status
    return 200


def test_revoked_credential_gets_401_until_it_is_renewed(
    onprem: Cluster, readers_role: Callable[[Cluster, str], None]
) -> None:
    """A token is void once it is revoked; after the renewal the file has a new one with the same rights."""
    credential = onprem.credential("trainer")
    readers_role(onprem, credential.user)
    wait_for(lambda: _lists(credential.client) == 200, 10, "the credential may list nodes")
    old = credential.client
    credential.revoke()
    assert _lists(old) == 401
    credential.renew()
    assert (_lists(credential.client), _lists(old)) == (200, 401)
    assert credential.kubeconfig_path.stat().st_mode & 0o077 == 0


def _lists(client: ApiClient) -> int:
    try:
        client.get("/api/v1/nodes")
    except LabApiError as error:
        return error.status
    return 200
