"""``python -m lab.node <config.json>``: run one process node's agent."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

from lab.node.agent import run
from lab.node.config import load_config


def main() -> None:
    """Read the configuration and be a node."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m lab.node <config.json>")
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    asyncio.run(run(load_config(Path(sys.argv[1]))))


if __name__ == "__main__":
    main()
