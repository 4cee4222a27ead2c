"""How a finding about one pod is told as the outcome of its job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.end_grade import end_grade
from airflow_gpu_placement.model.outcome import Outcome

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.finding import Finding
    from airflow_gpu_placement.model.outcome import LossPolicy, Observation


def outcome_of(finding: Finding, observation: Observation, policy: LossPolicy) -> Outcome:
    """Turn the finding that decides into an outcome."""
    node = observation.nodes.get(finding.node)
    wrong_architecture = finding.cause == "WrongArchitecture" and node is not None
    return Outcome(
        kind=finding.kind,
        cause=finding.cause,
        message=sentence(finding),
        exit_code=finding.exit_code,
        pod=finding.pod or None,
        nodes=(finding.node,) if finding.blames_node and finding.node else (),
        grade=end_grade(observation, policy),
        ambiguous=finding.ambiguous,
        never_started=finding.never_started,
        architecture=node.architecture if wrong_architecture and node is not None else None,
    )


def sentence(finding: Finding) -> str:
    """Say what a finding is in one sentence for people."""
    where = f" on node {finding.node}" if finding.node else ""
    subject = f"pod {finding.pod}{where} " if finding.pod else ""
    never = "; it never started" if finding.never_started and finding.kind.final else ""
    return f"{subject}{finding.what}{never}"
