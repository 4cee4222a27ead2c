"""Checkpoints that survive the loss of a node: one file for a training program, standard library only.

Import it, or copy this file next to the program (Python 3.9 or later, nothing else of the package needed)::

    checkpoints = Checkpoints.from_env(fallback_dir="checkpoints")
    resumed = checkpoints.resume()
    if resumed is not None:
        load(resumed.path / "state.npz")
    for epoch in range(resumed.step if resumed else 0, epochs):
        train_one_epoch()
        if checkpoints.writes:
            with checkpoints.save(epoch + 1) as folder:
                store(folder / "state.npz")
    checkpoints.write_result({"accuracy": 0.97})

The contract. The environment names a root for the job and, below it, this attempt's folder, named
``<fence>-<tail of the attempt id>``. A checkpoint is an immutable folder ``step-<12 digits>`` there: payload,
and a ``manifest.json``, written last, with size and SHA-256 of each file. No valid manifest, no checkpoint.
An attempt reads all below the root and writes only into its own folder, so an earlier attempt that nobody
could stop damages nothing: what a later one resumed from, it has copied first.

``GPU_PLACEMENT_RESUME_FROM`` names the checkpoint to resume from. If empty or unusable, the highest step
is taken, on a tie the larger fence; broken ones are skipped and named in the log. An attempt that is started
again in its own folder goes on from its own newest step.

Only rank 0 writes. On another rank ``resume()`` copies nothing: it gives rank 0's copy, or the named one in
place. Call it after a barrier behind rank 0's ``resume()``, or let rank 0 broadcast what it has loaded.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

MANIFEST = "manifest.json"
MANIFEST_VERSION = 1
RESULT_LIMIT_BYTES = 4096  # what a kubelet keeps of a termination message
_ENV = "GPU_PLACEMENT_"
_RANK_VARIABLES = ("RANK", "NODE_RANK", "PET_NODE_RANK", "JOB_COMPLETION_INDEX")
_STEP_FOLDER = re.compile(r"step-([0-9]{12,})")
_ATTEMPT_FOLDER = re.compile(r"([0-9]+)-.+")
_HIDDEN_PREFIX = ".gpu-placement-"  # matches no step folder, so that no reader takes it for a checkpoint
_RESCANS = 50
Log = Callable[[str], object]
Sink = Callable[[bytes], object]
FileEntry = dict[str, Any]  # {"size": bytes, "sha256": hex digits}, as in the manifest


class CheckpointError(Exception):
    """The contract cannot be kept; the message says where and what to do instead."""


class CheckpointExistsError(CheckpointError):
    """This attempt already has a checkpoint of that step, and checkpoints are immutable."""


class BrokenCheckpointError(CheckpointError):
    """A folder that looks like a checkpoint has no valid manifest, or its files differ from it."""


@dataclass(frozen=True)
class Checkpoint:
    """One committed checkpoint: its folder and what its manifest says."""

    path: Path
    step: int
    fence: int
    attempt: str
    created_at: str
    files: Mapping[str, FileEntry]

    @classmethod
    def load(cls, path: Path) -> Checkpoint:
        """Read the manifest and compare the sizes of the files; hashing is left to `verify`."""
        try:
            manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
            checkpoint = cls(path, **_parse_manifest(manifest))
            if _step_of(path) != checkpoint.step:
                raise ValueError(f"the manifest says step {checkpoint.step}")
            for name, entry in checkpoint.files.items():
                size = (path / name).stat().st_size
                if size != entry["size"]:
                    raise ValueError(f"{name} has {size} bytes instead of {entry['size']}")
        except (OSError, ValueError) as error:
            raise BrokenCheckpointError(f"{path}: {error}") from error
        return checkpoint

    def verify(self) -> Checkpoint:
        """Hash every file; return self, or raise BrokenCheckpointError."""
        for name, entry in self.files.items():
            _read(self.path / name, entry)
        return self


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one attempt, usually made by `from_env`."""

    root: Path
    write_dir: Path
    fence: int = 0
    attempt: str = "local"
    resume_from: Path | None = None
    result_path: Path | None = None
    rank: int = 0
    keep_last: int | None = None
    try_number: int = 1
    pool: str = ""
    region: str = ""
    log: Log = print

    def __post_init__(self) -> None:
        if self.write_dir.parent != self.root or not _ATTEMPT_FOLDER.fullmatch(self.write_dir.name):
            wanted = f"{self.root}/<fence>-<attempt>, where later attempts look"
            raise CheckpointError(f"{_ENV}WRITE_DIR={self.write_dir} has to be {wanted}")

    @classmethod
    def from_env(
        cls,
        environ: Mapping[str, str] | None = None,
        *,
        fallback_dir: str | os.PathLike[str] = "checkpoints",
        rank: int | None = None,
        keep_last: int | None = None,
        log: Log = print,
    ) -> Checkpoints:
        """Read the environment; where it names no root (a laptop), `fallback_dir` is the root.

        The rank, unless given, is the first set of RANK, NODE_RANK, PET_NODE_RANK and JOB_COMPLETION_INDEX.
        With `keep_last`, each save removes this attempt's older checkpoints but for so many of the newest.
        """
        env = os.environ if environ is None else environ
        rank_variable = next((name for name in _RANK_VARIABLES if env.get(name)), "RANK")
        return cls(
            root=_path(env, "CHECKPOINT_ROOT") or Path(fallback_dir),
            write_dir=_path(env, "WRITE_DIR") or Path(fallback_dir, "0-local"),
            fence=_integer(env, _ENV + "FENCE", 0),
            attempt=env.get(_ENV + "ATTEMPT") or "local",
            resume_from=_path(env, "RESUME_FROM"),
            result_path=_path(env, "RESULT_PATH"),
            rank=_integer(env, rank_variable, 0) if rank is None else rank,
            keep_last=keep_last,
            try_number=_integer(env, _ENV + "TRY", 1),
            pool=env.get(_ENV + "POOL", ""),
            region=env.get(_ENV + "REGION", ""),
            log=log,
        )

    @property
    def writes(self) -> bool:
        """Whether this process is the one that writes: rank 0."""
        return self.rank == 0

    def latest(self) -> Checkpoint | None:
        """Return the checkpoint that `resume` would take, hashes verified, without copying it."""
        return self._first_usable(Checkpoint.verify)

    def resume(self) -> Checkpoint | None:
        """Copy the checkpoint to resume from into the own folder, return the copy; None: from the beginning.

        CheckpointError if one was named but none is usable: no days of training are repeated in silence.
        """
        if not self.writes:
            return self.latest()
        for leftover in self.write_dir.glob(_HIDDEN_PREFIX + "*"):  # a process of this attempt was killed
            shutil.rmtree(leftover, ignore_errors=True)
        return self._first_usable(self._adopt)

    @contextlib.contextmanager
    def save(self, step: int) -> Iterator[Path]:
        """Give an empty folder to fill; it becomes checkpoint `step` when the block ends without an error."""
        if not self.writes:
            raise CheckpointError(f"rank {self.rank} does not write: guard save() by `if checkpoints.writes`")
        target = self.write_dir / f"step-{step:012d}"
        if self._have(target):
            raise CheckpointExistsError(f"{target} exists and checkpoints are immutable: save another step")
        with self._staging() as staging:
            yield staging
            self._commit(staging, target, step, _payload(staging))
        if self.keep_last is not None:
            others = [path for path in _steps(self.write_dir) if path != target]
            for path in others[max(self.keep_last, 1) - 1 :]:
                self._remove(path)

    def write_result(self, result: Mapping[str, Any]) -> None:
        """Write the result as JSON to the termination message file; without one (a laptop), log it."""
        try:
            sizes = {key: len(json.dumps(value, allow_nan=False)) for key, value in result.items()}
        except (TypeError, ValueError) as error:
            raise CheckpointError(f"result: {error}: give plain finite numbers, texts, lists") from error
        text = json.dumps(dict(result), separators=(",", ":")).encode()
        if len(text) > RESULT_LIMIT_BYTES:
            large = dict(sorted(sizes.items(), key=lambda item: -item[1])[:3])
            what = f"the result has {len(text)} bytes as JSON and {RESULT_LIMIT_BYTES} are kept"
            raise CheckpointError(f"{what}: store what is large in a checkpoint instead: {large}")
        if self.result_path is None:
            self.log(f"result: {text.decode()}")
        else:
            _replace_content(self.result_path, text)

    def _first_usable(self, use: Callable[[Checkpoint], Checkpoint]) -> Checkpoint | None:
        """Apply `use` to the candidates, best first, until one is not broken."""
        broken: set[Path] = set()
        for _ in range(_RESCANS):
            path = next((path for path in self._candidates() if path not in broken), None)
            if path is None and self.resume_from is not None:
                what = f"neither {self.resume_from} nor another one below {self.root} is usable, see the log"
                raise CheckpointError(f'{what}; to start from the beginning all the same: resume="never"')
            if path is None:
                return None
            try:
                return use(Checkpoint.load(path))
            except BrokenCheckpointError as error:
                # Look again each time: a writer that still lives may have pruned this one for newer ones.
                self.log(f"checkpoint skipped: {error}")
                broken.add(path)
        raise CheckpointError(f"{self.root}: {_RESCANS} unusable checkpoints, see the log: is it damaged?")

    def _candidates(self) -> list[Path]:
        own = _steps(self.write_dir)
        everywhere = _steps(self.root, "*-*/step-*") if self.writes else own
        if self.resume_from is None:
            return everywhere
        first = [path for path in own if _step_of(path) >= _step_of(self.resume_from)] + [self.resume_from]
        return first + [path for path in everywhere if path not in first]

    def _adopt(self, source: Checkpoint) -> Checkpoint:
        target = self.write_dir / f"step-{source.step:012d}"
        if self._have(target):
            return Checkpoint.load(target)
        with self._staging() as staging:
            for name, entry in source.files.items():
                (staging / name).parent.mkdir(parents=True, exist_ok=True)
                with open(staging / name, "xb") as copy:
                    _read(source.path / name, entry, copy.write)
            return self._commit(staging, target, source.step, source.files)

    def _have(self, target: Path) -> bool:
        """Whether a valid checkpoint is there; what only looks like one is removed, for it does not exist."""
        try:
            Checkpoint.load(target).verify()
        except BrokenCheckpointError as error:
            if target.exists():
                self.log(f"broken checkpoint of this attempt removed: {error}")
                self._remove(target)
        return target.exists()

    @contextlib.contextmanager
    def _staging(self) -> Iterator[Path]:
        staging = self.write_dir / f"{_HIDDEN_PREFIX}{uuid.uuid4().hex}"
        staging.mkdir(parents=True)
        try:
            yield staging
        finally:
            shutil.rmtree(staging, ignore_errors=True)  # renamed by now, unless something failed

    def _commit(self, staging: Path, target: Path, step: int, files: Mapping[str, FileEntry]) -> Checkpoint:
        """Make payload, manifest and folder durable in this order; the rename shows them all at once."""
        created_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        checkpoint = Checkpoint(target, step, self.fence, self.attempt, created_at, dict(files))
        for name in files:
            _sync(staging / name)
        manifest = {**vars(checkpoint), "version": MANIFEST_VERSION}
        del manifest["path"]
        _replace_content(staging / MANIFEST, json.dumps(manifest, indent=1).encode())
        for folder, _, _ in os.walk(staging):
            _sync(folder)
        try:
            os.rename(staging, target)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            raise CheckpointExistsError(f"{target}: another process of this attempt wrote it") from error
        _sync(self.write_dir)
        return checkpoint

    def _remove(self, path: Path) -> None:
        trash = self.write_dir / f"{_HIDDEN_PREFIX}{uuid.uuid4().hex}"
        os.rename(path, trash)  # gone at once for a reader, never seen half deleted
        shutil.rmtree(trash, ignore_errors=True)


