"""GPU and Trainium under one purchase option: like is compared with like."""

from collections.abc import Iterator, Sequence

from launcher.model.announced_end import AnnouncedEnd
from launcher.model.enums import Availability, PurchaseOption
from launcher.model.money import Price, UsdRange
from launcher.model.plan import Place
from launcher.model.quote import Quote
from launcher.model.record import record
from launcher.planning.quotas import DEFAULT_QUOTA
from launcher.pricing.ages import age, rests_on
from launcher.pricing.chances import BothOutcomes, chance_below
from launcher.pricing.context import PricingContext
from launcher.pricing.offers import is_unlisted
from launcher.pricing.trust import UNLISTED
from launcher.targets.registry import target_of

CLOSE = (0.3, 0.7)
"""The chance that one side is cheaper between which a comparison is too close to call: a policy of this project."""
SURE = 0.95
ON_DEMAND = "on demand"
GUIDES = "30 to 50 %"
"""By how much the buying guides of 2026 put Trainium below GPUs (`reasoning.SOURCE`)."""
SIDES = ("GPU", "Trainium")
TOLD = frozenset((DEFAULT_QUOTA, UNLISTED))
"""The codes of findings that say that the instances may not be had."""
_CAPACITY = {
    Availability.OFFERED: "{type} is sold there; whether instances are free shows at the request or with --live",
    Availability.LEAD_TIME: "a block of {type} begins when AWS offers one: --live shows the offers",
    Availability.NO_MARKET: "the price of {type} shows no market: it may never start",
}


def option_name(place: Place) -> str:
    """The purchase option of a place in words; SageMaker's spot is one of its own."""
    managed = place.option is PurchaseOption.SPOT and target_of(place.target).managed_spot
    return "managed spot" if managed else place.option.value.replace("-", " ")


@record
class Pair:
    """The cheapest candidate of each side under one purchase option; a side is None if it has none.

    `name` is the option in words. `allowed` means that both sides can be launched, and no quota stops them;
    `to_buy` that capacity of one of them is to be bought before.
    `outcomes` are equally likely totals of GPU and of Trainium.
    """

    name: str
    gpu: Quote | None
    trainium: Quote | None
    allowed: bool
    to_buy: bool = False
    outcomes: BothOutcomes = ((), ())

    @property
    def refused_sides(self) -> tuple[str, ...]:
        """The sides that the gate refuses."""
        sides = zip(SIDES, (self.gpu, self.trainium), strict=True)
        return tuple(title for title, quote in sides if quote is not None and not quote.gate.allows_launch)

    @property
    def unlisted_sides(self) -> tuple[str, ...]:
        """The sides whose type no source lists in the region."""
        sides = zip(SIDES, (self.gpu, self.trainium), strict=True)
        return tuple(title for title, quote in sides if quote is not None and is_unlisted(quote.price))

    @property
    def totals(self) -> tuple[UsdRange, UsdRange] | None:
        """The totals of both sides; None if one is missing."""
        if self.gpu is None or self.trainium is None or self.gpu.usd is None or self.trainium.usd is None:
            return None
        return self.gpu.usd, self.trainium.usd

    @property
    def chance(self) -> float | None:
        """The chance that a run on Trainium is cheaper; None if a side is missing."""
        gpu, trainium = self.outcomes
        return None if self.totals is None else round(chance_below(trainium, gpu), 3)

    @property
    def place(self) -> str:
        """The option and the region or regions, to begin a sentence with."""
        name = self.name[0].upper() + self.name[1:]
        quotes = [quote for quote in (self.gpu, self.trainium) if quote is not None]
        regions = list(dict.fromkeys(quote.plan.place.region for quote in quotes))
        if len(regions) == 1:
            return f"{name} in {regions[0]}"
        return f"{name} (GPU in {regions[0]}, Trainium in {regions[-1]})"


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
    """The sentence on what a comparison rests on: old prices, types that no source lists there, a quota; "" if none."""
    if pair.allowed:
        return ""
    ages = []
    for quote in (pair.gpu, pair.trainium):
        if quote is not None and isinstance(quote.price, Price):
            option, rules = rests_on(quote.plan.place), context.rules
            days = age(quote.price, option, rules.today, rules.max_age_days)
            if days.too_old and not days.to_come:
                ages.append(days.days)
    if ages:
        return f" Its prices ({pair.name}) are {max(ages)} days old."
    if pair.refused_sides:
        rows = "these rows" if len(pair.refused_sides) > 1 else f"the {pair.refused_sides[0]} row"
        return f" A launch of {rows} would be refused."
    if pair.unlisted_sides:
        sides = " and ".join(pair.unlisted_sides)
        return f" No source says that SageMaker sells the {sides} type there."
    return " A quota may stop these jobs early."


