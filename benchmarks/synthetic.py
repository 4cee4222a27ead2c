"""Node and pod objects as large as those of production clusters, as JSON."""

from __future__ import annotations

import json
from typing import Any

NODE_BYTES = 24_600
POD_BYTES = 5_200
PAGE = 500
_IMAGES = 50
_NAME = "gpu-node-00000000"
_NODE_OF_POD = "gpu-node-99999999"
_POD = "trainer-00000000"


def node_page(first: int, count: int, total: int) -> bytes:
    """Return one page of a node list as the API server writes it."""
    template = _padded(_node(), NODE_BYTES)
    items = (template.replace(_NAME.encode(), f"gpu-node-{first + n:08d}".encode()) for n in range(count))
    return _page(items, first + count, total)


def pod_page(first: int, count: int, total: int, *, pods_per_node: int) -> bytes:
    """Return one page of a pod list; pods are spread evenly over the nodes."""
    template = _padded(_pod(), POD_BYTES)
    items = (
        template.replace(_POD.encode(), f"trainer-{index:08d}".encode()).replace(
            _NODE_OF_POD.encode(), f"gpu-node-{index // pods_per_node:08d}".encode()
        )
        for index in range(first, first + count)
    )
    return _page(items, first + count, total)


def _page(items: Any, end: int, total: int) -> bytes:
    token = str(end) if end < total else ""
    head = json.dumps({"resourceVersion": "123456", "continue": token, "remainingItemCount": total - end})
    return (
        b'{"kind":"List","apiVersion":"v1","metadata":'
        + head.encode()
        + b',"items":['
        + b",".join(items)
        + b"]}"
    )


def _padded(thing: dict[str, Any], size: int) -> bytes:
    """Fill the managed fields, which grow with the number of writers, up to a size."""
    fields: dict[str, Any] = {}
    entry = {"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "fieldsV1": fields}
    thing["metadata"]["managedFields"] = [entry]
    index = 0
    while (missing := size - len(json.dumps(thing, separators=(",", ":")))) > 0:
        key = f"f:feature.node.kubernetes.io/cpu-cpuid.{index:04d}"
        fields[key if missing > 60 else "f:" + "x" * max(missing - 8, 1)] = {}
        index += 1
        if missing <= 60:
            break
    return json.dumps(thing, separators=(",", ":")).encode()


def _node() -> dict[str, Any]:
    features = {f"feature.node.kubernetes.io/cpu-cpuid.F{index:02d}": "true" for index in range(40)}
    labels = {
        "kubernetes.io/hostname": _NAME,
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": "zone-a",
        "topology.kubernetes.io/region": "region-1",
        "node.kubernetes.io/instance-type": "p5.48xlarge",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/gpu.count": "8",
        "nvidia.com/gpu.memory": "81559",
        "nvidia.com/gpu.family": "hopper",
        "nvidia.com/gpu.replicas": "1",
        **features,
    }
    amounts = {"cpu": "192", "memory": "2097152Ki", "nvidia.com/gpu": "8", "pods": "110"}
    conditions = [
        {
            "type": kind,
            "status": "True" if kind == "Ready" else "False",
            "lastHeartbeatTime": "2026-01-05T12:00:00Z",
            "lastTransitionTime": "2026-01-01T12:00:00Z",
            "reason": f"Kubelet{kind}",
            "message": f"the kubelet reports {kind}",
        }
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]
    images = [
        {
            "names": [
                f"registry.example/team/training-image-{index:02d}@sha256:{index:064x}",
                f"registry.example/team/training-image-{index:02d}:release",
            ],
            "sizeBytes": 8_000_000_000 + index,
        }
        for index in range(_IMAGES)
    ]
    return {
        "metadata": {
            "name": _NAME,
            "uid": _NAME,
            "resourceVersion": "1",
            "labels": labels,
            "annotations": {},
        },
        "spec": {"providerID": f"cloud:///{_NAME}", "podCIDR": "10.0.0.0/24"},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": conditions,
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {
                "machineID": "0" * 32,
                "systemUUID": "0" * 32,
                "bootID": "0" * 32,
                "kernelVersion": "6.1",
                "osImage": "Linux",
                "containerRuntimeVersion": "containerd://2.0",
                "kubeletVersion": "v1.36.0",
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
            "images": images,
        },
    }


def _pod() -> dict[str, Any]:
    resources = {"requests": {"nvidia.com/gpu": "1", "cpu": "8"}, "limits": {"nvidia.com/gpu": "1"}}
    environment = [{"name": f"SETTING_{index:02d}", "value": "x" * 24} for index in range(20)]
    return {
        "metadata": {"name": _POD, "namespace": "team", "uid": _POD, "labels": {"app": "trainer"}},
        "spec": {
            "nodeName": _NODE_OF_POD,
            "priority": 0,
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/team/training-image:release",
                    "env": environment,
                    "resources": resources,
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                }
            ],
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [
                {
                    "name": "main",
                    "ready": True,
                    "restartCount": 0,
                    "image": "registry.example/team/training-image:release",
                    "imageID": "registry.example/team/training-image@sha256:" + "0" * 64,
                    "state": {"running": {"startedAt": "2026-01-05T12:00:00Z"}},
                }
            ],
        },
    }
