"""The checkpoint contract: the environment, what is visible when, who may write, the result."""

from __future__ import annotations

import ast
import errno
import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_gpu_placement import checkpoint as module
from airflow_gpu_placement.checkpoint import (
    MANIFEST,
    RESULT_LIMIT_BYTES,
    CheckpointError,
    CheckpointExistsError,
    Checkpoints,
)
from tests.unit.checkpoint_helpers import attempt, listing, save, save_by

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SOURCE = Path(module.__file__)


def test_the_file_needs_the_standard_library_of_python_3_9_only() -> None:
    """It can be copied next to any training program."""
    tree = ast.parse(SOURCE.read_text(), feature_version=(3, 9))
    plain = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    origins = [node.module or "." for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert {name.split(".")[0] for name in [*plain, *origins]} <= sys.stdlib_module_names


def test_environment_is_read(tmp_path: Path) -> None:
    """Each variable of the contract ends up in its field; file:// URLs are paths."""
    checkpoints = Checkpoints.from_env(
        {
            "GPU_PLACEMENT_CHECKPOINT_ROOT": f"file://{tmp_path}/a%20b",
            "GPU_PLACEMENT_WRITE_DIR": f"file://{tmp_path}/a%20b/7-0af3",
            "GPU_PLACEMENT_RESUME_FROM": f"file://{tmp_path}/a%20b/6-77aa/step-000000000004",
            "GPU_PLACEMENT_FENCE": "7",
            "GPU_PLACEMENT_ATTEMPT": "0190-0af3",
            "GPU_PLACEMENT_TRY": "3",
            "GPU_PLACEMENT_POOL": "h100-east",
            "GPU_PLACEMENT_REGION": "us-east1",
            "GPU_PLACEMENT_RESULT_PATH": "/dev/termination-log",
            "JOB_COMPLETION_INDEX": "2",
        }
    )
    root = tmp_path / "a b"
    assert (checkpoints.root, checkpoints.write_dir) == (root, root / "7-0af3")
    assert checkpoints.resume_from == root / "6-77aa" / "step-000000000004"
    assert (checkpoints.fence, checkpoints.attempt, checkpoints.try_number) == (7, "0190-0af3", 3)
    assert (checkpoints.pool, checkpoints.region) == ("h100-east", "us-east1")
    assert checkpoints.result_path == Path("/dev/termination-log")
    assert (checkpoints.rank, checkpoints.writes) == (2, False)


def test_laptop_without_environment(tmp_path: Path) -> None:
    """With nothing set the program saves below the given folder, goes on there, and logs its result."""
    lines: list[object] = []
    first = Checkpoints.from_env({}, fallback_dir=tmp_path / "mine", log=lines.append)
    assert first.resume() is None
    save(first, 1)
    again = Checkpoints.from_env({}, fallback_dir=tmp_path / "mine", log=lines.append)
    resumed = again.resume()
    assert resumed is not None
    assert resumed.path == tmp_path / "mine" / "0-local" / "step-000000000001"
    again.write_result({"accuracy": 0.5})
    assert lines == ['result: {"accuracy":0.5}']


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        (
            {"CHECKPOINT_ROOT": "s3://b/x", "WRITE_DIR": "s3://b/x/1-a"},
            r"CHECKPOINT_ROOT=s3://b/x.*Mount the bucket",
        ),
        ({"CHECKPOINT_ROOT": "file://host/x", "WRITE_DIR": "/x/1-a"}, r"CHECKPOINT_ROOT=file://host/x"),
        ({"CHECKPOINT_ROOT": "/x"}, r"WRITE_DIR=\S+ has to be /x/<fence>-<attempt>"),
        (
            {"CHECKPOINT_ROOT": "/x", "WRITE_DIR": "/y/1-a"},
            r"WRITE_DIR=/y/1-a has to be /x/<fence>-<attempt>",
        ),
        ({"CHECKPOINT_ROOT": "/x", "WRITE_DIR": "/x/a"}, r"WRITE_DIR=/x/a has to be"),
        ({"FENCE": "second"}, r"GPU_PLACEMENT_FENCE='second' is not a whole number"),
    ],
)
def test_wrong_environment_is_named(environ: Mapping[str, str], message: str) -> None:
    """The error says which variable is wrong and what it should be."""
    with pytest.raises(CheckpointError, match=message):
        Checkpoints.from_env({f"GPU_PLACEMENT_{name}": value for name, value in environ.items()})


