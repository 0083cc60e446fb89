"""ParallelCluster has no rules of its own beyond those of all targets; it runs wherever EC2 has the type."""

from launcher.planning.targets import Rules

RULES = Rules()
