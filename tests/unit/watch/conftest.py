"""A store and its clock."""

from __future__ import annotations

import pytest

from airflow_gpu_placement.watch.store import ClusterStore
from tests.unit.watch.store_objects import Now


@pytest.fixture
def now() -> Now:
    """Return the clock of the store."""
    return Now()


@pytest.fixture
def store(now: Now) -> ClusterStore:
    """Return an empty store."""
    return ClusterStore(now)
