"""Leave a mark by which a trigger knows whether its attempt is still the one that Airflow wants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.model.attempt import MARKER_KEY

if TYPE_CHECKING:
    from airflow.sdk import Context


def mark(context: Context) -> None:
    """Push the attempt's id as an XCom, which Airflow deletes when another try begins."""
    ti = context["ti"]
    ti.xcom_push(key=MARKER_KEY, value={"attempt_id": str(ti.id)})
