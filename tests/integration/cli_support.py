"""Running the command line: the real ``airflow`` in a process of its own, and its functions in this one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from airflow_gpu_placement.cli.request_flags import REQUEST_FLAGS
from lab.airflow import settings
from lab.airflow.template import copy_migrated_database

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab import Cluster

COMMAND_SECONDS = 300.0
"""Several commands in one script on a busy machine; alone, one takes about four seconds."""
H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
NO_REQUEST = dict.fromkeys(flag.attribute for flag in REQUEST_FLAGS)


def arguments(**values: Any) -> Namespace:
    """Return parsed arguments with nothing given but these."""
    others = {
        "request": None,
        "dag": None,
        "task": None,
        "team": None,
        "profile": None,
        "counterfactual": None,
        "bundle_name": None,
        "dags": False,
    }
    usual = {"signal_deadline": 10.0, "output": "json", "verbose": False}
    return Namespace(**{**NO_REQUEST, **others, **usual, **values})


def pool_entry(name: str, **fields: Any) -> dict[str, Any]:
    """Return a pool of the catalogue over the H100 nodes of the lab."""
    usual = {"kubernetes_conn_id": "gpu", "node_selector": H100, "price": {"gpu_hour_usd": 2.0}}
    return {"name": name, **usual, **fields}


def write_catalog(path: Path, *pools: dict[str, Any]) -> Path:
    """Write a catalogue of these pools."""
    path.write_text(yaml.safe_dump({"version": 1, "pools": list(pools)}, sort_keys=False))
    return path


class AirflowHome:
    """An Airflow of its own with a migrated database, for commands in processes of their own.

    :param connections: by id, given through the environment.
    """

    def __init__(self, home: Path, connections: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self.home = home
        (home / "dags").mkdir(parents=True)
        (home / "airflow.cfg").touch()
        copy_migrated_database(home / "airflow.db")
        self.environment = {
            **settings.base_environment(home, home / "dags"),
            **settings.connection_variables(connections or {}),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run ``airflow gpu-placement`` with these arguments."""
        return self.shell_argv(["airflow", "gpu-placement", *command])

    def shell(self, script: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a script as a person would paste it; more variables may be set."""
        return self.shell_argv(["bash", "-e", "-c", script], **more)

    def shell_argv(self, argv: list[str], **more: str) -> subprocess.CompletedProcess[str]:
        """Run a program in this Airflow's environment."""
        return subprocess.run(
            argv,
            env={**self.environment, **more},
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )


def connection(cluster: Cluster, user: str = "admin") -> dict[str, Any]:
    """Return an Airflow connection to a cluster."""
    return {"conn_type": "kubernetes", "extra": {"kube_config": json.dumps(cluster.kubeconfig(user))}}
