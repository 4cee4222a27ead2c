"""When a task that no pool can ever take is given up: one bad moment of a cluster ends no wait."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.certainty import never_by_declaration, never_in_order
from airflow_gpu_placement.exceptions import NoPoolFits

if TYPE_CHECKING:
    from airflow_gpu_placement.model.decision import Decision

log = logging.getLogger(__name__)

NEVER_LASTS = timedelta(minutes=30)
"""How long every pool has to say never to a task that has waited or run before: nodes that are repaired or
upgraded are back by then."""

_NEVER_SINCE = "never_since"


def never_since(decision: Decision, told: object) -> dict[str, str]:
    """Return since when every pool has said never, to be kept with the decision; empty: one does not.

    :param told: what was kept of the look before this one.
    """
    if not decision.never:
        return {}
    before = told.get(_NEVER_SINCE) if isinstance(told, dict) else None
    first = decision.history.since is None
    since = decision.decided_at.isoformat() if first or not isinstance(before, str) else before
    return {_NEVER_SINCE: since}


def give_up(decision: Decision, since: dict[str, str], explanation: str) -> None:
    """Fail a task that no pool can ever take, once that is certain.

    At once when catalogue and request alone rule out every pool. At its first look also when the nodes do,
    and not merely for GPUs that are withdrawn. Else when it has lasted.

    :param since: what :func:`never_since` says.
    :raises NoPoolFits: it is certain.
    """
    if not decision.never:
        return
    begun = decision.history.since is not None
    if never_by_declaration(decision) or (not begun and never_in_order(decision)):
        raise NoPoolFits(explanation)
    until = datetime.fromisoformat(since[_NEVER_SINCE]) + NEVER_LASTS
    if decision.decided_at >= until:
        raise NoPoolFits(f"every pool has said never for {NEVER_LASTS}:\n{explanation}")
    if decision.decided_at + NEVER_LASTS == until:
        log.warning(
            "by what the clusters show no pool could ever take the job; it fails if that is still so at %s",
            until.isoformat(timespec="seconds"),
        )
