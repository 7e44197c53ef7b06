"""The command ``tonnage``, as the console script of the package."""

from __future__ import annotations

import os
import signal
import sys


def main() -> int:
    """Do what the command line says; the exit code."""
    # The command listens for itself; Python's handler would only note that somebody has asked.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from tonnage import _tonnage

    code = _tonnage.main(["tonnage", *sys.argv[1:]])
    sys.stdout.flush()
    # Threads that read standard input may never end.
    os._exit(code)


if __name__ == "__main__":
    main()
