"""The program `memory-tool`: `python -m memory_tool --help`."""

import signal
import sys

from . import _native


def main() -> int:
    """Runs the program. Returns its exit status."""
    # Python's handlers would only set a flag: the program handles signals itself.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.run_program(["memory-tool", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
