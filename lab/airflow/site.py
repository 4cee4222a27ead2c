"""Objects that Airflow's configuration names by import path. Imported inside Airflow's own processes."""

from __future__ import annotations

import sys
from typing import Any

#: SQLite's default of 5 s is too short when four processes share one file on a busy two-core machine. In the
#: API server a write that waits can keep the very write from ending that it waits for, so there it must not
#: wait for as long as a task may be without a heartbeat.
SQLITE_CONNECT_ARGS: dict[str, Any] = {"timeout": 10 if "api-server" in sys.argv else 60}


def loopback_hostname() -> str:
    """Return the host name that Airflow records for itself: nothing of a test is reached from elsewhere."""
    return "127.0.0.1"
