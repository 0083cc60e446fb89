"""The gate of a CDK app: a validation plugin that refuses a synthesis that may cost more than allowed."""

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import jsii
from aws_cdk import (
    IPolicyValidationContext,
    IPolicyValidationPlugin,
    PolicyValidationPluginReport,
    PolicyViolatingResource,
    PolicyViolation,
    Stack,
    Token,
)
from constructs import IConstruct

from launcher.catalog.load import load
from launcher.model.money import cents
from launcher.model.template_estimate import EstimateLine, TemplateEstimate
from launcher.workflow.quote.estimate import estimate_template
from slipway_aws.priced import PricedConstruct

GATE = "slipway:gate"
"""Context: 0 turns the gate off, so that an app that it refuses can be removed."""

SHOWN = 3
"""The dearest lines that a violation names."""


@jsii.implements(IPolicyValidationPlugin)
class BudgetGate:
    """A validation plugin: `Validations.of(app).add_plugins(BudgetGate(app, max_usd_per_hour=Decimal(200)))`.

    It refuses a plan that the gate refuses, as each cluster and endpoint does by itself, and

    - an app whose resources cost more than `max_usd_per_hour` with every group at its maximum, as `slipway estimate`
      counts them. The resources may be of any construct; accelerators without a price are refused too;
    - an app whose plans together may cost more than `max_usd`: the sum of their high estimates, of one run of each
      training plan and one month of each endpoint.
    """

    def __init__(
        self,
        scope: IConstruct,
        *,
        max_usd: Decimal | None = None,
        max_usd_per_hour: Decimal | None = None,
        region: str | None = None,
    ) -> None:
        """Judge what is at and below a construct.

        Args:
            scope: the app, a stage or a stack.
            max_usd: the limit of the plans' totals; None: each plan by its own budget alone.
            max_usd_per_hour: the limit of the templates' hourly rate; None: it is not checked.
            region: the region of stacks without one.
        """
        self._scope, self._max_usd = scope, max_usd
        self._max_usd_per_hour, self._region = max_usd_per_hour, region

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
        """Judge the app by its plans, and by its templates if their rate is limited."""
        off = str(self._scope.node.try_get_context(GATE)) == "0"
        violations = [] if off else [*self._plan_violations(), *self._template_violations(context.template_paths)]
        return PolicyValidationPluginReport(success=not violations, violations=violations)

    def _plan_violations(self) -> Iterator[PolicyViolation]:
        plans = [child for child in self._scope.node.find_all() if isinstance(child, PricedConstruct)]
        for refused in plans:
            # A plan with a gate of its own is refused there.
            if not refused.refusal or (refused.gated and refused.node.path != self._scope.node.path):
                continue
            yield _violation("gate", refused.refusal, refused.remedy, refused)
        limit = self._max_usd
        total = sum((plan.high_usd or Decimal(0) for plan in plans), Decimal(0))
        if limit is not None and total > limit:
            parts = ", ".join(f"{plan.node.path} ${plan.high_usd or 0:,.2f}" for plan in plans)
            message = f"the plans of this app may cost ${total:,.2f} together, {parts}; allowed is ${limit:,.2f}"
            # The report repeats a violation for each of its resources.
            dearest = max(plans, key=lambda plan: plan.high_usd or Decimal(0))
            yield _violation(
                "budget", message, "lower a plan's nodes or hours, or raise max_usd of BudgetGate", dearest
            )

    def _template_violations(self, paths: list[str]) -> Iterator[PolicyViolation]:
        limit = self._max_usd_per_hour
        if limit is None:
            return
        stacks = {child.template_file: child for child in self._scope.node.find_all() if isinstance(child, Stack)}
        own = [(Path(path), stacks[Path(path).name]) for path in paths if Path(path).name in stacks]
        priced = [self._estimate(path, stack) for path, stack in own if stack.nested_stack_parent is None]
        for line in (line for one in priced for line in one.unpriced_accelerators):
            message = f"{_resource(line)}, {line.name}: {line.unpriced}"
            fix = "slipway prices refresh, or name the instance type in the template"
            yield _template_violation("unpriced", message, fix, _resource(line))
        total = sum((one.max_usd_per_hour for one in priced), Decimal(0))
        if total > limit:
            lines = sorted((line for one in priced for line in one.lines), key=_rate, reverse=True)
            dearest = [line for line in lines[:SHOWN] if line.max_usd_per_hour]
            parts = ", ".join(f"{_resource(line)} ({line.name}) ${cents(_rate(line))}" for line in dearest)
            message = f"this app costs up to ${cents(total)} an hour, {parts}; allowed are ${cents(limit)}"
            fix = "lower the maximum of a group or its instance type, or raise max_usd_per_hour of BudgetGate"
            yield _template_violation("rate", message, fix, _resource(dearest[0]))

    def _estimate(self, path: Path, stack: Stack) -> TemplateEstimate:
        """The cost of a stack's template.

        Raises:
            UnreadableInputError: the stack has no region, and none was given for such stacks.
        """
        region = self._region if Token.is_unresolved(stack.region) else stack.region
        return estimate_template(path, load(), datetime.now(UTC), region, stack.stack_name)


def _resource(line: EstimateLine) -> str:
    """A resource by stack and logical id: stacks of two clusters have the same logical ids."""
    return f"{line.stack}/{line.resource}"


def _rate(line: EstimateLine) -> Decimal:
    return line.max_usd_per_hour or Decimal(0)


def _template_violation(rule: str, message: str, fix: str, path: str) -> PolicyViolation:
    resource = PolicyViolatingResource(construct_path=path, locations=[])
    return PolicyViolation(
        rule_name=rule, description=message, fix=fix, severity="error", violating_resources=[resource]
    )


def _violation(rule: str, message: str, fix: str, plan: PricedConstruct) -> PolicyViolation:
    resource = PolicyViolatingResource(construct_path=plan.node.path, locations=[])
    return PolicyViolation(
        rule_name=rule, description=message, fix=fix or None, severity="error", violating_resources=[resource]
    )
