"""Authenticated requests to Airflow's API server."""

from __future__ import annotations

import threading
from typing import Any

import httpx

REQUEST_TIMEOUT_SECONDS = 30.0
#: Many requests at a time take all database connections of the API server, and each waits for one more.
READS_AT_A_TIME = 4


class ApiError(Exception):
    """The API answered with an error status."""

    def __init__(self, response: httpx.Response) -> None:
        request = response.request
        super().__init__(f"{request.method} {request.url} -> {response.status_code}: {response.text[:2000]}")
        self.status_code = response.status_code


class RestSession:
    """The API as one user. The token is fetched at the first request and renewed when it is refused."""

    def __init__(self, base_url: str, username: str, password: str) -> None:
        self._credentials = {"username": username, "password": password}
        self._http = httpx.Client(base_url=base_url, timeout=REQUEST_TIMEOUT_SECONDS, trust_env=False)
        self._reads = threading.BoundedSemaphore(READS_AT_A_TIME)
        # On SQLite a write that waits for another one can block the event loop that the other one needs.
        self._writes = threading.Lock()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def request(self, method: str, url: str, **kwargs: Any) -> httpx.Response:
        """Send an authenticated request to any path of the server; return the answer as it is."""
        with self._reads if method == "GET" else self._writes:
            if "Authorization" not in self._http.headers:
                self._log_in()
            response = self._http.request(method, url, **kwargs)
            if _token_refused(response):
                self._log_in()
                response = self._http.request(method, url, **kwargs)
            if response.status_code == httpx.codes.INTERNAL_SERVER_ERROR and not url.endswith("/dagRuns"):
                # The database was locked for too long. Nothing but a new DAG run is harmed by asking twice.
                response = self._http.request(method, url, **kwargs)
        return response

    def _log_in(self) -> None:
        response = self._http.post("/auth/token", json=self._credentials)
        if response.is_error:
            raise ApiError(response)
        self._http.headers["Authorization"] = f"Bearer {response.json()['access_token']}"

    def call(self, method: str, path: str, **kwargs: Any) -> Any:
        """Send a request to a path below ``/api/v2``; return the decoded answer or raise ``ApiError``."""
        response = self.request(method, f"/api/v2{path}", **kwargs)
        if response.is_error:
            raise ApiError(response)
        return response.json() if response.content else None

    def get(self, path: str, **params: Any) -> Any:
        """GET a path below ``/api/v2`` and return the decoded answer."""
        return self.call("GET", path, params=params)


def _token_refused(response: httpx.Response) -> bool:
    # A missing token is answered with 401, an expired one with 403 as a missing right is.
    return response.status_code == httpx.codes.UNAUTHORIZED or (
        response.status_code == httpx.codes.FORBIDDEN and "Invalid JWT token" in response.text
    )
