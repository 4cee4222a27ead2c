"""Names of a gang's members: there is no cluster DNS, every pod listens on the loopback address."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lab.node.api import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lab.node.api import Api

_NUMBERED = re.compile(r"(.*-)[0-9]+")


def hostname(pod: Mapping[str, Any]) -> str:
    """Return the name that a pod's containers have."""
    name: str = pod["spec"].get("hostname") or pod["metadata"]["name"]
    return name[:63].rstrip("-.")


async def peers(api: Api, pod: Mapping[str, Any]) -> list[str]:
    """Host names of all members of the pod's gang: those of its Job, and those that exist already."""
    subdomain = pod["spec"].get("subdomain")
    own = hostname(pod)
    if not subdomain:
        return [own]
    names = {own}
    match = _NUMBERED.fullmatch(own)
    if match:
        names |= {match.group(1) + str(index) for index in range(await _members(api, pod))}
    listed = await api.get(f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods")
    names |= {hostname(item) for item in listed["items"] if item["spec"].get("subdomain") == subdomain}
    return sorted(names)


async def _members(api: Api, pod: Mapping[str, Any]) -> int:
    """How many indexes the pod's Job has (1 when it is not a Job's pod: rank 0 always has a name)."""
    for owner in pod["metadata"].get("ownerReferences") or ():
        if owner["kind"] == "Job":
            try:
                path = f"/apis/batch/v1/namespaces/{pod['metadata']['namespace']}/jobs/{owner['name']}"
                return int((await api.get(path))["spec"].get("completions") or 1)
            except ApiError as error:
                if error.status != 404:
                    raise
    return 1


def hosts_file(pod: Mapping[str, Any], names: Iterable[str]) -> str:
    """Return the text of a pod's /etc/hosts."""
    namespace, subdomain = pod["metadata"]["namespace"], pod["spec"].get("subdomain")
    lines = [
        "# managed by the lab's node",
        "127.0.0.1\tlocalhost",
        "::1\tlocalhost ip6-localhost ip6-loopback",
    ]
    for name in names:
        if subdomain:
            full = f"{name}.{subdomain}.{namespace}.svc.cluster.local"
            forms = [full, full.removesuffix(".cluster.local"), f"{name}.{subdomain}", name]
        else:
            forms = [name]
        lines.append("127.0.0.1\t" + "\t".join(forms))
    return "\n".join(lines) + "\n"
