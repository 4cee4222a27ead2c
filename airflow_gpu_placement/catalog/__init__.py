"""The platform team's catalogue: YAML in, pools and policies out, every mistake named with its place.

A module may live here when it reads or describes the catalogue file. It may import YAML,
:mod:`airflow_gpu_placement.engine` and :mod:`airflow_gpu_placement.model`; never Airflow or a client of a
cluster.
"""

from __future__ import annotations

from airflow_gpu_placement.catalog.example import EXAMPLE
from airflow_gpu_placement.catalog.loader import Catalog, load, load_patiently
from airflow_gpu_placement.catalog.setting import DEFAULT_PROFILE, Resolved, informed, resolve

__all__ = [
    "DEFAULT_PROFILE",
    "EXAMPLE",
    "Catalog",
    "Resolved",
    "informed",
    "load",
    "load_patiently",
    "resolve",
]
