"""Tell when the pod of each Job of a namespace has ended, by a plain watch: one JSON object a line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time

import msgspec

from airflow_gpu_placement.clusters.connect import client_from_kubeconfig
from airflow_gpu_placement.model.kube import Pod


def main() -> None:
    """Run until killed."""
    order = json.loads(sys.stdin.readline())
    asyncio.run(_run(order))


async def _run(order: dict[str, object]) -> None:
    client = await client_from_kubeconfig(order["kubeconfig"], None)  # type: ignore[arg-type]  # from JSON
    path = f"/api/v1/namespaces/{order['namespace']}/pods"
    _, version = await client.list_all(path, Pod, {})
    while True:
        query = {"resourceVersion": version, "allowWatchBookmarks": "true", "timeoutSeconds": "300"}
        async with contextlib.aclosing(client.watch(path, query, idle_timeout_seconds=330.0)) as events:
            async for event in events:
                if event.type == "BOOKMARK":
                    version = event.resource_version
                    continue
                pod = msgspec.json.decode(event.object, type=Pod)
                version = pod.metadata.resource_version
                if pod.status.phase == "Succeeded":
                    name = pod.metadata.labels["job-name"]
                    print(json.dumps({"name": name, "at": time.time()}), flush=True)


if __name__ == "__main__":
    main()
