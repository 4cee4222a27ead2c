"""What Airflow lists of this package."""

from __future__ import annotations

from typing import Any

_CONFIG: dict[str, Any] = {
    "gpu_placement": {
        "description": "Placement of GPU training jobs.",
        "options": {
            "catalog": {
                "description": "Path of the catalogue: a YAML file, or a folder of them, each laid over "
                "those before it. Empty: gpu_placement.yaml beside the DAG folder.",
                "version_added": "0.1.0",
                "type": "string",
                "example": "/opt/airflow/gpu_placement.yaml",
                "default": "",
            },
            "catalog_overlay": {
                "description": "Path of what is laid over the catalogue: what differs in this environment.",
                "version_added": "0.1.0",
                "type": "string",
                "example": "/opt/airflow/gpu_placement.prod.yaml",
                "default": "",
            },
            "signal_deadline_seconds": {
                "description": "Seconds that all clusters together get to tell their state for a decision.",
                "version_added": "0.1.0",
                "type": "float",
                "example": None,
                "default": "10",
            },
            "decide_again_seconds": {
                "description": "Pause in seconds between two decisions while no GPU pool can take a job.",
                "version_added": "0.1.0",
                "type": "float",
                "example": None,
                "default": "15",
            },
            "fence_timeout_seconds": {
                "description": "Seconds that a try waits for the proof that a remote job has ended.",
                "version_added": "0.1.0",
                "type": "float",
                "example": None,
                "default": "30",
            },
            "installation": {
                "description": "Name of this Airflow among several that place jobs on the same clusters. "
                "It is put as a label on every remote job and before the name of each task's folder of "
                "checkpoints; jobs of other installations are never touched.",
                "version_added": "0.1.0",
                "type": "string",
                "example": "prod-eu",
                "default": "",
            },
        },
    }
}


def get_provider_info() -> dict[str, Any]:
    """Describe the package to Airflow's provider manager."""
    name = "GPU placement"
    package = "airflow_gpu_placement"
    return {
        "package-name": "airflow-gpu-placement",
        "name": name,
        "description": "Decide at run time where a GPU training job can run; re-place it when it is lost.",
        "integrations": [{"integration-name": name, "external-doc-url": "", "tags": ["software"]}],
        "operators": [{"integration-name": name, "python-modules": [f"{package}.operators.gpu_training"]}],
        "triggers": [
            {
                "integration-name": name,
                "python-modules": [f"{package}.triggers.{one}" for one in ("remote_job", "pause", "proof")],
            }
        ],
        "cli": [f"{package}.cli.definition.get_gpu_placement_commands"],
        "config": _CONFIG,
    }
