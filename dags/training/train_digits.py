"""Train a linear classifier on scikit-learn's bundled handwritten digits, with a checkpoint an epoch.

A plain program, as a data scientist would write it: it runs on a laptop (``python train_digits.py``) and,
unchanged, as a placed job. Interrupted in any epoch and resumed, it ends with exactly the same model, because
an epoch depends on nothing but the weights before it and its number.

With several nodes (``NNODES``, ``NODE_RANK``, ``MASTER_ADDR``, ``MASTER_PORT``, or the same as ``PET_*``)
every rank trains on its share of the samples, and the weights are averaged after each epoch through rank 0.

Exit codes: 0 done; 3 the failure asked for by ``--fail-at-epoch``; 75 another rank is gone, so that this one
cannot go on; 143 stopped by SIGTERM, after the epoch in hand was written.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import struct
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

# Where the package is not installed, its checkpoint.py can be copied beside this file: it needs nothing else.
try:
    from airflow_gpu_placement.checkpoint import Checkpoints
except ImportError:
    from checkpoint import Checkpoints  # type: ignore[import-not-found,no-redef]  # the copied file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

SEED = 20
CLASSES, FEATURES = 10, 64
EXIT_FAILED, EXIT_PEER_LOST, EXIT_SIGTERM = 3, 75, 143
JOIN_TIMEOUT_SECONDS = 300.0  # the pods of a gang do not start at the same time
HELLO_TIMEOUT_SECONDS = 10.0
EXCHANGE_TIMEOUT_SECONDS = 90.0
POLL_SECONDS = 0.05


class AskedFailureError(Exception):
    """The bug that ``--fail-at-epoch`` stands for."""


class PeerLostError(Exception):
    """Another rank did not come, went away or fell silent."""


class Stop:
    """Becomes true on SIGTERM; looked at between the steps of the work, so that no step is cut in half."""

    requested = False

    def __call__(self, _signal: int, _frame: object) -> None:
        """Note the signal."""
        self.requested = True

    def wait(self, seconds: float) -> None:
        """Wait for so long, or until a stop is requested."""
        deadline = time.monotonic() + seconds
        while not self.requested and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, POLL_SECONDS))


class Gang:
    """All ranks of the job: rank 0 listens, the others connect to it, vectors of one size go to and fro."""

    def __init__(self, rank: int, env: Mapping[str, str], timeout_seconds: float) -> None:
        self.rank = rank
        self.nodes = int(_setting(env, "NNODES", "1"))
        self.attempt = env.get("GPU_PLACEMENT_ATTEMPT", "")
        self._address = _setting(env, "MASTER_ADDR", "127.0.0.1"), int(_setting(env, "MASTER_PORT", "29500"))
        self._timeout_seconds = timeout_seconds
        self._peers: dict[int, socket.socket] = {}
        if not 0 <= rank < self.nodes:
            raise SystemExit(
                f"NODE_RANK={rank} is not one of 0 to {self.nodes - 1}, as NNODES={self.nodes} says"
            )

    def join(self, stop: Stop) -> None:
        """Return when all ranks are connected."""
        deadline = time.monotonic() + JOIN_TIMEOUT_SECONDS
        if self.nodes > 1:
            (self._accept_all if self.rank == 0 else self._connect)(deadline, stop)

    def close(self) -> None:
        """Close all connections."""
        for peer in self._peers.values():
            peer.close()

    def broadcast(self, vector: Vector) -> Vector:
        """Return rank 0's vector on every rank."""
        if self.rank > 0:
            return self._receive(0, vector)
        for rank in self._peers:
            self._send(rank, vector.tobytes())
        return vector

    def average(self, vector: Vector) -> Vector:
        """Return the mean of all ranks' vectors, summed in the order of ranks so that it is reproducible."""
        if self.rank > 0:
            self._send(0, vector.tobytes())
            return self.broadcast(vector)
        total = vector.copy()
        for rank in sorted(self._peers):
            total += self._receive(rank, vector)
        return self.broadcast(total / self.nodes)

    def _accept_all(self, deadline: float, stop: Stop) -> None:
        host, port = self._address
        local = host in ("localhost", "127.0.0.1")
        with socket.create_server(("127.0.0.1" if local else "", port), backlog=self.nodes) as server:
            server.settimeout(POLL_SECONDS)
            while len(self._peers) < self.nodes - 1 and not stop.requested:
                if time.monotonic() > deadline:
                    missing = sorted(set(range(1, self.nodes)) - set(self._peers))
                    raise PeerLostError(f"ranks {missing} did not connect in {JOIN_TIMEOUT_SECONDS:.0f} s")
                with contextlib.suppress(TimeoutError):
                    self._welcome(server.accept()[0])

    def _welcome(self, peer: socket.socket) -> None:
        """Take a peer in if it belongs to this attempt: one of an earlier attempt may still be calling."""
        try:
            peer.settimeout(HELLO_TIMEOUT_SECONDS)
            hello = json.loads(_read_exactly(peer, struct.unpack(">H", _read_exactly(peer, 2))[0]))
            rank = hello["rank"]
            if hello != self._hello(rank) or not 0 < rank < self.nodes or rank in self._peers:
                raise ValueError(f"{hello} is no rank that is awaited")
        except (OSError, ValueError, KeyError, TypeError) as error:
            print(f"connection refused: {error}", flush=True)
            peer.close()
        else:
            peer.settimeout(self._timeout_seconds)
            self._peers[rank] = peer

    def _connect(self, deadline: float, stop: Stop) -> None:
        while not stop.requested:
            try:
                peer = socket.create_connection(self._address, timeout=self._timeout_seconds)
                if peer.getsockname() == peer.getpeername():  # on one machine a port may connect to itself
                    peer.close()
                    raise ConnectionRefusedError("nobody listens")
            except OSError as error:  # rank 0 does not listen yet, or its name is not in the DNS yet
                if time.monotonic() > deadline:
                    raise PeerLostError(f"rank 0 at {self._address} cannot be reached: {error}") from error
                stop.wait(4 * POLL_SECONDS)
                continue
            self._peers[0] = peer
            hello = json.dumps(self._hello(self.rank)).encode()
            self._send(0, struct.pack(">H", len(hello)) + hello)
            return

    def _hello(self, rank: int) -> dict[str, Any]:
        return {"rank": rank, "nodes": self.nodes, "attempt": self.attempt}

    def _send(self, rank: int, content: bytes) -> None:
        with _peer_lost(rank):
            self._peers[rank].sendall(content)

    def _receive(self, rank: int, like: Vector) -> Vector:
        with _peer_lost(rank):
            return np.frombuffer(_read_exactly(self._peers[rank], like.nbytes), dtype=np.float64)


