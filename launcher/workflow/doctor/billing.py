"""What only the account that pays can answer: whether the bill can be split by Slipway's tags."""

from collections.abc import Iterator

from launcher.aws.cost_tags import ACTIVE, tag_states
from launcher.model.diagnosis import Check, failed, ok, unknown
from launcher.workflow.doctor.examination import Examination, Subject

COST_TAGS = ("slipway:cluster", "slipway:plan")
"""The tags by which a bill is split; a digest tells more plans apart than anybody reads."""
HOME = "us-east-1"
"""Where Cost Explorer's endpoint is, for every region of the commercial partition (AWS General Reference)."""


def cost_tags(subject: Subject) -> Iterator[Check]:
    """Each tag: active, not active, or never seen by billing, which knows none before its first use."""
    states = tag_states(subject.session("ce", region=HOME), COST_TAGS)
    for key in COST_TAGS:
        asked = f"{key} is a cost allocation tag"
        fix = f"aws ce update-cost-allocation-tags-status --cost-allocation-tags-status TagKey={key},Status=Active"
        state = states.get(key)
        if state == ACTIVE:
            yield ok("cost tag", asked, "active")
        elif state is None:
            got = "billing has not seen it: it can be made active about a day after its first use"
            yield unknown("cost tag", asked, got, fix)
        else:
            yield failed("cost tag", asked, f"{state}: the bill cannot be split by it", fix)


BILLING = (Examination("cost tag", "Slipway's tags are active in billing", cost_tags),)
