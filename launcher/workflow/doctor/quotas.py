"""The quotas that a plan uses, compared with those of the account."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from launcher.aws import quotas as service_quotas
from launcher.aws.clients import Sessions
from launcher.aws.quotas import Quota
from launcher.aws.session import CredentialsError
from launcher.catalog.quotas import load_quotas
from launcher.model.administrator import by_administrator
from launcher.model.diagnosis import Check, failed_check, ok, unknown
from launcher.model.errors import AwsError
from launcher.model.stages import Notify
from launcher.planning.quotas import AccountQuotas, QuotaNeed, UnnamedQuota, increase_command, quota_needs
from launcher.workflow.doctor.examination import Examination, Subject
from launcher.workflow.doctor.holdings import holdings_of_plan


def account_quotas(sessions: Sessions, places: Iterable[tuple[str, str]], notify: Notify) -> AccountQuotas:
    """The account's quotas of services in regions; a list that AWS refuses is reported, and its quotas stay unknown.

    Args:
        sessions: the AWS clients.
        places: pairs of a region and a service.
        notify: reports each list that was not read.
    """
    known: dict[tuple[str, str, str], tuple[float, str]] = {}
    for region, service in places:
        try:
            listed = service_quotas.quotas(sessions.session(region, "service-quotas"), service)
        except CredentialsError:
            raise
        except AwsError as problem:
            notify(f"? {problem.message}")
            continue
        known |= {(region, service, quota.name.casefold()): (quota.value, quota.code) for quota in listed}
    return known


def quota_checks(subject: Subject) -> Iterator[Check]:
    """One check per quota; Slipway reads each service's list once."""
    plan = subject.plan
    if plan is None:
        return
    types, names = subject.catalog.instance_types, load_quotas()
    needs = quota_needs(plan, types, names)
    known: dict[str, Sequence[Quota]] = {}
    plan_use = holdings_of_plan(subject, plan).quota_usage(plan, types, names) if needs else {}
    for need in needs:
        if isinstance(need, UnnamedQuota):
            yield unknown("quota", need.what, need.reason, "aws service-quotas list-service-quotas --service-code ec2")
            continue
        if need.service not in known:
            session = subject.session("service-quotas", "cloudwatch")
            known[need.service] = service_quotas.quotas(session, need.service)
        yield _check_quota(subject, need, known, plan_use.get(need.name, 0))


def _check_quota(subject: Subject, need: QuotaNeed, known: Mapping[str, Sequence[Quota]], plan_use: int) -> Check:
    requirement = f"{need.in_unit(need.amount)} for {need.what}"
    quota = matching(need, known[need.service])
    name = f"quota {need.name or need.code}"
    if quota is None:
        fix = f"aws service-quotas list-service-quotas --region {subject.region} --service-code {need.service}"
        return unknown(name, requirement, "the account has no quota of that name", fix)
    name = f"quota {quota.name}"
    used = service_quotas.usage(subject.session("cloudwatch"), quota, subject.now)
    others = max(0.0, (used or 0.0) - plan_use)
    free = quota.value - others
    got = f"{quota.value:,.0f}" + (f", {used:,.0f} of it used" if used is not None else ", its use is unknown")
    got += f", {plan_use:,} by this plan's own stacks" if used and plan_use else ""
    if need.amount <= free:
        return ok(name, requirement, got)
    total = others + need.amount
    fix = by_administrator(increase_command(subject.region, quota.service, quota.code, total))
    if not quota.adjustable:
        fix = "contact AWS Support: this quota has no increase request"
    if need.least <= free:
        return unknown(name, requirement, f"{got}; whether it counts vCPUs or instances is not documented", fix)
    return failed_check(name, requirement, got, fix)


def matching(need: QuotaNeed, known: Sequence[Quota]) -> Quota | None:
    """The quota of a need: by its full name, else by all its words, else by its code if the need has no name.

    A code alone does not decide if a name is known: public lists of codes contradict each other.
    """
    name = need.name.casefold()
    if not name:
        return next((quota for quota in known if quota.code == need.code), None)
    exact = next((quota for quota in known if quota.name.casefold() == name), None)
    if exact is not None or need.confirmed:
        return exact
    terms = set(name.split())
    return next((quota for quota in known if terms <= set(quota.name.casefold().split())), None)


QUOTAS = (Examination("quota", "quotas allow the plan", quota_checks),)
