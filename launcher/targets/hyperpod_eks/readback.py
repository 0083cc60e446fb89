"""Compares a HyperPod cluster with EKS with the plan: HyperPod's nodes, the team's quota, and the control plane."""

from launcher.targets.eks.readback import CONTROL_PLANE
from launcher.targets.hyperpod_slurm import readback as hyperpod
from launcher.workflow.cluster.readback.reading import Readback
from launcher.workflow.cluster.readback.training import around

READBACK = Readback(
    readers=around(
        (hyperpod.cluster, ("AWS::SageMaker::Cluster",)),
        (hyperpod.quotas, ("AWS::SageMaker::ComputeQuota",)),
        *CONTROL_PLANE,
    ),
    instances=hyperpod.READBACK.instances,
)
