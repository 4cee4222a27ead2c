"""What a command refuses before it asks any cluster, and what it tells of those that did not answer."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from airflow_gpu_placement.cli.discover import discover_pools
from airflow_gpu_placement.cli.doctor.command import doctor
from airflow_gpu_placement.cli.place import place
from airflow_gpu_placement.exceptions import ConnectionMissing, GpuPlacementError
from tests.unit.cli.nodes import arguments

if TYPE_CHECKING:
    from pathlib import Path


async def unused(_: str, __: str | None) -> NoReturn:
    """Stand for a cluster that nobody may ask."""
    raise AssertionError("no cluster is asked")


async def missing(conn_id: str, _: str | None) -> NoReturn:
    """Stand for a connection that was not made."""
    raise ConnectionMissing(f"there is no {conn_id}")


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param({"namespace": "Bad Name!"}, "^--namespace: 'Bad Name!' is not a namespace", id="a name"),
        pytest.param(
            {"conn_id": "kubernetes://u:hunter2@h"}, "^--conn-id: must be the id .* not a URL", id="a URL"
        ),
        pytest.param(
            {"out": "/no/such/folder/a.yaml"}, "^--out: there is no folder /no/such/folder", id="out"
        ),
        pytest.param({"out": "/"}, "^/ exists already; name another file", id="a folder"),
    ],
)
def test_what_could_not_be_written_is_refused_at_once(given: dict[str, Any], want: str) -> None:
    """What is written has to be a catalogue; a secret in the wrong place is not repeated."""
    right = {"conn_id": "gpu", "context": None, "namespace": "default", "out": None}
    with pytest.raises(GpuPlacementError, match=want) as caught:
        discover_pools(Namespace(**(right | given)), unused)
    assert "hunter2" not in str(caught.value)


def test_a_bundle_without_its_flag_is_refused(tmp_path: Path) -> None:
    """Whoever names a bundle wants its DAGs to be looked at."""
    with pytest.raises(GpuPlacementError, match="give --dags too"):
        doctor(Namespace(catalog=str(tmp_path), dags=False, bundle_name=["b"], output="table"), unused)


def test_why_a_pool_could_not_be_seen_is_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In full, below the table, whose cells are too short for it."""
    path = tmp_path / "c.yaml"
    pools = "".join(f"  - {{name: p{number}, kubernetes_conn_id: gpu}}\n" for number in range(3))
    path.write_text(f"version: 1\npools:\n{pools}  - {{name: q, kubernetes_conn_id: other}}\n")
    asked = arguments(catalog=str(path), nodes="1", signal_deadline=5.0)
    assert place(Namespace(**asked), missing) == 1
    told = [line for line in capsys.readouterr().out.splitlines() if "there is no" in line]
    assert [line.partition("; ")[0] for line in told] == [
        "p0 and 2 more: there is no gpu",
        "q: there is no other",
    ]
