"""A small synchronous client of one API server, for tests and for the lab itself."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from lab.errors import LabApiError, LabTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    Json = Any
    Parameter = str | int | bool

MERGE_PATCH = "application/merge-patch+json"

_POLL_SECONDS = 0.1
_TEXT_LIMIT = 2000


@dataclass(frozen=True, slots=True)
class ApiClient:
    """Speaks to one API server, one connection a request: it outlives restarts and is thread-safe.

    Paths are those of the API, such as ``/api/v1/nodes``. Answers are decoded JSON, or text where the server
    sends text (logs, ``/readyz``). Every call raises :class:`LabApiError` for an error status, and
    ``OSError`` or ``http.client.HTTPException`` when the server cannot be reached.

    :param token: bearer token; ``None`` sends none.
    """

    server: str
    ca_file: Path
    token: str | None
    timeout_seconds: float = 30.0
    _context: ssl.SSLContext = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Load the CA once."""
        object.__setattr__(self, "_context", ssl.create_default_context(cafile=str(self.ca_file)))

    def get(self, path: str, **params: Parameter) -> Json:
        """Read an object, a list or a text."""
        return self.request("GET", path, params=params)

    def post(self, path: str, body: Json, **params: Parameter) -> Json:
        """Create an object."""
        return self.request("POST", path, body=body, params=params)

    def put(self, path: str, body: Json, **params: Parameter) -> Json:
        """Replace an object."""
        return self.request("PUT", path, body=body, params=params)

    def patch(self, path: str, body: Json, content_type: str = MERGE_PATCH, **params: Parameter) -> Json:
        """Change an object; a merge patch unless the content type says otherwise."""
        return self.request("PATCH", path, body=body, params=params, content_type=content_type)

    def delete(self, path: str, body: Json = None, **params: Parameter) -> Json:
        """Delete an object; ``body`` is a DeleteOptions."""
        return self.request("DELETE", path, body=body, params=params)

    def wait(
        self,
        path: str,
        predicate: Callable[[Json], object],
        timeout_seconds: float,
        what: str,
        **params: Parameter,
    ) -> Json:
        """Read until a predicate holds and return what it held for.

        :param predicate: gets the object, or ``None`` while it does not exist (404).
        :param what: the condition in words, for the error.
        :raises LabTimeoutError: with the last answer.
        """
        deadline = time.monotonic() + timeout_seconds
        while True:
            answer, trouble = self._try_get(path, params)
            if trouble is None and predicate(answer):
                return answer
            if time.monotonic() >= deadline:
                last = trouble or json.dumps(answer)[:_TEXT_LIMIT]
                raise LabTimeoutError(
                    f"not within {timeout_seconds:g} s: {what}. Last answer of GET {path}: {last}"
                )
            time.sleep(_POLL_SECONDS)

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Json = None,
        params: Mapping[str, Parameter] | None = None,
        content_type: str = "application/json",
        connection: http.client.HTTPSConnection | None = None,
    ) -> Json:
        """Send one request and decode its answer.

        :param connection: one of :meth:`connect` that stays open for more requests of one thread.
        """
        query = {
            key: str(value).lower() if isinstance(value, bool) else value
            for key, value in (params or {}).items()
        }
        headers = {"Accept": "application/json"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        payload = None
        if body is not None:
            headers["Content-Type"] = content_type
            payload = json.dumps(body).encode()
        used = connection or self.connect()
        try:
            used.request(
                method, f"{path}?{urlencode(query)}" if query else path, body=payload, headers=headers
            )
            response = used.getresponse()
            text = response.read().decode("utf-8", errors="replace")
        finally:
            if connection is None:
                used.close()
        is_json = (response.getheader("Content-Type") or "").startswith("application/json")
        if response.status >= 400:
            raise _error(response.status, text, is_json=is_json)
        return json.loads(text) if is_json else text

    def connect(self) -> http.client.HTTPSConnection:
        """Return a new connection, for many requests in a row."""
        address = urlsplit(self.server)
        return http.client.HTTPSConnection(
            address.hostname or "", address.port, timeout=self.timeout_seconds, context=self._context
        )

    def _try_get(self, path: str, params: Mapping[str, Parameter]) -> tuple[Json, str | None]:
        """Return the object or what stands in the way for now; a refusal that will not pass is raised."""
        try:
            return self.request("GET", path, params=params), None
        except LabApiError as error:
            if error.status == http.client.NOT_FOUND:
                return None, None
            if error.status == http.client.TOO_MANY_REQUESTS or error.status >= 500:
                return None, str(error)
            raise
        except (OSError, http.client.HTTPException) as error:
            return None, f"{type(error).__name__}: {error}"


def _error(status: int, text: str, *, is_json: bool) -> LabApiError:
    content = json.loads(text) if is_json else None
    if isinstance(content, dict) and content.get("kind") == "Status":
        return LabApiError(status, content.get("reason", ""), content.get("message", ""))
    return LabApiError(status, "", text.strip()[:_TEXT_LIMIT])
