"""What the layers below need from Airflow: connections, memory between tries, object storage."""

from __future__ import annotations