def _steps(folder: Path, pattern: str = "step-*") -> list[Path]:
    """Step folders of attempts, highest step first, on a tie the larger fence."""
    found = ((path, _ATTEMPT_FOLDER.fullmatch(path.parent.name)) for path in folder.glob(pattern))
    keyed = [(_step_of(path), int(match[1]), path) for path, match in found if match and _step_of(path) >= 0]
    return [path for *_, path in sorted(keyed, reverse=True)]


def _step_of(path: Path) -> int:
    match = _STEP_FOLDER.fullmatch(path.name)
    return int(match.group(1)) if match else -1


def _parse_manifest(manifest: Any) -> dict[str, Any]:
    if not isinstance(manifest, dict) or manifest.get("version") != MANIFEST_VERSION:
        raise ValueError(f"{MANIFEST} is not of version {MANIFEST_VERSION}")
    kinds = {"step": int, "fence": int, "attempt": str, "created_at": str, "files": dict}
    for key, kind in kinds.items():
        if type(manifest.get(key)) is not kind:
            raise ValueError(f"{MANIFEST}: {key} is not of type {kind.__name__}")
    for name, entry in manifest["files"].items():
        parts = PurePosixPath(name).parts
        outside = not parts or parts[0].startswith("/") or ".." in parts
        if outside or parts == (MANIFEST,) or not isinstance(entry, dict) or set(entry) != {"size", "sha256"}:
            raise ValueError(f"{MANIFEST}: {name!r} is no valid entry of a payload file")
    return {key: manifest[key] for key in kinds}


