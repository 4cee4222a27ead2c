"""Objects that Airflow's configuration names by import path. Imported inside Airflow's own processes."""

from __future__ import annotations


def loopback_hostname() -> str:
    """Return the host name that Airflow records for itself: nothing of a test is reached from elsewhere."""
    return "127.0.0.1"
