"""Systems Manager's Run Command on loopback, for real boto3: scripts are run here, outcomes come when they are there.

The protocol is AWS JSON 1.1 with the shapes of botocore's service model. What stands for the machine is an environment
and a folder of programs that come first on its PATH.
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

from tests.stand_ins.answers import judge
from tests.stand_ins.loopback import QuietHandler, listening

OUT, ERR = 24_000, 8_000
"""What GetCommandInvocation returns of standard output and of standard error, in characters."""


class Machine:
    """One machine with its agent."""

    def __init__(self, instance: str, environment: Mapping[str, str]) -> None:
        """Keep what commands are run with; `silent_looks` is how often a new command is not known yet."""
        self.instance = instance
        self.environment = dict(environment)
        self.silent_looks = 1
        self.details = ""
        self.commands: dict[str, dict[str, object]] = {}
        self.sent: list[dict[str, object]] = []
        self.running: list[threading.Thread] = []

    def send(self, asked: dict[str, object]) -> tuple[int, dict[str, object]]:
        """SendCommand."""
        if asked["InstanceIds"] != [self.instance]:
            return 400, {"__type": "InvalidInstanceId", "message": "Instances not in a valid state for account"}
        self.sent.append(asked)
        command = str(uuid.uuid4())
        found = {"looks": 0, "Status": "InProgress", "StatusDetails": "InProgress", "ResponseCode": -1}
        self.commands[command] = found
        lines = asked["Parameters"]["commands"]
        self.running.append(threading.Thread(target=self.run, args=(found, "\n".join(lines)), daemon=True))
        self.running[-1].start()
        return 200, {"Command": {"CommandId": command, "Status": "Pending", "DocumentName": asked["DocumentName"]}}

    def run(self, found: dict[str, object], script: str) -> None:
        """What the agent on the machine does."""
        if self.details:
            found |= {"Status": "TimedOut", "StatusDetails": self.details}
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
        found |= {
            "StandardOutputContent": done.stdout[:OUT],
            "StandardErrorContent": done.stderr[:ERR],
            "ResponseCode": done.returncode,
            "StatusDetails": status,
            "Status": status,
        }

    def outcome(self, asked: dict[str, object]) -> tuple[int, dict[str, object]]:
        """GetCommandInvocation."""
        found = self.commands.get(str(asked["CommandId"]))
        if found is None or found["looks"] < self.silent_looks:
            if found is not None:
                found["looks"] += 1
            return 400, {"__type": "InvocationDoesNotExist", "message": ""}
        answer = {name: value for name, value in found.items() if name != "looks"}
        return 200, {"CommandId": asked["CommandId"], "InstanceId": self.instance, **answer}


@contextmanager
def served(machine: Machine, *, otherwise: str = "") -> Iterator[str]:
    """Serve a machine's commands; the endpoint. What else Systems Manager does is asked of `otherwise`."""

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            asked = self.rfile.read(int(self.headers["Content-Length"]))
            operation = self.headers["X-Amz-Target"].rpartition(".")[2]
            known = {"SendCommand": machine.send, "GetCommandInvocation": machine.outcome}
            if operation in known:
                code, answer = known[operation](json.loads(asked))
                if code == HTTPStatus.OK:
                    judge("ssm", operation, answer)
                body = json.dumps(answer).encode()
            else:
                code, body = self.passed_on(asked)
            self.reply(code, body, "application/x-amz-json-1.1")

        def passed_on(self, asked: bytes) -> tuple[int, bytes]:
            request = urllib.request.Request(otherwise, data=asked, headers=dict(self.headers), method="POST")
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    return int(answer.status), answer.read()
            except urllib.error.HTTPError as refused:
                return refused.code, refused.read()

    try:
        with listening(Handler) as address:
            yield address
    finally:
        for each in machine.running:
            each.join()
