"""Checks whether a plan's instances are available: the type in its zone, free addresses, purchased capacity."""

from collections.abc import Iterator
from datetime import datetime

from launcher.aws import regions, training_plan_state
from launcher.aws.networks import subnets
from launcher.aws.reservations import ReservationState, reservation
from launcher.model.diagnosis import Check, advice, failed_check, ok
from launcher.model.enums import PurchaseOption
from launcher.model.plan import Plan
from launcher.model.request import Reservation
from launcher.model.units import number_of
from launcher.planning.addresses import too_few_addresses
from launcher.pricing.blocks import before_it_begins
from launcher.workflow.cluster.training_plans import training_plan_findings
from launcher.workflow.doctor.examination import Examination, Subject
from launcher.workflow.doctor.holdings import holdings_of_plan

LIVE_STATES = frozenset(("active", "scheduled", "payment-pending"))
"""States of a reservation that has or will have instances (EC2 API reference, CapacityReservation)."""


def check_offerings(subject: Subject) -> Iterator[Check]:
    """Each type of the plan in the zone where its instances run."""
    plan = subject.plan
    if plan is None or plan.request.target.cluster is not None:
        return
    for name in (plan.place.instance_type, *plan.request.target.fallback_types):
        requirement = f"{name} in {subject.zone or subject.region}"
        zones = regions.offering_zones(subject.session("ec2"), name)
        if not zones:
            fix = "target.region: any, and slipway plan FILE shows where it is offered"
            yield failed_check(
                "type offered", requirement, f"{subject.region} does not offer this type to this account", fix
            )
        elif subject.zone is not None and subject.zone not in zones:
            fix = f"target.az_id: one of {', '.join(sorted(zones))}"
            yield failed_check("type offered", requirement, f"offered in {', '.join(sorted(zones))} alone", fix)
        else:
            yield ok("type offered", requirement, f"offered in {', '.join(sorted(zones))}")


def addresses(subject: Subject) -> Iterator[Check]:
    """Check the number of free addresses in an existing network's subnets."""
    plan = subject.plan
    if plan is None or plan.request.network.vpc_id is None:
        return
    for subnet in subnets(subject.session("ec2"), plan.request.network.subnet_ids):
        shortage = too_few_addresses(
            plan.request, plan.place, subject.catalog.instance_types, subnet=subnet.id, have=subnet.free_addresses
        )
        requirement = f"addresses for {number_of(plan.place.nodes, 'node')} in {subnet.id}"
        if shortage:
            yield failed_check("free addresses", requirement, shortage[0].message, shortage[0].hint)
        else:
            yield ok("free addresses", requirement, f"{subnet.free_addresses:,} free of {subnet.cidr}")


def check_reservation(subject: Subject) -> Iterator[Check]:
    """Check the reservation that a plan names, or report that it names none but needs one."""
    plan = subject.plan
    if plan is None:
        return
    named, option = plan.request.purchase.reservation, plan.place.option
    if named is None:
        if option is PurchaseOption.CAPACITY_BLOCK and plan.request.target.cluster is None:
            fix = "slipway capacity FILE lists what is for sale; then purchase: {reservation: {id: cr-...}}"
            yield failed_check(
                "reservation", "purchase.reservation names the block", "the plan has no reservation", fix
            )
        return
    requirement = f"{named.id}: {plan.place.nodes} x {plan.place.instance_type} in {subject.zone or subject.region}"
    state = reservation(subject.session("ec2"), named.id)
    if state is None:
        fix = "use a reservation of this account and region, or one shared with it"
        yield failed_check("reservation", requirement, f"no such reservation in {subject.region}", fix)
        return
    in_use = holdings_of_plan(subject, plan).in_reservation(named.id) if state.available < plan.place.nodes else 0
    against = tuple(_against(subject, plan, named, state, in_use))
    window = f"{state.starts_at:%Y-%m-%d %H:%M} to {state.ends_at:%Y-%m-%d %H:%M}" if state.ends_at else "no end"
    free = f"{state.available} of {state.total} x {state.instance_type} in {state.az_id}"
    free += f" and {in_use} of this plan's own cluster" if in_use else ""
    got = f"{state.state}, {free}, {window}"
    if against:
        yield failed_check(
            "reservation",
            requirement,
            f"{got}: {'; '.join(against)}",
            "use a reservation that fits, or change the plan",
        )
    else:
        yield ok("reservation", requirement, got)
        yield from _begins(subject, state.starts_at)


def _against(subject: Subject, plan: Plan, named: Reservation, state: ReservationState, in_use: int) -> Iterator[str]:
    if state.state not in LIVE_STATES:
        yield f"it is {state.state}"
    if state.instance_type != plan.place.instance_type:
        yield f"the plan asks for {plan.place.instance_type}"
    if subject.zone is not None and state.az_id and state.az_id != subject.zone:
        yield f"the plan is for {subject.zone}"
    if state.total < plan.place.nodes:
        yield f"{number_of(plan.place.nodes, 'node')} requested, but it has {state.total}"
    elif state.state == "active" and state.available + in_use < plan.place.nodes:
        yield f"{state.available} of its instances are free"
    if state.ends_at is not None and state.ends_at <= subject.now:
        yield "it is over"
    for name, planned, known in (("start", named.starts_at, state.starts_at), ("end", named.ends_at, state.ends_at)):
        if planned is not None and known is not None and planned != known:
            yield f"its {name} is {known:%Y-%m-%dT%H:%MZ}, the plan file says {planned:%Y-%m-%dT%H:%MZ}"


def _begins(subject: Subject, starts_at: datetime | None) -> Iterator[Check]:
    """Advise on a later begin of purchased capacity: until then the plan's own cluster costs money without nodes."""
    plan, rate = subject.plan, subject.up_usd_per_hour
    creates_cluster = plan is not None and plan.request.target.cluster is None
    if creates_cluster and rate is not None and starts_at is not None and starts_at > subject.now:
        got = before_it_begins(starts_at, subject.now, rate)
        yield advice("begin", "the reservation has started", got, "run slipway launch FILE when it starts")


def training_plan(subject: Subject) -> Iterator[Check]:
    """Check the training plan that a plan file names."""
    plan = subject.plan
    named = plan.request.purchase.training_plan if plan is not None else None
    if plan is None or named is None:
        return
    requirement = f"{named.arn}: {plan.place.nodes} x {plan.place.instance_type}"
    state = training_plan_state.describe_training_plan(subject.session("sagemaker"), named.arn)
    against = tuple(training_plan_findings(plan, state, subject.now))
    zones = ", ".join(sorted(state.zones)) or "an unnamed zone"
    got = f"{state.status}, {number_of(state.instances, 'instance')} in {zones}"
    if against:
        fix = "; ".join(finding.hint for finding in against if finding.hint)
        yield failed_check("training plan", requirement, "; ".join(finding.message for finding in against), fix)
    else:
        yield ok("training plan", requirement, got)
        yield from _begins(subject, state.starts_at)


CAPACITY = (
    Examination("type offered", "the type is offered in the zone", check_offerings),
    Examination("free addresses", "the subnets have room", addresses),
    Examination("reservation", "the reservation fits the plan", check_reservation),
    Examination("training plan", "the training plan fits the plan file", training_plan),
)
