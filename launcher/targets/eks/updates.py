"""Updates of an EKS cluster; its system group changes to another type in place."""

from launcher.model.service_updates import EKS_TYPE, eks_version
from launcher.model.update import Updates

UPDATES = Updates(compare={EKS_TYPE: eks_version}, head_type={})
