"""What is said against templates: cdk-nag with what is accepted, cfn-lint, the Service Authorization Reference."""

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.infra.template_policies import policy_complaints


def place_in(accepted, rule, construct):
    """The place of a violation in a list of rules, constructs' ends (both patterns) and reasons, or None."""
    for index, (rule_pattern, construct_pattern, _) in enumerate(accepted):
        if re.fullmatch(rule_pattern, rule) and re.search(f"{construct_pattern}$", construct):
            return index
    return None


def complaints(folder, region):
    """What they have against the templates in a folder, for the region that they are for."""
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
    policies = [each for path in files for each in policy_complaints(json.loads(Path(path).read_text("utf-8")))]
    return [*json.loads(answer.stdout), *policies]
