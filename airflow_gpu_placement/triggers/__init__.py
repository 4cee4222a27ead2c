"""What waits in the triggerer, without a worker slot. A trigger never raises and yields exactly one event."""

from __future__ import annotations
