"""JSON pointers (RFC 6901): paths into a document, as one text."""

from __future__ import annotations


def pointer(path: tuple[str | int, ...]) -> str:
    """Write a path as a pointer."""
    return "".join(f"/{str(segment).replace('~', '~0').replace('/', '~1')}" for segment in path)


def segments(text: str) -> tuple[str, ...]:
    """Read a pointer as a path; indexes of lists stay texts."""
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:])
