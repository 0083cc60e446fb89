"""ParallelCluster's validation of files, run in its own environment."""

import json
import subprocess
from pathlib import Path

from tests.plans import ROOT

PYTHON = ROOT / ".venv-pcluster" / "bin" / "python"
DRIVER = Path(__file__).with_name("pcluster_schema.py")


def ask(what, files):
    """The driver's answer about some files, in their order."""
    words = [str(PYTHON), str(DRIVER), what, *map(str, files)]
    answer = subprocess.run(words, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    document = json.loads(answer.stdout.splitlines()[-1])
    return [document[str(path)] for path in files]
