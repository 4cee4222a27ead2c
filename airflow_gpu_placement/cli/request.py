"""Where the request of a dry run comes from: flags, a file, or a task of a DAG."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from airflow_gpu_placement.cli.request_flags import fields_from_flags
from airflow_gpu_placement.exceptions import RequestError
from airflow_gpu_placement.operators.request import parse_request

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from airflow_gpu_placement.model.request import GpuRequest


class Asked(NamedTuple):
    """A request and the name that the decision gets.

    :param profile: that of the task; ``None``: the request is not a task's.
    :param pod_resources: what each pod of the task asks for beside its GPUs.
    """

    request: GpuRequest
    subject: str
    profile: str | None = None
    pod_resources: Mapping[str, Any] = MappingProxyType({})


def read_request(args: argparse.Namespace) -> Asked:
    """Read the request that the arguments describe; flags win over a file or a task.

    :raises RequestError: it cannot be read; the text says what to write instead.
    """
    if args.request and args.task:
        raise RequestError("--request and --task each name a whole request; give one of them")
    if args.task and not args.dag:
        raise RequestError("--task needs --dag: the DAG that the task is in")
    fields: dict[str, Any] = {}
    subject = "the request"
    profile: str | None = None
    pod_resources: Mapping[str, Any] = {}
    if args.request:
        path = Path(args.request).expanduser()
        fields, subject = _from_file(path), str(path)
    elif args.task:
        from airflow_gpu_placement.cli.dag_request import request_of_task

        found = request_of_task(args.dag, args.task, args.bundle_name)
        fields, profile, subject = found.gpu, found.profile, f"{args.dag}.{args.task}"
        pod_resources = found.pod_resources
    try:
        flags = fields_from_flags(vars(args))
    except ValueError as error:
        raise RequestError(str(error)) from error
    if not fields and not flags:
        raise RequestError(
            "no request: say what the job needs, for example --gpus-per-node 8 --nodes 2 --model H100, "
            "or name a file with --request, or a task with --dag and --task"
        )
    return Asked(parse_request(_merged(fields, flags)), subject, profile, pod_resources)


def _from_file(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RequestError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise RequestError(f"{path}: is not YAML: {error}") from error
    if not isinstance(content, dict):
        raise RequestError(f"{path}: expected a mapping such as 'gpus_per_node: 8', not {content!r}")
    return content


def _merged(fields: dict[str, Any], flags: dict[str, Any]) -> dict[str, Any]:
    merged = dict(fields)
    for name, value in flags.items():
        group = merged.get(name)
        merged[name] = {**group, **value} if isinstance(group, dict) and isinstance(value, dict) else value
    return merged
