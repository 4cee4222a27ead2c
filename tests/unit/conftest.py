"""Unit tests talk to no server: opening a network socket in one is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pytest_socket import disable_socket, enable_socket

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _no_network() -> Iterator[None]:
    """Forbid network sockets during each test here; unix sockets serve event loops and stay allowed."""
    disable_socket(allow_unix_socket=True)
    yield
    enable_socket()
