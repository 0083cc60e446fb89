"""ParallelCluster's validation of files, run in its own environment by one process for all tests of a worker."""

import atexit
import functools
import json
import subprocess
from pathlib import Path

from tests.kept_answers import kept, packages, sources
from tests.plans import ROOT

PYTHON = ROOT / ".venv-pcluster" / "bin" / "python"
DRIVER = Path(__file__).with_name("pcluster_schema.py")
READ_MORE = ("policies", "stop")
"""Operations that read other files than those that they are given."""


@functools.cache
def _process():
    process = subprocess.Popen([str(PYTHON), str(DRIVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(process.stdin.close)
    return process


def ask(operation, files):
    """The driver's results for some files, in their order."""
    paths = [Path(file) for file in files]
    if operation in READ_MORE:
        return _answers(operation, paths)
    texts = [path.read_text(encoding="utf-8") for path in paths]
    key = [operation, *texts, *packages(PYTHON), *sources(DRIVER)]
    return kept(key, lambda: _answers(operation, paths))


def _answers(operation, paths):
    process = _process()
    process.stdin.write(json.dumps([operation, *map(str, paths)]) + "\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline() or '"the driver has ended"')
    assert isinstance(answer, dict), answer
    return [answer[str(path)] for path in paths]
