"""The age of a page's prices in one line, and newer information that contradicts them."""

from collections.abc import Iterable, Sequence
from datetime import date

from launcher.answers import words
from launcher.answers.lines import fold
from launcher.model.enums import PurchaseOption
from launcher.model.money import Price
from launcher.pricing.ages import age, rests_on
from launcher.pricing.candidate import Candidate
from launcher.pricing.trust import contradiction

MAX_CONTRADICTIONS = 3


def price_ages(candidates: Sequence[Candidate]) -> str:
    """The oldest price of each purchase option among some candidates, and the command to refresh it; "" without any."""
    oldest: dict[PurchaseOption, date] = {}
    old, today = False, None
    for candidate in candidates:
        price, option, rules = candidate.offer.price, rests_on(candidate.place), candidate.context.rules
        if isinstance(price, Price):
            today = rules.today
            oldest[option] = min(price.as_of, oldest.get(option, price.as_of))
            old = old or age(price, option, today, rules.max_age_days).too_old
    if today is None:
        return ""
    parts = [f"{option.value.replace('-', ' ')} {words.age(as_of, today)}" for option, as_of in oldest.items()]
    trust = ": refresh before you trust them (slipway prices refresh)" if old else ""
    return f"Prices: {', '.join(parts)}{trust}."


def price_dates(candidates: Iterable[Candidate]) -> str:
    """The oldest and the newest date of the prices of some candidates, in a sentence; "" without a price."""
    prices = (candidate.offer.price for candidate in candidates)
    dates = [price.as_of for price in prices if isinstance(price, Price)]
    if not dates:
        return ""
    oldest, newest = min(dates), max(dates)
    return f"Prices of {oldest}." if oldest == newest else f"Prices: {oldest} to {newest}."


def contradictions(candidates: Iterable[Candidate], width: int) -> list[str]:
    """The first few newer unverified prices that contradict prices in use."""
    texts = list(dict.fromkeys(text for candidate in candidates if (text := contradiction(candidate))))
    lines = [piece for contradicted in texts[:MAX_CONTRADICTIONS] for piece in fold(f"  {contradicted}.", width)]
    more = len(texts) - MAX_CONTRADICTIONS
    return [*lines, f"  {more} more prices are contradicted so: slipway prices show"] if more > 0 else lines


def ages_lines(candidates: Sequence[Candidate], width: int) -> list[str]:
    """Ages and contradictions, as the lines of a page."""
    ages = price_ages(candidates)
    return [*(fold(f"  {ages}", width) if ages else []), *contradictions(candidates, width)]
