"""What the demo runs on: a lab, an Airflow and a folder, all temporary."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from lab.airflow import settings
from lab.airflow.servers import AirflowProcesses
from lab.api import Lab
from lab.demo import fleet

if TYPE_CHECKING:
    from lab.demo.options import Options
    from lab.demo.screen import Screen

REPOSITORY = Path(__file__).resolve().parents[2]
DAG_FILE = REPOSITORY / "dags" / "example_gpu_training.py"
PROGRAM = REPOSITORY / "dags" / "training" / "train_digits.py"
LAB_NAME = "demo"
CREDENTIALS = f"user {settings.ADMIN}, password {settings.PASSWORDS[settings.ADMIN]}"


class Stage:
    """Starts everything, and ends and removes it at the end of the block, however that comes."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self._stack = ExitStack()
        self._lab: Lab | None = None
        self._airflow: AirflowProcesses | None = None
        self.folder = Path(
            self._stack.enter_context(tempfile.TemporaryDirectory(prefix="gpu-placement-demo-"))
        )
        # Airflow's home lies in it as well: whenever a signal comes, one folder is all there is to remove.
        self._stack.callback(setattr, tempfile, "tempdir", tempfile.tempdir)
        tempfile.tempdir = str(self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self.screen.say("everything is stopped, and nothing is left behind")

    @property
    def lab(self) -> Lab:
        """The two clusters, once they are started."""
        if self._lab is None:
            raise RuntimeError("the clusters are not started yet: call start_lab()")
        return self._lab

    @property
    def airflow(self) -> AirflowProcesses:
        """The Airflow, once it is started."""
        if self._airflow is None:
            raise RuntimeError("Airflow is not started yet: call start_airflow()")
        return self._airflow

    @property
    def ready(self) -> bool:
        """Whether everything is started."""
        return self._airflow is not None

    @property
    def checkpoints(self) -> Path:
        """The folder for checkpoints, which every node can reach."""
        return self.folder / "checkpoints"

    def start_lab(self) -> None:
        """Start the clusters and their nodes; build Kubernetes first where that was never done."""
        self.screen.doing("starting two Kubernetes control planes and their nodes")
        self._lab = self._stack.enter_context(
            Lab.up(fleet.SPEC, name=LAB_NAME, home=self.folder / "labs", progress=self.screen.say)
        )
        for cluster in self._lab.clusters:
            cluster.api.post("/api/v1/namespaces", {"metadata": {"name": fleet.NAMESPACE}})

    def start_airflow(self) -> None:
        """Start Airflow with the catalogue and the connections of the clusters."""
        self.screen.say("starting Airflow: API server, scheduler, dag-processor and triggerer")
        self.screen.doing("starting Airflow")
        catalog = self.folder / "gpu_placement.yaml"
        uids = {cluster.name: cluster.uid for cluster in self.lab.clusters}
        catalog.write_text(fleet.catalog(uids), encoding="utf-8")
        self._airflow = self._stack.enter_context(
            AirflowProcesses(
                connections=fleet.connections(self.lab), extra_env=fleet.airflow_environment(catalog)
            )
        )
        self.screen.say(f"Airflow is ready; to watch it in its UI ({CREDENTIALS}):")
        self.screen.copyable(self._airflow.base_url)

    def trigger(self, options: Options) -> tuple[str, str]:
        """Give Airflow the example DAG and trigger it; return the ids of DAG and run."""
        self.screen.doing("reading the DAG")
        (dag_id,) = self.airflow.dags.copy(DAG_FILE)
        conf: dict[str, Any] = {
            "python": sys.executable,
            "program": str(PROGRAM),
            "checkpoints": str(self.checkpoints),
            "epochs": options.epochs,
            "seconds_per_epoch": options.seconds_per_epoch,
        }
        run_id = self.airflow.client.trigger(dag_id, conf)
        self.screen.say(f"{DAG_FILE.relative_to(REPOSITORY)} is triggered, unchanged")
        return dag_id, run_id

    def how_to_look(self) -> list[tuple[str, str]]:
        """Tell how to look at what runs: what, and the command or the place."""
        python = Path(sys.executable)
        command = f"{os.path.relpath(python) if python.is_relative_to(Path.cwd()) else python} -m lab"
        where = f"--name {self.lab.name} --home {self.lab.paths.home}"
        return [
            ("The clusters", f"{command} status {where}"),
            ("One of them with kubectl", f"export KUBECONFIG=$({command} kubeconfig gke-eu --path {where})"),
            ("Logs of Airflow's servers", str(self.airflow.logs)),
        ]
