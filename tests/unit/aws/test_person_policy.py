"""The policy of the slipway user, compared with every AWS call that the launcher can make."""

import ast
import json

from launcher.catalog.permissions import load_permissions
from launcher.rendering.policies import DOCTOR, PERSON, PolicyAccount, render_policy
from launcher.targets.registry import TARGETS
from launcher.workflow.cluster.readback.training import GRANTING
from tests.infra.iam import ACCOUNT, actions
from tests.launcher_calls import AWS, FREE, RENAMED, calls, calls_of


def test_every_call_of_the_launcher_is_allowed_to_the_user():
    """But for those that it makes as the access role of a cluster (tests/infra/test_eks.py holds what that has)."""
    account = PolicyAccount(id=ACCOUNT, qualifier="hnb659fds", boundary_arn=None)
    personal = [name for target in TARGETS.values() for name in target.person]
    texts = [render_policy(load_permissions(), name, account).text for name in (PERSON, DOCTOR, *personal)]
    allowed = FREE.union(GRANTING, *(actions(json.loads(text)) for text in texts))
    lacking = {}
    for path in sorted(AWS.glob("*.py")):
        needed = {RENAMED.get(call, call) for call in calls(path)}
        if needed - allowed - {None}:
            lacking[path.name] = sorted(needed - allowed - {None})
    assert lacking == {}


OPTIONAL = ("workflow/doctor/", "workflow/history/", "workflow/quote/", "aws/")
"""Folders of launcher/ whose commands report what they may not read; launcher/aws makes the calls for the others."""


def used_functions(path):
    """The functions of launcher/aws that a module imports or calls, each with its own module's name."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    modules = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "launcher.aws":
            modules |= {name.asname or name.name: name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith("launcher.aws."):
            yield from ((node.module.rpartition(".")[2], name.name) for name in node.names)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            yield modules[node.value.id], node.attr


def test_launches_need_no_call_of_the_optional_policy():
    """`slipway policies` calls SlipwayDoctor optional: what a launch calls is in the other policies."""
    account = PolicyAccount(id=ACCOUNT, qualifier="hnb659fds", boundary_arn=None)
    personal = [PERSON, *(name for target in TARGETS.values() for name in target.person)]
    documents = {
        name: json.loads(render_policy(load_permissions(), name, account).text) for name in (DOCTOR, *personal)
    }
    optional = actions(documents[DOCTOR]).difference(*(actions(documents[name]) for name in personal))
    used = {
        function
        for path in AWS.parent.rglob("*.py")
        if not str(path.relative_to(AWS.parent)).startswith((*OPTIONAL, "sandbox/", "agent/"))
        for function in used_functions(path)
    }
    lacking, checked = set(), 0
    for path in sorted(AWS.glob("*.py")):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        for function in (node for node in body if isinstance(node, ast.FunctionDef)):
            needed = calls_of(function) & optional
            checked += bool(needed)
            if needed and (path.stem, function.name) in used:
                lacking |= {(path.name, function.name, action) for action in needed}
    assert checked
    assert lacking == set()
