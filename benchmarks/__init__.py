"""Measurements against other ways to do the same; none of them asserts a time."""

from __future__ import annotations
