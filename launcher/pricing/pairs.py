"""GPU and Trainium under one purchase option: like is compared with like."""

import math
from collections.abc import Iterator
from decimal import Decimal

from launcher.model.announced_end import AnnouncedEnd
from launcher.model.enums import Availability, PurchaseOption
from launcher.model.money import Price, UsdRange
from launcher.model.plan import Place
from launcher.model.quote import Quote
from launcher.model.record import record
from launcher.model.target import target_of
from launcher.pricing.ages import age, rests_on
from launcher.pricing.context import PricingContext
from launcher.pricing.normal import Z_OF_THE_ENDS, normal_below

CLOSE = (0.3, 0.7)
"""The chance that one side is cheaper between which a comparison is too close to call: a policy of this project."""
SURE = 0.95
GUIDES = "30 to 50 %"
"""By how much the buying guides of 2026 put Trainium below GPUs (`reasoning.SOURCE`)."""


def option_name(place: Place) -> str:
    """The purchase option of a place in words; SageMaker's spot is one of its own."""
    managed = place.option is PurchaseOption.SPOT and target_of(place.target).managed_spot
    return "managed spot" if managed else place.option.value.replace("-", " ")


@record
class Pair:
    """The cheapest candidate of each side under one purchase option; a side is None if it has none.

    `name` is the option in words. `allowed` means that the gate allows both sides.
    """

    name: str
    gpu: Quote | None
    trainium: Quote | None
    allowed: bool

    @property
    def totals(self) -> tuple[UsdRange, UsdRange] | None:
        """The totals of both sides; None if one is missing."""
        if self.gpu is None or self.trainium is None or self.gpu.usd is None or self.trainium.usd is None:
            return None
        return self.gpu.usd, self.trainium.usd

    @property
    def chance(self) -> float | None:
        """The chance that a run on Trainium is cheaper; None if a side is missing."""
        totals = self.totals
        return None if totals is None else round(chance_below(totals[1], totals[0]), 3)

    @property
    def place(self) -> str:
        """The option and the region or regions, to begin a sentence with."""
        name = self.name[0].upper() + self.name[1:]
        quotes = [quote for quote in (self.gpu, self.trainium) if quote is not None]
        regions = list(dict.fromkeys(quote.plan.place.region for quote in quotes))
        if len(regions) == 1:
            return f"{name} in {regions[0]}"
        return f"{name} (GPU in {regions[0]}, Trainium in {regions[-1]})"


def chance_below(one: UsdRange, other: UsdRange) -> float:
    """The chance that one total is below another, independent of it: lognormals, each side with its own width.

    >>> from decimal import Decimal as D
    >>> a, b = (UsdRange(low=D(mid) / 2, mid=D(mid), high=D(mid) * 2) for mid in (100, 200))
    >>> round(chance_below(a, b), 2), round(chance_below(b, a), 2), chance_below(a, a)
    (0.82, 0.18, 0.5)
    """
    if one.mid <= 0 or other.mid <= 0:
        return 0.5 if one.mid == other.mid else float(one.mid < other.mid)
    distance = float((other.mid / one.mid).ln())
    less = one.mid <= other.mid
    width = math.hypot(_width(one, upwards=less), _width(other, upwards=not less)) / Z_OF_THE_ENDS
    if width == 0:
        return 0.5 if distance == 0 else float(distance > 0)
    return normal_below(distance / width)


def _width(usd: UsdRange, *, upwards: bool) -> float:
    end = usd.high if upwards else usd.low
    return abs(float((end / usd.mid).ln())) if end > 0 else math.inf


def is_close(chance: float) -> bool:
    """Whether a chance is too close to call."""
    return CLOSE[0] <= chance <= CLOSE[1]


def cases(chance: float) -> str:
    """A chance above one half in words.

    >>> cases(0.9), cases(0.72), cases(0.99)
    ('in 9 cases of 10', 'in 7 cases of 10', 'in more than 19 cases of 20')
    """
    return "in more than 19 cases of 20" if chance > SURE else f"in {round(chance * 10)} cases of 10"


