"""The training program of the demo on two ranks, which talk over the loopback interface."""

from __future__ import annotations

import json
import socket
import struct
import time
from typing import TYPE_CHECKING

import pytest

from tests.unit.training_helpers import (
    EPOCHS,
    await_step,
    environment,
    expected,
    program_processes,
    result,
    weights,
)

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start the program as a process."""
    with program_processes() as run:
        yield run


def test_two_ranks_average_and_survive_the_loss_of_one(
    tmp_path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    """Rank 1 dies: rank 0 says so with code 75; both started anew end right, a stranger kept out."""
    root = tmp_path / "root"

    def gang(fence: int, rank: int, *arguments: str) -> subprocess.Popen[str]:
        more = {"NNODES": "2", "NODE_RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        env = environment(
            root, fence, **more, GPU_PLACEMENT_RESULT_PATH=str(tmp_path / f"result-{fence}-{rank}")
        )
        return start(env, f"--epochs={EPOCHS}", *arguments)

    port = free_port()
    ranks = [gang(1, rank, "--seconds-per-epoch=0.3") for rank in (0, 1)]
    await_step(root / "1-try", 2)
    ranks[1].kill()
    output, _ = ranks[0].communicate(timeout=60)
    assert (ranks[0].returncode, "stopped: rank 1 is gone" in output) == (75, True), output

    port = free_port()
    ranks = [gang(2, 0)]
    with await_connection(port) as stranger:
        hello = json.dumps({"rank": 1, "nodes": 2, "attempt": "attempt-1"}).encode()
        stranger.sendall(struct.pack(">H", len(hello)) + hello)
        assert stranger.recv(1) == b""
    ranks.append(gang(2, 1))
    outputs = [rank.communicate(timeout=60)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], outputs
    wanted_weights, wanted_accuracy = expected(EPOCHS, nodes=2)
    assert weights(root / "2-try" / f"step-{EPOCHS:012d}") == wanted_weights
    assert result(root, "2-0") == result(root, "2-1")
    assert result(root, "2-0")["accuracy"] == wanted_accuracy
    assert result(root, "2-0")["resumed_from_epoch"] >= 2


def free_port() -> int:
    """Return a port of the loopback interface that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def await_connection(port: int) -> socket.socket:
    """Connect as soon as somebody listens there."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=15)
        except ConnectionRefusedError:
            assert time.monotonic() < deadline, "rank 0 does not listen"
            time.sleep(0.02)
