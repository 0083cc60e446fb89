"""Whether the gate would allow a candidate now, and the kind of reason if not: the first key of the order of rows."""

from collections.abc import Callable, Iterable
from enum import IntEnum

from launcher.model.money import Price
from launcher.model.plan import Place
from launcher.model.quote import Gate
from launcher.pricing.ages import age, rests_on
from launcher.pricing.candidate import AnyCandidate, Candidate, order
from launcher.pricing.compute import is_new_commitment
from launcher.pricing.context import PricingContext
from launcher.pricing.gate import OVER_BUDGET
from launcher.pricing.offers import is_unlisted


class Standing(IntEnum):
    """What the gate says of a candidate, in the order in which candidates are shown."""

    ALLOWED = 0
    STOPPED = 1
    """Allowed, and SageMaker may stop the job before its end: by the default of a quota, which an account can raise."""
    UNLISTED = 2
    """Allowed, and no source says that SageMaker sells the type in the region: its price follows from EC2's there."""
    UNNAMED = 3
    """Refused until the plan names the capacity that the user bought, or the weights that an endpoint loads."""
    OLD_PRICE = 4
    """Refused until the price is read again."""
    OVER_BUDGET = 5
    UNKNOWN_FEES = 6
    """Refused until the plan gives the fees of its service."""
    NOT_OWNED = 7
    """A commitment that a launch would not buy."""
    IMPOSSIBLE = 8
    UNPRICED = 9


AT_RISK = (Standing.STOPPED, Standing.UNLISTED)
"""What a launch does not refuse, and may not end well."""
COMPLETE = (Standing.ALLOWED, Standing.UNNAMED)
"""What a launch accepts, or would accept if the plan named what the user bought or stored."""


def standing(candidate: Candidate, gate: Callable[[], Gate]) -> Standing:
    """The standing of a candidate.

    Most candidates are judged without their quote; `gate` is the decision on the quote, which only a spending limit
    needs.
    """
    price, context = candidate.offer.price, candidate.context
    if candidate.usd is None or not isinstance(price, Price):
        return Standing.UNPRICED
    if candidate.refusals:
        return Standing.IMPOSSIBLE
    refused = (
        (Standing.NOT_OWNED, is_new_commitment(candidate.place, context.request)),
        (Standing.UNKNOWN_FEES, bool(candidate.unknown_fees)),
        (Standing.OLD_PRICE, is_old(price, candidate.place, context)),
    )
    reason = next((reason for reason, holds in refused if holds), Standing.ALLOWED)
    if reason is Standing.ALLOWED and _has_limit(context):
        decision = gate()
        by_code = {0: Standing.ALLOWED, OVER_BUDGET: Standing.OVER_BUDGET}
        if decision.reason not in [finding.message for finding in candidate.unnamed]:
            reason = by_code.get(decision.exit_code, Standing.IMPOSSIBLE)
    if reason is Standing.ALLOWED and candidate.unnamed:
        return Standing.UNNAMED
    return Standing.UNLISTED if reason is Standing.ALLOWED and is_unlisted(price) else reason


def is_old(price: Price, place: Place, context: PricingContext) -> bool:
    """Whether a price is too old for a launch on AWS."""
    rules = context.rules
    return age(price, rests_on(place), rules.today, rules.max_age_days).too_old


def _has_limit(context: PricingContext) -> bool:
    budget = context.request.budget
    limits = (budget.max_usd, budget.max_usd_per_hour, budget.stop_at_usd, context.rules.max_usd)
    return any(limit is not None for limit in limits)


def rank_candidates(
    candidates: Iterable[AnyCandidate], standing_of: Callable[[AnyCandidate], Standing]
) -> list[AnyCandidate]:
    """Candidates in display order: what can be launched now, then what is refused, by its reason; each by the total."""
    return sorted(candidates, key=lambda candidate: (standing_of(candidate), order(candidate)))
