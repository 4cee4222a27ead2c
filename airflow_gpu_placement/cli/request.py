"""Where the request of a dry run comes from: flags, a file, or a task of a DAG."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_gpu_placement.catalog.document import parse
from airflow_gpu_placement.catalog.problems import Problems
from airflow_gpu_placement.catalog.reader import shown
from airflow_gpu_placement.cli.process import user_path
from airflow_gpu_placement.cli.request_flags import fields_from_flags
from airflow_gpu_placement.exceptions import CatalogError, RequestError
from airflow_gpu_placement.operators.request import parse_request

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from pathlib import Path

    from airflow_gpu_placement.model.request import GpuRequest


_EMPTY = "is empty; it needs at least 'gpus_per_node: 1'"


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
    if args.bundle_name and not args.task:
        raise RequestError("--bundle-name says where the DAG of --task is; give --task too, or leave it out")
    fields: dict[str, Any] = {}
    subject = "the request"
    profile: str | None = None
    pod_resources: Mapping[str, Any] = {}
    if args.request:
        path = user_path(args.request, "--request")
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
    if not (flags or args.request or args.task):
        raise RequestError(
            "no request: say what the job needs, for example --gpus-per-node 8 --nodes 2 --model H100, "
            "or name a file with --request, or a task with --dag and --task"
        )
    return Asked(parse_request(_merged(fields, flags)), subject, profile, pod_resources)


def _from_file(path: Path) -> dict[str, Any]:
    problems = Problems(str(path))
    try:
        content = parse(path.read_text(encoding="utf-8-sig"), problems, when_empty=_EMPTY)
        problems.raise_any()
    except OSError as error:
        raise RequestError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise RequestError(f"{path}: is not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    except CatalogError as error:
        raise RequestError(str(error)) from error
    if not isinstance(content, dict):
        raise RequestError(f"{path}: expected a mapping such as 'gpus_per_node: 8', not {shown(content)}")
    if content.keys() == {"gpu"}:
        raise RequestError(f"{path}:gpu: leave this key out, and move what is below it one level up")
    return content


def _merged(fields: dict[str, Any], flags: dict[str, Any]) -> dict[str, Any]:
    merged = dict(fields)
    for name, value in flags.items():
        group = merged.get(name)
        merged[name] = {**group, **value} if isinstance(group, dict) and isinstance(value, dict) else value
    return merged
