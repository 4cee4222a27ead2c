"""The commands as Airflow lists them, and what happens to a command line that cannot be read."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pydantic import BaseModel

from airflow_gpu_placement.cli.definition import get_gpu_placement_commands
from airflow_gpu_placement.cli.doctor.finding import FindingId
from airflow_gpu_placement.cli.request_flags import REQUEST_FLAGS
from airflow_gpu_placement.model.request import GpuRequest
from airflow_gpu_placement.provider_info import get_provider_info

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

DOCUMENTATION = Path(__file__).resolve().parents[3] / "docs" / "cli.md"


def test_airflow_is_told_of_the_commands() -> None:
    """The entry that Airflow looks for names the function that lists the commands."""
    assert get_provider_info()["cli"] == [
        f"{get_gpu_placement_commands.__module__}.{get_gpu_placement_commands.__qualname__}"
    ]
    (group,) = get_gpu_placement_commands()
    assert group.name == "gpu-placement"
    assert {command.name for command in group.subcommands} == {
        "place",
        "pools",
        "discover",
        "doctor",
        "reap",
    }


def test_listing_the_commands_loads_nothing_heavy() -> None:
    """Every airflow command pays for this import, so no client, no YAML and no engine may be in it."""
    program = (
        "import json, sys, airflow.cli.cli_config\n"
        "before = set(sys.modules)\n"
        "import airflow_gpu_placement.cli.definition as d; d.get_gpu_placement_commands()\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(json.loads(shown.stdout.splitlines()[-1])) - {"airflow_gpu_placement"} == {
        "airflow_gpu_placement.cli",
        "airflow_gpu_placement.cli.definition",
        "airflow_gpu_placement.cli.request_flags",
    }


def test_every_command_can_be_loaded() -> None:
    """Commands are imported when they are run; each name leads to a function."""
    from airflow_gpu_placement.cli.discover import discover_command
    from airflow_gpu_placement.cli.doctor.command import doctor_command
    from airflow_gpu_placement.cli.place import place_command
    from airflow_gpu_placement.cli.pools import pools_command
    from airflow_gpu_placement.cli.reap import reap_command

    (group,) = get_gpu_placement_commands()
    names = {command.func.__name__ for command in group.subcommands}
    commands = (place_command, pools_command, discover_command, doctor_command, reap_command)
    assert names == {
        "place_command",
        "pools_command",
        "discover_command",
        "doctor_command",
        "reap_command",
    }
    assert all(callable(run) for run in commands)


def test_every_field_of_a_request_has_a_flag() -> None:
    """What an author can write in a DAG can be tried on the command line."""
    assert {flag.path for flag in REQUEST_FLAGS} == set(leaves(GpuRequest))


def leaves(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of every field of a model that is not a group."""
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from leaves(inner, (*path, name))
        else:
            yield (*path, name)


@pytest.mark.parametrize("command", ["place", "pools", "discover", "doctor", "reap"])
def test_a_command_line_that_cannot_be_read_is_an_error(
    parser: argparse.ArgumentParser, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """Exit code 2 means 'never fits', so a slip of the pen must not end with it."""
    needed = ["--conn-id", "x"] if command == "discover" else []
    with pytest.raises(SystemExit) as left:
        parser.parse_args(["gpu-placement", command, *needed, "--bogus"])
    assert left.value.code == 3
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == (f"error: unknown arguments: --bogus; see airflow gpu-placement {command} --help\n")


def test_a_missing_argument_is_an_error(
    parser: argparse.ArgumentParser, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the parser itself refuses ends with the same code."""
    with pytest.raises(SystemExit) as left:
        parser.parse_args(["gpu-placement", "discover"])
    assert left.value.code == 3
    assert "--conn-id" in capsys.readouterr().err


@pytest.mark.parametrize("command", get_gpu_placement_commands()[0].subcommands, ids=lambda one: one.name)
def test_every_flag_is_documented(command: object) -> None:
    """The page has a section for each command, with each of its flags and its exit codes."""
    sections = DOCUMENTATION.read_text().split("\n## ")
    (section,) = (one for one in sections if one.startswith(f"`{command.name}`"))  # type: ignore[attr-defined]  # a command
    documented = {word for line in section.splitlines() for word in line.replace("`", " ").split()}
    flags = {flag for arg in command.args for flag in arg.flags}  # type: ignore[attr-defined]  # a command
    assert flags - documented == set()
    assert "Exit code" in section


def test_every_finding_is_documented() -> None:
    """The page lists each id that the doctor can tell, and no other."""
    documented = set(re.findall(r"^\| `([A-Z]\w+)` \|", DOCUMENTATION.read_text(), re.MULTILINE))
    assert documented == {str(one) for one in FindingId}
