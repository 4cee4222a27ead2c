"""Values that every other layer speaks in: frozen, no I/O, no clock.

A module may live here when it only describes something. It may import the standard library, msgspec and
pydantic, and nothing of the package but :mod:`airflow_gpu_placement.exceptions`.
"""

from __future__ import annotations