def test_manifest_tells_all(tmp_path: Path) -> None:
    """The manifest has the fields of the contract and nothing else lies in the folder."""
    checkpoints = attempt(tmp_path, 3)
    with checkpoints.save(12) as folder:
        (folder / "deep" / "er").mkdir(parents=True)
        (folder / "deep" / "er" / "w.bin").write_bytes(b"weights")
    path = tmp_path / "3-try" / "step-000000000012"
    manifest = json.loads((path / MANIFEST).read_text())
    created_at = manifest.pop("created_at")
    assert time.strptime(created_at, "%Y-%m-%dT%H:%M:%SZ")
    digest = hashlib.sha256(b"weights").hexdigest()
    files = {"deep/er/w.bin": {"size": 7, "sha256": digest}}
    assert manifest == {"version": 1, "step": 12, "fence": 3, "attempt": "attempt-3", "files": files}
    assert set(listing(checkpoints.write_dir)) == {f"{path.name}/deep/er/w.bin", f"{path.name}/{MANIFEST}"}


def test_nothing_is_visible_of_a_failed_save(tmp_path: Path) -> None:
    """An exception in the block leaves no checkpoint and no rubbish, and the step can be saved afterwards."""

    def fill(folder: Path) -> None:
        (folder / "half.bin").write_bytes(b"x")
        raise ZeroDivisionError

    checkpoints = attempt(tmp_path, 1)
    with pytest.raises(ZeroDivisionError):
        save_by(checkpoints, 1, fill)
    assert list(checkpoints.write_dir.iterdir()) == []
    save(checkpoints, 1)
    assert checkpoints.latest() is not None


def test_nothing_is_visible_while_a_save_is_under_way(tmp_path: Path) -> None:
    """Another attempt that looks during the save sees the step before."""
    checkpoints = attempt(tmp_path, 1)
    save(checkpoints, 1)
    with checkpoints.save(2) as folder:
        (folder / "state.bin").write_bytes(b"x")
        seen = attempt(tmp_path, 2).latest()
    assert seen is not None
    assert seen.step == 1


@pytest.mark.parametrize(
    "fill",
    [
        pytest.param(Path.exists, id="nothing"),
        pytest.param(lambda folder: (folder / MANIFEST).write_text("{}"), id="manifest"),
        pytest.param(lambda folder: (folder / "link").symlink_to(folder), id="link"),
        pytest.param(lambda folder: os.mkfifo(folder / "pipe"), id="pipe"),
    ],
)
def test_what_cannot_be_a_payload_is_refused(tmp_path: Path, fill: Callable[[Path], object]) -> None:
    """An empty save, an own manifest, a link and a pipe are errors, and nothing is committed."""
    checkpoints = attempt(tmp_path, 1)
    with pytest.raises(CheckpointError):
        save_by(checkpoints, 1, fill)
    assert list(checkpoints.write_dir.iterdir()) == []


def test_existing_step_is_refused(tmp_path: Path) -> None:
    """A checkpoint never changes: not by a second save, nor by one of the same step that was under way."""

    def slow(folder: Path) -> None:
        (folder / "state.bin").write_bytes(b"slow")
        save(checkpoints, 2, b"fast")

    checkpoints = attempt(tmp_path, 1)
    before = listing(save(checkpoints, 1, b"first"))
    with pytest.raises(CheckpointExistsError, match="immutable"):
        save(checkpoints, 1, b"second")
    with pytest.raises(CheckpointExistsError, match="another process"):
        save_by(checkpoints, 2, slow)
    assert listing(tmp_path / "1-try" / "step-000000000001") == before
    assert (tmp_path / "1-try" / "step-000000000002" / "state.bin").read_bytes() == b"fast"


