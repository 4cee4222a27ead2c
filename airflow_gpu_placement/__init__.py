"""Decide at run time where a GPU training job can run, launch it there, re-place it when its node is lost."""

from __future__ import annotations

__version__ = "0.1.0"
