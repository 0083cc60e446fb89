"""The gate between a quote and a launch: the quote must be priced, fresh, within the budget and without errors."""

from collections.abc import Iterable, Iterator
from datetime import date
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import NamedTuple

from launcher.model.budget_stop import spending_limit
from launcher.model.enums import Level, PurchaseOption
from launcher.model.finding import Finding, warning
from launcher.model.money import Price, Unpriced, UsdRange, cents
from launcher.model.plan import Plan
from launcher.model.quote import Gate
from launcher.model.record import record
from launcher.model.request import Budget
from launcher.model.serving import UNTIL_DEPLOYED
from launcher.model.units import number_of
from launcher.planning.targets import unnamed_capacity
from launcher.pricing.ages import Age, age, rests_on
from launcher.pricing.offers import own_price_name

IMPOSSIBLE, UNPRICED, OVER_BUDGET = 5, 4, 3
ALLOW = Gate(verdict="allow")


class Changes(NamedTuple):
    """The options that a user can change when the gate refuses a quote, as hints name them."""

    refresh: str
    max_age: str
    rank: str


@record
class GateRules:
    """The gate's limits in addition to the plan's own budget.

    `max_usd` only lowers the budget. `max_age_days` replaces the allowed ages. With `any_age`, for commands that buy
    nothing, any age is allowed and a service's fees may be unknown.
    """

    today: date
    changes: Changes
    max_usd: Decimal | None = None
    max_age_days: int | None = None
    any_age: bool = False


class NewCommitment(NamedTuple):
    """A commitment that is not owned: its full cash, and the same job's on-demand total, None without a price."""

    usd: Decimal
    on_demand_usd: Decimal | None


def decide(
    plan: Plan,
    price: Price | Unpriced,
    usd: UsdRange | None,
    usd_per_hour: Decimal | None,
    findings: tuple[Finding, ...],
    *,
    rules: GateRules,
    commitment: NewCommitment | None = None,
    unknown_fees: tuple[str, ...] = (),
) -> Gate:
    """The gate's decision; if several reasons hold, exit code 5 comes before 4 before 3.

    What the user is still to buy or to name comes last: its price and the budget decide whether that is worth it.
    """
    option = plan.place.option
    stopping = [finding for finding in findings if finding.level is Level.ERROR]
    if stopping:
        return Gate(verdict="refuse", exit_code=IMPOSSIBLE, reason=stopping[0].message, hint=stopping[0].hint)
    if commitment is not None:
        return _not_owned(commitment, plan, rules)
    if isinstance(price, Unpriced) or usd is None or usd_per_hour is None:
        reason = price.reason if isinstance(price, Unpriced) else "the compute has no total"
        hint = f'purchase.price_overrides {{"{own_price_name(plan.place)}": "..."}} sets your own price'
        if option is PurchaseOption.TRAINING_PLAN and plan.request.purchase.training_plan is not None:
            hint = "purchase.training_plan.fee_usd says what it cost"
        return Gate(verdict="refuse", exit_code=UNPRICED, reason=f"the compute is unpriced: {reason}", hint=hint)
    if unknown_fees and not rules.any_age:
        missing, overrides = ", ".join(unknown_fees), ", ".join(f'"{fee}": "..."' for fee in unknown_fees)
        hint = f"purchase.price_overrides {{{overrides}}}, $ an hour, from a bill or the service's price page"
        reason = f"fees of the service have no price: {missing}"
        return Gate(verdict="refuse", exit_code=UNPRICED, reason=reason, hint=hint)
    made_of = rests_on(plan.place)
    old = age(price, made_of, rules.today, rules.max_age_days)
    if old.too_old and not rules.any_age:
        reason = f"the {_option_name(made_of)} price is {old.days} days old, at most {old.allowed} are allowed"
        changes = rules.changes
        hint = f"{changes.refresh}, a current one in purchase.price_overrides, or a higher {changes.max_age}"
        if old.to_come:
            reason = f"the {_option_name(made_of)} price is of {price.as_of}, and today is {rules.today}"
            hint = "set the clock of this computer"
        return Gate(verdict="refuse", exit_code=UNPRICED, reason=reason, hint=hint)
    over_budget = _over_budget(plan, usd, usd_per_hour, rules)
    return over_budget or next(map(_unnamed, unnamed(plan, findings)), ALLOW)


