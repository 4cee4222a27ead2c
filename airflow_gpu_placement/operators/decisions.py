"""Decisions are kept beside what is remembered of the launches that they led to."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from airflow.sdk.execution_time.context import NEVER_EXPIRE

from airflow_gpu_placement.engine.explain import line, table_text
from airflow_gpu_placement.hooks.memory import as_json
from airflow_gpu_placement.operators.decision_size import shortened
from airflow_gpu_placement.operators.giving_up import never_since

if TYPE_CHECKING:
    from airflow_gpu_placement.model.attempt import TaskRecord
    from airflow_gpu_placement.model.decision import Decision

log = logging.getLogger(__name__)

DECISION_KEY = "gpu_placement.decision"


def keep(store: Any, decision: Decision, fence: int, attempt_id: str) -> dict[str, str]:
    """Store a decision, without the nodes when they are too many; tell it unless it was told before.

    :return: since when every pool has said never, which is stored with it.
    """
    kept = shortened(as_json(decision))
    key = f"{DECISION_KEY}.{fence}"
    told = store.get(key)
    telling = {"line": line(decision), "attempt_id": attempt_id}
    since = never_since(decision, told)
    store.set(key, {**kept, **telling, **since}, retention=NEVER_EXPIRE)
    if isinstance(told, dict) and telling.items() <= told.items():
        return since
    log.info("%s", line(decision))
    for row in table_text(decision).splitlines():
        log.info("%s", row)
    return since


def forget(store: Any, before: TaskRecord, now: TaskRecord) -> None:
    """Delete the decisions of refused launches that are not remembered any more."""
    kept = {one.fence for one in now.attempts}
    for one in before.attempts:
        if one.refusal is not None and one.fence not in kept:
            store.delete(f"{DECISION_KEY}.{one.fence}")
