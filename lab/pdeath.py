"""Runs a program that dies with its parent: ``python -I -S pdeath.py PARENT_PID PROGRAM ARGS...``.

It costs 20 ms and no process. It is a program of its own because asking the kernel in a preexec function
would run Python between fork and exec, which is not safe in a process with threads. The kernel sends the
signal when the *thread* that forked ends: start such children from the main thread.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Ask for SIGKILL at the parent's death, then become the program."""
    parent = int(arguments[0])
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.exit(f"prctl(PR_SET_PDEATHSIG) failed: {os.strerror(ctypes.get_errno())}")
    # The parent may have died before the call; then nobody would send the signal any more.
    if os.getppid() != parent:
        sys.exit("the parent is gone")
    os.execv(arguments[1], arguments[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
