"""From catalogue files to frozen values, read again when they have changed."""

from __future__ import annotations

import hashlib
import logging
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from airflow_gpu_placement.catalog.document import parse
from airflow_gpu_placement.catalog.example import EXAMPLE
from airflow_gpu_placement.catalog.overlay import Layer, Merged, merge
from airflow_gpu_placement.catalog.problems import Problems
from airflow_gpu_placement.catalog.reader import refuse_duplicates
from airflow_gpu_placement.catalog.sections import Content, read_document
from airflow_gpu_placement.exceptions import CatalogError

log = logging.getLogger(__name__)

_READ_AGAIN_AFTER_SECONDS = (0.5, 1.5)
"""Pauses before each further read of a catalogue that is wrong."""

_SETTLED_SECONDS = 2.0
"""A file changed more recently may change again within one tick of its clock, so it is not remembered."""

_SUFFIXES = frozenset({".yaml", ".yml"})


class Catalog(Content, frozen=True, kw_only=True):
    """Everything the catalogue says.

    :param hash: of the content: the same for the same content, however the files are laid out or ordered.
    :param path: where it was read from.
    :param warnings: what is allowed but probably not meant.
    """

    hash: str
    path: str
    warnings: tuple[str, ...] = ()


class _Stamp(NamedTuple):
    """What tells that a file was changed."""

    path: str
    inode: int
    size: int
    changed_ns: int


class _Remembered(NamedTuple):
    files: tuple[str, ...]
    stamps: tuple[_Stamp | None, ...]
    catalog: Catalog

    def still_holds(self, paths: list[Path]) -> bool:
        """Whether the same files are there and none was changed."""
        same = self.files[: len(paths)] == tuple(map(str, paths))
        return same and tuple(map(_stamp, self.files)) == self.stamps


_remembered: dict[tuple[str, str | None], _Remembered] = {}


def load(path: Path | str, overlay: Path | str | None = None) -> Catalog:
    """Read and check a catalogue; cheap while nothing has changed.

    :param path: the YAML file; or a folder of them, each laid over those before it in the order of their
        names.
    :param overlay: another file or folder, laid over it: what differs in one environment.
    :raises CatalogError: with every problem, each ``file:path.to.field: problem``.
    """
    key = str(path), None if overlay is None else str(overlay)
    paths = _files(Path(path), "catalog")
    if overlay is not None:
        paths += _files(Path(overlay), "catalog_overlay")
    known = _remembered.get(key)
    if known is not None and known.still_holds(paths):
        return known.catalog
    started = time.time()
    catalog, named = _read_all(paths, str(path))
    files = (*map(str, paths), *named)
    stamps = tuple(map(_stamp, files))
    newest = max((stamp.changed_ns for stamp in stamps if stamp is not None), default=0)
    _remembered.pop(key, None)
    if None not in stamps and newest / 1e9 < started - _SETTLED_SECONDS:
        _remembered[key] = _Remembered(files, stamps, catalog)
    return catalog


def load_patiently(path: Path | str, overlay: Path | str | None = None) -> Catalog:
    """Read a catalogue as :func:`load` does, twice more within two seconds when it is wrong.

    A tool may be writing it at this moment, and in a task a half-written file would cost a try. Whoever
    checks a catalogue wants to be told at once.

    :raises CatalogError: it is still wrong.
    """
    for number, pause in enumerate(_READ_AGAIN_AFTER_SECONDS):
        try:
            return load(path, overlay)
        except CatalogError as error:
            if not number:
                first = error.problems[0].splitlines()[0]
                log.warning("The catalogue is wrong, or being written now; it is read again (%s)", first)
        time.sleep(pause)
    return load(path, overlay)


def content_hash(content: Content) -> str:
    """Return the SHA-256 of what a catalogue says, in hexadecimal digits.

    The order of entries does not matter, except that of routes.
    """
    said = {
        name: values if name == "egress" else sorted(values, key=lambda value: str(value.name))
        for name in Content.__struct_fields__
        for values in [getattr(content, name)]
    }
    return hashlib.sha256(msgspec.json.encode(said, order="sorted")).hexdigest()


def _read_all(paths: list[Path], shown_as: str) -> tuple[Catalog, tuple[str, ...]]:
    layers = [_layer(path) for path in paths]
    merged = _merged(layers)
    problems = Problems(merged.file, None if len(layers) == 1 else merged.locate)
    read = read_document(merged.document, problems)
    problems.raise_any()
    if read is None:  # a document that could not be read left a problem
        raise AssertionError(f"{shown_as} was neither read nor refused")
    said = {name: getattr(read.content, name) for name in Content.__struct_fields__}
    catalog = Catalog(**said, hash=content_hash(read.content), path=shown_as, warnings=read.warnings)
    return catalog, read.files


def _merged(layers: list[Layer]) -> Merged:
    if len(layers) == 1:
        return Merged(layers[0].document, {}, layers[0].file)
    found: list[str] = []
    for layer in layers:  # names must be told apart within a file before entries of two files become one
        problems = Problems(layer.file)
        _refuse_names_given_twice(layer, problems)
        found += problems.found
    total = Problems(layers[0].file)
    total.found = found
    total.raise_any()
    return merge(layers)


def _refuse_names_given_twice(layer: Layer, problems: Problems) -> None:
    if isinstance(layer.document, dict):
        if "version" not in layer.document:
            problems.add("version", "is missing; write 'version: 1'")
        for key, value in layer.document.items():
            if isinstance(value, list):
                refuse_duplicates(value, str(key), problems)


def _files(path: Path, option: str) -> list[Path]:
    """List the files that a path means.

    :param option: setting that named it, for the message.
    """
    if not path.is_dir():
        if not path.exists():
            Problems(str(path)).fail(f"there is no {_WHAT[option]} here. {_help(option)}")
        return [path]
    found = sorted(inside for inside in path.iterdir() if inside.suffix in _SUFFIXES and inside.is_file())
    if not found:
        Problems(str(path)).fail(f"is a folder without a .yaml file. {_help(option)}")
    return found


_WHAT = {"catalog": "catalogue of GPU pools", "catalog_overlay": "overlay of the catalogue"}


def _help(option: str) -> str:
    return (
        f"Write this file, or name another as option {option!r} of section [gpu_placement] in airflow.cfg "
        f"(environment: AIRFLOW__GPU_PLACEMENT__{option.upper()}).\nA catalogue to start from:\n\n{EXAMPLE}"
    )


def _layer(path: Path) -> Layer:
    problems = Problems(str(path))
    document = parse(_text(path, problems), problems)
    problems.raise_any()
    return Layer(str(path), document)


def _text(path: Path, problems: Problems) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        problems.fail(f"is not UTF-8 text (byte {error.start}); save it as UTF-8")
    except OSError as error:
        problems.fail(f"cannot be read: {error.strerror or error}")


def _stamp(path: str) -> _Stamp | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return _Stamp(path, status.st_ino, status.st_size, status.st_mtime_ns)
