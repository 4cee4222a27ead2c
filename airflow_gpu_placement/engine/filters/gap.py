"""Signals are there: unknown is never free."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.model.reasons import Reason, ReasonCode
from airflow_gpu_placement.model.signals import GapKind

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView

_CODES: dict[GapKind, tuple[ReasonCode, str, str]] = {
    GapKind.CONNECTION_MISSING: (
        ReasonCode.CONNECTION_MISSING,
        "a connection",
        "create the connection {conn!r}, or name another as kubernetes_conn_id of pool {pool}",
    ),
    GapKind.WRONG_CLUSTER: (
        ReasonCode.WRONG_CLUSTER,
        "the pool's cluster",
        "correct the connection {conn!r}, or cluster_uid of pool {pool}",
    ),
    GapKind.UNAUTHORIZED: (
        ReasonCode.CREDENTIALS_REFUSED,
        "credentials that are accepted",
        "renew the credentials in the connection {conn!r}",
    ),
    GapKind.FORBIDDEN: (
        ReasonCode.ACCESS_FORBIDDEN,
        "access",
        "grant the account of the connection {conn!r} what the message names",
    ),
    GapKind.UNREACHABLE: (ReasonCode.CLUSTER_UNREACHABLE, "an answer", ""),
    GapKind.TIMEOUT: (ReasonCode.CLUSTER_UNREACHABLE, "an answer in time", ""),
    GapKind.INVALID: (ReasonCode.SIGNALS_MISSING, "readable signals", ""),
}


def check(view: PoolView) -> Reason | None:
    """Refuse a pool whose nodes could not be seen."""
    if view.signals is None:
        return Reason(
            code=ReasonCode.SIGNALS_MISSING,
            needed="signals",
            observed="none",
            message=f"nothing was read about pool {view.pool.name}",
        )
    gap = view.signals.gap
    if gap is None:
        return None
    code, needed, advice = _CODES[gap.kind]
    hint = advice.format(conn=view.pool.cluster.kubernetes_conn_id, pool=view.pool.name)
    return Reason(
        code=code,
        needed=needed,
        observed=gap.kind.value.replace("_", " "),
        message=f"{gap.message}; {hint}" if hint else gap.message,
    )
