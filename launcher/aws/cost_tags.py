"""Cost allocation tags, which only the account that pays can be asked for."""

from collections.abc import Mapping, Sequence

from launcher.aws.calls import items
from launcher.aws.session import Session

ACTIVE = "Active"


def tag_states(session: Session, keys: Sequence[str]) -> Mapping[str, str]:
    """The state of cost allocation tags, "Active" or "Inactive", of those that billing has ever seen.

    Args:
        session: of us-east-1, where Cost Explorer answers.
        keys: the tags' keys.
    """
    found = items(
        session.client("ce").list_cost_allocation_tags,
        "list the cost allocation tags",
        "CostAllocationTags",
        TagKeys=list(keys),
        Type="UserDefined",
    )
    return {str(each["TagKey"]): str(each["Status"]) for each in found}