def unnamed(plan: Plan, findings: Iterable[Finding]) -> Iterator[Finding]:
    """What a launch needs and the plan does not name: the capacity that the user bought, or an endpoint's weights."""
    if plan.request.workload.serve is None:
        yield from unnamed_capacity(plan.request, plan.place)
        return
    yield from (finding for finding in findings if finding.code in UNTIL_DEPLOYED)


def _unnamed(finding: Finding) -> Gate:
    return Gate(verdict="refuse", exit_code=IMPOSSIBLE, reason=finding.message, hint=finding.hint)


def _not_owned(commitment: NewCommitment, plan: Plan, rules: GateRules) -> Gate:
    """The refusal for a commitment that is not owned: a launch buys none, so AWS would bill on demand."""
    limit = spending_limit(plan.request.budget, rules.max_usd)
    over = f", over the ${cents(limit[0])} of {limit[1]}," if limit is not None and commitment.usd > limit[0] else ""
    billed = "at a price that is not known"
    if commitment.on_demand_usd is not None:
        billed = f"${cents(commitment.on_demand_usd)}"
    reason = f"the commitment of ${cents(commitment.usd)}{over} is not owned: AWS would bill this on demand, {billed}"
    return Gate(
        verdict="refuse",
        exit_code=IMPOSSIBLE,
        reason=reason,
        hint="set purchase.owned: true if you own it, or purchase.option: on-demand",
    )


def _over_budget(plan: Plan, usd: UsdRange, usd_per_hour: Decimal, rules: GateRules) -> Gate | None:
    budget = plan.request.budget
    limit = spending_limit(budget, rules.max_usd)
    if limit is not None and usd.high > limit[0]:
        chance = "" if plan.request.workload.train is None else ": 1 run in 10 costs more"
        reason = f"{limit[1]} ${cents(limit[0])}, high estimate ${cents(usd.high)}{chance}"
        enough = usd.high.quantize(Decimal(1), rounding=ROUND_CEILING)
        return Gate(
            verdict="refuse",
            exit_code=OVER_BUDGET,
            reason=reason,
            hint=f"raise {_settings_below(enough, budget, rules)} to {enough:f}",
        )
    hourly = budget.max_usd_per_hour
    if hourly is not None and usd_per_hour > hourly:
        reason = (
            f"budget.max_usd_per_hour ${cents(hourly)},"
            f" {number_of(plan.place.nodes, 'node')} at ${cents(usd_per_hour)} an hour"
        )
        return Gate(
            verdict="refuse",
            exit_code=OVER_BUDGET,
            reason=reason,
            hint="raise budget.max_usd_per_hour or allow fewer nodes",
        )
    return None


def _settings_below(usd: Decimal, budget: Budget, rules: GateRules) -> str:
    """The names of the limits that refuse an amount: a command's limit only lowers the plan's."""
    limits = (spending_limit(budget, None), spending_limit(Budget(), rules.max_usd))
    return " and ".join(name for limit, name in filter(None, limits) if limit < usd)


def age_findings(price: Price | Unpriced, option: PurchaseOption, rules: GateRules) -> tuple[Finding, ...]:
    """A warning for a price past half of its allowed age."""
    if isinstance(price, Unpriced):
        return ()
    old: Age = age(price, option, rules.today, rules.max_age_days)
    return (_old_price(old, option, rules.changes.refresh),) if old.worth_a_warning else ()


@lru_cache(maxsize=256)
def _old_price(old: Age, option: PurchaseOption, refresh: str) -> Finding:
    """The warning, computed once for rows with prices of the same date."""
    message = f"the {_option_name(option)} price is {old.days} days old; {old.allowed} are allowed"
    return warning("old-price", "purchase.option", message, f"{refresh} reads current ones")


def _option_name(option: PurchaseOption) -> str:
    return option.value.replace("-", " ")
