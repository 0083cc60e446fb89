"""ParallelCluster's validation of files, run in its own environment by one process for all tests of a worker."""

import atexit
import functools
import json
import subprocess
from pathlib import Path

from tests.plans import ROOT

PYTHON = ROOT / ".venv-pcluster" / "bin" / "python"
DRIVER = Path(__file__).with_name("pcluster_schema.py")


@functools.cache
def _process():
    process = subprocess.Popen([str(PYTHON), str(DRIVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(process.stdin.close)
    return process


def ask(operation, files):
    """The driver's results for some files, in their order."""
    process = _process()
    process.stdin.write(json.dumps([operation, *map(str, files)]) + "\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline() or '"the driver has ended"')
    assert isinstance(answer, dict), answer
    return [answer[str(path)] for path in files]
