"""Compares the resources of training jobs with the plan."""

from launcher.workflow.cluster.readback.reading import Readback
from launcher.workflow.cluster.readback.training import around

READBACK = Readback(readers=around())
