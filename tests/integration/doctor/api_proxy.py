"""A proxy before an API server: the test sets its clock and version, the rest is the real server's."""

from __future__ import annotations

import base64
import contextlib
import copy
import http.client
import json
import ssl
import threading
from datetime import timedelta
from email.utils import format_datetime, parsedate_to_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab import Cluster

_ANSWER_SECONDS = 30.0
_PASSED_ON = ("Accept", "Authorization", "Content-Type")


class ApiProxy:
    """What the proxy changes in the answers, at the moment nothing.

    :param server: address of the API server.
    :param ca: its certificate authority as PEM.
    """

    def __init__(self, server: str, ca: str) -> None:
        self.clock_ahead_seconds = 0.0
        self.git_version: str | None = None
        self.url = ""
        self._address = urlsplit(server).netloc
        self._trust = ssl.create_default_context(cadata=ca)

    @classmethod
    @contextlib.contextmanager
    def before(cls, cluster: Cluster) -> Iterator[ApiProxy]:
        """Listen on a free port of the loopback interface."""
        entry = cluster.kubeconfig()["clusters"][0]["cluster"]
        proxy = cls(cluster.server, base64.b64decode(entry["certificate-authority-data"]).decode())
        server = ThreadingHTTPServer(("127.0.0.1", 0), proxy._handler())
        server.daemon_threads = True
        serving = threading.Thread(target=server.serve_forever, name="api proxy")
        serving.start()
        proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield proxy
        finally:
            server.shutdown()
            serving.join()
            server.server_close()

    def kubeconfig(self, cluster: Cluster) -> dict[str, Any]:
        """Return the cluster's kubeconfig, by way of the proxy."""
        config = copy.deepcopy(cluster.kubeconfig())
        config["clusters"][0]["cluster"] = {"server": self.url}
        return config

    def answer(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """Ask the real server."""
        connection = http.client.HTTPSConnection(self._address, timeout=_ANSWER_SECONDS, context=self._trust)
        with contextlib.closing(connection):
            connection.request(method, path, body=body or None, headers=headers)
            response = connection.getresponse()
            return response, response.read()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._pass()

            def do_POST(self) -> None:
                self._pass()

            def _pass(self) -> None:
                sent = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                headers = {name: self.headers[name] for name in _PASSED_ON if name in self.headers}
                response, body = proxy.answer(self.command, self.path, headers, sent)
                if self.path == "/version" and proxy.git_version is not None:
                    body = json.dumps({**json.loads(body), "gitVersion": proxy.git_version}).encode()
                self.send_response_only(response.status)
                date = parsedate_to_datetime(response.headers["Date"])
                ahead = timedelta(seconds=proxy.clock_ahead_seconds)
                self.send_header("Date", format_datetime(date + ahead, usegmt=True))
                self.send_header("Content-Type", response.headers["Content-Type"])
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        return Handler
