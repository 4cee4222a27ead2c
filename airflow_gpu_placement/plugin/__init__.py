"""The plugin that Airflow loads in every process; importing it must stay cheap."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin


class GpuPlacementPlugin(AirflowPlugin):
    """Make the package known to ``airflow plugins``."""

    name = "gpu_placement"
