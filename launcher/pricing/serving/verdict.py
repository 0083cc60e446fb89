"""The serving recommendation: Bedrock, Inferentia and Trainium, or GPUs; the reasons, and the changes that flip it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal

from launcher.model.enums import BedrockMode, CustomKernels
from launcher.model.money import Price, UsdRange
from launcher.model.quote import Quote
from launcher.model.record import record
from launcher.model.workload import ServingWorkload
from launcher.pricing.chances import BothOutcomes, chance_below
from launcher.pricing.pairs import CLOSE, cases, is_close
from launcher.pricing.port import weeks_text
from launcher.pricing.reasoning import MAINTENANCE_WEEKS_PER_MONTH, PORT_WEEKS
from launcher.pricing.serving.crossover import Turn
from launcher.pricing.serving.traffic import requests_per_month, requests_text
from launcher.pricing.verdict import BEYOND, HALF, ServingChoice, Verdict, ending
from launcher.targets.registry import billed_name

ENGINEER_USD_PER_WEEK = Decimal(5000)
"""The cost of an engineer-week: the default of a training plan's engineer_usd_per_week."""
HORIZON_MONTHS = 24.0
"""A port with a longer payback is rejected: the two years of the worked example of the buying guides."""
GUIDES = "40 to 60 %"
"""By how much the buying guides of 2026 put Inferentia below GPUs (`reasoning.SOURCE`)."""
OWN_WEIGHTS = "your own weights (workload.serve.bedrock.mode: custom-import): Bedrock's price is for the published ones"
NAMES = {ServingChoice.NEURON: "Inferentia and Trainium", ServingChoice.GPU: "GPUs"}


@record
class Sides:
    """The cheapest of each kind, with the volume at which the answer changes; months are those of the bill."""

    serve: ServingWorkload
    neuron: Quote | None
    gpu: Quote | None
    hosted: Quote | None
    port_weeks: float
    # The one-time cost of the port to Neuron.
    port_usd: Decimal
    # The monthly cost of operating nodes.
    maintenance_usd: Decimal
    maintenance_given: bool
    # Whether only Bedrock has the model.
    closed: bool
    unpriced: bool
    """Whether Bedrock has the model, but at no known price."""
    # That of the cheaper instances; None without anything to compare, or if Bedrock is not billed by the token.
    turn: Turn | None = None
    # Equally likely months of the bill on GPU and on Neuron.
    outcomes: BothOutcomes = ((), ())

    @property
    def neuron_months(self) -> float | None:
        """Months until the port is paid back against the cheapest of the others; None when it never is."""
        others = [usd for usd in (self.gpu_usd, self.hosted_usd) if usd is not None]
        return self._paid_back(min(others)) if others else None

    @property
    def neuron_months_over_gpu(self) -> float | None:
        """Months until the port is paid back against GPUs; None when it never is."""
        return None if self.gpu_usd is None else self._paid_back(self.gpu_usd)

    @property
    def neuron_months_over_bedrock(self) -> float | None:
        """Months until the port is paid back against Bedrock; None when it never is."""
        return None if self.hosted_usd is None else self._paid_back(self.hosted_usd)

    def _paid_back(self, other_usd: Decimal) -> float | None:
        """Months until the port is paid back against an alternative's monthly cost."""
        if self.neuron_usd is None or other_usd <= self.neuron_usd:
            return None
        return float(self.port_usd / (other_usd - self.neuron_usd))

    @property
    def neuron_usd(self) -> Decimal | None:
        """A month on Neuron with its maintenance."""
        return self._with_people(self.neuron)

    @property
    def gpu_usd(self) -> Decimal | None:
        """A month on GPUs with its maintenance."""
        return self._with_people(self.gpu)

    @property
    def hosted_usd(self) -> Decimal | None:
        """A month of Bedrock, which needs no maintenance."""
        return self.hosted.usd.mid if self.hosted is not None and self.hosted.usd is not None else None

    def chance_over_bedrock(self, choice: ServingChoice) -> float | None:
        """The chance that instances, their maintenance included, cost less than Bedrock; None if a side is missing."""
        gpu, neuron = self.outcomes
        months = neuron if choice is ServingChoice.NEURON else gpu
        if self.hosted_usd is None or not months:
            return None
        return chance_below(months, [float(self.hosted_usd - self.maintenance_usd)])

    @property
    def chance_over_gpu(self) -> float | None:
        """The chance that Neuron costs less than GPUs, with the port paid over the horizon; None if one is missing."""
        gpu, neuron = self.outcomes
        if not gpu or not neuron:
            return None
        return chance_below([usd + self.port_usd_per_month for usd in neuron], gpu)

    @property
    def port_usd_per_month(self) -> float:
        """The port to Neuron, paid over the horizon."""
        return float(self.port_usd) / HORIZON_MONTHS

    def neuron_usd_at(self, chance: float) -> float | None:
        """The middle of a month's bill on Neuron that costs less than GPUs with a chance; None if none does."""
        gpu, neuron = self.outcomes
        if self.neuron is None or self.neuron.usd is None:
            return None
        shares = [(usd - self.port_usd_per_month) / other for usd in gpu for other in neuron if other > 0]
        return _usd_at(shares, chance, self.neuron.usd.mid)

    def usd_at_bedrock(self, choice: ServingChoice, mid: Decimal) -> float | None:
        """The middle of a month's bill on instances that surely costs less than Bedrock; None if none does."""
        gpu, neuron = self.outcomes
        months = neuron if choice is ServingChoice.NEURON else gpu
        left = float((self.hosted_usd or Decimal(0)) - self.maintenance_usd)
        return _usd_at([left / usd for usd in months if usd > 0], CLOSE[1], mid)

    def _with_people(self, quoted: Quote | None) -> Decimal | None:
        return quoted.usd.mid + self.maintenance_usd if quoted is not None and quoted.usd is not None else None


