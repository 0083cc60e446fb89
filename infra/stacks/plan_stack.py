"""The common base of all stacks of a plan: name, region, tags, and the account's requirements."""

from collections.abc import Mapping

from aws_cdk import DefaultStackSynthesizer, Environment, PermissionsBoundary, Stack, Tags
from constructs import Construct

from launcher.model.plan import Plan
from launcher.rendering.names import stack_name


class PlanStack(Stack):
    """A stack in the plan's region, with the plan's tags and permissions boundary.

    The stack's name is also its construct id, so `cdk deploy` accepts the name that the console shows.

    Attributes:
        own_synthesizer: publishes the stack's assets; it is not bound yet, because the stack works with a bound copy.
    """

    def __init__(
        self,
        scope: Construct,
        part: str,
        *,
        plan: Plan,
        account: str | None,
        description: str,
        tags: Mapping[str, str],
        termination_protection: bool = False,
    ) -> None:
        """`part` is the last word of the name, such as "training"; `account` is None if it is not known yet."""
        name = stack_name(plan, part)
        boundary = plan.request.security.permissions_boundary_arn
        synthesizer = DefaultStackSynthesizer(qualifier=plan.request.security.qualifier)
        super().__init__(
            scope,
            name,
            stack_name=name,
            description=description,
            env=Environment(account=account, region=plan.place.region),
            synthesizer=synthesizer,
            permissions_boundary=PermissionsBoundary.from_arn(boundary) if boundary is not None else None,
            termination_protection=termination_protection,
            tags=dict(tags),
            analytics_reporting=False,
        )
        self.own_synthesizer = synthesizer
        for key, value in tags.items():
            Tags.of(self).add(key, value)
