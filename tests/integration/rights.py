"""Giving a user of the lab rights for a while."""

from __future__ import annotations

import contextlib
import time
import uuid
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab import Cluster

RBAC = "/apis/rbac.authorization.k8s.io/v1"
_GROUP = "rbac.authorization.k8s.io"
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_IN_FORCE_SECONDS = 20.0


@contextlib.contextmanager
def granted(
    cluster: Cluster, user: str, rules: Sequence[dict[str, Any]], namespace: str | None = None
) -> Iterator[None]:
    """Let a user do what the rules say, in the whole cluster or in one namespace, once that is in force."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    kind = "Role" if namespace else "ClusterRole"
    base = f"{RBAC}/namespaces/{namespace}" if namespace else RBAC
    cluster.api.post(f"{base}/{kind.lower()}s", {"metadata": {"name": name}, "rules": list(rules)})
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _GROUP, "kind": kind, "name": name},
        "subjects": [{"apiGroup": _GROUP, "kind": "User", "name": user}],
    }
    try:
        cluster.api.post(f"{base}/{kind.lower()}bindings", binding)
        _wait_in_force(cluster, user, rules, namespace)
        yield
    finally:
        cluster.api.delete(f"{base}/{kind.lower()}bindings/{name}")
        cluster.api.delete(f"{base}/{kind.lower()}s/{name}")


def _wait_in_force(
    cluster: Cluster, user: str, rules: Sequence[dict[str, Any]], namespace: str | None
) -> None:
    """Wait: the API server hears of a binding as every other client does, a moment after it was made."""
    deadline = time.monotonic() + _IN_FORCE_SECONDS
    for rule in rules:
        resource, _, subresource = rule["resources"][0].partition("/")
        attributes = {
            "verb": rule["verbs"][0],
            "group": rule["apiGroups"][0],
            "resource": resource,
            "subresource": subresource,
            "name": (rule.get("resourceNames") or [""])[0],
            "namespace": namespace or "",
        }
        review = {"spec": {"user": user, "resourceAttributes": attributes}}
        while not cluster.api.post(_REVIEWS, review)["status"]["allowed"]:
            assert time.monotonic() < deadline, f"{user} may still not {attributes}"
            time.sleep(0.05)


def drop_bindings(cluster: Cluster, user: str) -> None:
    """Take every binding of a user back, whoever made it."""
    for kind in ("clusterrolebindings", "rolebindings"):
        for binding in cluster.api.get(f"{RBAC}/{kind}")["items"]:
            if any(one.get("name") == user for one in binding.get("subjects") or ()):
                where = binding["metadata"].get("namespace")
                base = f"{RBAC}/namespaces/{where}" if where else RBAC
                cluster.api.delete(f"{base}/{kind}/{binding['metadata']['name']}")
