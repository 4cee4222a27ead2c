"""The page about settings names every option and every variable, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from airflow_gpu_placement.launch.environment import PREFIX, environment
from airflow_gpu_placement.launch.spec import LaunchSpec
from airflow_gpu_placement.model.attempt import Attempt, LogicalTask
from airflow_gpu_placement.model.pool import ClusterRef, GpuPool
from airflow_gpu_placement.provider_info import get_provider_info
from airflow_gpu_placement.settings import Settings

PAGE = Path(__file__).resolve().parents[3] / "docs" / "settings.md"


def test_every_option_is_in_the_table() -> None:
    """With the default and the words that Airflow shows of it."""
    options = get_provider_info()["config"]["gpu_placement"]["options"]
    want = [f"| `{name}` | {one['default']} | {one['description']} |" for name, one in options.items()]
    assert re.findall(r"^\| `[a-z].*$", PAGE.read_text(), re.M) == want, "\n".join(want)
    assert list(options) == list(Settings.__struct_fields__)


def test_every_variable_is_named() -> None:
    """Those of the placement in a table of their own, those of a gang below it."""
    pool = GpuPool(name="p", cluster=ClusterRef(kubernetes_conn_id="c"))
    attempt = Attempt(
        task=LogicalTask(dag_id="d", run_id="r", task_id="t"), attempt_id="0123456789abcdef", try_number=1
    )
    spec = LaunchSpec(attempt=attempt, pool=pool, image="train", nodes=2)
    names = [entry["name"] for entry in environment(spec)]
    text = PAGE.read_text()
    assert re.findall(r"^\| `([A-Z_]+)`", text, re.M) == [name for name in names if name.startswith(PREFIX)]
    assert all(f"`{name}`" in text for name in names)
