"""The name that the package index knows this project by: `slipway` belongs to another one there (read 2026-11-22)."""

DISTRIBUTION = "slipway-aws"


def install_hint(extra: str) -> str:
    """What a person types for a part that is not installed.

    >>> install_hint("eks")
    "pip install 'slipway-aws[eks]'"
    """
    return f"pip install '{DISTRIBUTION}[{extra}]'"