def _payload(folder: Path) -> dict[str, FileEntry]:
    entries = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not (path.is_dir() or path.is_file()) or name == MANIFEST:
            raise CheckpointError(f"{name}: only plain files and folders can be saved, and no {MANIFEST}")
        if path.is_file():
            entries[name] = _read(path)
    if not entries:
        raise CheckpointError("nothing to save: write the files into the folder that save() gives")
    return entries


def _read(path: Path, expected: FileEntry | None = None, also: Sink | None = None) -> FileEntry:
    """Hash a file, handing each chunk to `also`; BrokenCheckpointError unless it is as expected."""
    size, digest = 0, hashlib.sha256()
    for chunk in _chunks(path):
        size += len(chunk)
        digest.update(chunk)
        if also is not None:
            also(chunk)
    found = {"size": size, "sha256": digest.hexdigest()}
    if expected is not None and found != expected:
        raise BrokenCheckpointError(f"{path}: size or SHA-256 is not that of the manifest")
    return found


def _chunks(path: Path) -> Iterator[bytes]:
    try:
        with open(path, "rb") as reader:
            yield from iter(lambda: reader.read(1 << 20), b"")
    except OSError as error:  # of reading alone: what fails in the consumer (a full disk) is not seen here
        raise BrokenCheckpointError(f"{path}: {error}") from error


