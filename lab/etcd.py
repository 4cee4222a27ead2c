"""One etcd: that of the lab, which clusters share, or one of a cluster's own."""

from __future__ import annotations

import base64
import json
import secrets
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from lab import controlplane
from lab.component import Component, on_free_port
from lab.ports import free_port, wait_free

if TYPE_CHECKING:
    from pathlib import Path


class Etcd:
    """Starts an etcd, also again with what it has stored.

    :param name: as in ``logs``: ``etcd`` or ``onprem/etcd``.
    """

    def __init__(self, name: str, folder: Path, program: Path) -> None:
        self.component = Component(name, folder, again=self.start_again)
        self._program = program
        self.port = 0
        self._peer_port = 0
        self._member = ""

    async def start(self) -> None:
        """Start it for the first time, on ports that are free."""
        await on_free_port(self._start_first)

    async def start_again(self) -> None:
        """Start it with its data, at the address that the API servers know."""
        for port in (self.port, self._peer_port):
            await wait_free(port, self.component.name)
        await self._run()

    async def _start_first(self) -> None:
        self.port, self._peer_port, self._member = free_port(), free_port(), secrets.token_hex(8)
        await self._run()

    async def _run(self) -> None:
        data = self.component.folder / f"data-{self._member}"
        self.component.start(
            controlplane.etcd_command(self._program, self._member, data, self.port, peer_port=self._peer_port)
        )
        await self.component.until(lambda: _is_member(self.port, self._member))


def compact(port: int) -> None:
    """Throw away every revision before the present one, as API servers have done every five minutes.

    :param port: where the etcd answers its clients.
    """
    present = _ask(port, "kv/range", {"key": base64.b64encode(b"/").decode("ascii"), "count_only": True})
    _ask(port, "kv/compaction", {"revision": present["header"]["revision"], "physical": True})


def _is_member(port: int, member: str) -> bool:
    """Say whether the etcd that answers on a port is the one that was started, not another lab's."""
    try:
        members = _ask(port, "cluster/member/list", {}).get("members", [])
    except (OSError, ValueError, urllib.error.URLError):
        return False
    return any(each.get("name") == member for each in members)


def _ask(port: int, call: str, question: dict[str, Any]) -> dict[str, Any]:
    """Make a call over etcd's JSON gateway."""
    query = urllib.request.Request(
        f"http://127.0.0.1:{port}/v3/{call}", data=json.dumps(question).encode(), method="POST"
    )
    # Loopback is never behind a proxy, whatever the environment says.
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(query, timeout=5) as answer:
        found: dict[str, Any] = json.load(answer)
    return found
