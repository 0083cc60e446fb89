"""Every purchase option is in every table that needs one (docs/add-a-purchase-option.md)."""

import pytest

from launcher.catalog.fetched_prices import TABLES
from launcher.catalog.listing import KINDS
from launcher.catalog.selector import zoned_rows
from launcher.model.eks import CAPACITY_TYPES
from launcher.model.enums import PurchaseOption, TargetKind
from launcher.pricing.ages import ALLOWED_DAYS
from launcher.targets.parallelcluster.files import _CAPACITY_TYPES
from launcher.targets.registry import TARGETS

BY_TERM = {PurchaseOption.SAVINGS_PLAN, PurchaseOption.RESERVED}
OWN_FILE = {PurchaseOption.BEDROCK}
"""Its prices are no instance's (launcher/catalog/bedrock.py)."""


@pytest.mark.parametrize("option", PurchaseOption)
def test_purchase_option_has_a_price_table_and_an_allowed_age(catalog, option):
    assert ALLOWED_DAYS[option] > 0
    if option not in OWN_FILE:
        assert option.value in TABLES
        assert option.value in KINDS
    if option not in BY_TERM | OWN_FILE:
        assert zoned_rows(catalog.store, option.value)


@pytest.mark.parametrize(
    "kind, types", [(TargetKind.PARALLELCLUSTER, _CAPACITY_TYPES), (TargetKind.EKS, CAPACITY_TYPES)]
)
def test_purchase_option_of_a_target_has_a_capacity_type(kind, types):
    assert set(TARGETS[kind].trains) <= set(types)


def test_every_purchase_option_is_accepted_by_a_target():
    assert {option for row in TARGETS.values() for option in (*row.trains, *row.serves)} | OWN_FILE == set(
        PurchaseOption
    )