def side_of(chance: float) -> str:
    """Which side a chance that Trainium is cheaper speaks for; "" if it is too close to call."""
    return "" if is_close(chance) else "Trainium" if chance > CLOSE[1] else "GPU"


def other_options(
    chances: Sequence[tuple[Pair, float]], decided: Pair | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the other purchase options say: those that say the same as the one that decides, and those that differ.

    Args:
        chances: the pairs with both sides, each with the chance that Trainium is cheaper over all runs.
        decided: the pair of the decision.
    """
    verdict = next((side_of(chance) for pair, chance in chances if pair is decided), None)
    others = [(side_of(chance) == verdict, _says(pair, chance)) for pair, chance in chances if pair is not decided]
    return tuple(text for same, text in others if same), tuple(text for same, text in others if not same)


def _says(pair: Pair, chance: float) -> str:
    side = side_of(chance)
    says = f"{side} cheaper {cases(max(chance, 1 - chance))}, the port included" if side else "too close to call"
    gpu, trainium = (f"${usd.mid:,.0f}" for usd in pair.totals or ())
    return f"{pair.name} on both sides: GPU {gpu}, Trainium {trainium} a run ({says})"


def capacity_reasons(pairs: tuple[Pair, ...], decided: Pair | None) -> Iterator[str]:
    """What is known of the capacity of the two sides, and which side cannot be had on demand."""
    for title, quote in () if decided is None else zip(SIDES, (decided.gpu, decided.trainium), strict=True):
        if quote is None:
            continue
        if text := _CAPACITY.get(quote.availability):
            yield f"capacity, {title}: {text.format(type=quote.plan.place.instance_type)}"
        yield from (f"capacity, {title}: {limit.message}" for limit in quote.findings if limit.code in TOLD)
    if missing := without_on_demand(pairs):
        yield f"capacity: no {missing} instance that fits the job has a price on demand here: blocks or spot only"


def without_on_demand(pairs: tuple[Pair, ...]) -> str:
    """The side without instances on demand where the other side has some; "" if none."""
    on_demand = next((pair for pair in pairs if pair.name == ON_DEMAND), None)
    if on_demand is None or on_demand.totals is not None:
        return ""
    return "GPU" if on_demand.gpu is None else "Trainium"


def may_never_start(pair: Pair | None, side: str) -> str:
    """Why the instances of a side may never start under an option; "" if nothing says so."""
    quote = None if pair is None else pair.gpu if side == "GPU" else pair.trainium
    if quote is None or pair is None or quote.availability is not Availability.NO_MARKET:
        return ""
    return f"the {pair.name} price of {quote.plan.place.instance_type} shows no market, so it may never start"


def guides_reason(pair: Pair) -> str:
    """The claim of the buying guides beside the plan's own figure, with the reason; "" if a side is missing."""
    totals = pair.totals
    if totals is None or pair.gpu is None or pair.trainium is None or not totals[0].mid:
        return ""
    share = float(totals[1].mid / totals[0].mid) - 1
    here = f"{abs(share):.0%} {'above' if share > 0 else 'below'} GPUs".replace("%", " %")
    why = _reason_of_difference(pair.trainium, pair.gpu)
    return f"guides put Trainium {GUIDES} below GPUs; here it is {here} ({pair.name}): {why}"


def _reason_of_difference(trainium: Quote, gpu: Quote) -> str:
    """Price and hours of both sides: the guides compare prices of an hour, and the hours differ too."""
    sides = " against ".join(_pace(quote) for quote in (trainium, gpu))
    if not trainium.usd_per_hour or not gpu.usd_per_hour or not gpu.hours.mid:
        return sides
    rate, hours = float(trainium.usd_per_hour / gpu.usd_per_hour), trainium.hours.mid / gpu.hours.mid
    rates = f"all nodes cost {rate:.2g} times as much an hour"
    return f"{rates}, for {hours:.2g} times the hours ({sides})"


def _pace(quote: Quote) -> str:
    place, rate = quote.plan.place, quote.usd_per_hour
    hourly = "" if rate is None else f" at ${float(rate):,.2f}/h"
    return f"{place.nodes} × {place.instance_type}{hourly} for {quote.hours.mid:,.1f} h"


def stack_end(quote: Quote | None) -> AnnouncedEnd | None:
    """The announced end of the training stack that a candidate needs, past or within a year; None without one."""
    ends = () if quote is None else quote.ends
    return next((end for end in ends if end.key.startswith("stack/")), None)
