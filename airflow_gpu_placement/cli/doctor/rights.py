"""Every right that the package uses on a cluster, and the manifests that grant it."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

LEASE_NAMESPACE = "kube-node-lease"

CLUSTER_RULES: tuple[dict[str, Any], ...] = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["kube-system"], "verbs": ["get"]},
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": ["resourceslices", "resourceclaims", "deviceclasses", "devicetaintrules"],
        "verbs": ["list"],
    },
)
"""For the whole cluster: GPUs are counted on every node and pod; the namespace identifies the cluster."""

LEASE_RULES: tuple[dict[str, Any], ...] = (
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["list", "watch"]},
)
"""In ``kube-node-lease``: the heart-beats of the nodes."""

WORK_RULES: tuple[dict[str, Any], ...] = (
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
    {
        "apiGroups": ["batch"],
        "resources": ["jobs"],
        "verbs": ["create", "get", "list", "watch", "delete"],
    },
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["services"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["list"]},
)
"""In each namespace of remote jobs."""

_API = "rbac.authorization.k8s.io"
_NOT_A_NAME = re.compile(r"[^a-z0-9.]+")


class Right(msgspec.Struct, frozen=True, kw_only=True):
    """One verb on one kind of object.

    :param namespace: ``None``: in the whole cluster.
    :param name: of the only object that it is about.
    """

    group: str
    resource: str
    verb: str
    namespace: str | None = None
    name: str | None = None

    def __str__(self) -> str:
        """Return the right in words, such as ``list pods``."""
        return f"{self.verb} {self.resource}{f' {self.name}' if self.name else ''}"

    def review(self) -> dict[str, Any]:
        """Return the question to the API server whether one has this right."""
        resource, _, subresource = self.resource.partition("/")
        attributes = {
            "group": self.group,
            "resource": resource,
            "subresource": subresource,
            "verb": self.verb,
            "namespace": self.namespace or "",
            "name": self.name or "",
        }
        return {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}},
        }


def needed(namespaces: Iterable[str]) -> tuple[Right, ...]:
    """Return the rights that placing jobs into these namespaces takes."""
    rights = [*_rights(CLUSTER_RULES, None), *_rights(LEASE_RULES, LEASE_NAMESPACE)]
    for namespace in namespaces:
        rights += _rights(WORK_RULES, namespace)
    return tuple(rights)


def _rights(rules: Iterable[dict[str, Any]], namespace: str | None) -> Iterable[Right]:
    for rule in rules:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                (name,) = rule.get("resourceNames", [namespace if resource == "namespaces" else None])
                yield Right(
                    group=rule["apiGroups"][0], resource=resource, verb=verb, namespace=namespace, name=name
                )


def grants(user: str, scopes: Collection[str | None]) -> list[dict[str, Any]]:
    """Return manifests that give a user every right needed in these scopes.

    :param user: as the cluster calls it; service accounts have the prefix ``system:serviceaccount:``.
    :param scopes: namespaces; ``None`` stands for the whole cluster.
    """
    made: list[dict[str, Any]] = []
    if None in scopes:
        made += _grant("gpu-placement-reader", CLUSTER_RULES, None, user)
    if LEASE_NAMESPACE in scopes:
        made += _grant("gpu-placement-leases", LEASE_RULES, LEASE_NAMESPACE, user)
    for namespace in sorted({scope for scope in scopes if scope} - {LEASE_NAMESPACE}):
        made += [namespace_manifest(namespace), *_grant("gpu-placement-jobs", WORK_RULES, namespace, user)]
    return made


def namespace_manifest(name: str) -> dict[str, Any]:
    """Return the manifest of a namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _grant(
    role: str, rules: Iterable[dict[str, Any]], namespace: str | None, user: str
) -> list[dict[str, Any]]:
    kind = "Role" if namespace else "ClusterRole"
    where = {"namespace": namespace} if namespace else {}
    return [
        {
            "apiVersion": f"{_API}/v1",
            "kind": kind,
            "metadata": {"name": role, **where},
            "rules": list(rules),
        },
        {
            "apiVersion": f"{_API}/v1",
            "kind": f"{kind}Binding",
            "metadata": {"name": f"{role}-{_name_of(user)}", **where},
            "roleRef": {"apiGroup": _API, "kind": kind, "name": role},
            "subjects": [_subject(user)],
        },
    ]


def _subject(user: str) -> dict[str, str]:
    prefix, _, rest = user.partition("serviceaccount:")
    if prefix == "system:" and ":" in rest:
        namespace, _, name = rest.partition(":")
        return {"kind": "ServiceAccount", "namespace": namespace, "name": name}
    return {"apiGroup": _API, "kind": "User", "name": user}


def _name_of(user: str) -> str:
    """Make a part of a name out of a user: two users never get the same one."""
    readable = _NOT_A_NAME.sub("-", user.lower()).strip("-.")[:30]
    return f"{readable}-{hashlib.sha256(user.encode()).hexdigest()[:6]}"
