"""Which checkpoint an attempt resumes from, and what it does with broken ones."""

from __future__ import annotations

import errno
import json
import shutil
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_gpu_placement import checkpoint as module
from airflow_gpu_placement.checkpoint import (
    MANIFEST,
    BrokenCheckpointError,
    Checkpoint,
    CheckpointError,
)
from tests.unit.checkpoint_helpers import attempt, listing, save, save_by

if TYPE_CHECKING:
    from pathlib import Path


def test_resume_copies_into_the_own_folder(tmp_path: Path) -> None:
    """The copy belongs to the resuming attempt, and the origin may vanish afterwards."""
    origin = save(attempt(tmp_path, 1), 4, b"weights")
    before = listing(tmp_path)
    resumed = attempt(tmp_path, 2, resume_from=origin).resume()
    assert resumed is not None
    assert resumed.path == tmp_path / "2-try" / origin.name
    assert (resumed.step, resumed.fence, resumed.attempt) == (4, 2, "attempt-2")
    assert before.items() <= listing(tmp_path).items()
    shutil.rmtree(tmp_path / "1-try")
    assert Checkpoint.load(resumed.path).verify() == resumed
    assert (resumed.path / "state.bin").read_bytes() == b"weights"


def test_named_checkpoint_wins_over_a_higher_step(tmp_path: Path) -> None:
    """What the launcher resolved is taken, not what an attempt that was not stopped wrote since."""
    old = attempt(tmp_path, 1)
    named = save(old, 4)
    save(old, 9)
    resumed = attempt(tmp_path, 2, resume_from=named).resume()
    assert resumed is not None
    assert resumed.step == 4


def test_restart_in_the_same_attempt_goes_on_from_its_own_newest(tmp_path: Path) -> None:
    """The name that the launcher gave is older by then; rubbish of the killed process is removed."""

    def killed(folder: Path) -> None:
        (folder / "half.bin").write_bytes(b"x")
        shutil.copytree(folder, folder.with_name(f"{folder.name}0"))
        raise ZeroDivisionError

    named = save(attempt(tmp_path, 1), 4)
    first = attempt(tmp_path, 2, resume_from=named)
    first.resume()
    save(first, 6)
    with pytest.raises(ZeroDivisionError):
        save_by(first, 7, killed)
    again = attempt(tmp_path, 2, resume_from=named).resume()
    assert again is not None
    assert again.path == first.write_dir / "step-000000000006"
    assert sorted(path.name for path in first.write_dir.iterdir()) == [
        "step-000000000004",
        "step-000000000006",
    ]


def damage(path: Path, how: str) -> None:
    """Break a checkpoint in one way."""
    state, manifest = path / "state.bin", path / MANIFEST
    fields = json.loads(manifest.read_text())
    if how == "bit":
        state.write_bytes(bytes([state.read_bytes()[0] ^ 1]) + state.read_bytes()[1:])
    elif how == "short":
        state.write_bytes(state.read_bytes()[:-1])
    elif how == "lost":
        state.unlink()
    elif how == "no manifest":
        manifest.unlink()
    elif how == "half a manifest":
        manifest.write_text(manifest.read_text()[:-20])
    elif how == "other version":
        manifest.write_text(json.dumps({**fields, "version": 2}))
    elif how == "other step":
        manifest.write_text(json.dumps({**fields, "step": 8}))
    elif how == "outside":
        shutil.copy(state, path.parent / "x")
        manifest.write_text(json.dumps({**fields, "files": {"../x": fields["files"]["state.bin"]}}))
    elif how == "unreadable":
        state.unlink()
        state.mkdir()