class Model:
    """The classifier; its whole state is one vector of weights."""

    def __init__(self, rank: int, nodes: int) -> None:
        from sklearn.datasets import load_digits
        from sklearn.linear_model import SGDClassifier
        from sklearn.model_selection import train_test_split

        x, y = load_digits(return_X_y=True)
        x_train, self._x_test, y_train, self._y_test = train_test_split(
            x / 16.0, y, test_size=0.25, random_state=SEED, stratify=y
        )
        self._x, self._y = x_train[rank::nodes], y_train[rank::nodes]
        self._classifier = SGDClassifier(loss="log_loss", alpha=1e-4, learning_rate="constant", eta0=0.002)
        # The first call makes the arrays; `weights` then sets what is in them.
        self._classifier.partial_fit(self._x[:1], self._y[:1], classes=np.arange(CLASSES))
        self.weights = np.zeros(CLASSES * (FEATURES + 1))

    @property
    def weights(self) -> Vector:
        """All weights as one vector, a copy."""
        return np.concatenate([self._classifier.coef_.ravel(), self._classifier.intercept_])

    @weights.setter
    def weights(self, vector: Vector) -> None:
        self._classifier.coef_[:] = vector[: CLASSES * FEATURES].reshape(CLASSES, FEATURES)
        self._classifier.intercept_[:] = vector[CLASSES * FEATURES :]

    def train_epoch(self, epoch: int) -> None:
        """Go once over this rank's samples, in an order that depends on the epoch alone."""
        self._classifier.set_params(random_state=SEED + epoch)
        self._classifier.partial_fit(self._x, self._y)

    def accuracy(self) -> float:
        """Return the share of the test samples that is classified rightly."""
        return round(float(self._classifier.score(self._x_test, self._y_test)), 6)


