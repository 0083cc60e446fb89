"""Systems Manager's Run Command on loopback, for real boto3: scripts run on this host.

The protocol is AWS JSON 1.1 with the shapes of botocore's service model. An environment and a folder of programs, first
on its PATH, emulate the node.
"""

import json
import subprocess
import threading
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus

from tests.emulators.answers import check
from tests.emulators.loopback import QuietHandler, listening

OUT, ERR = 24_000, 8_000
"""Maximum characters of standard output and standard error from GetCommandInvocation."""


class Machine:
    """One node with its agent."""

    def __init__(self, instance: str, environment: Mapping[str, str]) -> None:
        """Store the environment of commands; `silent_looks` polls do not find a new command yet."""
        self.instance = instance
        self.environment = dict(environment)
        self.silent_looks = 1
        self.details = ""
        self.commands: dict[str, dict[str, object]] = {}
        self.sent: list[dict[str, object]] = []
        self.running: list[threading.Thread] = []

    def send(self, params: dict[str, object]) -> tuple[int, dict[str, object]]:
        """SendCommand."""
        if params["InstanceIds"] != [self.instance]:
            return 400, {"__type": "InvalidInstanceId", "message": "Instances not in a valid state for account"}
        self.sent.append(params)
        command = str(uuid.uuid4())
        state = {"looks": 0, "Status": "InProgress", "StatusDetails": "InProgress", "ResponseCode": -1}
        self.commands[command] = state
        lines = params["Parameters"]["commands"]
        self.running.append(threading.Thread(target=self.run, args=(state, "\n".join(lines)), daemon=True))
        self.running[-1].start()
        return 200, {"Command": {"CommandId": command, "Status": "Pending", "DocumentName": params["DocumentName"]}}

    def run(self, state: dict[str, object], script: str) -> None:
        """Run a script, like the agent on the node."""
        if self.details:
            state |= {"Status": "TimedOut", "StatusDetails": self.details}
            return
        done = subprocess.run(
            ["/bin/sh", "-c", script],
            env=self.environment,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        status = "Success" if done.returncode == 0 else "Failed"
        state |= {
            "StandardOutputContent": done.stdout[:OUT],
            "StandardErrorContent": done.stderr[:ERR],
            "ResponseCode": done.returncode,
            "StatusDetails": status,
            "Status": status,
        }

    def outcome(self, params: dict[str, object]) -> tuple[int, dict[str, object]]:
        """GetCommandInvocation."""
        state = self.commands.get(str(params["CommandId"]))
        if state is None or state["looks"] < self.silent_looks:
            if state is not None:
                state["looks"] += 1
            return 400, {"__type": "InvocationDoesNotExist", "message": ""}
        answer = {name: value for name, value in state.items() if name != "looks"}
        return 200, {"CommandId": params["CommandId"], "InstanceId": self.instance, **answer}


@contextmanager
def served(machine: Machine, *, otherwise: str = "") -> Iterator[str]:
    """Serve a node's commands; yield the endpoint. Other requests to Systems Manager go to `otherwise`."""

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            request_body = self.rfile.read(int(self.headers["Content-Length"]))
            operation = self.headers["X-Amz-Target"].rpartition(".")[2]
            known = {"SendCommand": machine.send, "GetCommandInvocation": machine.outcome}
            if operation in known:
                code, answer = known[operation](json.loads(request_body))
                if code == HTTPStatus.OK:
                    check("ssm", operation, answer)
                body = json.dumps(answer).encode()
            else:
                code, body = self.passed_on(request_body)
            self.reply(code, body, "application/x-amz-json-1.1")

        def passed_on(self, body: bytes) -> tuple[int, bytes]:
            request = urllib.request.Request(otherwise, data=body, headers=dict(self.headers), method="POST")
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    return int(answer.status), answer.read()
            except urllib.error.HTTPError as refused:
                return refused.code, refused.read()

    try:
        with listening(Handler) as address:
            yield address
    finally:
        for thread in machine.running:
            thread.join()
