"""Unit tests talk to no server: opening a network socket in one is an error."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import pytest
from airflow.cli.cli_parser import _add_command
from pytest_socket import disable_socket, enable_socket

from airflow_gpu_placement.cli.definition import get_gpu_placement_commands

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _no_network() -> Iterator[None]:
    """Forbid network sockets during each test here; unix sockets serve event loops and stay allowed."""
    disable_socket(allow_unix_socket=True)
    yield
    enable_socket()


@pytest.fixture(scope="module")
def parser() -> argparse.ArgumentParser:
    """Return a parser with our commands alone."""
    made = argparse.ArgumentParser(prog="airflow")
    commands = made.add_subparsers()
    for group in get_gpu_placement_commands():
        _add_command(commands, group)
    return made
