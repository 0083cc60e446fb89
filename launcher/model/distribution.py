"""The project's name in the package index, where `slipway` belongs to another project (read 2026-11-22)."""

DISTRIBUTION = "slipway-aws"


def install_hint(extra: str) -> str:
    """What a person types for a part that is not installed.

    >>> install_hint("eks")
    "pip install 'slipway-aws[eks]'"
    """
    return f"pip install '{DISTRIBUTION}[{extra}]'"
