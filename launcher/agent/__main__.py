"""`python -m launcher.agent`: the agent from its source, without the single file."""

import contextlib
import os
import sys

from launcher.agent.program import main

if __name__ == "__main__":
    code = main(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # of a log on a full disk: the code counts
            stream.flush()
    os._exit(code)  # a transfer that was given up may still hang in a thread; the node does not wait for it
