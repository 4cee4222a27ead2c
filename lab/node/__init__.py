"""Process nodes: a minimal kubelet that runs each container's command as a local process."""

from __future__ import annotations
