"""The network before an API server fails by itself, and heals."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import socket
import ssl
import threading
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import pytest

from lab import LabError
from tests.lab.node_support import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lab import ApiClient, Cluster
    from lab.proxies import Proxy

pytestmark = pytest.mark.lab

QUICK_SECONDS = 2.0


@pytest.fixture
def proxy(onprem: Cluster) -> Iterator[Proxy]:
    """Return a proxy that carries everything, before and after the test."""
    found = onprem.proxy()
    yield found
    found.carry()
    found.reset()


def _quick(proxy: Proxy) -> ApiClient:
    return dataclasses.replace(proxy.client(), timeout_seconds=QUICK_SECONDS)


class Stream:
    """A watch of ConfigMaps by way of the proxy, read in a thread."""

    def __init__(self, proxy: Proxy, namespace: str) -> None:
        self.names: list[str] = []
        self.ended = threading.Event()
        address, client = urlsplit(proxy.server), proxy.client()
        self._connection = http.client.HTTPSConnection(
            address.hostname or "",
            address.port,
            timeout=60,
            context=ssl.create_default_context(cafile=str(client.ca_file)),
        )
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        version = client.get(path)["metadata"]["resourceVersion"]
        query = urlencode({"watch": "true", "resourceVersion": version})
        self._connection.request(
            "GET", f"{path}?{query}", headers={"Authorization": f"Bearer {client.token}"}
        )
        self._response = self._connection.getresponse()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            for line in self._response:
                event: dict[str, Any] = json.loads(line)
                self.names.append(event["object"]["metadata"]["name"])
        self.ended.set()


@pytest.fixture
def write(onprem: Cluster, namespace: str) -> Callable[[str], None]:
    """Return a function that writes a ConfigMap without the proxy."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    return lambda name: onprem.api.post(path, {"metadata": {"name": name}})


@pytest.fixture
def stream(proxy: Proxy, namespace: str, write: Callable[[str], None]) -> Stream:
    """Return a watch that has had its first event."""
    found = Stream(proxy, namespace)
    write("first")
    wait_for(lambda: found.names == ["first"], 10, "the watch is fed")
    return found


def test_kubeconfig_goes_by_the_proxy(onprem: Cluster, proxy: Proxy) -> None:
    """The kubeconfigs of a proxy name its address, for every user, and the same proxy is found again."""
    cluster = proxy.kubeconfig("visitor")["clusters"][0]["cluster"]
    assert cluster["server"] == proxy.server != onprem.server
    assert proxy.client().get("/readyz") == "ok"
    assert onprem.proxy() == proxy
    assert onprem.proxy("other").port != proxy.port
    with pytest.raises(LabError, match="no user of cluster 'onprem' 'nobody'"):
        proxy.kubeconfig_path("nobody")
    with pytest.raises(LabError, match=r"name of the proxy: '\.\./x' is no name"):
        onprem.proxy("../x")


def test_refuse_hits_new_connections_only(proxy: Proxy, stream: Stream, write: Callable[[str], None]) -> None:
    """New connections are refused while an open watch goes on."""
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        _quick(proxy).get("/readyz")
    write("second")
    wait_for(lambda: stream.names == ["first", "second"], 10, "the open watch goes on")
    proxy.carry()
    assert _quick(proxy).get("/readyz") == "ok"


def test_reset_breaks_open_connections(proxy: Proxy, stream: Stream) -> None:
    """Open connections are reset, a watch among them, and the next connection is well."""
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as plain:
        wait_for(lambda: proxy.status()["connections"] == 2, 10, "the proxy knows both")
        proxy.reset()
        with pytest.raises(ConnectionResetError):
            plain.recv(1)
    assert stream.ended.wait(10)
    wait_for(lambda: proxy.status()["connections"] == 0, 10, "nothing is left open")
    assert _quick(proxy).get("/readyz") == "ok"


def test_hold_keeps_everything_back_until_it_is_carried(
    proxy: Proxy, stream: Stream, write: Callable[[str], None]
) -> None:
    """Held connections are silent, and afterwards nothing of what they carry is missing."""
    proxy.hold()
    write("second")
    with pytest.raises(TimeoutError):
        _quick(proxy).get("/readyz")
    assert (stream.names, stream.ended.is_set()) == (["first"], False)
    proxy.carry()
    wait_for(lambda: stream.names == ["first", "second"], 10, "what was held arrives")


def test_blackhole_leaves_half_open_connections(
    proxy: Proxy, namespace: str, stream: Stream, write: Callable[[str], None]
) -> None:
    """A watch of that time stays open and silent for good, also when new ones are fed again."""
    proxy.blackhole()
    with pytest.raises(TimeoutError):
        _quick(proxy).get("/readyz")
    proxy.carry()
    fresh = Stream(proxy, namespace)
    write("second")
    wait_for(lambda: fresh.names == ["second"], 10, "a new watch is fed")
    assert (stream.names, stream.ended.is_set()) == (["first"], False)


def test_delay_makes_answers_late(proxy: Proxy) -> None:
    """Each piece is late: the handshake takes several."""
    proxy.delay(0.2)
    started = time.monotonic()
    assert proxy.client().get("/readyz") == "ok"
    assert time.monotonic() - started > 0.6
    assert proxy.status()["delay_seconds"] == 0.2


def test_proxy_without_a_server_breaks_off(gke: Cluster) -> None:
    """When the API server is down the proxy's clients are broken off, and served when it is back."""
    proxy = gke.proxy()
    gke.api_server.kill()
    try:
        with pytest.raises((OSError, http.client.HTTPException)):
            _quick(proxy).get("/readyz")
    finally:
        gke.api_server.start()
    assert _quick(proxy).get("/readyz") == "ok"
