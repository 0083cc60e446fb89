"""The remark on commands that change an AWS account itself, which no policy of `slipway policies` allows its user."""

REMARK = "   ("
"""The separator between a command and the remark on it, which ends with a bracket."""
ADMINISTRATOR = "for an administrator of the account"


def by_administrator(command: str, more: str = "") -> str:
    """A command with the remark, and a further remark.

    >>> by_administrator("cdk bootstrap")
    'cdk bootstrap   (for an administrator of the account)'
    """
    return f"{command}{REMARK}{ADMINISTRATOR}{'; ' if more else ''}{more})"
