"""Which of AWS's public files answer for some questions, and what of them only an account can ask."""

from collections.abc import Sequence

from launcher.catalog.bill import item_questions
from launcher.catalog.load import Catalog
from launcher.catalog.selector import SAGEMAKER
from launcher.workflow.quote.price_needs import (
    BILL_ITEM,
    CAPACITY_BLOCK,
    ON_DEMAND,
    PRICE_FILE,
    SAVINGS_PLAN,
    SPOT,
    SPOT_BAND,
    SPOT_PAGE,
    TRAINING_PLAN,
    Question,
)

FIRST_REGIONS = ("us-east-1", "us-east-2", "us-west-2")
"""Whose price files are read when nobody names a region: a file of EC2 has hundreds of megabytes."""
EVERY_TYPE = ("all types",)
_SIGNED = (CAPACITY_BLOCK, TRAINING_PLAN, SAVINGS_PLAN)


def public_files(questions: Sequence[Question], catalog: Catalog, regions: Sequence[str]) -> tuple[Question, ...]:
    """The files to read: price files of `regions`, the spot page, the advisor's bands."""
    kinds = {each.kind for each in questions}
    everywhere = tuple(catalog.regions)
    found = [Question(kind=SPOT_PAGE, names=EVERY_TYPE, regions=everywhere)] if SPOT in kinds else []
    found.append(bands(catalog))
    machines = [name for kind, name in ((ON_DEMAND, "AmazonEC2"), (SAGEMAKER, "AmazonSageMaker")) if kind in kinds]
    pairs = [(name, region) for region in regions for name in machines] + list(item_questions(regions))
    found += [Question(kind=PRICE_FILE, names=(name,), regions=(region,)) for name, region in dict.fromkeys(pairs)]
    return tuple(found)


def bands(catalog: Catalog) -> Question:
    """The question for the advisor's bands, of every type in every region: it is one file."""
    return Question(kind=SPOT_BAND, names=EVERY_TYPE, regions=tuple(catalog.regions))


def bands_and_items(questions: Sequence[Question], catalog: Catalog) -> tuple[Question, ...]:
    """What prices are held against and surrounded by: the advisor's bands, and the bill items of the regions."""
    regions = dict.fromkeys(region for each in questions for region in each.regions)
    items = (Question(kind=BILL_ITEM, names=(name,), regions=(where,)) for name, where in item_questions(regions))
    return (bands(catalog), *items)


def unasked(questions: Sequence[Question]) -> tuple[str, ...]:
    """Kinds of price among some questions that AWS publishes for no account alone."""
    kinds = {each.kind for each in questions}
    return tuple(each for each in _SIGNED if each in kinds)
