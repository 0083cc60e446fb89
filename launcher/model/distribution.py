"""The project's name in the package index, where `slipway` belongs to another project (read 2026-11-22)."""

DISTRIBUTION = "slipway-aws"


def install_hint(extra: str) -> str:
    """The command that installs a missing optional part.

    >>> install_hint("eks")
    "pip install 'slipway-aws[eks]'"
    """
    return f"pip install '{DISTRIBUTION}[{extra}]'"
