"""The requests of `quote --verify-with-aws` and `quote --credits` to AWS's calculator and billing."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal

from launcher.aws import credits as aws_credits
from launcher.aws import price_calculator, price_list
from launcher.aws.clients import Sessions
from launcher.aws.identity import caller
from launcher.aws.price_calculator import RATE_TYPE, Usage
from launcher.aws.price_list import Product
from launcher.catalog.billed import is_usage_type
from launcher.catalog.usage_types import usage_types
from launcher.model.bill import QuotedLine
from launcher.model.enums import COMMITTED, PurchaseOption
from launcher.model.errors import ImpossibleError
from launcher.model.money import Unpriced
from launcher.model.request import Credit
from launcher.model.stages import Notify
from launcher.model.units import number_of
from launcher.model.verification import Verification, VerifiedLine
from launcher.records.stored_quote import StoredQuote
from launcher.workflow.quote.quoted_lines import quoted_lines

NO_SPOT = "AWS's calculator uses list prices, and spot has none"
COMMITMENT = "an estimate of usage does not include the rate of a commitment"
NOT_LISTED = "the Price List has no such usage type in the region"
INSTANCE_USAGE = ("BoxUsage:", "Cluster:", "Host:")


def verify(
    quote: StoredQuote, environment: Mapping[str, str], wait: Callable[[float], None], notify: Notify
) -> Verification:
    """Compare a quote with AWS's calculator; usage types and operations are those of AWS's Price List.

    Raises:
        ImpossibleError: the quote has no line that AWS can price.
    """
    lines = quoted_lines(quote)
    sessions = Sessions(environment)
    region, option = quote.region, PurchaseOption(quote.purchase_option)
    reasons = {number: _reason(quoted_line, option) for number, quoted_line in enumerate(lines)}
    known = _Listed(sessions, region)
    usages: list[Usage] = []
    notify(f"requesting from the Price List: {number_of(list(reasons.values()).count(''), 'usage type')} of {region}")
    for number, line in enumerate(lines):
        if not reasons[number]:
            billed_as = known.billed_as(line)
            if len(billed_as) == 1:
                ((usage_type, operation),) = billed_as
                amount = line.quantity or Decimal(0)
                usages.append(Usage(f"line{number}", line.services[0], usage_type, operation, amount))
            else:
                reasons[number] = _not_one(billed_as)
    if not usages:
        listed = "; ".join(dict.fromkeys(reason for reason in reasons.values() if reason))
        raise ImpossibleError("AWS's calculator supports no line of this quote", hint=listed)
    account = caller(sessions.session(sessions.home, "sts")).account
    home = sessions.session(price_calculator.HOME, "bcm-pricing-calculator")
    answers = price_calculator.estimate_usages(home, account, f"slipway-{quote.digest[:12]}", usages, wait)
    return Verification(
        rate_type=RATE_TYPE,
        lines=tuple(
            _verify_line(line, reasons[number], answers.get(f"line{number}")) for number, line in enumerate(lines)
        ),
    )


def credits_of(environment: Mapping[str, str], now: datetime) -> tuple[tuple[Credit, ...], tuple[str, ...]]:
    """The credits of the environment's AWS account, and descriptions of those that are not counted.

    Raises:
        AwsError: the permission is missing, or a call failed.
    """
    sessions = Sessions(environment)
    account = caller(sessions.session(sessions.home, "sts")).account
    return aws_credits.account_credits(sessions.session(aws_credits.HOME, "billing"), account, now)


class _Listed:
    """Products of a region by usage type, with one query per service."""

    def __init__(self, sessions: Sessions, region: str) -> None:
        self._session = sessions.session(price_list.HOME, "pricing")
        self._region = region
        self._known: dict[str, list[Product]] = {}

    def billed_as(self, line: QuotedLine) -> Sequence[tuple[str, str]]:
        """The usage types and operations that a line may be billed as; exactly one if the list identifies it.

        Several products share a usage type at different prices; the attributes of a catalog item select among them.
        """
        products = [
            candidate.attributes
            for candidate in self._candidates(line)
            if is_usage_type(line.usage_type, candidate.attributes.get("usagetype", ""))
        ]
        items = [
            usage_type
            for usage_type in usage_types()
            if usage_type.service == line.services[0] and usage_type.name == line.usage_type
        ]
        exact = [product for product in products if any(item.matches(product) for item in items)]
        return sorted({(product["usagetype"], product.get("operation", "")) for product in exact or products})

    def _candidates(self, line: QuotedLine) -> Iterable[Product]:
        kind, _, instance = line.usage_type.partition(":")
        named = instance if f"{kind}:" in INSTANCE_USAGE else ""
        key = named or line.services[0]
        if key not in self._known:
            if named.startswith("ml."):
                listed = price_list.sagemaker_products(self._session, named, (self._region,))
            elif named:
                products = price_list.instance_products(self._session, named, (self._region,))
                listed = [product for product in products if price_list.is_plain(product.attributes)]
            else:
                listed = price_list.bill_products(self._session, key, self._region)
            self._known[key] = listed
        return self._known[key]


def _not_one(usages: Sequence[tuple[str, str]]) -> str:
    """Why a line matches no single product of the list.

    >>> _not_one([("A", "x"), ("A", "y")])
    'the Price List has it as A x, A y, with different prices: Slipway cannot tell which one applies'
    """
    if not usages:
        return NOT_LISTED
    listed = ", ".join(f"{usage_type} {operation}".strip() for usage_type, operation in usages)
    return f"the Price List has it as {listed}, with different prices: Slipway cannot tell which one applies"


def _reason(line: QuotedLine, option: PurchaseOption) -> str:
    if line.usd is None:
        return "the quote has no price for it"
    if line.usage_type.startswith("SpotUsage:"):
        return NO_SPOT
    if not line.usage_type or not line.quantity:
        return "its usage type is unknown"
    if option in COMMITTED and any(option.value in name for name in line.names):
        return COMMITMENT
    return ""


def _verify_line(line: QuotedLine, reason: str, answer: Decimal | Unpriced | None) -> VerifiedLine:
    aws_usd, why = (answer, "") if isinstance(answer, Decimal) else (None, reason if answer is None else answer.reason)
    return VerifiedLine(
        names=line.names,
        quoted_usd=line.usd,
        aws_usd=aws_usd,
        difference_usd=None if line.usd is None or aws_usd is None else aws_usd - line.usd,
        reason=why or None,
    )
