"""What the package offers by name."""

from __future__ import annotations

import subprocess
import sys

import pytest

import airflow_gpu_placement


def test_every_public_name_can_be_imported() -> None:
    """The list of public names is true."""
    for name in airflow_gpu_placement.__all__:
        assert getattr(airflow_gpu_placement, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    """Loading on demand must not hide a misspelt name."""
    with pytest.raises(AttributeError, match="GpuRequset"):
        airflow_gpu_placement.GpuRequset  # noqa: B018 - the access is the test


def test_importing_the_package_and_its_plugin_loads_no_kubernetes_client() -> None:
    """Every Airflow process imports them."""
    code = (
        "import sys, airflow_gpu_placement, airflow_gpu_placement.plugin\n"
        "import airflow_gpu_placement.provider_info\n"
        "print(sorted({'kubernetes_asyncio', 'rich', 'msgspec'} & set(sys.modules)))"
    )

    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "kubernetes_asyncio" not in process.stdout


def test_reading_a_dag_with_the_operator_loads_no_kubernetes_client() -> None:
    """Every parse of every DAG file pays for what the operator imports."""
    code = (
        "import sys, airflow_gpu_placement as package\n"
        "package.GpuTrainingJobOperator(task_id='t', image='i', gpu=package.GpuRequest())\n"
        "heavy = {'kubernetes_asyncio', 'kubernetes', 'pandas', 'numpy'}\n"
        "print('loaded', sorted(heavy & set(sys.modules)))"
    )

    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert process.stdout.splitlines()[-1] == "loaded []"
