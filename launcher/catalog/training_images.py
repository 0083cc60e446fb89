"""AWS's training images by service and chip: the default image of a pod or a training job.

training/images.csv          each image with its source and date
serving/image_accounts.csv   AWS's registry by region, the same for every image of the Deep Learning Containers
"""

from launcher.catalog.pinned_images import pinned_image, registry_accounts
from launcher.model.instance_type import InstanceType


def training_image(facts: InstanceType, region: str, service: str = "ec2") -> str | None:
    """The pull URI of AWS's image for a type's chips and software; None if none is known.

    `service`: "ec2", or "sagemaker" for training jobs.

    >>> from launcher.catalog.load import load
    >>> training_image(load().instance_types["trn1.32xlarge"], "us-east-2").rpartition("/")[2]
    'pytorch-training-neuronx:2.9.0-neuronx-py312-sdk2.28.0-ubuntu24.04'
    >>> training_image(load().instance_types["trn2.48xlarge"], "us-east-2") is None
    True
    """
    tag, account = pinned_image(facts, service), registry_accounts().get(region)
    if tag is None or account is None:
        return None
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"{account}.dkr.ecr.{region}.{suffix}/{tag}"
