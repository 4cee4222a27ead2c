"""Real Airflow processes with a home, a database and ports of their own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString, Self

import httpx

from lab.airflow import diagnostics, postgres, settings
from lab.airflow.client import AirflowClient
from lab.airflow.dags import DagFolder
from lab.airflow.processes import WardedProcesses
from lab.airflow.template import copy_migrated_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from lab.airflow.processes import ProcessStatus

#: What is started, by the name that tests use. The slowest starter comes first. Log servers are left out: see
#: ``settings.server_options``.
COMPONENTS: Mapping[str, tuple[str, ...]] = {
    "api-server": ("api-server",),
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
    "triggerer": ("triggerer", "--skip-serve-logs"),
}
#: What a test may ``start`` beside them.
EXTRA_COMPONENTS: Mapping[str, tuple[str, ...]] = {"triggerer-2": ("triggerer", "--skip-serve-logs")}
DATABASE = "postgres"
#: Name of each component in the health report of the API.
HEALTH_KEYS = {"scheduler": "scheduler", "dag-processor": "dag_processor", "triggerer": "triggerer"}
#: What the servers log many times a second although nothing happens.
ROUTINE_LINES = re.compile(
    r"\[http\.access\].* status_code=2|Refreshing bundle|Searching for files in|Found \d+ files for bundle"
)
START_TIMEOUT_SECONDS = 180.0
DATABASE_END_SECONDS = 20.0


class AirflowProcesses:
    """Scheduler, dag-processor, API server and triggerer as four processes. Use as a context manager.

    Everything dies with this process, also on SIGKILL, and the temporary home is removed then. What a
    test needs:

    - ``client`` (admin) and ``viewer_client``: the REST API.
    - ``add_dag(name, source)``: put a DAG file into the DAG folder and wait until it is parsed.
    - ``kill(name, signal)``, ``start(name)``, ``pid(name)``, ``processes(name)`` with the names of
      ``COMPONENTS``; ``triggerer-2`` runs only when it is started.
    - ``query(statement)``: rows of Airflow's database, a PostgreSQL that lives and ends with the rest.
    - ``server_logs(lines)``: the tails of all server logs; printed below each failed test by
      ``tests/conftest.py``.

    ``connections`` maps connection ids to the fields of Airflow connections (``conn_type``, ``extra``, ...).
    ``options`` is nested Airflow configuration that overrides what is set here. ``extra_env`` is set as is.
    With ``KEEP_AIRFLOW_HOME=1`` in the environment the home stays after the end.
    """

    def __init__(
        self,
        *,
        connections: Mapping[str, Mapping[str, Any]] | None = None,
        options: Mapping[str, Mapping[str, Any]] | None = None,
        extra_env: Mapping[str, str] | None = None,
        parallelism: int = 4,
    ) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="airflow-under-test-"))
        self.sockets = postgres.socket_folder()
        self.logs = self.home / "server-logs"
        dags_folder = self.home / "dags"
        for folder in (self.logs, dags_folder):
            folder.mkdir()
        self.port = settings.free_port()
        self.base_url = f"http://{settings.LOOPBACK}:{self.port}"
        self.environment = {
            **settings.base_environment(self.home, dags_folder, postgres.url(self.sockets)),
            **settings.option_variables(settings.server_options(self.home, self.port, parallelism)),
            **settings.option_variables(options or {}),
            **settings.connection_variables(connections or {}),
            **(extra_env or {}),
        }
        self._processes: WardedProcesses | None = None
        self._expected_alive: set[str] = set()
        self.client = self._new_client(settings.ADMIN)
        self.viewer_client = self._new_client(settings.VIEWER)
        self.dags = DagFolder(dags_folder, self.client)
        self.add_dag = self.dags.add

    def _new_client(self, user: str) -> AirflowClient:
        return AirflowClient(
            self.base_url,
            user,
            settings.PASSWORDS[user],
            check=self.check_alive,
            explain=lambda: self.server_logs(15),
        )

    def __enter__(self) -> Self:
        try:
            self._prepare_home()
            keep = os.environ.get("KEEP_AIRFLOW_HOME") == "1"
            self._processes = WardedProcesses(
                self.environment,
                cwd=self.home,
                log=self.logs / "warden.log",
                remove_at_end=[self.sockets] if keep else [self.sockets, self.home],
            )
            self._start_database()
            started_at = datetime.now(UTC)
            for name in COMPONENTS:
                self._spawn(name)
            self.wait_healthy(COMPONENTS, since=started_at)
        except BaseException:
            self.close()
            raise
        diagnostics.register(f"Airflow servers in {self.home}", lambda: self.server_logs(40))
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill all processes and remove the home; may be called twice."""
        diagnostics.unregister(f"Airflow servers in {self.home}")
        self.client.close()
        self.viewer_client.close()
        if self._processes is not None:
            try:
                self._end_database(self._processes)
            finally:
                self._processes.close()
        elif self.home.exists():
            shutil.rmtree(self.home)
            self.sockets.rmdir()

    def _prepare_home(self) -> None:
        # An existing, empty file keeps four starting processes from writing a default one at the same time.
        (self.home / "airflow.cfg").touch()
        (self.home / "passwords.json").write_text(json.dumps(settings.PASSWORDS))
        copy_migrated_data(self.home / DATABASE)

    def _start_database(self) -> None:
        log = self.log_file(DATABASE)
        command = postgres.server_command(self.home / DATABASE, self.sockets)
        self._running.start(DATABASE, command, out=log, err=log)
        self._expected_alive.add(DATABASE)
        postgres.wait_ready(self.sockets, self.check_alive)

    @staticmethod
    def _end_database(processes: WardedProcesses) -> None:
        """Let it clean up after itself: the kernel keeps a shared memory segment of one that is killed."""
        database = processes.status().get(DATABASE)
        if database is not None and database.exit_code is None:
            processes.kill(DATABASE, signal.SIGQUIT)
            processes.wait(DATABASE, DATABASE_END_SECONDS)

    def query(self, statement: LiteralString) -> list[tuple[Any, ...]]:
        """Run one SQL statement in Airflow's database and return its rows."""
        return postgres.query(self.sockets, statement)

    @property
    def _running(self) -> WardedProcesses:
        if self._processes is None:
            raise RuntimeError("this Airflow is not started: use it in a with statement")
        return self._processes

    def _spawn(self, name: str) -> None:
        log = self.log_file(name)
        argv = [sys.executable, "-m", "airflow", *{**COMPONENTS, **EXTRA_COMPONENTS}[name]]
        self._running.start(name, argv, out=log, err=log)
        self._expected_alive.add(name)

    def start(self, name: str) -> None:
        """Start a component that was killed, or an extra one, and wait until it reports as healthy."""
        started_at = datetime.now(UTC)
        self._spawn(name)
        if name in EXTRA_COMPONENTS:
            # The health report tells of one triggerer only; a new one is seen in the list of jobs.
            self._wait(lambda: self._triggerer_since(started_at), name)
        else:
            self.wait_healthy([name], since=started_at)

    def _triggerer_since(self, started_at: datetime) -> bool:
        listed = self.client.get("/jobs", job_type="TriggererJob", is_alive=True, limit=100)["jobs"]
        starts = [datetime.fromisoformat(job["start_date"]) for job in listed if job["start_date"]]
        return any(start >= started_at for start in starts)

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not condition():
            self.check_alive()
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"{what} is not there after {START_TIMEOUT_SECONDS:g} s\n{self.server_logs(30)}"
                )
            time.sleep(0.1)

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Signal a component.

        SIGKILL takes the component and all its descendants, as the loss of its machine would, and returns
        when they are gone. SIGSTOP and SIGCONT act on all of them as well. Other signals go to the main
        process, and this returns at once: SIGTERM asks for an orderly end (``wait_ended``).
        """
        if number not in (signal.SIGSTOP, signal.SIGCONT):
            self._expected_alive.discard(name)
        self._running.kill(name, number)

    def kill_alone(self, name: str) -> list[int]:
        """SIGKILL a component's main process alone; return its descendants, which live on for a while."""
        main = self.pid(name)
        below = [pid for pid in self.processes(name) if pid != main]
        self._expected_alive.discard(name)
        os.kill(main, signal.SIGKILL)
        self.wait_ended(name)
        return below

    def wait_ended(self, name: str, timeout_seconds: float = 30) -> int:
        """Wait for a component to end after ``kill(name, SIGTERM)``; return its exit code."""
        return self._running.wait(name, timeout_seconds)

    def status(self) -> dict[str, ProcessStatus]:
        """Return pid and exit code of each component."""
        return self._running.status()

    def processes(self, name: str) -> list[int]:
        """Return the pids of a component and all its descendants: task processes, the trigger runner."""
        return self._running.members(name)

    def pid(self, name: str) -> int:
        """Return the pid of a component's main process."""
        return self.status()[name].pid

    @property
    def warden_pid(self) -> int:
        """The process that owns the components and ends them when this process ends."""
        return self._running.warden_pid

    def log_file(self, name: str) -> Path:
        """Return the file that holds a component's standard output and error."""
        return self.logs / f"{name}.log"

    def server_logs(self, lines: int = 40) -> str:
        """Return the tails of the logs of all components, each with its state."""
        states = self._processes.status() if self._processes is not None else {}
        parts = []
        for name in (DATABASE, *COMPONENTS, *(name for name in EXTRA_COMPONENTS if name in states)):
            entry = states.get(name)
            state = "not started" if entry is None else f"pid {entry.pid}, exit code {entry.exit_code}"
            parts.append(f"--- {name} ({state}), last {lines} lines of {self.log_file(name)}")
            parts.append(diagnostics.tail(self.log_file(name), lines, without=ROUTINE_LINES))
        return "\n".join(parts)

    def check_alive(self) -> None:
        """Raise if a component that nobody killed has ended."""
        for name, entry in self.status().items():
            if name in self._expected_alive and entry.exit_code is not None:
                tail = diagnostics.tail(self.log_file(name), 40)
                raise RuntimeError(f"Airflow's {name} ended by itself, exit code {entry.exit_code}:\n{tail}")

    def wait_healthy(self, names: Iterable[str], *, since: datetime) -> None:
        """Wait until the API answers and each named component has sent a heartbeat after ``since``."""
        wanted = {HEALTH_KEYS[name] for name in names if name in HEALTH_KEYS}
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        missing = wanted | {"an answer of the API"}
        while missing:
            self.check_alive()
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"Airflow is not healthy after {START_TIMEOUT_SECONDS:g} s; missing: {sorted(missing)}\n"
                    f"{self.server_logs(30)}"
                )
            time.sleep(0.1)
            try:
                health = httpx.get(f"{self.base_url}/api/v2/monitor/health", timeout=10, trust_env=False)
            except httpx.TransportError:
                continue
            if health.status_code == httpx.codes.OK:
                missing = {key for key in wanted if not _beat_after(health.json()[key], key, since)}


def _beat_after(report: Mapping[str, Any], key: str, since: datetime) -> bool:
    beat = report.get(f"latest_{key}_heartbeat")
    return report["status"] == "healthy" and beat is not None and datetime.fromisoformat(beat) >= since
