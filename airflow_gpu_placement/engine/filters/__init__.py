"""One requirement a file. A filter looks at one pool and returns a reason, or nothing when it is content.

Every filter runs on every pool, so that an explanation is complete. A filter refuses by data and raises only
on a bug. It may import what :mod:`airflow_gpu_placement.engine` may.
"""

from __future__ import annotations
