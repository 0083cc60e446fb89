"""cfn-lint over the templates of an assembly."""

import json
import subprocess
import sys
from pathlib import Path


def complaints(folder, region):
    """What cfn-lint has against the templates in a folder, for the region that they are for."""
    files = [str(path) for path in sorted(folder.glob("*.template.json"))]
    assert files
    # W6001: the training stack's outputs repeat ids of the other stacks, so that the launcher reads one stack.
    # W3005: an order that a reference makes, too, is said where it is what matters.
    words = [str(Path(sys.executable).with_name("cfn-lint")), "--format", "json", "--ignore-checks", "W6001", "W3005"]
    answer = subprocess.run(
        [*words, "--regions", region, "--", *files], capture_output=True, text=True, check=False, cwd=folder
    )
    # 2, 4, 8 and their sums are findings; without a word on either stream nothing was looked at in error.
    assert not answer.stderr, answer.stderr
    return json.loads(answer.stdout)
