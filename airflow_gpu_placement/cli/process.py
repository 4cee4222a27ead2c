"""The edge of a command: which Airflow it speaks for, what becomes of errors, where output goes."""

from __future__ import annotations

import functools
import json
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from airflow.cli.simple_table import AirflowConsole
from airflow.utils.cli import suppress_logs_and_warning

from airflow_gpu_placement.catalog import load
from airflow_gpu_placement.cli.definition import ERROR_EXIT_CODE
from airflow_gpu_placement.exceptions import CatalogError, GpuPlacementError
from airflow_gpu_placement.settings import load_settings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from airflow_gpu_placement.catalog import Catalog

log = logging.getLogger(__name__)

_LIST_INDENT = 2


def command(run: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], None]:
    """Make a function that returns an exit code into a command of Airflow.

    An error that the package raises on purpose becomes lines on the error stream and exit code 3, and so
    does a defect; ``--verbose`` shows its traceback.
    """

    @functools.wraps(run)
    def edge(args: argparse.Namespace) -> None:
        # Connections are then found as in Airflow's own commands: environment, secrets backend, metastore.
        os.environ["_AIRFLOW_PROCESS_CONTEXT"] = "server"
        try:
            code = run(args)
        except CatalogError as error:
            for problem in error.problems:
                _tell(problem)
            code = ERROR_EXIT_CODE
        except (GpuPlacementError, OSError) as error:
            _tell(str(error))
            code = ERROR_EXIT_CODE
        except Exception as error:
            log.exception("the command failed")
            _tell(f"unexpected {type(error).__name__}: {error} (--verbose shows where)")
            code = ERROR_EXIT_CODE
        sys.exit(code)

    quiet: Callable[[argparse.Namespace], None] = suppress_logs_and_warning(edge)
    return quiet


def _tell(problem: str) -> None:
    sys.stderr.write(f"error: {' '.join(problem.split())}\n")


def load_catalog(args: argparse.Namespace) -> Catalog:
    """Read the catalogue that the arguments or the configuration name.

    :raises CatalogError: there is none, or it is wrong.
    """
    path = catalog_path(args)
    overlay = None if args.catalog else load_settings().catalog_overlay
    if not path.exists():
        raise CatalogError(
            [
                f"{path}: there is no catalogue of GPU pools here; name another with --catalog, or write "
                f"one: airflow gpu-placement discover --conn-id CONN_ID --out {path}"
            ]
        )
    return load(path, overlay)


def catalog_path(args: argparse.Namespace) -> Path:
    """Return where the catalogue is: the argument, else the configuration."""
    return Path(args.catalog).expanduser() if args.catalog else load_settings().catalog


def signal_deadline_seconds(args: argparse.Namespace) -> float:
    """Return how long all clusters together may take to answer: the argument, else the configuration."""
    given: float | None = args.signal_deadline
    if given is None:
        return load_settings().signal_deadline_seconds
    if not given > 0:
        raise GpuPlacementError(f"--signal-deadline: must be more than 0 seconds, not {given:g}")
    return given


def print_rows(rows: Sequence[dict[str, Any]], output: str) -> None:
    """Print records as a table for people, or as JSON or YAML with their own types."""
    if output == "table":
        AirflowConsole().print_as_table([{key: _cell(value) for key, value in row.items()} for row in rows])
    else:
        print_data(list(rows), output)


def print_data(data: Any, output: str) -> None:
    """Print plain values as JSON or YAML."""
    if output == "json":
        print_text(json.dumps(data, indent=_LIST_INDENT))
    else:
        print_text(yaml.safe_dump(data, sort_keys=False, allow_unicode=True).rstrip("\n"))


def print_text(text: str) -> None:
    """Print text as it is, without wrapping or colour."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if isinstance(value, float) else str(value)
