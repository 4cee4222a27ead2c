"""The edge of a command: exit codes, one line for an error, no traceback."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
import yaml

from airflow_gpu_placement.cli.output import print_rows
from airflow_gpu_placement.cli.place import place
from airflow_gpu_placement.cli.process import command, load_catalog, signal_deadline_seconds, user_path
from airflow_gpu_placement.exceptions import CatalogError, GpuPlacementError, RequestError
from tests.unit.cli.nodes import arguments

if TYPE_CHECKING:
    from pathlib import Path


def outcome(error: BaseException | None, capsys: pytest.CaptureFixture[str]) -> tuple[object, list[str]]:
    """Run a command that ends with an error, or with 2, and return its exit code and what it told."""

    def run(_: Namespace) -> int:
        if error is not None:
            raise error
        return 2

    with pytest.raises(SystemExit) as left:
        command(run)(Namespace(verbose=False))
    told = capsys.readouterr()
    assert told.out == ""
    return left.value.code, told.err.splitlines()


@pytest.fixture(autouse=True)
def _same_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take back which Airflow the process speaks for."""
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "client")


@pytest.mark.parametrize(
    ("error", "code", "want"),
    [
        pytest.param(None, 2, [], id="a code of its own"),
        pytest.param(RequestError("a\n  b"), 3, ["error: a b"], id="an expected error is one line"),
        pytest.param(
            RequestError("gpu.a: x\n  more\ngpu.b: y"),
            3,
            ["error: gpu.a: x more", "error: gpu.b: y"],
            id="one line a problem of the request",
        ),
        pytest.param(
            CatalogError(["f: no folder.\nA catalogue to start from:\n\nversion: 1"]),
            3,
            ["error: f: no folder."],
            id="a line is enough on a terminal",
        ),
        pytest.param(
            PermissionError(13, "Permission denied", "/a/b"),
            3,
            ["error: /a/b: Permission denied"],
            id="a file that may not be read",
        ),
        pytest.param(
            KeyboardInterrupt(), 130, ["error: interrupted; what was done before stays done"], id="ctrl-C"
        ),
        pytest.param(
            CatalogError(["f:a: x", "f:b: y"]), 3, ["error: f:a: x", "error: f:b: y"], id="one line a mistake"
        ),
        pytest.param(
            ZeroDivisionError("oops"),
            3,
            ["error: unexpected ZeroDivisionError: oops (--verbose shows where)"],
            id="a defect",
        ),
    ],
)
def test_errors_become_lines_and_codes(
    error: BaseException | None, code: int, want: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A script can rely on the code, a person on the line."""
    assert outcome(error, capsys) == (code, want)


@pytest.mark.parametrize("given", [{"catalog": ""}, {"bundle_name": ["a", ""]}])
def test_an_empty_value_is_refused(given: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """It is a shell's variable that is not set; the usual catalogue is not what was meant."""

    def run(_: Namespace) -> int:
        raise AssertionError("nothing is done")

    with pytest.raises(SystemExit) as left:
        command(run)(Namespace(verbose=False, **given))
    assert left.value.code == 3
    flag = next(iter(given)).replace("_", "-")
    assert capsys.readouterr().err.startswith(f"error: --{flag}: is given an empty text")


def test_a_home_folder_that_is_none_is_refused() -> None:
    """The flag is named."""
    with pytest.raises(GpuPlacementError, match="--out: ~nobody-has-it/a: there is no home folder"):
        user_path("~nobody-has-it/a", "--out")


def test_a_missing_catalogue_says_how_to_make_one(tmp_path: Path) -> None:
    """It is the first thing that a new user meets."""
    path = tmp_path / "none.yaml"
    with pytest.raises(CatalogError, match=f"discover --conn-id CONN_ID --out {path}"):
        place(Namespace(**arguments(catalog=str(path))), _unused)


async def _unused(_: str, __: str | None) -> NoReturn:
    raise AssertionError("no cluster is asked")


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan")])
def test_a_deadline_is_more_than_nothing(value: float) -> None:
    """Zero seconds would make every cluster unreachable."""
    with pytest.raises(GpuPlacementError, match="--signal-deadline"):
        signal_deadline_seconds(Namespace(signal_deadline=value))


def test_records_keep_their_types_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers stay numbers and what is unknown stays null; a table leaves it empty."""
    rows = [{"pool": "a", "free": 8, "usd": 2.5, "problem": None}]
    print_rows(rows, "json")
    assert json.loads(capsys.readouterr().out) == rows
    print_rows(rows, "yaml")
    assert yaml.safe_load(capsys.readouterr().out) == rows
    print_rows(rows, "table")
    heading, _, row = capsys.readouterr().out.splitlines()[:3]
    assert [cell.strip() for cell in heading.split("|")] == ["pool", "free", "usd", "problem"]
    assert [cell.strip() for cell in row.split("|")] == ["a", "8", "2.50", ""]


def test_the_overlay_of_the_configuration_is_laid_over_its_catalogue_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A catalogue named on the command line is taken as it is."""
    base = "version: 1\npools:\n  - {name: a, kubernetes_conn_id: c, region: here}\n"
    (tmp_path / "base.yaml").write_text(base)
    (tmp_path / "over.yaml").write_text("version: 1\npools:\n  - {name: a, region: there}\n")
    monkeypatch.setenv("AIRFLOW__GPU_PLACEMENT__CATALOG", str(tmp_path / "base.yaml"))
    monkeypatch.setenv("AIRFLOW__GPU_PLACEMENT__CATALOG_OVERLAY", str(tmp_path / "over.yaml"))
    (configured,) = load_catalog(Namespace(catalog=None)).pools
    (named,) = load_catalog(Namespace(catalog=str(tmp_path / "base.yaml"))).pools
    assert (configured.place.region, named.place.region) == ("there", "here")
