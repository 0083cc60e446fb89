"""The program `slipway` for tests that start it, with the persistent processes of warm_app.py and warm_cli.py.

A program that launches starts jsii and three times the CDK CLI, 9 s of processor time. Run as this file, it is the same
program, and these two are asked instead. What a launch does while they run is tested with `python -m launcher`
(tests/sandbox/test_interrupted_launch.py, test_agent_launch.py).
"""

import json
import os
import sys
from contextlib import nullcontext


def words(app, cli):
    """The words that start the program, before its arguments; `app` and `cli` are the commands of the two."""
    return [sys.executable, __file__, app, json.dumps(cli)]


def main(app, cli, server=None):
    """Be the program, with what starts the app and the CLI, and the address of the process that forks servers."""
    from launcher.__main__ import main as run
    from launcher.cdk import toolchain

    toolchain.app_command = lambda: app
    toolchain.cdk_command = lambda environ=None: json.loads(cli)
    with nullcontext() if server is None else forked_servers(server):
        run()


def forked_servers(address):
    """The context in which the program's servers are forked from a process."""
    from tests.warm_server import WarmServer

    return WarmServer(address).used()


if __name__ == "__main__":
    _, app, cli, *arguments = sys.argv
    sys.argv = ["slipway", *arguments]
    sys.path[0] = os.getcwd()  # noqa: PTH109 - loads nothing for it
    main(app, cli)