def _usd_at(shares: Sequence[float], chance: float, mid: Decimal) -> float | None:
    """The bill that is the cheaper one with a chance; `shares`: of the bill, at which both sides cost the same."""
    share = sorted(shares)[int((1 - chance) * (len(shares) - 1))] if shares else 0.0
    return share * float(mid) if share > 0 else None


def sides(
    serve: ServingWorkload,
    *,
    neuron: Quote | None,
    gpu: Quote | None,
    hosted: Quote | None,
    closed: bool,
    unpriced: bool,
    outcomes: BothOutcomes,
) -> Sides:
    """The sides with their labour costs: the plan's figures, or those of the buying guides."""
    return Sides(
        serve=serve,
        neuron=neuron,
        gpu=gpu,
        hosted=hosted,
        port_weeks=port_weeks(serve),
        port_usd=Decimal(repr(port_weeks(serve))) * ENGINEER_USD_PER_WEEK,
        maintenance_usd=maintenance_usd(serve),
        maintenance_given=serve.operations_usd_per_month is not None,
        closed=closed,
        unpriced=unpriced,
        outcomes=outcomes,
    )


def port_weeks(serve: ServingWorkload) -> float:
    """Engineer-weeks of the port to Neuron: the plan's, or those of a standard transformer."""
    return serve.port_weeks if serve.port_weeks is not None else PORT_WEEKS[CustomKernels.NONE].mid


def maintenance_usd(serve: ServingWorkload) -> Decimal:
    """The monthly labour cost of operating nodes: the plan's, or half a day of an engineer."""
    assumed = Decimal(repr(MAINTENANCE_WEEKS_PER_MONTH)) * ENGINEER_USD_PER_WEEK
    return assumed if serve.operations_usd_per_month is None else serve.operations_usd_per_month


