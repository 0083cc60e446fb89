"""ParallelCluster takes what holds for all targets, wherever EC2 has it."""

from launcher.planning.targets import Rules

RULES = Rules()