@pytest.mark.parametrize(
    "how",
    [
        "bit",
        "short",
        "lost",
        "no manifest",
        "half a manifest",
        "other version",
        "other step",
        "outside",
        "unreadable",
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_broken_checkpoint_is_skipped_and_named(tmp_path: Path, how: str, named: bool) -> None:
    """The next best one is taken, whether the broken one was named or found, and the log says so."""
    old = attempt(tmp_path, 1)
    save(old, 6)
    broken = save(old, 7)
    damage(broken, how)
    lines: list[object] = []
    resumed = attempt(tmp_path, 2, resume_from=broken if named else "", log=lines.append).resume()
    assert resumed is not None
    assert resumed.step == 6
    assert [str(broken) in str(line) for line in lines] == [True]
    assert [path.name for path in (tmp_path / "2-try").iterdir()] == ["step-000000000006"]


def test_cut_file_is_seen_without_hashing(tmp_path: Path) -> None:
    """Loading compares sizes, so that a cut file of many gigabytes is refused at once."""
    path = save(attempt(tmp_path, 1), 3)
    damage(path, "short")
    with pytest.raises(BrokenCheckpointError, match=r"state\.bin has 2 bytes instead of 3"):
        Checkpoint.load(path)


def test_nothing_left_of_what_was_named_is_an_error(tmp_path: Path) -> None:
    """Days of training are not repeated in silence."""
    named = save(attempt(tmp_path, 1), 3)
    damage(named, "bit")
    with pytest.raises(CheckpointError, match=r"step-000000000003 nor another .*resume=\"never\""):
        attempt(tmp_path, 2, resume_from=named).resume()


def test_full_disk_while_copying_is_not_taken_for_a_broken_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of writing ends the program instead of a fall back to an older step."""
    save(attempt(tmp_path, 1), 3)

    def full(_path: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "_sync", full)
    with pytest.raises(OSError, match="No space left"):
        attempt(tmp_path, 2).resume()
    assert list((tmp_path / "2-try").iterdir()) == []


@settings(max_examples=40, deadline=None)
@given(st.sets(st.tuples(st.integers(1, 12), st.integers(0, 5)), max_size=6))
def test_highest_step_wins_then_the_larger_fence(
    tmp_path_factory: pytest.TempPathFactory, saved: set[tuple[int, int]]
) -> None:
    """The law of choosing, for any set of (fence, step); fences compare as numbers."""
    root = tmp_path_factory.mktemp("root")
    for fence, step in saved:
        save(attempt(root, fence), step)
    chosen = attempt(root, 99).latest()
    wanted = max(((step, fence) for fence, step in saved), default=None)
    assert wanted == (None if chosen is None else (chosen.step, chosen.fence))


NAMES = st.lists(st.text("abc.é -", max_size=4).map("x{}".format), min_size=1, max_size=3).map("/".join)


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(NAMES, st.binary(max_size=300), min_size=1, max_size=4))
def test_what_is_saved_is_what_is_resumed(
    tmp_path_factory: pytest.TempPathFactory, payload: dict[str, bytes]
) -> None:
    """Any names and contents come through a save, a resume and a second resume unchanged."""
    names = sorted(payload)
    payload = {
        name: payload[name] for name in names if not any(other.startswith(f"{name}/") for other in names)
    }
    root = tmp_path_factory.mktemp("root")
    with attempt(root, 1).save(1) as folder:
        for name, content in payload.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
    attempt(root, 2).resume()
    shutil.rmtree(root / "1-try")
    resumed = attempt(root, 3).resume()
    assert resumed is not None
    assert {name: (resumed.path / name).read_bytes() for name in resumed.files} == payload


def manifest_with(files: object) -> bytes:
    """Return a manifest that is right but for its files."""
    fields = {"version": 1, "step": 1, "fence": 1, "attempt": "", "created_at": "", "files": files}
    return json.dumps(fields).encode()


@settings(max_examples=50, deadline=None)
@given(
    st.binary(max_size=60)
    | st.dictionaries(
        st.text(min_size=1), st.none() | st.integers() | st.just({"size": 1, "sha256": ""}), min_size=1
    ).map(manifest_with)
)
def test_any_rubbish_as_manifest_is_a_broken_checkpoint(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    """No content of a manifest makes a reader fail otherwise."""
    path = tmp_path_factory.mktemp("root") / "step-000000000001"
    path.mkdir()
    (path / MANIFEST).write_bytes(content)
    with pytest.raises(BrokenCheckpointError):
        Checkpoint.load(path)


def test_other_ranks_without_a_name_wait_for_rank_0s_choice(tmp_path: Path) -> None:
    """They do not choose below the root themselves: an old writer could make them choose otherwise."""
    save(attempt(tmp_path, 1), 2)
    rank_1 = attempt(tmp_path, 2, rank=1)
    assert rank_1.resume() is None
    copy = attempt(tmp_path, 2).resume()
    save(attempt(tmp_path, 1), 3)
    assert rank_1.resume() == copy
