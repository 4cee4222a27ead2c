"""The command line ``airflow gpu-placement``.

A module may live here when it reads what a person typed or prints what they asked for. What it prints comes
from the layers below; nothing here decides where a job runs, and nothing here writes to a cluster.
"""

from __future__ import annotations
