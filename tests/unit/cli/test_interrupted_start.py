"""Ctrl-C before a command's modules are loaded."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import os, signal, sys

module, how = sys.argv.pop(1), sys.argv.pop(1)

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
if how == "nohup":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
from launcher.__main__ import main
main()
"""


def start(module, how="terminal"):
    command = [sys.executable, "-c", PROGRAM, module, how, "--version"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("module", ["launcher.cli.app", "typer", "launcher.model.errors"])
def test_interrupt_while_modules_load_ends_without_a_traceback(module):
    done = start(module)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_interrupt_ignored_by_caller_is_ignored():
    done = start("typer", "nohup")
    assert done.returncode == 0
    assert done.stderr == ""
