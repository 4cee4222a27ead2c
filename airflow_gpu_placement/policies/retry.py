"""Re-place what was lost at once, and do not burn GPU hours on what will fail again."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.sdk import RetryDecision, RetryPolicy

from airflow_gpu_placement.exceptions import NoPoolFits, RemoteJobError, RequestError

if TYPE_CHECKING:
    from airflow.sdk import Context


class GpuRetryPolicy(RetryPolicy):
    """Default policy of :class:`~airflow_gpu_placement.operators.gpu_training.GpuTrainingJobOperator`.

    A lost remote job is retried without delay, since the next try goes elsewhere. A failure of the training
    code, a request that no pool can ever serve and a job that a person deleted fail at once. Anything else (a
    worker killed, a database away) follows the task's own ``retry_delay``. No policy can exceed the task's
    ``retries``.
    """

    def evaluate(
        self,
        exception: BaseException,
        try_number: int,
        max_tries: int,
        context: Context | None = None,  # noqa: ARG002 - part of the interface
    ) -> RetryDecision:
        """Decide by the type of the error alone.

        :param try_number: number of the try that failed, counting from 1.
        :param max_tries: the task's ``retries``: the last try has the number ``max_tries + 1``.
        """
        if isinstance(exception, RemoteJobError) and exception.retry_elsewhere:
            left = max(max_tries + 1 - try_number, 0)
            cause = exception.cause or type(exception).__name__
            return RetryDecision.retry(
                timedelta(seconds=exception.delay_seconds),
                f"{cause} in {exception.pool}: place it elsewhere now ({left} tries left)",
            )
        if isinstance(exception, RemoteJobError | NoPoolFits | RequestError):
            return RetryDecision.fail(f"{type(exception).__name__}: another try would end the same way")
        return RetryDecision.default()
