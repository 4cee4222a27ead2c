"""What is wrong with a cluster or with the way to it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from airflow_gpu_placement.cli.doctor.finding import Finding, FindingId, FixKind, Severity, entry_lines
from airflow_gpu_placement.cli.doctor.rights import grants, namespace_manifest
from airflow_gpu_placement.model.signals import GapKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_gpu_placement.cli.doctor.read import ClusterReading
    from airflow_gpu_placement.model.signals import SignalGap

OLDEST_VERSION = (1, 31)
"""The first whose Jobs tell a disruption from a failure by a stable rule (podFailurePolicy)."""

MOST_SKEW_SECONDS = 5.0

_GAP_IDS = {
    GapKind.CONNECTION_MISSING: FindingId.CONNECTION_MISSING,
    GapKind.UNREACHABLE: FindingId.CLUSTER_UNREACHABLE,
    GapKind.TIMEOUT: FindingId.CLUSTER_UNREACHABLE,
    GapKind.UNAUTHORIZED: FindingId.CREDENTIALS_REFUSED,
}

_GAP_MEANINGS = {
    FindingId.CLUSTER_UNREACHABLE: "; when the cluster is down, start it; when it is up, mend the way to it",
    FindingId.CLUSTER_UNUSABLE: "; something answers there, but not as the API of a Kubernetes cluster does",
}


def check_cluster(reading: ClusterReading) -> list[Finding]:
    """Return everything that is wrong between us and one cluster."""
    if reading.gap is not None:
        return [_gap(reading, reading.gap)]
    return [
        *_identity(reading),
        *_rights(reading),
        *_namespaces(reading),
        *_version(reading),
        *_clock(reading),
    ]


def _gap(reading: ClusterReading, gap: SignalGap) -> Finding:
    conn_id = reading.key.kubernetes_conn_id
    fix = (
        f"airflow connections add {conn_id} --conn-type kubernetes "
        '--conn-extra "{\\"kube_config_path\\": \\"$KUBECONFIG\\"}"'
    )
    if gap.kind is not GapKind.CONNECTION_MISSING or "does not exist" not in gap.message:
        elsewhere = (
            "# a connection that is set in the environment or a secrets backend is changed there instead"
        )
        fix = f"{elsewhere}\nairflow connections delete {conn_id}\n{fix}"
    id_ = _GAP_IDS.get(gap.kind, FindingId.CLUSTER_UNUSABLE)
    return Finding(
        id=id_,
        severity=Severity.ERROR,
        where=reading.where,
        what=f"{gap.message}{_GAP_MEANINGS.get(id_, '')}",
        fix=fix,
        kind=FixKind.COMMAND,
        fill_in=(
            ("$KUBECONFIG", "path, on every machine of Airflow, of a kubeconfig that works for that cluster"),
        ),
    )


def _identity(reading: ClusterReading) -> Iterable[Finding]:
    if reading.uid is None:
        return
    for pool in reading.pools:
        if pool.cluster.uid is not None and pool.cluster.uid != reading.uid:
            yield Finding(
                id=FindingId.WRONG_CLUSTER,
                severity=Severity.ERROR,
                where=f"pool {pool.name!r}",
                what=f"belongs to cluster {pool.cluster.uid}, but {reading.where} leads to {reading.uid}; "
                "correct the connection, or, when this cluster is the right one, the pool",
                fix=entry_lines("pools", {"name": pool.name, "cluster_uid": reading.uid}),
                kind=FixKind.CATALOG,
                pool=pool.name,
            )


def _rights(reading: ClusterReading) -> Iterable[Finding]:
    by_scope: dict[str | None, list[str]] = {}
    for right in reading.denied:
        by_scope.setdefault(right.namespace, []).append(str(right))
    for scope, rights in by_scope.items():
        if scope in reading.absent_namespaces:
            continue  # told as such; its mending grants them too
        where = "in the whole cluster" if scope is None else f"in namespace {scope}"
        yield Finding(
            id=FindingId.RIGHTS_MISSING,
            severity=Severity.ERROR,
            where=reading.where,
            what=f"user {reading.user!r} may not, {where}: {', '.join(rights)}",
            fix=_apply(reading, grants(reading.user, [scope])),
            kind=FixKind.COMMAND,
        )


def _namespaces(reading: ClusterReading) -> Iterable[Finding]:
    for namespace in reading.absent_namespaces:
        pools = ", ".join(pool.name for pool in reading.pools if pool.cluster.namespace == namespace)
        denied = any(right.namespace == namespace for right in reading.denied)
        mending = grants(reading.user, [namespace]) if denied else [namespace_manifest(namespace)]
        yield Finding(
            id=FindingId.NAMESPACE_MISSING,
            severity=Severity.ERROR,
            where=reading.where,
            what=f"namespace {namespace!r} of {pools} does not exist",
            fix=_apply(reading, mending),
            kind=FixKind.COMMAND,
        )


def _apply(reading: ClusterReading, manifests: Sequence[dict[str, Any]]) -> str:
    written = yaml.safe_dump_all(manifests, sort_keys=False).rstrip("\n")
    who = f"# as an administrator of the cluster at {reading.server}"
    return f"{who}\nkubectl apply -f - <<'EOF'\n{written}\nEOF"


def _version(reading: ClusterReading) -> Iterable[Finding]:
    found = re.match(r"v?(\d+)\.(\d+)", reading.version)
    if found is None or (int(found[1]), int(found[2])) >= OLDEST_VERSION:
        return
    major, oldest = OLDEST_VERSION
    begin = int(found[2]) if int(found[1]) == major else oldest - 1
    steps = " -> ".join(f"{major}.{minor}" for minor in range(begin, oldest + 1))
    pools = ", ".join(repr(pool.name) for pool in reading.pools)
    yield Finding(
        id=FindingId.KUBERNETES_TOO_OLD,
        severity=Severity.ERROR,
        where=reading.where,
        what=f"runs Kubernetes {reading.version}; jobs there cannot tell a lost node from a failed program",
        fix=f"upgrade the cluster at {reading.server}, its control plane before its nodes, one minor version "
        f"at a time: {steps}; until then take out of the catalogue, below 'pools': {pools}",
        kind=FixKind.ADVICE,
    )


def _clock(reading: ClusterReading) -> Iterable[Finding]:
    ahead = reading.clock_ahead_seconds
    if ahead is None or abs(ahead) <= MOST_SKEW_SECONDS:
        return
    yield Finding(
        id=FindingId.CLOCK_SKEW,
        severity=Severity.WARNING,
        where=reading.where,
        what=f"its clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} ours",
        fix=f"# here and on the control plane at {reading.server}: where is the time wrong?\ndate --utc\n"
        "# there\nsudo timedatectl set-ntp true",
        kind=FixKind.COMMAND,
    )
