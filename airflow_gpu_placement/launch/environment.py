"""The environment of the training program: ours first, then the author's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_gpu_placement.engine.ranks import COMPLETION_INDEX
from airflow_gpu_placement.exceptions import RequestError

if TYPE_CHECKING:
    from airflow_gpu_placement.launch.spec import LaunchSpec

PREFIX = "GPU_PLACEMENT_"
RESULT_PATH = "/dev/termination-log"
_FIRST_PORT, _PORTS = 20_000, 10_000


def environment(spec: LaunchSpec) -> list[dict[str, Any]]:
    """Return the container's ``env``.

    :raises RequestError: the author sets a variable of ours.
    """
    taken = sorted(name for name in spec.env if name.startswith(PREFIX))
    if taken:
        raise RequestError(
            f"env sets {', '.join(taken)}: names that begin with {PREFIX} are set for the program, not by it"
            f"; use another name"
        )
    entries = [{"name": name, "value": value} for name, value in _placement(spec).items()]
    if spec.nodes > 1:
        entries += [entry for entry in _rendezvous(spec) if entry["name"] not in spec.env]
    return entries + [{"name": name, "value": value} for name, value in spec.env.items()]


def rendezvous_port(tail: str) -> int:
    """Return the port of an attempt: always the same for it, most likely another for any other."""
    return _FIRST_PORT + int(tail, 16) % _PORTS


def _placement(spec: LaunchSpec) -> dict[str, str]:
    attempt, pool, root = spec.attempt, spec.pool, spec.checkpoint_root
    values = {
        "CHECKPOINT_ROOT": root or "",
        "WRITE_DIR": f"{root.rstrip('/')}/{attempt.write_folder}" if root else "",
        "RESUME_FROM": spec.resume_from or "",
        "FENCE": str(attempt.fence),
        "ATTEMPT": attempt.attempt_id,
        "TRY": str(attempt.try_number),
        "POOL": pool.name,
        "REGION": pool.place.region or "",
        "RESULT_PATH": RESULT_PATH,
        "NODES": str(spec.nodes),
        "GPUS_PER_NODE": str(spec.gpus_per_node),
    }
    return {PREFIX + name: value for name, value in values.items()}


def _rendezvous(spec: LaunchSpec) -> list[dict[str, Any]]:
    """Return what torch.distributed and torchrun read."""
    name = spec.attempt.job_name
    # The name of rank 0's pod below the headless Service, which is named like the Job.
    address, port = f"{name}-0.{name}", str(rendezvous_port(spec.attempt.tail))
    rank = {"fieldRef": {"fieldPath": f"metadata.annotations['{COMPLETION_INDEX}']"}}
    return [
        {"name": "MASTER_ADDR", "value": address},
        {"name": "MASTER_PORT", "value": port},
        {"name": "NODE_RANK", "valueFrom": rank},
        {"name": "PET_NNODES", "value": str(spec.nodes)},
        {"name": "PET_NODE_RANK", "valueFrom": rank},
        {"name": "PET_NPROC_PER_NODE", "value": str(spec.gpus_per_node)},
        {"name": "PET_MASTER_ADDR", "value": address},
        {"name": "PET_MASTER_PORT", "value": port},
    ]