def recommend(sides: Sides) -> Verdict:
    """The verdict, with the end date if the chosen option is withdrawn."""
    chosen = {ServingChoice.BEDROCK: sides.hosted, ServingChoice.NEURON: sides.neuron, ServingChoice.GPU: sides.gpu}
    verdict = ending(_choose(sides), chosen)
    if verdict.choice is not ServingChoice.BEDROCK or sides.serve.model_uri is None or _imports(sides):
        return verdict
    note = " Bedrock serves the published weights, not those of model_uri."
    others = tuple(flip for flip in verdict.flips if flip != OWN_WEIGHTS)
    return replace(verdict, text=verdict.text + note, flips=(OWN_WEIGHTS, *others))


def _choose(sides: Sides) -> Verdict:
    instance, choice = cheaper_instances(sides)
    if sides.closed:
        return _closed_model_verdict(sides)
    if instance is None:
        return _without_instances(sides)
    if _is_close(sides, sides.chance_over_bedrock(choice), choice):
        return _measure(sides, instance, choice)
    if sides.hosted_usd is not None and sides.hosted_usd <= instance:
        return _bedrock(sides, instance, choice)
    if _is_close(sides, sides.chance_over_gpu, ServingChoice.NEURON, ServingChoice.GPU):
        return _measure_instances(sides)
    return _deploy(sides, instance, choice)


def _without_instances(sides: Sides) -> Verdict:
    if sides.hosted_usd is None:
        text = "No candidate has a price: there is nothing to compare."
        return Verdict(choice=ServingChoice.NONE, text=text, reasons=(), flips=())
    text = "Use Bedrock: no instance type that can serve the model within these limits has a price here."
    flips = ("a price of an instance type that fits (purchase.price_overrides)", "other latency limits")
    return Verdict(choice=ServingChoice.BEDROCK, text=text, reasons=(), flips=flips)


def cheaper_instances(sides: Sides) -> tuple[Decimal | None, ServingChoice]:
    """The month of the cheaper instances, and their kind: Neuron if the port is paid back in time."""
    months = sides.neuron_months_over_gpu
    in_time = months is not None and months <= HORIZON_MONTHS
    if sides.neuron_usd is not None and (sides.gpu_usd is None or in_time):
        return sides.neuron_usd, ServingChoice.NEURON
    if sides.gpu_usd is not None:
        return sides.gpu_usd, ServingChoice.GPU
    return None, ServingChoice.NONE


def _is_close(sides: Sides, chance: float | None, *choices: ServingChoice) -> bool:
    """Whether a comparison is too close to call; one whose instances were all measured is never too close."""
    return chance is not None and is_close(chance) and not all(_is_measured(sides, choice) for choice in choices)


def _closed_model_verdict(sides: Sides) -> Verdict:
    model = sides.serve.model
    if sides.hosted_usd is None:
        text = f"{model} is closed, and no price of it on Bedrock is known."
        return Verdict(choice=ServingChoice.NONE, text=text, reasons=(), flips=())
    text = f"Use Bedrock: {model} is not in the catalog of models, so nothing else is priced."
    return Verdict(choice=ServingChoice.BEDROCK, text=text, reasons=(), flips=("an open model does the job",))


def _measure(sides: Sides, instance: Decimal, choice: ServingChoice) -> Verdict:
    """The verdict if neither instances nor Bedrock are cheaper with enough probability."""
    text = f"Too close to call: {_month(sides, instance, choice)} a month on {NAMES[choice]}"
    text += f", ${sides.hosted_usd:,.0f} on Bedrock{_likely(sides, choice)}. Measure first."
    equal = () if (at := _turn_text(sides)) is None else (f"both cost the same at {at}",)
    reasons = (*_reasons(sides, instance, choice), *equal)
    return Verdict(choice=ServingChoice.MEASURE_FIRST, text=text, reasons=reasons, flips=(_load_test(sides),))


