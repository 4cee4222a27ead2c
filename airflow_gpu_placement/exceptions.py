"""Errors of the package.

::

    GpuPlacementError
    ├── RequestError            the request cannot be read
    ├── CatalogError            the catalogue is missing or wrong; lists every problem
    ├── ClusterError            a call to a cluster did not work
    │   ├── ConnectionMissing   the pool's Airflow connection does not exist or is unusable
    │   ├── WrongCluster        another cluster answered than the pool's
    │   ├── Unreachable         no answer
    │   ├── Forbidden           answered 401 or 403
    │   ├── NotFound            answered 404
    │   └── Conflict            answered 409
    ├── NoPoolFits              every pool says never
    ├── PlacementTimeout        nothing fitted within the time given
    └── RemoteJobError          a remote job ended without success
        ├── RemoteJobLost       for a reason outside the training code: another place may help
        ├── TrainingFailed      by the training code itself
        ├── RemoteJobMisconfigured  the job or the pool is set up wrongly
        └── RemoteJobCancelled  somebody deleted it

A refusal of a pool is not an error but a reason in the decision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class GpuPlacementError(Exception):
    """Base of every error that the package raises on purpose."""


class RequestError(GpuPlacementError):
    """The request cannot be read; the text says what to write instead."""


class CatalogError(GpuPlacementError):
    """The catalogue is missing or wrong.

    :param problems: one line a problem, each ``file:path.to.field: problem``.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class ClusterError(GpuPlacementError):
    """A call to a cluster did not work.

    :param status: HTTP status, ``None`` when there was no answer.
    :param retry_after_seconds: how long the server asked to wait.
    """

    def __init__(
        self, message: str, *, status: int | None = None, retry_after_seconds: float | None = None
    ) -> None:
        self.status = status
        self.retry_after_seconds = retry_after_seconds
        super().__init__(message)


class ConnectionMissing(ClusterError):
    """The pool's Airflow connection does not exist or says nothing about a cluster."""


class WrongCluster(ClusterError):
    """Another cluster answered than the pool's."""


class Unreachable(ClusterError):
    """The cluster did not answer in time or at all."""


class Forbidden(ClusterError):
    """The cluster refused: 401 (who are you) or 403 (you may not)."""


class NotFound(ClusterError):
    """The object does not exist."""


class Conflict(ClusterError):
    """The object exists already, or a precondition does not hold."""


class NoPoolFits(GpuPlacementError):
    """Every pool says never; waiting cannot help."""


class PlacementTimeout(GpuPlacementError):
    """No pool could take the job within ``placement_timeout``."""


class RemoteJobError(GpuPlacementError):
    """A remote job ended without success.

    :param cause: stable word, such as ``NodeLost`` or ``OOMKilled``.
    :param retry_elsewhere: another try in another place may succeed.
    :param delay_seconds: how long that try should wait.
    """

    def __init__(
        self,
        message: str,
        *,
        cause: str = "",
        pool: str | None = None,
        retry_elsewhere: bool = False,
        delay_seconds: float = 0.0,
    ) -> None:
        self.cause = cause
        self.pool = pool
        self.retry_elsewhere = retry_elsewhere
        self.delay_seconds = delay_seconds
        super().__init__(message)


class RemoteJobLost(RemoteJobError):
    """The remote job ended, or must be taken as ended, for a reason outside the training code."""


class TrainingFailed(RemoteJobError):
    """The training code failed; the same will happen elsewhere."""


class RemoteJobMisconfigured(RemoteJobError):
    """The job or the pool is set up wrongly."""


class RemoteJobCancelled(RemoteJobError):
    """Somebody deleted the remote job."""
