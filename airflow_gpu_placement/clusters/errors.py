"""From what went wrong on the wire to the package's own errors, with a text that names the call."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import aiohttp
import msgspec

from airflow_gpu_placement.exceptions import ClusterError, Conflict, Forbidden, NotFound, Unreachable
from airflow_gpu_placement.model.kube import Status

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST_PAUSE_SECONDS = 30.0
_BODY_SHOWN = 500
_UNAVAILABLE = frozenset({502, 503, 504})
_BY_STATUS: dict[int, type[ClusterError]] = {401: Forbidden, 403: Forbidden, 404: NotFound, 409: Conflict}


class Expired(ClusterError):
    """The resource version or continue token is too old (410): list again from the start."""


class Overtaken(Conflict):
    """Something that the call depends on, such as a quota, was changed meanwhile: the same call may work."""


WIRE_ERRORS: tuple[type[Exception], ...] = (aiohttp.ClientError, TimeoutError, OSError)
"""What the HTTP library raises when there is no usable answer."""


def from_answer(call: str, status: int, body: bytes, headers: Mapping[str, str]) -> ClusterError:
    """Make the error for an answer that is not a success.

    :param call: verb and URL, for the text.
    """
    reported = _status_of(body)
    detail = reported.message or body[:_BODY_SHOWN].decode("utf-8", "replace").strip() or "no explanation"
    kind = _kind_of(status, reported.reason)
    return kind(
        f"{call}: {status} {detail}", status=status, retry_after_seconds=_seconds(headers.get("Retry-After"))
    )


def from_event(call: str, status: Status) -> ClusterError:
    """Make the error for an ``ERROR`` event inside a watch."""
    return _kind_of(status.code)(
        f"{call}: {status.code} {status.message or status.reason}", status=status.code
    )


def from_exception(call: str, error: Exception) -> Unreachable:
    """Make the error for a call that got no usable answer."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLError):
        why = f"its certificate is not accepted ({error})"
    elif isinstance(error, TimeoutError):
        why = f"no answer in time ({error})" if str(error) else "no answer in time"
    else:
        why = str(error) or type(error).__name__
    return Unreachable(f"{call}: {why}")


def may_pass(error: ClusterError) -> bool:
    """Whether the same call may work a moment later: no answer, too busy, or the server's own trouble."""
    return isinstance(error, Unreachable | Overtaken) or error.status == 429 or (error.status or 0) >= 500


def pause_seconds(error: ClusterError, usual: float) -> float:
    """Return how long to wait before the same call is made again.

    A server's own wish is obeyed within limits: a gateway that is broken may ask for a day.
    """
    return min(error.retry_after_seconds or usual, LONGEST_PAUSE_SECONDS)


def _kind_of(status: int, reason: str = "") -> type[ClusterError]:
    if status == 410:
        return Expired
    if status == 409 and reason == "Conflict":  # what exists already has a reason of its own
        return Overtaken
    return Unreachable if status in _UNAVAILABLE else _BY_STATUS.get(status, ClusterError)


def _status_of(body: bytes) -> Status:
    try:
        return msgspec.json.decode(body, type=Status)
    except msgspec.MsgspecError:
        return Status()


def _seconds(value: str | None) -> float | None:
    """Read a ``Retry-After``; one that is a date is not obeyed, since clocks of other machines are not."""
    try:
        return max(0.0, float(value)) if value is not None else None
    except ValueError:
        return None