def _measure_instances(sides: Sides) -> Verdict:
    """The verdict if neither Neuron nor GPUs are cheaper with enough probability, and Bedrock is not."""
    instance, choice = cheaper_instances(sides)
    neuron, gpu = (
        _month(sides, usd or Decimal(0), kind)
        for usd, kind in ((sides.neuron_usd, ServingChoice.NEURON), (sides.gpu_usd, ServingChoice.GPU))
    )
    text = f"Too close to call: {neuron} a month on {NAMES[ServingChoice.NEURON]}, {gpu} on GPUs"
    text += f" ({_likely_instances(sides)}){_beside(sides, choice)}. Measure first."
    reasons = tuple(_reasons(sides, instance or Decimal(0), choice))
    return Verdict(
        choice=ServingChoice.MEASURE_FIRST,
        text=text,
        reasons=reasons,
        flips=(_load_test(sides), *_turns(sides, instance or Decimal(0)), *_neuron_flips(sides)),
    )


def _beside(sides: Sides, choice: ServingChoice) -> str:
    """Bedrock beside instances that are cheaper, or the only option."""
    if sides.hosted_usd is None:
        return f"; Bedrock {_lacks(sides)}"
    return f", ${sides.hosted_usd:,.0f} on Bedrock{_likely(sides, choice)}"


def _load_test(sides: Sides) -> str:
    name = next(side.plan.name for side in (sides.neuron, sides.gpu, sides.hosted) if side is not None)
    return f"a load test: slipway endpoint load {name} stores the result for later quotes"


def _bedrock(sides: Sides, instance: Decimal, choice: ServingChoice) -> Verdict:
    quoted = sides.neuron if choice is ServingChoice.NEURON else sides.gpu
    kind = billed_name(quoted.plan.place) if quoted is not None else NAMES[choice]
    against = f"${sides.hosted_usd:,.0f} against {_month(sides, instance, choice)} a month on {kind}"
    against += _likely(sides, choice).replace(" (", "; ").removesuffix(")")
    if sides.turn is None:
        text = f"Do not deploy: Bedrock is cheaper ({against})."
    elif sides.turn.requests is None:
        text = f"Do not deploy: Bedrock is cheaper at this volume and every larger one ({against})."
    else:
        text = (
            f"Do not deploy: Bedrock is cheaper until {requests_text(sides.turn.requests)} requests a month,"
            f" and there are {requests_text(requests_per_month(sides.serve))} ({against})."
        )
    return Verdict(
        choice=ServingChoice.BEDROCK,
        text=text,
        reasons=tuple(_reasons(sides, instance, choice)),
        flips=(
            *_turns(sides, instance),
            *([] if _imports(sides) else [OWN_WEIGHTS]),
            *_lower_rate(sides, quoted, choice),
        ),
    )


def _imports(sides: Sides) -> bool:
    """Whether the Bedrock side serves the user's own weights."""
    terms = None if sides.hosted is None or sides.hosted.serving is None else sides.hosted.serving.bedrock
    return terms is not None and terms.mode is BedrockMode.CUSTOM_IMPORT


def _lower_rate(sides: Sides, quoted: Quote | None, choice: ServingChoice) -> Iterator[str]:
    """The bill of a month at which the instances are cheaper than Bedrock, and what lowers it."""
    if quoted is None or quoted.usd is None:
        return
    at = sides.usd_at_bedrock(choice, quoted.usd.mid)
    if at is None:
        yield f"operations below ${sides.hosted_usd:,.0f} a month (workload.serve.operations_usd_per_month)"
        return
    place = quoted.plan.place
    other = ", or target.kind eks, whose instances cost less than SageMaker's"
    how = "a commitment" + (other if billed_name(place) != place.instance_type else "")
    yield f"a month of instances at ${at / BEYOND:,.0f} or less (${quoted.usd.mid:,.0f} here): {how}"