def test_folder_without_a_manifest_does_not_exist(tmp_path: Path) -> None:
    """It is neither resumed from nor in the way of a save of its step."""
    checkpoints = attempt(tmp_path, 1)
    (checkpoints.write_dir / "step-000000000005").mkdir(parents=True)
    (checkpoints.write_dir / "step-000000000005" / "state.bin").write_bytes(b"half")
    assert checkpoints.resume() is None
    save(checkpoints, 5, b"whole")
    latest = checkpoints.latest()
    assert latest is not None
    assert (latest.path / "state.bin").read_bytes() == b"whole"


@pytest.mark.parametrize(("keep_last", "left"), [(None, [1, 2, 3, 4]), (2, [3, 4]), (1, [4]), (0, [4])])
def test_pruning_keeps_the_newest_and_the_folders_of_others(
    tmp_path: Path, keep_last: int | None, left: list[int]
) -> None:
    """Only the own folder is pruned, and never the newest."""
    other = listing(save(attempt(tmp_path, 1), 1))
    checkpoints = attempt(tmp_path, 2, keep_last=keep_last)
    for step in (1, 2, 3, 4):
        save(checkpoints, step)
    assert sorted(path.name for path in checkpoints.write_dir.iterdir()) == [
        f"step-{step:012d}" for step in left
    ]
    assert listing(tmp_path / "1-try" / "step-000000000001") == other


def test_other_ranks_read_and_do_not_write(tmp_path: Path) -> None:
    """They get the named checkpoint in place, then rank 0's copy; save() is refused, a result is not."""
    named = save(attempt(tmp_path, 1), 2)
    rank_1 = attempt(tmp_path, 2, resume_from=named, rank=1, result_path=tmp_path / "message")
    before = rank_1.resume()
    assert before is not None
    assert before.path == named
    assert not rank_1.write_dir.exists()
    copy = attempt(tmp_path, 2, resume_from=named).resume()
    assert rank_1.resume() == copy
    with pytest.raises(CheckpointError, match=r"rank 1 does not write.*checkpoints\.writes"):
        save(rank_1, 3)
    rank_1.write_result({"rank": 1})
    assert (tmp_path / "message").read_text() == '{"rank":1}'


def test_result_of_exactly_the_limit_is_written_and_one_byte_more_refused(tmp_path: Path) -> None:
    """A kubelet would cut the JSON; the error names the large keys, and the earlier result stays."""
    checkpoints = attempt(tmp_path, 1, result_path=tmp_path / "message")
    room = RESULT_LIMIT_BYTES - len('{"log":"","n":1}')
    checkpoints.write_result({"log": "x" * room, "n": 1})
    assert (tmp_path / "message").stat().st_size == RESULT_LIMIT_BYTES
    with pytest.raises(CheckpointError, match=r"4097 bytes.*'log': \d+, 'n': 1"):
        checkpoints.write_result({"n": 1, "log": "x" * (room + 1)})
    assert (tmp_path / "message").stat().st_size == RESULT_LIMIT_BYTES
    assert [path.name for path in tmp_path.iterdir()] == ["message"]


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, Path("x")])
def test_result_that_is_no_json_is_refused(tmp_path: Path, value: object) -> None:
    """Before anything is written."""
    checkpoints = attempt(tmp_path, 1, result_path=tmp_path / "message")
    with pytest.raises(CheckpointError, match="give plain finite numbers"):
        checkpoints.write_result({"loss": value})
    assert list(tmp_path.iterdir()) == []


def test_result_file_that_cannot_be_renamed_onto_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container the termination message file is a mount: EBUSY on rename, so says the kernel."""
    message = tmp_path / "message"
    message.write_text("something longer than the result that was there before")

    def busy(_source: object, _target: object) -> None:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    monkeypatch.setattr(os, "replace", busy)
    attempt(tmp_path, 1, result_path=message).write_result({"accuracy": 1})
    assert message.read_text() == '{"accuracy":1}'
    assert list(tmp_path.iterdir()) == [message]
