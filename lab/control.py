"""Orders to a keeper: one JSON line there, one JSON line back, over a unix socket in the lab's folder."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from typing import TYPE_CHECKING, Any

from lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from lab.paths import LabPaths

LINE_LIMIT = 4 * 1024 * 1024


class NobodyAnswersError(LabError):
    """Nobody listens on a socket, or who does has left without an answer."""


class KeeperUnreachableError(LabError):
    """No keeper answers: the lab does not run."""


@contextlib.contextmanager
def short_socket_path(path: Path) -> Iterator[str]:
    """Give a name of a socket that fits into the kernel's 108 bytes, however long its path is."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def request(paths: LabPaths, operation: str, timeout_seconds: float = 60.0, **arguments: Any) -> Any:
    """Send one order and return its result.

    :raises KeeperUnreachableError: when no keeper answers.
    :raises LabError: with the keeper's words, when it refuses.
    """
    owner = f"the keeper of lab {paths.name!r}"
    try:
        content = ask(paths.socket, {"operation": operation, **arguments}, timeout_seconds, owner)
    except NobodyAnswersError as error:
        raise KeeperUnreachableError(_not_running(paths)) from error
    if "error" in content:
        raise LabError(content["error"])
    return content["result"]


def ask(path: Path, order: Mapping[str, Any], timeout_seconds: float, owner: str) -> dict[str, Any]:
    """Send one order to a unix socket and return the answer.

    :param owner: who listens there, for the error.
    :raises NobodyAnswersError: when nobody listens, or leaves without an answer.
    :raises LabError: when there is no answer in time.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout_seconds)
        try:
            with short_socket_path(path) as name:
                connection.connect(name)
            connection.sendall(json.dumps(order).encode() + b"\n")
            with connection.makefile("rb") as reader:
                answer = reader.readline(LINE_LIMIT)
        except TimeoutError as error:
            raise LabError(
                f"{owner} did not answer {dict(order)} in {timeout_seconds:g} s; "
                f"see the logs in {path.parent}"
            ) from error
        except OSError as error:
            raise NobodyAnswersError(
                f"{owner} does not answer: {error}; see the logs in {path.parent}"
            ) from error
    if not answer:
        raise NobodyAnswersError(f"{owner} has left without an answer; see the logs in {path.parent}")
    content: dict[str, Any] = json.loads(answer)
    return content


def _not_running(paths: LabPaths) -> str:
    name = "" if paths.name == "lab" else f" --name {paths.name}"
    return f"lab {paths.name!r} does not run. Start it with: python -m lab up{name}"
