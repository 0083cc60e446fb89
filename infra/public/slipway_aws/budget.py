"""The gate of a CDK app: a validation plugin that refuses a synthesis whose plans may cost more than allowed."""

from collections.abc import Iterator
from decimal import Decimal

import jsii
from aws_cdk import (
    IPolicyValidationContext,
    IPolicyValidationPlugin,
    PolicyValidationPluginReport,
    PolicyViolatingResource,
    PolicyViolation,
)
from constructs import IConstruct

from slipway_aws.priced import PricedConstruct

GATE = "slipway:gate"
"""Context: 0 turns the gate off, so that an app that it refuses can be removed."""


@jsii.implements(IPolicyValidationPlugin)
class BudgetGate:
    """A validation plugin: `Validations.of(app).add_plugins(BudgetGate(app, max_usd=Decimal(5000)))`.

    It refuses a plan that the gate refuses, as each cluster and endpoint does by itself, and an app whose plans
    together may cost more than `max_usd`: the sum of their high estimates, of one run of each training plan and one
    month of each endpoint.
    """

    def __init__(self, scope: IConstruct, *, max_usd: Decimal | None = None) -> None:
        """Judge the plans at and below a construct; `max_usd` None: each plan by its own budget alone."""
        self._scope, self._max_usd = scope, max_usd

    @property
    def name(self) -> str:
        """The name in the report."""
        return "Slipway"

    @property
    def version(self) -> str | None:
        """The version, for statistics: none is given."""
        return None

    @property
    def rule_ids(self) -> list[str] | None:
        """The rules, for statistics: none are given."""
        return None

    def validate(self, context: IPolicyValidationContext) -> PolicyValidationPluginReport:
        """Judge the app; its templates are not read, since the plans say what their resources cost."""
        del context
        off = str(self._scope.node.try_get_context(GATE)) == "0"
        violations = [] if off else list(self._violations())
        return PolicyValidationPluginReport(success=not violations, violations=violations)

    def _violations(self) -> Iterator[PolicyViolation]:
        plans = [child for child in self._scope.node.find_all() if isinstance(child, PricedConstruct)]
        for refused in (plan for plan in plans if plan.refusal):
            yield _violation("gate", refused.refusal, refused.remedy, refused)
        limit = self._max_usd
        total = sum((plan.high_usd or Decimal(0) for plan in plans), Decimal(0))
        if limit is not None and total > limit:
            parts = ", ".join(f"{plan.node.path} ${plan.high_usd or 0:,.2f}" for plan in plans)
            message = f"the plans of this app may cost ${total:,.2f} together, {parts}; allowed is ${limit:,.2f}"
            yield _violation("budget", message, "lower a plan's nodes or hours, or raise max_usd of BudgetGate", *plans)


def _violation(rule: str, message: str, fix: str, *plans: PricedConstruct) -> PolicyViolation:
    resources = [PolicyViolatingResource(construct_path=plan.node.path, locations=[]) for plan in plans]
    return PolicyViolation(
        rule_name=rule, description=message, fix=fix or None, severity="error", violating_resources=resources
    )
