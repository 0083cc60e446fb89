"""Doubts about the numbers of a candidate: their age, and newer unconfirmed information."""

from bisect import bisect_left
from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from functools import lru_cache

from launcher.catalog.plausibility import FALL_NOTE
from launcher.model.enums import Basis, Market, PurchaseOption
from launcher.model.finding import Finding, warning
from launcher.model.money import Price, Unpriced
from launcher.model.units import number_of
from launcher.pricing.ages import ALLOWED_BAND_DAYS, ALLOWED_BILL_DAYS, rests_on
from launcher.pricing.candidate import Candidate
from launcher.pricing.gate import age_findings
from launcher.pricing.offers import is_unlisted
from launcher.targets.registry import billed_name

MIN_SHARE = Decimal("0.1")
"""Share of on demand below which a spot price is doubtful: prices that low are rare; a choice of this project."""
UNLISTED = "unlisted-offer"
"""The code of the finding that no source has the type in the service's price list of the region."""
DOUBTFUL_PRICE = frozenset({"contradicted-price", "fallen-price", "odd-spot-price", UNLISTED})
"""Codes of the findings that mean that the price in use may not hold."""


def market_findings(candidate: Candidate) -> Iterator[Finding]:
    """A warning if a spot price does not come from an open market."""
    price, place = candidate.offer.price, candidate.place
    if isinstance(price, Price) and price.market is not Market.OPEN:
        message = f"{place.az_id or place.region} shows no spot market for {place.instance_type}"
        yield warning("no-spot-market", "purchase.option", message)


def trust_findings(candidate: Candidate) -> Iterator[Finding]:
    """A warning for each reason to doubt a candidate's numbers."""
    price, context = candidate.offer.price, candidate.context
    yield from age_findings(price, rests_on(candidate.place), context.rules)
    refresh = context.rules.changes.refresh
    if message := contradiction(candidate):
        yield warning("contradicted-price", "purchase.option", message, f"{refresh} reads current ones")
    if is_unlisted(price):
        name, region = billed_name(candidate.place), candidate.place.region
        message = f"no source says that SageMaker sells {name} in {region}: its price follows from EC2's there"
        yield warning(UNLISTED, "target.region", message, f"{refresh} reads SageMaker's price list there")
    yield from price_decrease(price)
    yield from _implausible_spot(candidate)
    dates, last = candidate.line_dates, context.rules.today - timedelta(days=ALLOWED_BILL_DAYS)
    if old := bisect_left(dates, (last, "")):
        yield _old_lines(old, *dates[0], refresh)
    band = candidate.hazard.band if candidate.hazard is not None and not candidate.hazard.from_plan else None
    if band is not None and (days := (context.rules.today - band.as_of).days) > ALLOWED_BAND_DAYS:
        message = f"the Spot Advisor's band is {number_of(days, 'day')} old; {ALLOWED_BAND_DAYS} are allowed"
        fix = f"{refresh}, or a rate of your own in purchase.interruptions_per_node_hour"
        yield warning("old-band", "purchase.interruptions_per_node_hour", message, fix)


def contradiction(candidate: Candidate) -> str:
    """A newer unverified row next to the price in use, in words; "" without one, or if the price is the user's."""
    price, place, context = candidate.offer.price, candidate.place, candidate.context
    key = candidate.offer.key
    if not isinstance(price, Price) or key is None:
        return ""
    selector = context.catalog.selector
    row = selector.contradiction(key)
    used = None if row is None else selector.row(key)
    if row is None or used is None or price.as_of.isoformat() != used.as_of:
        return ""
    subject = f"{billed_name(place)} {place.option.value.replace('-', ' ')} in {place.region}"
    return f"{subject}: price used ${used.usd} ({used.as_of}); a newer one, ${row.usd} ({row.as_of}), is unverified"


def price_decrease(price: Price | Unpriced) -> Iterator[Finding]:
    """A warning if a cached price is far below its predecessor."""
    if not isinstance(price, Price) or FALL_NOTE not in price.note:
        return
    for note in price.note.split("; "):
        if note.startswith(FALL_NOTE):
            yield warning("fallen-price", "purchase.option", f"the price {note}", "compare it with AWS's price page")


def _implausible_spot(candidate: Candidate) -> Iterator[Finding]:
    price, place, catalog = candidate.offer.price, candidate.place, candidate.context.catalog
    if place.option is not PurchaseOption.SPOT or not isinstance(price, Price) or price.basis is Basis.USER:
        return
    whole = catalog.on_demand(billed_name(place), place.region)
    if not isinstance(whole, Price) or whole.usd * MIN_SHARE <= price.usd <= whole.usd:
        return
    relation = "over" if price.usd > whole.usd else "under a tenth of"
    message = f"spot at ${price.usd:f} is {relation} the ${whole.usd:f} of on demand in {place.region} ({price.as_of})"
    yield warning("odd-spot-price", "purchase.option", message, "check it in the EC2 console before you rely on it")


@lru_cache(maxsize=256)
def _old_lines(old: int, as_of: date, name: str, refresh: str) -> Finding:
    """One warning for all non-compute lines whose prices are too old, computed once for rows with equal lines.

    `old` counts them; `as_of` and `name` are those of the oldest.
    """
    lines = "1 line of the bill rests" if old == 1 else f"{old} lines of the bill rest"
    message = f"{lines} on prices older than {ALLOWED_BILL_DAYS} days, the oldest ({name}) of {as_of}"
    return warning("old-bill-prices", "", message, f"{refresh} reads current ones")
