"""``airflow gpu-placement reap``: withdraw the remote jobs that no task waits for any more."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING

from airflow_gpu_placement.cli.output import print_rows
from airflow_gpu_placement.cli.process import command, load_catalog, signal_deadline_seconds
from airflow_gpu_placement.cli.reap_database import tasks_in_database
from airflow_gpu_placement.engine.reaping import Rules
from airflow_gpu_placement.exceptions import GpuPlacementError
from airflow_gpu_placement.hooks.clusters import open_on_worker
from airflow_gpu_placement.operators.reaper import Limits, reap
from airflow_gpu_placement.operators.reaper_rows import problems_of, rows_of, to_reap
from airflow_gpu_placement.settings import load_settings

if TYPE_CHECKING:
    import argparse

    from airflow_gpu_placement.clusters.connect import OpenCluster
    from airflow_gpu_placement.operators.reaper import LookUp

NOTHING_LEFT, FOUND = 0, 1


def reap_jobs(
    args: argparse.Namespace,
    open_cluster: OpenCluster = open_on_worker,
    look_up: LookUp = tasks_in_database,
) -> int:
    """Tell what was left behind, and withdraw it with ``--delete``.

    :return: 0 when nothing is left to do, 1 when a dry run found something.
    :raises GpuPlacementError: something could not be withdrawn or read; everything else was done and told.
    """
    settings = load_settings()
    rules = Rules(
        min_age_seconds=_min_age_seconds(args),
        installation=settings.installation,
        unknown_runs=args.unknown_runs,
    )
    limits = Limits(signal_deadline_seconds(args), settings.fence_timeout_seconds)
    reaped = asyncio.run(
        reap(
            load_catalog(args).pools,
            look_up,
            rules,
            limits,
            delete=args.delete,
            open_cluster=open_cluster,
        )
    )
    print_rows(rows_of(reaped, all_=args.all), args.output)
    if problems := problems_of(reaped):
        raise GpuPlacementError("not everything could be done: " + "; ".join(problems))
    return FOUND if to_reap(reaped) and not args.delete else NOTHING_LEFT


def _min_age_seconds(args: argparse.Namespace) -> float:
    minutes: float = args.min_age_minutes
    if not minutes >= 0:
        raise GpuPlacementError(f"--min-age-minutes: must be 0 or more, not {minutes:g}")
    return minutes * 60.0


reap_command = functools.wraps(reap_jobs)(command(reap_jobs))
