"""A construct whose cost is known: what the gate of an app asks it."""

from decimal import Decimal

from constructs import Construct


class PricedConstruct(Construct):
    """A construct with the quote of its plan.

    Attributes:
        high_usd: the total that 1 run in 10 exceeds, of one run or one month; None if a part has no price.
        refusal: why the gate refuses the plan; empty if it does not.
        remedy: what to change so that the gate allows the plan.
        gated: whether the construct's own gate reports this refusal.
    """

    high_usd: Decimal | None
    refusal: str
    remedy: str
    gated: bool
