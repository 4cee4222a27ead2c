"""The command line: what it prints, and errors that say what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab import cli, specfile
from lab.node.profiles import PROFILES
from lab.spec import default_spec

if TYPE_CHECKING:
    from pathlib import Path

    from lab import Lab


@pytest.fixture
def home(tmp_path: Path) -> str:
    """Return an empty folder of labs."""
    return str(tmp_path)


def test_print_spec_is_a_usable_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """``up --print-spec`` starts nothing and prints what ``up --file`` reads."""
    assert cli.main(["up", "--print-spec", "--home", str(tmp_path)]) == 0
    path = tmp_path / "lab.yaml"
    path.write_text(capsys.readouterr().out, encoding="utf-8")

    assert specfile.load(path, PROFILES) == default_spec()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("command", [["node", "list"], ["node", "kill", "x"], ["kubeconfig", "x"]])
def test_no_lab_says_how_to_start_one(
    capsys: pytest.CaptureFixture[str], home: str, command: list[str]
) -> None:
    """A command that needs a lab says how to start the one that was named."""
    assert cli.main([*command, "--home", home, "--name", "mine"]) == 1

    assert capsys.readouterr().err == (
        "error: lab 'mine' does not run. Start it with: python -m lab up --name mine\n"
    )


def test_status_and_down_without_a_lab_are_no_errors(capsys: pytest.CaptureFixture[str], home: str) -> None:
    """Without any lab, ``status`` says how to start one and ``down`` has nothing to do."""
    assert cli.main(["status", "--home", home]) == 0
    assert cli.main(["down", "--home", home]) == 0

    assert capsys.readouterr().out == (
        f"no lab in {home}. Start one with: python -m lab up\nthere is no lab 'lab'; nothing to do\n"
    )


def test_bad_file_is_told_without_a_trace(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A wrong spec file ends the command with one line for each problem."""
    path = tmp_path / "lab.yaml"
    path.write_text("clusters: [{name: a, nodes: [{name: n, profile: onprem-l40}]}]\n", encoding="utf-8")

    assert cli.main(["up", "--file", str(path), "--home", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(
        f"error: {path}:clusters[0].nodes[0].profile: no profile 'onprem-l40'. Did you mean 'onprem-l40s'?"
    )


@pytest.mark.parametrize("name", ["../x", "", "A", "a/b", ".hidden"])
def test_name_that_is_no_folder_name_is_refused(
    capsys: pytest.CaptureFixture[str], home: str, name: str
) -> None:
    """A lab's name cannot lead out of the folder of labs."""
    assert cli.main(["down", "--home", home, "--name", name]) == 1

    assert f"error: name of the lab: {name!r} is no name" in capsys.readouterr().err


@pytest.mark.parametrize("count", ["0", "-1"])
def test_a_number_of_nodes_that_are_none_is_refused(
    capsys: pytest.CaptureFixture[str], home: str, count: str
) -> None:
    """Nothing is built or started for no node."""
    with pytest.raises(SystemExit) as caught:
        cli.main(["kwok", "add", "onprem", count, "gke-l4", "--home", home])

    assert caught.value.code == 2
    assert f"{count} nodes are none; give 1 or more" in capsys.readouterr().err


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """The help lists the commands and shows examples."""
    with pytest.raises(SystemExit) as caught:
        cli.main(["--help"])
    text = capsys.readouterr().out

    assert caught.value.code == 0
    for word in ("up", "down", "status", "logs", "build", "node", "kubeconfig", "examples:"):
        assert word in text


def _on(lab: Lab, *command: str) -> list[str]:
    return [*command, "--home", str(lab.paths.home), "--name", lab.name]


@pytest.mark.lab
def test_status_shows_servers_and_nodes(
    capsys: pytest.CaptureFixture[str], lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``status`` shows the labs, the servers' processes and each node with its GPUs and Ready."""
    monkeypatch.setenv("COLUMNS", "200")

    assert cli.main(_on(lab, "status")) == 0
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in capsys.readouterr().out.splitlines()]
    cells = {row[1]: row for row in rows if len(row) == 6 and row[2] in PROFILES}
    assert cells["h100-1"][2:4] == ["onprem-h100-sxm", "8"]
    assert cells["gke-cpu"][2:4] == ["cpu", "-"]
    assert {row[5] for name, row in cells.items() if not name.startswith("spare-")} == {"True"}
    assert any(row[:2] == ["tests", "ready"] for row in rows)


@pytest.mark.lab
def test_logs_shows_a_servers_log(capsys: pytest.CaptureFixture[str], lab: Lab) -> None:
    """``logs`` lists the components, prints the end of one, and knows misspelt ones."""
    assert cli.main(_on(lab, "logs")) == 0
    components = capsys.readouterr().out.splitlines()
    assert {"keeper", "etcd", "onprem/kube-apiserver", "gke/kube-scheduler", "onprem/node/h100-1"} <= set(
        components
    )
    assert cli.main(_on(lab, "logs", "onprem/kube-apiserver", "--lines", "3")) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert cli.main(_on(lab, "logs", "onprem/kube-apiservr")) == 1
    assert "Did you mean 'onprem/kube-apiserver'?" in capsys.readouterr().err


@pytest.mark.lab
def test_kubeconfig_prints_file_or_path(capsys: pytest.CaptureFixture[str], lab: Lab) -> None:
    """``kubeconfig`` prints the content, or with ``--path`` where it is."""
    path = lab.cluster("gke").kubeconfig_path()

    assert cli.main(_on(lab, "kubeconfig", "gke")) == 0
    assert capsys.readouterr().out == path.read_text(encoding="utf-8")
    assert cli.main(_on(lab, "kubeconfig", "gke", "--path")) == 0
    assert capsys.readouterr().out == f"{path}\n"
    assert cli.main(_on(lab, "kubeconfig", "gke", "--user", "admn")) == 1
    assert "Did you mean 'admin'?" in capsys.readouterr().err


@pytest.mark.lab
def test_unknown_node_is_answered_with_the_names(capsys: pytest.CaptureFixture[str], lab: Lab) -> None:
    """A node that does not exist is refused with the nearest name, and nothing is killed."""
    assert cli.main(_on(lab, "node", "kill", "l40s-2")) == 1

    error = capsys.readouterr().err
    assert "error: no node 'l40s-2'. Did you mean 'l40s-1'? Known: a100-1, " in error
