"""Updates of a HyperPod cluster with EKS."""

from launcher.model.service_updates import EKS_TYPE, HYPERPOD_TYPE, eks_version, head_group, hyperpod_groups
from launcher.model.update import Updates

UPDATES = Updates(
    compare={HYPERPOD_TYPE: hyperpod_groups, EKS_TYPE: eks_version}, head_type={HYPERPOD_TYPE: head_group}
)
