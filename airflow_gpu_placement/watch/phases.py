"""Tell people how a remote job goes on, each thing once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.ranks import rank_of
from airflow_gpu_placement.model.outcome import OutcomeKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_gpu_placement.model.kube import Pod
    from airflow_gpu_placement.model.outcome import Observation, Outcome

_TROUBLE = frozenset({OutcomeKind.SUSPECTED, OutcomeKind.UNKNOWN})
_MOST_TROUBLES = 20
_NONE: frozenset[str] = frozenset()  # each empty one is an object of its own


class PhaseReporter:
    """Turns observations into a line wherever something has changed for a reader.

    :param report: takes one line.
    """

    __slots__ = ("_bound", "_report", "_running", "_trouble", "_troubles", "_waiting")

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._bound: tuple[str, ...] = ()  # uids of pods
        self._running: tuple[str, ...] = ()
        self._trouble: tuple[str, tuple[str, ...]] | None = None
        self._waiting = ""
        self._troubles = _NONE

    def update(self, observation: Observation, outcome: Outcome) -> None:
        """Report what is new since the last call."""
        pods = sorted(observation.pods, key=rank_of)
        self._tell_binding(pods)
        self._tell_running(pods)
        self._tell_trouble(outcome)
        if outcome.final:
            self._report(f"{outcome.cause}: {outcome.message}" if outcome.cause else outcome.message)

    def tell_troubles(self, troubles: frozenset[str]) -> None:
        """Report what keeps the watch from seeing everything, such as a right that is missing.

        Some words are new each time, with the number of a request in them: so many are told, and no more.
        """
        new = troubles - self._troubles if len(self._troubles) < _MOST_TROUBLES else _NONE
        for trouble in sorted(new):
            self._report(f"the cluster cannot be watched as it should be: {trouble}")
        if new:
            self._troubles |= new

    def _tell_binding(self, pods: list[Pod]) -> None:
        for pod in pods:
            if pod.spec.node_name and pod.metadata.uid not in self._bound:
                self._bound += (pod.metadata.uid,)
                self._report(f"pod {pod.metadata.name} is bound to node {pod.spec.node_name}")

    def _tell_running(self, pods: list[Pod]) -> None:
        for pod in pods:
            started = any(one.state.running is not None for one in pod.status.container_statuses)
            if started and pod.metadata.uid not in self._running:
                self._running += (pod.metadata.uid,)
                self._report(f"pod {pod.metadata.name} is running ({len(self._running)} of {len(pods)})")

    def _tell_trouble(self, outcome: Outcome) -> None:
        if outcome.kind in _TROUBLE and not outcome.final:
            # The seconds in the text grow with every look; what the trouble is does not.
            trouble = (outcome.cause, outcome.nodes)
            if trouble != self._trouble:
                self._report(f"suspected: {outcome.message}")
            self._trouble = trouble
        elif self._trouble is not None and not outcome.final:
            nodes = self._trouble[1]
            what = f"node {', '.join(nodes)}" if nodes else "the cluster"
            self._report(f"{what} is no longer suspected")
            self._trouble = None
        waiting = outcome.message if outcome.kind is OutcomeKind.RUNNING else ""
        if waiting and waiting != self._waiting:
            self._report(waiting)
            self._waiting = waiting