def _sync(path: str | os.PathLike[str]) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems: no fsync of folders
            raise
    finally:
        os.close(descriptor)


def _replace_content(path: Path, content: bytes) -> None:
    temporary = path.with_name(f"{_HIDDEN_PREFIX}{uuid.uuid4().hex}")
    try:
        temporary.write_bytes(content)
        _sync(temporary)
        os.replace(temporary, path)
    except OSError:
        if not path.exists():
            raise
        # In a container the termination message file is a mount: it can be written, but not renamed onto.
        path.write_bytes(content)
    finally:
        temporary.unlink(missing_ok=True)


def _integer(env: Mapping[str, str], name: str, default: int) -> int:
    value = env.get(name) or str(default)
    if not (value.isascii() and value.isdigit()):
        raise CheckpointError(f"{name}={value!r} is not a whole number")
    return int(value)


def _path(env: Mapping[str, str], name: str) -> Path | None:
    location = env.get(_ENV + name, "")
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", location):
        return Path(location) if location else None
    url = urlsplit(location)
    if url.scheme == "file" and url.netloc in ("", "localhost"):
        return Path(unquote(url.path))
    raise CheckpointError(
        f"{_ENV}{name}={location}: only local paths and file:// URLs are handled. Mount the bucket and name "
        f"the mount as the checkpoint location, or use the store's own client: payload first, {MANIFEST} last"
    )