def train(args: argparse.Namespace, checkpoints: Checkpoints, gang: Gang, stop: Stop) -> int:
    """Train from the newest checkpoint to the last epoch; return the exit code."""
    model = Model(gang.rank, gang.nodes)
    # Rank 0 alone looks for a checkpoint and tells the others, so that all start from the same one.
    resumed = checkpoints.resume() if checkpoints.writes else None
    start = np.zeros(1)
    if resumed is not None:
        with np.load(resumed.path / "state.npz", allow_pickle=False) as state:
            model.weights, start = state["weights"], state["epoch"]
    gang.join(stop)
    if stop.requested:
        return EXIT_SIGTERM
    shared = gang.broadcast(np.concatenate([np.asarray(start, dtype=np.float64).ravel(), model.weights]))
    first, model.weights = int(shared[0]), shared[1:]
    print(
        f"rank {gang.rank} of {gang.nodes}: {f'resumed after epoch {first}' if first else 'new'}", flush=True
    )

    for epoch in range(first + 1, args.epochs + 1):
        if epoch == args.fail_at_epoch:
            raise AskedFailureError(f"--fail-at-epoch {epoch}")
        model.train_epoch(epoch)
        model.weights = gang.average(model.weights)
        stop.wait(args.seconds_per_epoch)
        if checkpoints.writes:
            with checkpoints.save(epoch) as folder:
                np.savez(folder / "state.npz", epoch=np.array([epoch]), weights=model.weights)
        print(f"epoch {epoch}/{args.epochs}: accuracy {model.accuracy():.4f}", flush=True)
        if stop.requested:
            print(f"SIGTERM: stopped after epoch {epoch}", flush=True)
            return EXIT_SIGTERM

    checkpoints.write_result(
        {
            "accuracy": model.accuracy(),
            "epochs": args.epochs,
            "epochs_run": max(args.epochs - first, 0),
            "resumed_from_epoch": first or None,
            "nodes": gang.nodes,
            "pool": checkpoints.pool,
            "fence": checkpoints.fence,
        }
    )
    return 0


def main(argv: list[str] | None = None) -> int:
    """Run the program; return the exit code."""
    stop = Stop()
    signal.signal(signal.SIGTERM, stop)
    args = _parse(argv)
    checkpoints = Checkpoints.from_env(fallback_dir=args.checkpoint_dir)
    gang = Gang(checkpoints.rank, os.environ, EXCHANGE_TIMEOUT_SECONDS + args.seconds_per_epoch)
    try:
        return train(args, checkpoints, gang, stop)
    except AskedFailureError:
        traceback.print_exc()
        return EXIT_FAILED
    except PeerLostError as error:
        print(f"stopped: {error}", flush=True)
        return EXIT_SIGTERM if stop.requested else EXIT_PEER_LOST
    finally:
        gang.close()


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Train a classifier of handwritten digits, with checkpoints."
    )
    parser.add_argument("--epochs", type=int, default=20, help="epochs in all, also over interruptions (20)")
    parser.add_argument(
        "--seconds-per-epoch",
        type=float,
        default=0.0,
        help="wait so long in each epoch: stands for a larger model (0)",
    )
    parser.add_argument(
        "--fail-at-epoch", type=int, default=0, help="fail in this epoch as by a bug, exit code 3"
    )
    parser.add_argument(
        "--checkpoint-dir",
        type=Path,
        default=Path("checkpoints"),
        help="used where the environment names no place",
    )
    return parser.parse_args(argv)


def _setting(env: Mapping[str, str], name: str, default: str) -> str:
    return env.get(name) or env.get(f"PET_{name}") or default


@contextlib.contextmanager
def _peer_lost(rank: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PeerLostError(f"rank {rank} is gone: {error}") from error


def _read_exactly(peer: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = peer.recv(size - len(parts))
        if not part:
            raise ConnectionError("the connection was closed")
        parts += part
    return bytes(parts)


if __name__ == "__main__":
    sys.exit(main())
