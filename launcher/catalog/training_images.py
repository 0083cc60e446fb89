"""AWS's own images to train in, by service and chip: what a pod or a training job takes where the plan names none.

training/images.csv          each image with its source and date
serving/image_accounts.csv   AWS's registry by region, the same for every image of the Deep Learning Containers
"""

import csv
from functools import lru_cache
from pathlib import Path

from launcher.catalog.serving_images import load_images
from launcher.model.instance_type import InstanceType

DATA = Path(__file__).parent / "data" / "training" / "images.csv"


@lru_cache(maxsize=1)
def _pinned() -> tuple[dict[str, str], ...]:
    """The rows of the table, read once."""
    with DATA.open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


def pinned_image(facts: InstanceType, service: str = "ec2") -> str | None:
    """The repository and tag of AWS's image for a type; None where there is none for the chip and its software."""
    if facts.chip is None:
        return None
    stack = facts.chip.training_stack.name if facts.chip.training_stack is not None else ""
    wanted = (service, facts.chip.family, stack)
    row = next(
        (each for each in _pinned() if (each["service"], each["family"], each["training_stack"]) == wanted), None
    )
    return None if row is None else f"{row['repository']}:{row['tag']}"


def training_image(facts: InstanceType, region: str, service: str = "ec2") -> str | None:
    """Where AWS's image for a type's chips and software is pulled from; None where there is none that is known.

    Args:
        facts: the type.
        region: whose registry.
        service: "ec2", or "sagemaker" for training jobs.

    >>> from launcher.catalog.load import load
    >>> training_image(load().instance_types["trn1.32xlarge"], "us-east-2").rpartition("/")[2]
    'pytorch-training-neuronx:2.9.0-neuronx-py312-sdk2.28.0-ubuntu24.04'
    >>> training_image(load().instance_types["trn2.48xlarge"], "us-east-2") is None
    True
    """
    tag, account = pinned_image(facts, service), load_images().accounts.get(region)
    if tag is None or account is None:
        return None
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"{account}.dkr.ecr.{region}.{suffix}/{tag}"
