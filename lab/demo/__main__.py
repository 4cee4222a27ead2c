"""Entry point of ``python -m lab.demo``."""

from __future__ import annotations

import sys

from lab.demo.app import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
