"""Updates of a HyperPod cluster with Slurm."""

from launcher.model.service_updates import HYPERPOD_TYPE, head_group, hyperpod_groups
from launcher.model.update import Updates

UPDATES = Updates(compare={HYPERPOD_TYPE: hyperpod_groups}, head_type={HYPERPOD_TYPE: head_group})