def _deploy(sides: Sides, instance: Decimal, choice: ServingChoice) -> Verdict:
    """The verdict if instances are cheaper, or the only option."""
    likely = _likely_instances(sides)
    sure = f" ({likely})" if likely and sides.hosted_usd is None else ""
    text = f"Deploy on {NAMES[choice]}: {_month(sides, instance, choice)} a month{sure}{_beside(sides, choice)}."
    flips = (*_turns(sides, instance), *_neuron_flips(sides))
    return Verdict(choice=choice, text=text, reasons=tuple(_reasons(sides, instance, choice)), flips=flips)


def _month(sides: Sides, instance: Decimal, choice: ServingChoice) -> str:
    """The month of the chosen instances as the bill has it, with its range, and the cost of operating them."""
    quoted = sides.neuron if choice is ServingChoice.NEURON else sides.gpu
    usd, people = (None if quoted is None else quoted.usd), sides.maintenance_usd
    wide = usd is not None and f"{usd.low:,.0f}" != f"{usd.high:,.0f}"
    text = f"${instance - people:,.0f}" + (f" ({usd.low:,.0f}–{usd.high:,.0f})" if usd is not None and wide else "")
    return f"{text} + ${people:,.0f} operations" if people else text


def _span(sides: Sides, choice: ServingChoice) -> UsdRange | None:
    """The range of the chosen instances' month, maintenance included."""
    quoted = sides.neuron if choice is ServingChoice.NEURON else sides.gpu
    if quoted is None or quoted.usd is None:
        return None
    usd, people = quoted.usd, sides.maintenance_usd
    return UsdRange(low=usd.low + people, mid=usd.mid + people, high=usd.high + people)


def _likely(sides: Sides, choice: ServingChoice) -> str:
    """The chance that the cheaper of instances and Bedrock is cheaper, in brackets; "" if the months are certain."""
    span, chance = _span(sides, choice), sides.chance_over_bedrock(choice)
    if span is None or chance is None or span.low == span.high:
        return ""
    cheaper = NAMES[choice] if chance > HALF else "Bedrock"
    return f" ({cheaper} cheaper {cases(max(chance, 1 - chance))})"


def _likely_instances(sides: Sides) -> str:
    """The chance that the cheaper of Neuron and GPUs is cheaper; "" if one of them is missing."""
    chance = sides.chance_over_gpu
    if chance is None:
        return ""
    cheaper = NAMES[ServingChoice.NEURON if chance > HALF else ServingChoice.GPU]
    return f"{cheaper} cheaper {cases(max(chance, 1 - chance))}, the port paid over {HORIZON_MONTHS:g} months"


def _neuron_flips(sides: Sides) -> Iterator[str]:
    """The bills of a month on Neuron at which another of Neuron and GPUs is cheaper with enough probability."""
    chance, now = sides.chance_over_gpu, sides.neuron.usd if sides.neuron is not None else None
    if chance is None or now is None:
        return
    low, high = (sides.neuron_usd_at(end) for end in CLOSE)
    if chance <= CLOSE[1] and high is not None:
        yield f"a month on Neuron at ${high / BEYOND:,.0f} or less (${now.mid:,.0f} here): then Inferentia or Trainium"
    if chance >= CLOSE[0] and low is not None:
        yield f"a month on Neuron at ${low * BEYOND:,.0f} or more (${now.mid:,.0f} here): then GPUs"


def _turns(sides: Sides, instance: Decimal) -> Iterator[str]:
    """The volume that changes the answer, with its range."""
    if sides.turn is None or sides.turn.requests is None or sides.hosted_usd is None:
        return
    at, span = requests_text(sides.turn.requests), _turn_span(sides.turn, sides.turn.requests)
    if sides.hosted_usd <= instance:
        yield f"{at} requests a month or more{span}, of the same shape over the day"
    else:
        yield f"fewer than {at} requests a month{span}: there Bedrock is cheaper"


def _turn_text(sides: Sides) -> str | None:
    """The volume at which instances and Bedrock cost the same; None if there is none."""
    if sides.turn is None or sides.turn.requests is None:
        return None
    return f"{requests_text(sides.turn.requests)} requests a month{_turn_span(sides.turn, sides.turn.requests)}"


