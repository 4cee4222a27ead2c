"""Makes an API server answer 429 to one user, with its own means: a priority level that has no seats."""

from __future__ import annotations

import contextlib
import http.client
import threading
import time
from typing import TYPE_CHECKING, Any

from lab.errors import LabApiError, LabError, LabTimeoutError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.client import ApiClient

_GROUP = "/apis/flowcontrol.apiserver.k8s.io/v1"
_HELD_PATH = "/api/v1/nodes"
# A version that never comes within the 3 s for which the API server waits for it.
_FUTURE = 1_000_000_000
_PAUSE_SECONDS = 0.01
_ACTIVE_SECONDS = 15.0


@contextlib.contextmanager
def throttled(admin: ApiClient, client: ApiClient, user: str) -> Iterator[None]:
    """Have nearly every request of a user answered with 429 during the block.

    One request at a time is let through even without seats, so two threads send such that take 3 s each.

    :param client: acts as the user, who needs the right to list nodes; with all rights it is never refused.
    """
    name = f"lab-throttle-{user.replace(':', '-')}"
    stop, problems = threading.Event(), list[str]()
    holders = [threading.Thread(target=_hold, args=(client, stop, problems), daemon=True) for _ in range(2)]
    _create(admin, name, user)
    try:
        for holder in holders:
            holder.start()
        _wait_active(client, user, problems)
        yield
    finally:
        stop.set()
        admin.delete(f"{_GROUP}/flowschemas/{name}")
        admin.delete(f"{_GROUP}/prioritylevelconfigurations/{name}")
        for holder in holders:
            holder.join()


def _create(admin: ApiClient, name: str, user: str) -> None:
    limited = {
        "nominalConcurrencyShares": 0,
        "lendablePercent": 0,
        "borrowingLimitPercent": 0,
        "limitResponse": {"type": "Reject"},
    }
    every = {"verbs": ["*"]}
    rule = {
        "subjects": [{"kind": "User", "user": {"name": user}}],
        "resourceRules": [
            every | {"apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}
        ],
        "nonResourceRules": [every | {"nonResourceURLs": ["*"]}],
    }
    level: dict[str, Any] = {"type": "Limited", "limited": limited}
    schema = {"priorityLevelConfiguration": {"name": name}, "matchingPrecedence": 50, "rules": [rule]}
    admin.post(f"{_GROUP}/prioritylevelconfigurations", {"metadata": {"name": name}, "spec": level})
    admin.post(f"{_GROUP}/flowschemas", {"metadata": {"name": name}, "spec": schema})


def _hold(client: ApiClient, stop: threading.Event, problems: list[str]) -> None:
    """Occupy the one seat again and again."""
    while not stop.wait(_PAUSE_SECONDS):
        try:
            client.get(_HELD_PATH, resourceVersion=_FUTURE)
        except LabApiError as error:
            if error.status in (http.client.UNAUTHORIZED, http.client.FORBIDDEN):
                problems.append(str(error))
                return
        except (OSError, http.client.HTTPException):
            continue  # the API server is away, which is a fault of its own


def _wait_active(client: ApiClient, user: str, problems: list[str]) -> None:
    deadline = time.monotonic() + _ACTIVE_SECONDS
    while not problems:
        try:
            client.get("/version")
        except LabApiError as error:
            if error.status == http.client.TOO_MANY_REQUESTS:
                return
        if time.monotonic() > deadline:
            raise LabTimeoutError(
                f"user {user!r} is not refused after {_ACTIVE_SECONDS:g} s; is it of system:masters?"
            )
        time.sleep(_PAUSE_SECONDS)
    raise LabError(f"user {user!r} cannot be throttled: {problems[0]}; give it the right to list nodes")
