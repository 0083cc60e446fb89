"""The AWS CLI's command lines in the texts of the launcher, the stacks and the guards, with IAM's action of each."""

import ast
import re

import botocore.session

from launcher.catalog.assets import root
from tests.infra.guarded_plans import ENDPOINTS, KINDS
from tests.launcher_calls import PREFIXES, RENAMED, operations

FOLDERS = ("launcher", "infra", "templates/guard")
NOT_PRINTED = ("launcher/sandbox", "launcher/agent")
"""Emulators, and the agent, whose calls are a node's (test_node_calls.py)."""
OF_CLI = {
    "ec2 authorize-security-group": "ec2:AuthorizeSecurityGroupIngress",  # or egress
    "eks update-kubeconfig": "eks:DescribeCluster",
    "logs tail": "logs:FilterLogEvents",
    "s3 cp": "s3:PutObject",
    "s3 ls": "s3:ListBucket",
    "s3 rb": "s3:DeleteBucket",
    "s3 rm": "s3:DeleteObject",
    "s3 sync": "s3:PutObject",
}
"""The AWS CLI's own commands (its user guide), and a command whose last word is a value."""
WITHOUT_RIGHTS = {"configure sso", "sso login"}
_COMMAND = re.compile(r"\baws ([a-z0-9-]+) ([a-z]+(?:-[a-z0-9]+)*)")
_KINDS = (
    ("hyperpod_eks", ("hyperpod-eks",)),
    ("hyperpod_slurm", ("hyperpod-slurm",)),
    ("hyperpod", ("hyperpod-slurm", "hyperpod-eks")),
    ("sagemaker_training", ("sagemaker-training",)),
    ("training_job", ("sagemaker-training",)),
    ("endpoint", tuple(ENDPOINTS)),
    *((name, (name,)) for name in ("parallelcluster", "pcs", "eks", "ec2")),
)
"""The kinds of a module whose file or folder has a word in its name; the first word counts."""
_OTHER_KINDS = {
    # Only endpoints' logs are elsewhere.
    "launcher/cli/logs.py": tuple(ENDPOINTS),
}


def printed_commands():
    """Each command line once per module: its path, the kinds whose users read it, its two words, IAM's action.

    The kinds are empty for a module of no kind. A word that is no command of the AWS CLI raises.
    """
    services = set(botocore.session.get_session().get_available_services())
    for folder in FOLDERS:
        for path in sorted((root() / folder).rglob("*.py")):
            name = str(path.relative_to(root()))
            if name.startswith(NOT_PRINTED):
                continue
            for service, command in sorted(_commands(path)):
                words = f"{service} {command}"
                if service in services and words not in WITHOUT_RIGHTS:
                    yield name, _kinds(path, name), words, _action(service, command)


def _commands(path):
    """The commands in a module's texts; in a text with values, each value is a space."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _COMMAND.findall(node.value)
        elif isinstance(node, ast.List):
            words = [item.value if isinstance(item, ast.Constant) else "" for item in node.elts]
            yield from _COMMAND.findall(" ".join(map(str, words)))


def _kinds(path, name):
    place = f"{path.parent.name} {path.stem}"
    found = next((kinds for word, kinds in _KINDS if word in place), ())
    assert set(found) <= set(KINDS)
    return _OTHER_KINDS.get(name, found)


def _action(service, command):
    words = f"{service} {command}"
    if words in OF_CLI:
        return OF_CLI[words]
    operation = operations(service).get(command.replace("-", "_"))
    assert operation is not None, f"aws {words} is no command: add it to OF_CLI if it is one of the AWS CLI's own"
    action = f"{PREFIXES.get(service, service)}:{operation}"
    return RENAMED.get(action, action)
