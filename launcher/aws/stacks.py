"""CloudFormation stacks: their state, outputs and resources."""

from dataclasses import dataclass

from launcher.aws.session import Session, translated


@dataclass(frozen=True, slots=True, kw_only=True)
class StackState:
    """One stack as CloudFormation describes it."""

    name: str
    status: str
    protected: bool
    outputs: dict[str, str]
    tags: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class StackResource:
    """One resource of a stack."""

    stack: str
    logical_id: str
    physical_id: str
    type: str
    status: str


def describe(session: Session, name: str) -> StackState:
    """The state of a stack.

    Raises:
        AwsError: there is none, or the call failed.
    """
    with translated(f"describe stack {name}"):
        found = session.client("cloudformation").describe_stacks(StackName=name)["Stacks"][0]
    return StackState(
        name=found["StackName"],
        status=found["StackStatus"],
        protected=bool(found.get("EnableTerminationProtection", False)),
        outputs={each["OutputKey"]: each["OutputValue"] for each in found.get("Outputs", [])},
        tags={each["Key"]: each["Value"] for each in found.get("Tags", [])},
    )


def resources(session: Session, name: str) -> tuple[StackResource, ...]:
    """All resources of a stack.

    Raises:
        AwsError: the call failed.
    """
    with translated(f"list the resources of stack {name}"):
        pages = session.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=name)
        return tuple(
            StackResource(
                stack=name,
                logical_id=each["LogicalResourceId"],
                physical_id=each.get("PhysicalResourceId", ""),
                type=each["ResourceType"],
                status=each["ResourceStatus"],
            )
            for page in pages
            for each in page["StackResourceSummaries"]
        )
