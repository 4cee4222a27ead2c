"""Which taints keep a pod off a node: the scheduler's own rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_gpu_placement.model.kube import Taint, Toleration

_BLOCKING = frozenset({"NoSchedule", "NoExecute"})


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether one toleration covers one taint.

    An empty effect covers every effect; an empty key with ``Exists`` covers every taint; an operator that is
    neither ``Exists`` nor ``Equal`` covers nothing.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key != taint.key and not (not toleration.key and toleration.operator == "Exists"):
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in {"", "Equal"} and toleration.value == taint.value


def not_tolerated(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> tuple[Taint, ...]:
    """Return the taints that keep out a pod with these tolerations; ``PreferNoSchedule`` keeps nobody out."""
    return tuple(
        taint
        for taint in taints
        if taint.effect in _BLOCKING and not any(tolerates(toleration, taint) for toleration in tolerations)
    )


def words(taint: Taint) -> str:
    """Spell a taint as ``kubectl`` does: ``key=value:Effect``."""
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"
