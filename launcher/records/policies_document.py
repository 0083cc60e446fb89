"""slipway.policies/1: the files of an account's policies, and the commands that make them."""

from collections.abc import Mapping, Sequence
from typing import Any


def policies_document(
    account: str, boundary_arn: str | None, policies: Sequence[Mapping[str, Any]], commands: Sequence[str]
) -> dict[str, Any]:
    """The policies of an account as JSON.

    Args:
        account: its id.
        boundary_arn: the permissions boundary that is in use; None without one.
        policies: of each its name, arn, file, characters, for whom it is and what it holds.
        commands: in the order they are run.
    """
    return {
        "schema": "slipway.policies/1",
        "account": account,
        "boundary_arn": boundary_arn,
        "policies": [dict(each) for each in policies],
        "commands": list(commands),
    }
