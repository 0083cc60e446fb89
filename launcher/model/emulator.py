"""What production code knows of the emulated AWS without loading it."""

MARK = "SLIPWAY_SANDBOX_ID"
"""The variable of every process of a sandbox, with the sandbox's mark: in its environment AWS is emulated."""
EMULATED_ACCOUNT = "123456789012"
"""The account that is emulated."""
