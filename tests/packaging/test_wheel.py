"""The wheel, built from this checkout and installed next to Airflow in a fresh environment.

The environment holds the hash-locked packages of ``requirements/runtime.txt`` and the wheel. uv takes what
it can from its cache, so that a second run needs no network.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(900)]

REPOSITORY = Path(__file__).resolve().parents[2]
DISTRIBUTION = "airflow-gpu-placement"
PACKAGE = "airflow_gpu_placement"
COMMAND_TIMEOUT_SECONDS = 600
#: Prints what the provider names and cannot be imported, as a JSON list.
IMPORT_EVERYTHING = """
import importlib, json
from airflow_gpu_placement.provider_info import get_provider_info

info = get_provider_info()
names = [entry["hook-class-name"] for entry in info.get("connection-types", [])]
names += info.get("extra-links", []) + info.get("cli", [])
names += [entry["class-name"] for entry in info.get("task-decorators", [])]
modules = [name.rpartition(".")[0] for name in names]
for kind in ("operators", "sensors", "hooks", "triggers"):
    modules += [module for entry in info.get(kind, []) for module in entry["python-modules"]]
problems = []
for module in modules:
    try:
        importlib.import_module(module)
    except ImportError as error:
        problems.append(f"{module}: {error}")
for name in names:
    module, _, attribute = name.rpartition(".")
    if not any(problem.startswith(module) for problem in problems):
        if not hasattr(importlib.import_module(module), attribute):
            problems.append(f"{name}: no such attribute")
print("RESULT" + json.dumps({"modules": modules, "problems": problems}))
"""


@dataclass(frozen=True)
class Installation:
    """A virtual environment with the wheel in it."""

    folder: Path
    environment: dict[str, str]

    def run(self, program: str, *arguments: str) -> str:
        """Run a program of the environment and return its standard output."""
        return run([str(self.folder / "bin" / program), *arguments], self.environment, cwd=self.folder)


def run(argv: list[str], environment: dict[str, str], *, cwd: Path) -> str:
    """Run a command; what it printed is in the error when it fails."""
    done = subprocess.run(
        argv,
        env=environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_SECONDS,
        check=False,
    )
    printed = f"{done.stdout[-4000:]}\n{done.stderr[-8000:]}"
    assert done.returncode == 0, f"{' '.join(argv)} ended with exit code {done.returncode}\n{printed}"
    return done.stdout


def uv_command() -> str:
    """Return the path of uv: the one named by ``UV``, the one beside this Python, or the one on the path."""
    beside = Path(sys.executable).with_name("uv")
    found = os.environ.get("UV") or (str(beside) if beside.exists() else shutil.which("uv"))
    assert found, "uv is needed: install requirements/dev.txt into this environment, or set UV to its path"
    return found


def clean_environment(home: Path) -> dict[str, str]:
    """Return this environment without anything that would let Python or Airflow see the checkout."""
    hidden = ("AIRFLOW", "_AIRFLOW", "PYTHON", "VIRTUAL_ENV", "KUBE")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    return {**inherited, "AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False", "NO_COLOR": "1"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel, built by the build backend that ``pyproject.toml`` names."""
    folder = tmp_path_factory.mktemp("dist")
    run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        dict(os.environ),
        cwd=REPOSITORY,
    )
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installation(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Return a fresh environment with the locked packages and the wheel."""
    root = tmp_path_factory.mktemp("fresh")
    home, folder = root / "airflow-home", root / "venv"
    home.mkdir()
    environment = clean_environment(home)
    uv, python = uv_command(), str(folder / "bin" / "python")
    locked = str(REPOSITORY / "requirements" / "runtime.txt")
    for arguments in (
        ["venv", "--python", sys.executable, str(folder)],
        ["pip", "sync", "--python", python, "--require-hashes", locked],
        ["pip", "install", "--python", python, "--no-deps", "--offline", str(wheel)],
    ):
        run([uv, *arguments], environment, cwd=root)
    return Installation(folder, environment)


def rows_of(output: str) -> list[dict[str, Any]]:
    """Return the JSON list that an Airflow command printed, below whatever it logged before."""
    start = output.index("\n[{") + 1 if "\n[{" in output else output.index("[{")
    rows: list[dict[str, Any]]
    rows, _end = json.JSONDecoder().raw_decode(output[start:])
    return rows


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    """Typing marker, licence and both entry points are in; lab, tests, DAGs and caches are not."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [entry_points] = [name for name in names if name.endswith(".dist-info/entry_points.txt")]
        declared = archive.read(entry_points).decode()
    assert {name.partition("/")[0] for name in names} == {PACKAGE, entry_points.partition("/")[0]}
    assert f"{PACKAGE}/py.typed" in names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    assert not [name for name in names if name.endswith((".pyc", ".yaml.bak")) or "/tests/" in name]
    assert "[apache_airflow_provider]" in declared
    assert "[airflow.plugins]" in declared


def test_the_installed_packages_agree_with_each_other(installation: Installation) -> None:
    """The lock satisfies what the wheel declares, and every other package's requirements."""
    python = str(installation.folder / "bin" / "python")
    run([uv_command(), "pip", "check", "--python", python], installation.environment, cwd=installation.folder)


def test_airflow_lists_the_provider(installation: Installation) -> None:
    """``airflow providers list`` shows the distribution under its canonical name."""
    rows = rows_of(installation.run("airflow", "providers", "list", "-o", "json"))
    assert [row["version"] for row in rows if row["package_name"] == DISTRIBUTION] == [
        installed_version(installation)
    ]


def test_airflow_lists_the_plugin(installation: Installation) -> None:
    """``airflow plugins`` shows the plugin, loaded from the wheel's entry point."""
    rows = rows_of(installation.run("airflow", "plugins", "-o", "json"))
    [plugin] = [row for row in rows if row["name"] == "gpu_placement"]
    assert DISTRIBUTION in json.dumps(plugin["source"])


def test_everything_the_provider_names_can_be_imported(installation: Installation) -> None:
    """Hooks, operators, triggers, links and commands of the provider info exist in the installed package."""
    output = installation.run("python", "-c", IMPORT_EVERYTHING)
    result = json.loads(output.rpartition("RESULT")[2])
    assert result["problems"] == []
    assert result["modules"]


def installed_version(installation: Installation) -> str:
    """Return the version that the installed distribution has."""
    code = f"from importlib.metadata import version; print(version({DISTRIBUTION!r}))"
    return installation.run("python", "-c", code).strip()
