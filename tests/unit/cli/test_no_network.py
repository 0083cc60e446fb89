"""Nothing is sent home: commands that plan and show open no socket, resolve no name and start no program."""

import subprocess
import sys

import pytest

from tests.plans import EXAMPLES, ROOT

TRAIN, SERVE = str(EXAMPLES / "open/llama31-8b-sft.yaml"), str(EXAMPLES / "serve/llama31-8b.yaml")
GUARD = """
import sys
seen = []
sys.addaudithook(lambda event, _: seen.append(event) if event.startswith("socket.") else None)
sys.argv = ["slipway", *sys.argv[1:]]
from launcher.__main__ import main
try:
    main()
except SystemExit as ended:
    print("code", ended.code, file=sys.stderr)
print("sockets", sorted(set(seen)), file=sys.stderr)
"""
COMMANDS = [
    ["--help"],
    ["--version"],
    ["version"],
    ["launch", "--help"],
    ["plan", TRAIN],
    ["plan", SERVE],
    ["quote", TRAIN],
    ["compare", TRAIN],
    ["models"],
    ["prices", "show", "p5.48xlarge"],
    ["estimate", str(ROOT / "tests/golden/infra/p5-spot/training.json"), "--region", "us-east-1"],
    ["schema"],
]


def run(words, tmp_path, code=GUARD):
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:1]))
def test_read_only_command_opens_no_socket(words, tmp_path):
    done = run(words, tmp_path)
    assert "sockets []" in done.stderr, done.stderr
    assert "code 0" in done.stderr


def test_socket_guard_detects_an_opened_socket(tmp_path):
    opening = GUARD.replace("    main()\n", "    import socket; socket.socket().close()\n")
    assert "sockets ['socket.__new__']" in run(["--help"], tmp_path, opening).stderr