def stale(pair: Pair, context: PricingContext) -> str:
    """The sentence on the old prices that a comparison rests on; "" if the gate allows both sides."""
    if pair.allowed:
        return ""
    ages = []
    for quote in (pair.gpu, pair.trainium):
        if quote is not None and isinstance(quote.price, Price):
            option, rules = rests_on(quote.plan.place), context.rules
            days = age(quote.price, option, rules.today, rules.max_age_days)
            if days.too_old:
                ages.append(days.days)
    if not ages:
        return " A launch of these rows would be refused."
    return f" It rests on {pair.name} prices of {max(ages)} days ago."


def option_flips(pairs: tuple[Pair, ...], decided: Pair | None) -> Iterator[str]:
    """What the other purchase options say."""
    for pair in pairs:
        totals = pair.totals
        if totals is None or pair is decided:
            continue
        gpu, trainium = totals
        chance = chance_below(trainium, gpu)
        says = "too close to call"
        if not is_close(chance):
            says = f"{'Trainium' if chance > CLOSE[1] else 'GPU'} cheaper {cases(max(chance, 1 - chance))}"
        yield f"{pair.name} on both sides: GPU ${gpu.mid:,.0f}, Trainium ${trainium.mid:,.0f} a run ({says})"


def capacity_reasons(pairs: tuple[Pair, ...], decided: Pair | None) -> Iterator[str]:
    """What is known of the capacity of the two sides, and which side cannot be had under an option."""
    if decided is not None:
        for title, quote in (("GPU", decided.gpu), ("Trainium", decided.trainium)):
            if quote is not None and (text := _CAPACITY.get(quote.availability)):
                yield f"capacity, {title}: {text.format(type=quote.plan.place.instance_type)}"
    on_demand = next((pair for pair in pairs if pair.name == "on demand"), None)
    if on_demand is None:
        return
    for title, quote in (("GPU", on_demand.gpu), ("Trainium", on_demand.trainium)):
        if quote is None:
            yield f"capacity: no {title} instance that fits the job has a price on demand here: blocks or spot only"


_CAPACITY = {
    Availability.OFFERED: "{type} is sold there; whether instances are free shows at the request or with --live",
    Availability.LEAD_TIME: "a block of {type} begins when AWS offers one: --live shows the offers",
    Availability.NO_MARKET: "the price of {type} shows no market: it may never start",
}


def guides_reason(pair: Pair) -> str:
    """The claim of the buying guides beside the plan's own figure, with the reason; "" if a side is missing."""
    totals = pair.totals
    if totals is None or pair.gpu is None or pair.trainium is None or not totals[0].mid:
        return ""
    share = float(totals[1].mid / totals[0].mid) - 1
    here = f"{abs(share):.0%} {'above' if share > 0 else 'below'} GPUs".replace("%", " %")
    sides = " against ".join(_pace(quote) for quote in (pair.trainium, pair.gpu))
    return f"guides put Trainium {GUIDES} below GPUs; here it is {here} ({pair.name}): {sides}"


def _pace(quote: Quote) -> str:
    place, rate = quote.plan.place, quote.usd_per_hour
    hourly = "" if rate is None else f" at ${float(rate):,.2f}/h"
    return f"{place.nodes} × {place.instance_type}{hourly} for {quote.hours.mid:,.1f} h"


def stack_end(quote: Quote | None) -> AnnouncedEnd | None:
    """The announced end of the training stack that a candidate needs, past or within a year; None without one."""
    ends = () if quote is None else quote.ends
    return next((end for end in ends if end.key.startswith("stack/")), None)


def over_runs(usd: UsdRange, runs: int, once: Decimal = Decimal(0), each: Decimal = Decimal(0)) -> UsdRange:
    """The total of all runs: `once` is paid once, `each` with every run."""
    low, mid, high = (once + runs * (end + each) for end in (usd.low, usd.mid, usd.high))
    return UsdRange(low=low, mid=mid, high=high)
