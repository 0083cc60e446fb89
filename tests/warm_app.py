"""The CDK app in a process that stays, for the launches of tests: every plan is synthesised, jsii starts once.

A first synthesis takes 4 to 5 s of processor time to start jsii and load aws-cdk-lib, each further one 0.3 s. The CDK
CLI is the real one. It starts this file as its app, which hands its environment to the process that stays. The CDK's
validation of templates is off: its rules take 3.5 s to load, and tests/infra reads its report of every example.
"""

import json
import os
import shlex
import socket
import sys
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest.mock import patch

OVERFLOW = "CONTEXT_OVERFLOW_LOCATION_ENV"
WITHOUT_VALIDATION = {"CDK_VALIDATION": "false"}
"""Read by synthesis-validation.js of aws-cdk-lib 2.275.0."""


class WarmApp:
    """Starts the process that stays when a plan is synthesised for the first time."""

    def __init__(self):
        from tests.warm_process import WarmProcess

        self._process = WarmProcess(sys.executable, "-P", "-m", "tests.warm_app", "serve", **WITHOUT_VALIDATION)
        self.close = self._process.close

    def command(self):
        """What the CDK CLI starts in place of the app."""
        return shlex.join([sys.executable, "-I", "-S", __file__, "ask", self._process.address])

    @contextmanager
    def used(self):
        """Have what this process launches synthesised with it."""
        with patch("launcher.cdk.toolchain.app_command", self.command):
            yield


def serve(address):
    """Synthesise for whoever asks, one after another."""
    import threading

    from aws_cdk import App, AssetStaging

    from infra import app

    App(auto_synth=False)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
        print("ready", flush=True)  # noqa: T201
        while True:
            connection, _ = listener.accept()
            with connection, connection.makefile("rw", encoding="utf-8") as stream:
                environment, said = json.loads(stream.readline()), StringIO()
                with patch.dict(os.environ, environment, clear=True), redirect_stdout(said), redirect_stderr(said):
                    AssetStaging.clear_asset_hash_cache()  # or an asset is left out of a folder that was there before
                    made = App(auto_synth=False, context=context_of(environment), outdir=environment["CDK_OUTDIR"])
                    code = app.synthesise(made, environment.get("CDK_DEFAULT_ACCOUNT"))
                stream.write(json.dumps([code, said.getvalue()]))


def context_of(environment):
    """What the CLI says in the environment or, where it is long, in a file (cx-api)."""
    context = json.loads(environment.get("CDK_CONTEXT_JSON", "{}"))
    if OVERFLOW in environment:
        context |= json.loads(Path(environment[OVERFLOW]).read_text(encoding="utf-8"))
    return context


def ask(address):
    """What the CDK CLI starts."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        with connection.makefile("rw", encoding="utf-8") as stream:
            stream.write(json.dumps(dict(os.environ)) + "\n")
            stream.flush()
            code, said = json.loads(stream.read())
    sys.stderr.write(said)
    sys.exit(code)


if __name__ == "__main__":
    {"serve": serve, "ask": ask}[sys.argv[1]](sys.argv[2])
