"""Runs the checks of an account in parallel; every examination ends in a check, also after an error."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from threading import Lock
from typing import NamedTuple

from launcher.aws.calls import forbidden
from launcher.aws.clients import Sessions
from launcher.aws.identity import Caller, caller
from launcher.aws.session import CredentialsError, Session
from launcher.catalog.load import Catalog
from launcher.model.diagnosis import Check, Diagnosis, unknown
from launcher.model.errors import AwsError, SlipwayError
from launcher.model.plan import Plan

AT_ONCE = 8
"""Examinations that run in parallel; each service answers several read calls per second without throttling."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The subject of an examination: a plan in its region, or with `plan` None only an account's region."""

    plan: Plan | None
    region: str
    # The availability zone id of the instances; None if it is open.
    zone: str | None
    catalog: Catalog
    environment: Mapping[str, str]
    now: datetime
    # The cost of the plan's cluster without nodes; None without a quote.
    up_usd_per_hour: Decimal | None = None
    _lock: Lock = field(default_factory=Lock)

    @cached_property
    def sessions(self) -> Sessions:
        """The AWS clients of all regions, with one set of credentials."""
        return Sessions(self.environment)

    @property
    def policies_command(self) -> str:
        """The command that writes the policies of the account, or only those of the plan's target."""
        if self.plan is None:
            return f"slipway policies --account {self.account} --region {self.region} -o policies"
        return f"slipway policies FILE --account {self.account} --region {self.region} -o policies"

    def session(self, *services: str, region: str | None = None) -> Session:
        """The session of a region with clients of some services; only one thread creates sessions at a time."""
        with self._lock:
            sessions = self.sessions
        session_objects = [sessions.session(region or self.region, service) for service in services]
        return session_objects[0]

    @cached_property
    def caller(self) -> Caller:
        """The identity of the credentials."""
        return caller(self.session("sts"))

    @property
    def account(self) -> str:
        """The account's id."""
        return self.caller.account


class Examination(NamedTuple):
    """One question: its name, the question in words, and the function that answers it with one or more checks."""

    name: str
    question: str
    inspect: Callable[[Subject], Iterable[Check]]


def examine(subject: Subject, examinations: Iterable[Examination]) -> Diagnosis:
    """Run all examinations in parallel; the checks have the order of the examinations.

    A check without an answer from AWS is unknown, and never counts as passed.
    """
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        answers = list(pool.map(lambda examination: _run_examination(subject, examination), examinations))
    name = subject.plan.name if subject.plan is not None else None
    return Diagnosis(name=name, checks=tuple(check for answer in answers for check in answer))


def _run_examination(subject: Subject, examination: Examination) -> tuple[Check, ...]:
    name, requirement, probe = examination
    try:
        return tuple(probe(subject))
    except CredentialsError:
        return (unknown(name, requirement, "not checked: no usable credentials"),)
    except AwsError as problem:
        got = f"not allowed with these credentials ({problem.message})" if forbidden(problem) else problem.message
        return (unknown(name, requirement, got, problem.hint),)
    except SlipwayError as problem:
        return (unknown(name, requirement, problem.message, problem.hint),)
