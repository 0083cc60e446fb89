"""What a plan names of the account's own and does not make: security groups."""

from collections.abc import Iterator

from launcher.aws.networks import GroupState, security_group
from launcher.model.diagnosis import Check, failed, ok
from launcher.model.plan import Plan
from launcher.model.target import target_of
from launcher.workflow.doctor.examination import Examination, Subject


def groups(subject: Subject) -> Iterator[Check]:
    """Each security group: there, in the plan's VPC, and open to itself where EFA needs it."""
    plan = subject.plan
    if plan is None or plan.request.target.cluster is not None:
        return
    facts = subject.catalog.instance_types[plan.place.instance_type]
    strict = target_of(plan.place.target).groups_name_themselves and facts.efa_interfaces > 0
    for name in plan.request.network.security_group_ids:
        asked = f"{name} is in {plan.request.network.vpc_id}"
        asked += " and lets all traffic in and out to itself, which EFA needs" if strict else ""
        found = security_group(subject.session("ec2"), name)
        yield _judged(plan, name, asked, found, strict=strict)


def _judged(plan: Plan, name: str, asked: str, found: GroupState | None, *, strict: bool) -> Check:
    """One group against the plan.

    HyperPod's check of EFA fails where one of several groups lacks the rule (awsome-distributed-ai, pull request 259);
    a rule to 0.0.0.0/0 does not cover EFA.
    """
    title, region = "security group", plan.place.region
    if found is None:
        return failed(title, asked, "no such group in the region", "name one that exists, or drop it")
    if found.vpc_id != plan.request.network.vpc_id:
        return failed(title, asked, f"it belongs to {found.vpc_id}", "name groups of that VPC")
    ways = {"ingress": found.lets_itself_in, "egress": found.lets_itself_out}
    lacking = [way for way, there in ways.items() if strict and not there]
    if not lacking:
        return ok(title, asked, "it is")
    rule = f"--region {region} --group-id {name} --ip-permissions 'IpProtocol=-1,UserIdGroupPairs=[{{GroupId={name}}}]'"
    fix = " && ".join(f"aws ec2 authorize-security-group-{way} {rule}" for way in lacking)
    return failed(title, asked, f"it lacks the rule for {' and '.join(lacking)}: HyperPod's machines would fail", fix)


EXISTING = (Examination("security group", "the plan's own groups fit", groups),)
"""What is the account's."""
