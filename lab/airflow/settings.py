"""The configuration of an Airflow under test, as environment variables."""

from __future__ import annotations

import json
import os
import random
import secrets
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

REPOSITORY = Path(__file__).resolve().parents[2]
ADMIN = "admin"
VIEWER = "viewer"
#: Passwords equal no user name and are long enough for Airflow's log masking to accept them.
PASSWORDS = {ADMIN: "admin-password", VIEWER: "viewer-password"}
LOOPBACK = "127.0.0.1"
#: Below the range that the kernel hands out for outgoing connections, which could take a port between our
#: choice and the server's bind.
_LOWEST_PORT = 10240
_DEFAULT_EPHEMERAL_START = 32768


def free_port() -> int:
    """Return a port of the loopback interface that nothing listens on and no outgoing connection can take."""
    range_file = Path("/proc/sys/net/ipv4/ip_local_port_range")
    top = int(range_file.read_text().split()[0]) if range_file.exists() else _DEFAULT_EPHEMERAL_START
    for _attempt in range(200):
        port = random.randrange(_LOWEST_PORT, max(top, _LOWEST_PORT + 2000))
        with socket.socket() as probe:
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port found between {_LOWEST_PORT} and {top}")


def sqlite_url(home: Path) -> str:
    """Return the connection URL of the SQLite database in an Airflow home."""
    return f"sqlite:///{home / 'airflow.db'}"


def base_environment(home: Path, dags_folder: Path, sql_alchemy_conn: str | None = None) -> dict[str, str]:
    """Return an environment in which Airflow sees this home, these DAGs, this checkout and no user files.

    ``HOME`` is the Airflow home as well: a kubeconfig of the person who runs the tests is out of reach, so a
    wrong fallback to default credentials shows as an error and not as a job on a real cluster.

    :param sql_alchemy_conn: of a database whose driver can do both kinds of calls, synchronous and not;
        ``None``: an SQLite file in the home, which serves one process.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AIRFLOW", "_AIRFLOW", "KUBE")) and not name.lower().endswith("_proxy")
    }
    temp = home / "tmp"
    temp.mkdir(exist_ok=True)
    path = [str(REPOSITORY), *filter(None, [inherited.get("PYTHONPATH")])]
    options: dict[str, dict[str, Any]] = {
        "core": {
            "dags_folder": str(dags_folder),
            "load_examples": False,
            "dags_are_paused_at_creation": False,
            "dag_discovery_safe_mode": False,
            "fernet_key": "",
            "hostname_callable": "lab.airflow.site.loopback_hostname",
            "min_serialized_dag_update_interval": 0,
            "unit_test_mode": False,
        },
        "database": {
            "sql_alchemy_conn": sql_alchemy_conn or sqlite_url(home),
            "load_default_connections": False,
        },
        "logging": {"colored_console_log": False, "base_log_folder": str(home / "logs")},
        "dag_processor": {"dag_bundle_storage_path": str(home / "bundles")},
    }
    if sql_alchemy_conn is not None:
        options["database"]["sql_alchemy_conn_async"] = sql_alchemy_conn
    return {
        **inherited,
        "AIRFLOW_HOME": str(home),
        "HOME": str(home),
        "TMPDIR": str(temp),
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONNOUSERSITE": "1",
        "PYTHONUNBUFFERED": "1",
        "NO_COLOR": "1",
        **option_variables(options),
    }


def server_options(home: Path, port: int, parallelism: int) -> dict[str, dict[str, Any]]:
    """Return the options of four servers on loopback that react within about a second.

    Log servers are not started (they would listen on every interface): all processes share one log folder,
    which the API server reads. Their ports point at nothing.
    """
    dead_port = free_port()
    return {
        "core": {
            "executor": "LocalExecutor",
            "parallelism": parallelism,
            "execution_api_server_url": f"http://{LOOPBACK}:{port}/execution/",
            "simple_auth_manager_users": f"{ADMIN}:admin,{VIEWER}:viewer",
            "simple_auth_manager_passwords_file": str(home / "passwords.json"),
        },
        "api": {
            "host": LOOPBACK,
            "port": port,
            "workers": 1,
            "secret_key": secrets.token_hex(16),
            "maximum_page_limit": 1000,  # the client asks for everything on one page
        },
        "api_auth": {"jwt_secret": secrets.token_hex(64)},
        "logging": {"worker_log_server_port": dead_port, "trigger_log_server_port": dead_port},
        "dag_processor": {
            "refresh_interval": 1,
            "bundle_refresh_check_interval": 1,
            # Unchanged files are not parsed again; a changed modification time still is noticed at once.
            "min_file_process_interval": 3600,
            "parsing_processes": 1,
            "print_stats_interval": 0,
        },
        "scheduler": {
            "scheduler_idle_sleep_time": 0.5,
            "job_heartbeat_sec": 2,
            "scheduler_health_check_threshold": 15,
            "orphaned_tasks_check_interval": 10,
            "task_instance_heartbeat_timeout": 30,
            "task_instance_heartbeat_timeout_detection_interval": 5,
            "trigger_timeout_check_interval": 2,
            "enable_health_check": False,
        },
        "triggerer": {"job_heartbeat_sec": 2, "triggerer_health_check_threshold": 10},
        # A busy machine answers late; a task whose first call times out would be killed by its supervisor.
        "workers": {"min_heartbeat_interval": 2, "execution_api_timeout": 60},
    }


def option_variables(options: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return ``AIRFLOW__SECTION__OPTION`` variables for nested options."""
    return {
        f"AIRFLOW__{section.upper()}__{option.upper()}": str(value)
        for section, entries in options.items()
        for option, value in entries.items()
    }


def connection_variables(connections: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return ``AIRFLOW_CONN_<ID>`` variables that hold connections as JSON."""
    return {f"AIRFLOW_CONN_{conn_id.upper()}": json.dumps(fields) for conn_id, fields in connections.items()}
