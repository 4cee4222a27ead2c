"""The edge of a command: which Airflow it speaks for, and what becomes of errors."""

from __future__ import annotations

import functools
import logging
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.utils.cli import suppress_logs_and_warning

from airflow_gpu_placement.catalog import load
from airflow_gpu_placement.cli.definition import ERROR_EXIT_CODE
from airflow_gpu_placement.cli.output import print_error
from airflow_gpu_placement.exceptions import CatalogError, GpuPlacementError, RequestError
from airflow_gpu_placement.settings import load_settings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from airflow_gpu_placement.catalog import Catalog

log = logging.getLogger(__name__)

_NEXT_PROBLEM = re.compile(r"\n(?=\S)")
"""What parts the problems of a request; an indented line belongs to the one before."""
_NO_HOME = "there is no home folder of that name; write the path without '~'"

INTERRUPTED_EXIT_CODE = 130
"""What shells give a command that ctrl-C has ended."""


def command(run: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], None]:
    """Make a function that returns an exit code into a command of Airflow.

    An error that the package raises on purpose becomes lines on the error stream and exit code 3, and so
    does a defect; ``--verbose`` shows its traceback. Ctrl-C ends it with exit code 130.
    """

    @functools.wraps(run)
    def edge(args: argparse.Namespace) -> None:
        # Connections are then found as in Airflow's own commands: environment, secrets backend, metastore.
        os.environ["_AIRFLOW_PROCESS_CONTEXT"] = "server"
        try:
            _refuse_empty(args)
            code = run(args)
        except CatalogError as error:
            for problem in error.problems:
                _tell(problem.strip().splitlines()[0])
            code = ERROR_EXIT_CODE
        except RequestError as error:
            for problem in _NEXT_PROBLEM.split(str(error)):
                _tell(problem)
            code = ERROR_EXIT_CODE
        except GpuPlacementError as error:
            _tell(str(error))
            code = ERROR_EXIT_CODE
        except OSError as error:
            _tell(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))
            code = ERROR_EXIT_CODE
        except KeyboardInterrupt:
            _tell("interrupted; what was done before stays done")
            code = INTERRUPTED_EXIT_CODE
        except Exception as error:
            log.exception("the command failed")
            _tell(f"unexpected {type(error).__name__}: {error} (--verbose shows where)")
            code = ERROR_EXIT_CODE
        sys.exit(code)

    quiet: Callable[[argparse.Namespace], None] = suppress_logs_and_warning(edge)
    return quiet


def _tell(problem: str) -> None:
    print_error(f"error: {problem}")


def _refuse_empty(args: argparse.Namespace) -> None:
    """Refuse a flag with an empty value, which is most likely a variable of a shell that is not set."""
    for name, value in vars(args).items():
        if value == "" or (isinstance(value, list) and "" in value):
            flag = f"--{name.replace('_', '-')}"
            raise GpuPlacementError(f"{flag}: is given an empty text; give it a value, or leave it out")


def user_path(given: str, flag: str) -> Path:
    """Return the path that a flag names, in which ``~`` is a home folder.

    :raises GpuPlacementError: there is no such home folder.
    """
    try:
        return Path(given).expanduser()
    except RuntimeError as error:
        raise GpuPlacementError(f"{flag}: {given}: {_NO_HOME}") from error


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
    return user_path(args.catalog, "--catalog") if args.catalog else load_settings().catalog


def signal_deadline_seconds(args: argparse.Namespace) -> float:
    """Return how long all clusters together may take to answer: the argument, else the configuration."""
    given: float | None = args.signal_deadline
    if given is None:
        return load_settings().signal_deadline_seconds
    if not given > 0:
        raise GpuPlacementError(f"--signal-deadline: must be more than 0 seconds, not {given:g}")
    return given
