"""The CDK CLI in a persistent process, for launches of tests: a start of Node and the CLI costs 1.3 s of CPU time.

warm_cli.js runs the real CLI for each command, with the same output, exit code and child processes. Interruptions,
`--version` and `--help` are tested with the program (tests/sandbox/test_interrupted_launch.py, test_launch.py).
"""

import json
import os
import socket
import sys
from contextlib import contextmanager
from unittest.mock import patch


class WarmCli:
    """Starts the process at the first command."""

    def __init__(self):
        from launcher.cdk import toolchain
        from tests.warm_process import ROOT, WarmProcess

        node, program = toolchain.cdk_command(os.environ)
        script = ROOT / "tests" / "warm_cli.js"
        self._process = WarmProcess(node, str(script), os.path.dirname(os.path.dirname(program)))  # noqa: PTH120
        self.close = self._process.close

    @contextmanager
    def used(self):
        """Run the CDK commands of this process in the persistent one."""
        with patch("launcher.cdk.toolchain.cdk_command", self.command):
            yield

    def command(self, environ=None):
        """The words that the launcher runs instead of the CLI."""
        del environ
        return [sys.executable, "-I", "-S", __file__, self._process.address]


def ask(address, args):
    """Forward a command; print its output, and return its exit code."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        with connection.makefile("rw", encoding="utf-8") as stream:
            stream.write(json.dumps({"args": args, "env": dict(os.environ), "cwd": os.getcwd()}) + "\n")  # noqa: PTH109
            stream.flush()
            for line in stream:
                part = json.loads(line)
                if isinstance(part, int):
                    return part
                sys.stdout.write(part)
                sys.stdout.flush()
    return "the process of the CDK CLI has ended"


if __name__ == "__main__":
    sys.exit(ask(sys.argv[1], sys.argv[2:]))
