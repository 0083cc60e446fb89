"""Each emulated AWS service names what judges it, by the versions that are installed."""

import ast
import re

import pytest

from tests.plans import ROOT

MODULES = sorted((ROOT / "launcher/sandbox/aws").glob("*.py"))
PLUMBING = {
    *("__init__", "access_log", "boot_scripts", "error_responses", "intrinsics", "issued_keys", "ledger", "model"),
    *("placeholder", "prerequisites", "references", "registration", "resources", "web"),
}
"""Modules that emulate no service of their own."""
JUDGE = re.compile(
    r"Judged by:|service-2\.json|botocore \d|moto \d|cfn-lint \d|user guide|API reference|pcs_request\.py"
    r"|aws-cloudformation-resource-providers|ParallelCluster \d"
)
NAMED = re.compile(r"\b(botocore|moto|cfn-lint) (\d+\.\d+\.\d+)")


def docstring(path):
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_emulated_service_names_the_reference_of_comparison(path):
    assert path.stem in PLUMBING or JUDGE.search(" ".join(docstring(path).split()))


def test_references_of_comparison_have_the_locked_versions():
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    named = {match for path in MODULES for match in NAMED.findall(" ".join(docstring(path).split()))}
    assert {name for name, _ in named} == {"botocore", "moto", "cfn-lint"}
    assert {f"{name}=={version}" for name, version in named} <= set(re.findall(r"(?m)^[\w-]+==[\d.]+", lock))
