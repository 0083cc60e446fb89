"""The `doctor` command: it checks an account for the requirements of a plan before any cost."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal

from launcher.catalog.load import Catalog
from launcher.model.diagnosis import Diagnosis, Outcome
from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, error
from launcher.model.plan import Plan
from launcher.model.stages import Notify, stage
from launcher.planning.pin import zone
from launcher.workflow.doctor.account import ACCOUNT
from launcher.workflow.doctor.billing import BILLING
from launcher.workflow.doctor.capacity import CAPACITY
from launcher.workflow.doctor.examination import Examination, Subject, examine
from launcher.workflow.doctor.existing import ARTEFACTS, CONTAINER_IMAGE, DATA, EXISTING_KUBERNETES
from launcher.workflow.doctor.existing_access import EXISTING
from launcher.workflow.doctor.key import KEYS
from launcher.workflow.doctor.quotas import QUOTAS
from launcher.workflow.doctor.rights import RIGHTS, STORE

PLAN_EXAMINATIONS: tuple[Examination, ...] = (
    *ACCOUNT,
    *RIGHTS,
    *QUOTAS,
    *CAPACITY,
    *EXISTING,
    *KEYS,
    *ARTEFACTS,
    *EXISTING_KUBERNETES,
)

JOB_EXAMINATIONS: tuple[Examination, ...] = (CONTAINER_IMAGE, DATA, STORE)
"""Examinations for a job on an existing cluster."""


def diagnose(subject: Subject, *, billing: bool = False) -> Diagnosis:
    """Run all checks of an account, with or without a plan.

    `billing` adds the checks that only the paying account can answer.
    """
    return examine(subject, (*PLAN_EXAMINATIONS, *(BILLING if billing else ())))


def subject_of(
    plan: Plan | None,
    region: str,
    *,
    catalog: Catalog,
    environment: Mapping[str, str],
    now: datetime,
    up_usd_per_hour: Decimal | None = None,
) -> Subject:
    """The subject to examine: a plan where it would run, or a region."""
    return Subject(
        plan=plan,
        region=plan.place.region if plan is not None else region,
        zone=zone(plan.place, catalog) if plan is not None else None,
        catalog=catalog,
        environment=environment,
        now=now,
        up_usd_per_hour=up_usd_per_hour,
    )


def refuse_unless_ready(
    subject: Subject, notify: Notify, again: str, examinations: Sequence[Examination] = PLAN_EXAMINATIONS
) -> Diagnosis:
    """Refuse if a launch would fail on a known problem; report checks that did not pass.

    A job for an existing cluster needs fewer examinations (JOB_EXAMINATIONS); `again` is the command that repeats them.

    Raises:
        ImpossibleError: checks failed; the error lists all of them.
    """
    with stage(notify, "checking the account for this launch"):
        diagnosis = examine(subject, examinations)
    if diagnosis.failures:
        errors: list[Finding] = [
            error(check.name.replace(" ", "-"), "", f"{check.asked}: {check.got}", check.fix)
            for check in diagnosis.failures
        ]
        raise ImpossibleError("the account is not ready for this plan", findings=errors, hint=again)
    passed = sum(check.result is Outcome.OK for check in diagnosis.checks)
    unknown = [check for check in diagnosis.checks if check.result is Outcome.UNKNOWN]
    notify(f"doctor: {passed} checks passed" + (f", {len(unknown)} could not run" if unknown else ""))
    for check in unknown:
        notify(f"  ? {check.name}: {check.asked}: {check.got}")
    return diagnosis
