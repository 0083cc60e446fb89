"""The CDK app in a persistent process, for the launches of tests: every plan is synthesised, but jsii starts once.

A first synthesis needs 4 to 5 s of processor time to start jsii and load aws-cdk-lib, each further one 0.3 s. The CDK
CLI is the real one. It starts this file as its app, which passes its environment to the persistent process. The CDK's
validation of templates is off: its rules need 3.5 s to load, and tests/infra reads its report for every example.
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
    """Starts the persistent process at the first synthesis of a plan; `place`: see WarmProcess."""

    def __init__(self, place=None):
        from tests.warm_process import WarmProcess

        words = (sys.executable, "-P", "-m", "tests.warm_app", "serve")
        self._process = WarmProcess(*words, place=place, **WITHOUT_VALIDATION)
        self.close = self._process.close

    def command(self):
        """The command that the CDK CLI starts instead of the app."""
        return shlex.join([sys.executable, "-I", "-S", __file__, "ask", self._process.address])

    @contextmanager
    def used(self):
        """Synthesise the launches of this process with the persistent one."""
        with patch("launcher.cdk.toolchain.app_command", self.command):
            yield


def serve(address):
    """Serve synthesis requests, one after another."""
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
                environment, output = json.loads(stream.readline()), StringIO()
                with patch.dict(os.environ, environment, clear=True), redirect_stdout(output), redirect_stderr(output):
                    AssetStaging.clear_asset_hash_cache()  # or an asset is left out of a folder that was there before
                    cdk_app = App(auto_synth=False, context=context_of(environment), outdir=environment["CDK_OUTDIR"])
                    code = app.synthesise(cdk_app, environment.get("CDK_DEFAULT_ACCOUNT"))
                stream.write(json.dumps([code, output.getvalue()]))


def context_of(environment):
    """The CLI's context, from the environment or, if it is long, from a file (cx-api)."""
    context = json.loads(environment.get("CDK_CONTEXT_JSON", "{}"))
    if OVERFLOW in environment:
        context |= json.loads(Path(environment[OVERFLOW]).read_text(encoding="utf-8"))
    return context


def ask(address):
    """Forward a synthesis; the CDK CLI starts this function."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        with connection.makefile("rw", encoding="utf-8") as stream:
            stream.write(json.dumps(dict(os.environ)) + "\n")
            stream.flush()
            code, output = json.loads(stream.read())
    sys.stderr.write(output)
    sys.exit(code)


if __name__ == "__main__":
    {"serve": serve, "ask": ask}[sys.argv[1]](sys.argv[2])
