"""``python -m lab``: the command line of the lab."""

from __future__ import annotations

import sys

from lab.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