def _turn_span(turn: Turn, requests: float) -> str:
    ends = [requests_text(end) for end in (turn.low, turn.high) if end is not None]
    if turn.low is None or all(end == requests_text(requests) for end in ends):
        return ""
    return f" (from {ends[0]})" if turn.high is None else f" ({ends[0]} to {ends[1]})"


def _lacks(sides: Sides) -> str:
    """Why Bedrock has no monthly cost."""
    quotes = (quoted for quoted in (sides.neuron, sides.gpu) if quoted is not None)
    if any(quoted.plan.request.purchase.training_plan is not None for quoted in quotes):
        return "is not compared: the training plan is paid"
    return "has these weights at no known price" if sides.unpriced else "does not have these weights"


def _is_measured(sides: Sides, choice: ServingChoice) -> bool:
    quoted = sides.neuron if choice is ServingChoice.NEURON else sides.gpu
    estimate = quoted.serving.estimate if quoted is not None and quoted.serving is not None else None
    return estimate is not None and estimate.measured


def _reasons(sides: Sides, instance: Decimal, choice: ServingChoice) -> Iterator[str]:
    for name, quoted, usd in (("Neuron", sides.neuron, sides.neuron_usd), ("GPU", sides.gpu, sides.gpu_usd)):
        if quoted is None or usd is None or quoted.serving is None:
            continue
        used = quoted.serving.utilisation or 0.0
        bill = usd - sides.maintenance_usd
        yield f"{name}: ${bill:,.0f} a month and ${sides.maintenance_usd:,.0f} of operations; {used:.0%} utilization"
    weeks = weeks_text(sides.port_weeks)
    if sides.neuron_usd is not None:
        pairs = [("GPUs", sides.gpu_usd, sides.neuron_months_over_gpu)]
        pairs += [("Bedrock", sides.hosted_usd, sides.neuron_months_over_bedrock)]
        paid_back = ", ".join(f"{_back(months)} against {name}" for name, usd, months in pairs if usd is not None)
        yield f"the port to Neuron takes {weeks} and ${sides.port_usd:,.0f}" + (
            f"; it {paid_back}" if paid_back else ""
        )
        if likely := _likely_instances(sides):
            yield likely
        yield from _guides(sides)
    span, hosted = _span(sides, choice), sides.hosted_usd
    if span is not None and hosted is not None and span.low < hosted < span.high:
        end, other = ("low", "instances are") if hosted <= instance else ("high", "Bedrock is")
        yield f"at the {end} estimate, {other} cheaper"
    if not sides.maintenance_given and (sides.neuron is not None or sides.gpu is not None):
        yield "the cost of operations is assumed: workload.serve.operations_usd_per_month replaces it"


def _guides(sides: Sides) -> Iterator[str]:
    """The claim of the buying guides beside the plan's own figure, with the reason of the difference."""
    neuron, gpu = sides.neuron, sides.gpu
    if neuron is None or gpu is None or neuron.usd is None or gpu.usd is None or not gpu.usd.mid:
        return
    share = float(neuron.usd.mid / gpu.usd.mid) - 1
    here = f"{neuron.accelerator} is {abs(share):.0%} {'above' if share > 0 else 'below'}".replace("%", " %")
    names = [billed_name(quote.plan.place) for quote in (neuron, gpu)]
    counts = " against ".join(
        f"{quote.plan.place.nodes} × {name} at ${float(quote.price.usd):,.2f}/h"
        if isinstance(quote.price, Price)
        else name
        for quote, name in zip((neuron, gpu), names, strict=True)
    )
    yield f"guides put Inferentia {GUIDES} below a GPU; here {here} the cheapest GPU: {counts}"


def _back(months: float | None) -> str:
    return "never pays off" if months is None else f"is paid back after {months:.1f} months"
