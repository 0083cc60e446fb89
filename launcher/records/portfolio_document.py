"""slipway.portfolio/1: several plans, each with its best option, one total a month, and all on one chip."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from launcher.model.finding import Finding
from launcher.model.instance_type import InstanceType
from launcher.model.money import UsdRange
from launcher.model.quote import Quote
from launcher.pricing.held_commitments import HeldCommitment
from launcher.records.documents import Json, candidate, finding, money, usd_span


class Entry(NamedTuple):
    """One plan of a portfolio."""

    file: str
    name: str
    kind: str
    rank: int | None
    choice: Quote | None
    usd_per_month: UsdRange | None


class Chip(NamedTuple):
    """All plans on one kind of chip."""

    accelerator: str
    family: str
    usd_per_month: Decimal
    missing: tuple[str, ...]


def portfolio_document(
    *,
    now: datetime,
    entries: Sequence[Entry],
    total: UsdRange,
    commitments: Sequence[HeldCommitment],
    chips: Sequence[Chip],
    findings: Sequence[Finding],
    types: Mapping[str, InstanceType],
) -> Json:
    """The object of the contract. `difference_usd` is null where a chip cannot carry every plan."""
    unpriced = [each.name for each in entries if each.usd_per_month is None]
    return {
        "schema": "slipway.portfolio/1",
        "as_of": now.isoformat(),
        "plans": [
            {
                "file": each.file,
                "name": each.name,
                "kind": each.kind,
                "usd_per_month": usd_span(each.usd_per_month),
                "choice": candidate(each.choice, each.rank or 0, types) if each.choice is not None else None,
            }
            for each in entries
        ],
        "usd_per_month": usd_span(total),
        "incomplete": bool(unpriced),
        "unpriced": unpriced,
        "commitments": [_held(each) for each in commitments],
        "one_chip": [
            {
                "accelerator": each.accelerator,
                "family": each.family,
                "usd_per_month": money(each.usd_per_month),
                "difference_usd": None if each.missing or unpriced else money(each.usd_per_month - total.mid),
                "missing": list(each.missing),
            }
            for each in chips
        ],
        "findings": [finding(each) for each in findings],
    }


def _held(each: HeldCommitment) -> Json:
    """A commitment that is held once for several plans."""
    return {
        "instance_type": each.instance_type,
        "region": each.region,
        "purchase_option": each.option.value,
        "plan_kind": None if each.plan_kind is None else each.plan_kind.value,
        "term_years": each.term_years,
        "instances": each.instances,
        "usd_per_month": money(each.usd_per_month),
        "utilisation": each.share,
        "plans": list(each.plans),
    }
