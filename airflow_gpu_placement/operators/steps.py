"""How one look for a place ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datetime import timedelta

    from airflow_gpu_placement.model.attempt import AttemptRecord


class Launched(NamedTuple):
    """A remote job exists, and this is remembered of it."""

    record: AttemptRecord


class Waiting(NamedTuple):
    """No pool can take the job now, but one may later."""

    explanation: str

    def too_long(self, patience: timedelta) -> str:
        """Say that this has lasted as long as it may."""
        return f"no GPU pool could take the job within {patience}:\n{self.explanation}"


class Refused(NamedTuple):
    """The chosen pool's cluster did not take the job, which may pass; another pool may take it at once."""

    record: AttemptRecord
    explanation: str

    def too_long(self, patience: timedelta) -> str:
        """Say that this has lasted as long as it may."""
        return f"no GPU pool took the job within {patience}; the last: {self.explanation}"


class Unproven(NamedTuple):
    """The end of an earlier launch is not proven, and the author wants to wait for the proof."""

    earlier: AttemptRecord

    def too_long(self, patience: timedelta) -> str:
        """Say that this has lasted as long as it may."""
        return (
            f"no node has reported the end of {self.earlier.job_name} in pool {self.earlier.pool} within "
            f"{patience}; see what became of it, or write on_unreachable='replace'"
        )
