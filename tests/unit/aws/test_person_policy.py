"""The policy of the slipway user, compared with every AWS call that the launcher can make."""

import json

from launcher.catalog.permissions import load_permissions
from launcher.rendering.policies import DOCTOR, PERSON, Account, render_policy
from launcher.targets.registry import TARGETS
from launcher.workflow.cluster.readback.training import GRANTING
from tests.infra.iam import ACCOUNT, actions
from tests.launcher_calls import AWS, FREE, RENAMED, calls


def test_every_call_of_the_launcher_is_allowed_to_the_user():
    """But for those that it makes as the access role of a cluster (tests/infra/test_eks.py holds what that has)."""
    account = Account(id=ACCOUNT, qualifier="hnb659fds", boundary_arn=None)
    personal = [name for target in TARGETS.values() for name in target.person]
    texts = [render_policy(load_permissions(), name, account).text for name in (PERSON, DOCTOR, *personal)]
    allowed = FREE.union(GRANTING, *(actions(json.loads(text)) for text in texts))
    lacking = {}
    for path in sorted(AWS.glob("*.py")):
        needed = {RENAMED.get(call, call) for call in calls(path)}
        if needed - allowed - {None}:
            lacking[path.name] = sorted(needed - allowed - {None})
    assert lacking == {}
