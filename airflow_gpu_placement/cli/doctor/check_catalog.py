"""Mistakes in the catalogue file itself."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from airflow_gpu_placement.cli.doctor.finding import Finding, FindingId, FixKind, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable

_STEP = re.compile(r"([^.\[\]]+)(?![^\[]*\])|\[(\d+)\]")
_MISSPELT = re.compile(r"([\w-]+): is not a known key; did you mean '([\w-]+)'")


def no_catalog(path: Path) -> Finding:
    """Say that there is no catalogue, and how to make one."""
    return Finding(
        id=FindingId.CATALOG_MISSING,
        severity=Severity.ERROR,
        where=str(path),
        what="there is no catalogue of GPU pools here",
        fix=f'airflow gpu-placement discover --conn-id "$CONN_ID" --out {shlex.quote(str(path))}',
        kind=FixKind.COMMAND,
        fill_in=(("$CONN_ID", "id of the Airflow connection of a cluster with GPUs"),),
    )


def check_catalog(problems: Iterable[str]) -> list[Finding]:
    """Return one finding for each mistake that keeps the catalogue from being read."""
    return [_finding(problem.strip().splitlines()[0]) for problem in problems]


def _finding(problem: str) -> Finding:
    where, _, what = problem.partition(": ")
    command = _rename(where, problem)
    return Finding(
        id=FindingId.CATALOG_INVALID,
        severity=Severity.ERROR,
        where=where,
        what=what,
        fix=command or f"correct it: {what}",
        kind=FixKind.COMMAND if command else FixKind.ADVICE,
    )


def _rename(where: str, problem: str) -> str | None:
    """Return the command that corrects a misspelt key, on its own line alone."""
    misspelt = _MISSPELT.search(problem)
    if misspelt is None:
        return None
    file, _, path = where.rpartition(":")
    line = _line_of(Path(file), path)
    if line is None:
        return None
    wrong, right = misspelt.groups()
    return f"sed -i '{line}s/\\b{wrong}:/{right}:/' {shlex.quote(file)}"


def _line_of(file: Path, path: str) -> int | None:
    """Find the line on which a key is, such as ``pools[2].gpu.modl``; ``None``: it is not there."""
    node: Any = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    line = None
    for name, index in _STEP.findall(path):
        if index and isinstance(node, yaml.SequenceNode):
            node = node.value[int(index)]
            continue
        inside = node.value if isinstance(node, yaml.MappingNode) else ()
        found = [(key, value) for key, value in inside if key.value == name]
        if not found:
            return None
        key, node = found[0]
        line = key.start_mark.line + 1
    return line
