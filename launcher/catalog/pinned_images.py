"""The training images of jobs, by chip and software, and AWS's registry by region.

training/images.csv         each image with its source and date
serving/image_accounts.csv  the account of the registry, the same for training and serving images
"""

import csv
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from launcher.model.instance_type import InstanceType

DATA = Path(__file__).parent / "data" / "training" / "images.csv"
ACCOUNTS = Path(__file__).parent / "data" / "serving" / "image_accounts.csv"


@lru_cache(maxsize=1)
def _pinned_rows() -> tuple[dict[str, str], ...]:
    """The rows of the table, read once."""
    with DATA.open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


@lru_cache(maxsize=1)
def registry_accounts() -> Mapping[str, str]:
    """The account of AWS's registry by region, read once."""
    with ACCOUNTS.open(encoding="utf-8", newline="") as file:
        return {row["region"]: row["account"] for row in csv.DictReader(file)}


def pinned_image(facts: InstanceType, service: str = "ec2") -> str | None:
    """The repository and tag of AWS's image for a type; None without one for the chip and its software."""
    if facts.chip is None:
        return None
    stack = facts.chip.training_stack.name if facts.chip.training_stack is not None else ""
    wanted_key = (service, facts.chip.family, stack)
    row = next(
        (
            pinned
            for pinned in _pinned_rows()
            if (pinned["service"], pinned["family"], pinned["training_stack"]) == wanted_key
        ),
        None,
    )
    return None if row is None else f"{row['repository']}:{row['tag']}"
