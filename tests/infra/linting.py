"""Findings on templates: cdk-nag without the accepted ones, cfn-lint, the Service Authorization Reference.

cfn-lint is imported by its first use: it takes a second of every worker that only collects the tests.
"""

import json
import re
import sys
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.infra import iam, template_policies
from tests.infra.template_policies import policy_complaints
from tests.kept_answers import kept, packages, sources

if TYPE_CHECKING:
    from cfnlint.rules import Rules

IGNORED = ["W6001", "W3005"]
"""W6001: the training stack's outputs repeat ids of the other stacks, so that the launcher reads one stack.
W3005: the templates state an important order explicitly, even if a reference implies it."""
LINTED = {}
"""The findings by template and region: half of the templates differ in the cluster's name and the digests alone."""
SOURCES = tuple(map(Path, (__file__, template_policies.__file__, iam.__file__)))


@cache
def lint_rules() -> "Rules":
    """cfn-lint's rules, cached: reading them takes five times as long as linting a template."""
    from cfnlint.config import ConfigMixIn
    from cfnlint.runner import Runner

    return Runner(ConfigMixIn([], ignore_checks=IGNORED)).rules


def complaints(folder, region):
    """The findings of all linters on the templates in a folder, for the templates' region."""
    files = sorted(folder.glob("*.template.json"))
    assert files
    return [problem for path in files for problem in template_complaints(path, region)]


def template_complaints(path, region):
    """The findings of all linters on the template in a file, for its region."""
    text = path.read_text(encoding="utf-8")
    cluster = path.name.removeprefix("slipway-").rpartition("-")[0]
    equal = re.sub(r"\b[0-9a-f]{64}\b", "<sha256>", text.replace(cluster, "<cluster>") if cluster else text)
    if (equal, region) not in LINTED:
        key = [equal, region, *packages(Path(sys.executable)), *sources(*SOURCES)]
        LINTED[equal, region] = kept(key, partial(findings, text, region))
    return LINTED[equal, region]


def lint_facts(template):
    """What linters judge in a template: the types of resources, their properties, the types and actions these name."""
    for resource in template["Resources"].values():
        yield from ((resource["Type"], *fact) for fact in _facts(resource.get("Properties", {})))


def _facts(value, path=()):
    if isinstance(value, dict):
        for name, below in value.items():
            yield (*path, name)
            yield from _facts(below, (*path, name))
    elif isinstance(value, list):
        for item in value:
            yield from _facts(item, (*path, "[]"))
    elif path and any(name.endswith(("Type", "Types", "Action", "Engine", "Runtime")) for name in path[-2:]):
        yield (*path, value)


def findings(text, region):
    """The findings of all linters on one template."""
    from cfnlint.config import ConfigMixIn
    from cfnlint.decode.decode import decode_str
    from cfnlint.runner.template import run_template_by_data

    template, matches = decode_str(text)
    config = ConfigMixIn([], ignore_checks=IGNORED, regions=[region])
    return [*(matches or run_template_by_data(template, config, lint_rules())), *policy_complaints(json.loads(text))]
