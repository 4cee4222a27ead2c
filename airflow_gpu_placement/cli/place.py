"""``airflow gpu-placement place``: decide as a task would, and run nothing."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from airflow_gpu_placement.catalog import DEFAULT_PROFILE, resolve
from airflow_gpu_placement.cli.output import print_data, print_error, print_table, print_text
from airflow_gpu_placement.cli.process import command, load_catalog, signal_deadline_seconds
from airflow_gpu_placement.cli.request import read_request
from airflow_gpu_placement.cycle import decide
from airflow_gpu_placement.engine.counterfactual import counterfactual, why_not
from airflow_gpu_placement.engine.explain import HEADINGS, line, rows, table, to_json
from airflow_gpu_placement.exceptions import RequestError
from airflow_gpu_placement.hooks.clusters import open_on_worker
from airflow_gpu_placement.model.decision import History
from airflow_gpu_placement.model.nearest import nearest
from airflow_gpu_placement.model.reasons import TIERS, Tier

if TYPE_CHECKING:
    import argparse

    from airflow_gpu_placement.catalog import Catalog
    from airflow_gpu_placement.catalog.setting import Resolved
    from airflow_gpu_placement.cli.request import Asked
    from airflow_gpu_placement.clusters.connect import OpenCluster
    from airflow_gpu_placement.model.decision import Decision

FITS, MAY_FIT_LATER, NEVER = 0, 1, 2


def place(args: argparse.Namespace, open_cluster: OpenCluster = open_on_worker) -> int:
    """Decide, print the decision, and return 0 (fits), 1 (may fit later) or 2 (never)."""
    catalog = load_catalog(args)
    asked = read_request(args)
    wanted = args.counterfactual
    names = [pool.name for pool in catalog.pools]
    if wanted is not None and wanted not in names:
        raise RequestError(f"--counterfactual: there is no pool {wanted!r}; {nearest(wanted, names)}")
    resolved = _resolved(args, catalog, asked)
    decision = asyncio.run(
        decide(
            resolved.request,
            catalog,
            History(),
            msgspec.structs.replace(resolved.setting, pod_resources=dict(asked.pod_resources)),
            subject=asked.subject,
            open_cluster=open_cluster,
            deadline_seconds=signal_deadline_seconds(args),
            clock=lambda: datetime.now(UTC),
        )
    )
    for remark in (*resolved.remarks, *catalog.warnings):
        print_error(f"warning: {remark}")
    if wanted is None:
        _print(decision, args.output)
    else:
        _print_counterfactual(decision, wanted, args.output)
    if decision.chosen is not None:
        return FITS
    return NEVER if decision.never else MAY_FIT_LATER


def _resolved(args: argparse.Namespace, catalog: Catalog, asked: Asked) -> Resolved:
    """Look up who pays and what is preferred, as for a task."""
    if catalog.tenants and not args.dag and not args.team:
        raise RequestError(f"{catalog.path} has tenants, so say who pays: --dag DAG_ID, or --team TEAM")
    return resolve(
        catalog,
        asked.request,
        profile=args.profile or asked.profile or DEFAULT_PROFILE,
        dag_id=args.dag or "",
        team=args.team,
    )


def _print(decision: Decision, output: str) -> None:
    if output != "table":
        print_data(json.loads(to_json(decision)), output)
        return
    print_table(table(decision), HEADINGS, [row.cells for row in rows(decision)])
    for text in _not_seen(decision):
        print_text(text)
    for verdict in decision.verdicts:
        for note in verdict.notes:
            print_text(f"{verdict.pool}: {note}")
    for warning in decision.warnings:
        print_text(f"warning: {warning}")
    print_text(line(decision))


def _not_seen(decision: Decision) -> list[str]:
    """Say in full why pools could not be seen, once for all pools with the same source and reason.

    It is no matter of numbers, which the table has; and it can be mended.
    """
    told: dict[tuple[str, str], tuple[str, list[str]]] = {}
    for verdict in decision.verdicts:
        for reason in verdict.reasons:
            if TIERS[reason.code] in {Tier.MISCONFIGURED, Tier.UNKNOWN}:
                key = reason.code.value, verdict.source or verdict.pool
                told.setdefault(key, (reason.message, []))[1].append(verdict.pool)
    return [
        f"{pools[0]}{f' and {len(pools) - 1} more' if pools[1:] else ''}: {message}"
        for message, pools in told.values()
    ]


def _print_counterfactual(decision: Decision, pool: str, output: str) -> None:
    if output == "table":
        print_text(why_not(decision, pool))
        return
    requirements: Any = msgspec.to_builtins(counterfactual(decision, pool))
    print_data(requirements, output)


place_command = command(place)
