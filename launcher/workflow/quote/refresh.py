"""The story of fresh prices: questions to AWS, answers to the user's cache, and what changed on the way."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from launcher import plan_file
from launcher.aws import regions
from launcher.aws.calls import CredentialsError
from launcher.aws.clients import Sessions
from launcher.catalog.load import Catalog
from launcher.catalog.readings import Answer, Known, Move, Refusal, jumps, known, vanished
from launcher.catalog.selector import Key
from launcher.model.errors import AwsError, ImpossibleError
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.records.cache_folder import cache_folder
from launcher.records.price_cache import PriceCache
from launcher.records.refresh_report import RefreshReport
from launcher.workflow.quote.price_needs import REGIONAL, Question, for_everything, for_place, for_plan, within
from launcher.workflow.quote.price_tasks import answers
from launcher.workflow.quote.prices import check_regions, known_catalog

Say = Callable[[str], None]
"""Where progress goes, line by line."""


def refresh_file(
    path: Path | None, only: Sequence[str], *, environment: Mapping[str, str], now: datetime, say: Say
) -> RefreshReport:
    """Fresh prices for a plan file, or for everything without one.

    Args:
        path: the plan file.
        only: regions that replace the plan's, or that everything is narrowed to; empty: as they are.
        environment: credentials, endpoints and the place of the cache.
        now: UTC.
        say: takes progress.

    Raises:
        UnreadableInputError: the file or a region cannot be understood.
        CredentialsError: there are no credentials, or they have run out; what was read before is kept.
        ImpossibleError: the plan names what the catalog does not know, nothing is left to ask for, or the cache cannot
            be written.
    """
    catalog = known_catalog(environment, now)
    check_regions(catalog, only)
    if path is None:
        questions = within(for_everything(catalog), only or catalog.regions)
    else:
        request = plan_file.load(path)
        if only:
            request = replace(request, target=replace(request.target, region=tuple(dict.fromkeys(only))))
        questions = for_plan(request, catalog)
    if not questions:
        raise ImpossibleError("no price is to be asked for in these regions", hint="name other regions")
    return refresh(questions, catalog=catalog, environment=environment, now=now, say=say)


def refresh_for(
    request: PlanRequest,
    *,
    catalog: Catalog,
    environment: Mapping[str, str],
    now: datetime,
    say: Say,
    place: Place | None = None,
) -> RefreshReport:
    """Fresh prices for a plan, or for one candidate of it; the caller loads the catalog anew, quotes and gates again.

    Raises:
        CredentialsError: there are no credentials, or they have run out; what was read before is kept.
        ImpossibleError: the plan names what the catalog does not know, or the cache cannot be written.
    """
    questions = for_plan(request, catalog) if place is None else for_place(place, request)
    return refresh(questions, catalog=catalog, environment=environment, now=now, say=say)


def refresh(
    questions: Sequence[Question], *, catalog: Catalog, environment: Mapping[str, str], now: datetime, say: Say
) -> RefreshReport:
    """Ask AWS and keep each answer in the environment's cache as it comes.

    A question that fails leaves the others' answers kept. After an interrupt, or for an hour after a failure, the next
    refresh asks only what is missing. The shipped snapshot is never changed.

    Args:
        questions: see `price_needs`.
        catalog: what was known before, to tell what changed; loaded with the cache beside it.
        environment: credentials, endpoints and the place of the cache.
        now: UTC; the day the prices are kept under.
        say: takes progress.

    Raises:
        CredentialsError: there are no credentials, or they have run out; what was read before is kept.
        ImpossibleError: the cache cannot be written.
        UnreadableInputError: a file of the cache is not of its format.
    """
    cache = PriceCache(folder=cache_folder(environment))
    cache.keep((), now.date())
    sessions = Sessions(environment)
    try:
        asked, skipped = _reachable(tuple(dict.fromkeys(questions)), sessions, say)
        kept = cache.answered(now)
        missing = [each for each in asked if each.key not in kept]
        if len(missing) < len(asked):
            say(f"  {len(asked) - len(missing)} of {len(asked)} answers are kept from the refresh that did not finish")
        run = _Run(cache=cache, sessions=sessions, now=now, say=say, total=len(missing))
        run.ask({each: _known(each, catalog) for each in missing})
    finally:
        sessions.close()
    if not run.failures and not run.refused:
        cache.finish()
    return RefreshReport(
        cache=cache.folder,
        asked=len(asked),
        answered=len(asked) - len(run.failures),
        resumed=len(asked) - len(missing),
        prices=run.prices,
        jumped=tuple(sorted(run.jumped, key=lambda each: each.key)),
        vanished=tuple(sorted(run.vanished, key=lambda each: each.key)),
        refused=tuple(sorted(run.refused, key=lambda each: each.key)),
        failures=tuple(sorted(run.failures, key=lambda each: each[0])),
        skipped_regions=skipped,
    )


def _reachable(
    questions: Sequence[Question], sessions: Sessions, say: Say
) -> tuple[tuple[Question, ...], tuple[str, ...]]:
    """The questions without the regions that the account may not use, and those regions."""
    wanted = {region for each in questions if each.kind in REGIONAL for region in each.regions}
    if len(wanted) <= 1:
        return tuple(questions), ()
    try:
        usable = regions.enabled(sessions.session(sessions.home, "ec2"))
    except CredentialsError:
        raise
    except AwsError as problem:
        say(f"  {problem.message}: all regions are asked")
        return tuple(questions), ()
    left = [part for each in questions for part in (within((each,), usable) if each.kind in REGIONAL else (each,))]
    return tuple(left), tuple(sorted(wanted - usable))


def _known(question: Question, catalog: Catalog) -> dict[Key, Known]:
    """The prices that a whole answer to a question must have; on demand in local zones is not among them.

    Nor is a spot price that names no zone: the services answer by zone.
    """
    kinds = (question.kind, "reserved") if question.reserved else (question.kind,)
    found: dict[Key, Known] = {}
    for kind in kinds:
        found.update(known(catalog.store, kind, question.names, question.regions))
    return {key: price for key, price in found.items() if key.kind not in _ZONED or bool(key.zone) is _ZONED[key.kind]}


_ZONED = {"on-demand": False, "spot": True}
"""Whether the answers of a kind name a zone."""


@dataclass(kw_only=True)
class _Run:
    """One refresh on its way: what it works with, and what it has found."""

    cache: PriceCache
    sessions: Sessions
    now: datetime
    say: Say
    total: int
    came: int = 0
    prices: int = 0
    jumped: list[Move] = field(default_factory=list)
    vanished: list[Move] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    failures: list[tuple[str, AwsError]] = field(default_factory=list)

    def ask(self, questions: Mapping[Question, Mapping[Key, Known]]) -> None:
        """Ask, keep, count and say, one wave of answers after the other; with each question what was known before.

        Raises:
            CredentialsError: they are of no use; the answers that came before are kept.
        """
        try:
            with closing(answers(questions, self.sessions, self.now)) as waves:
                for wave in waves:
                    found = [(question, each) for question, each in wave if isinstance(each, Answer)]
                    self.cache.keep((reading for _, each in found for reading in each.readings), self.now.date())
                    self.cache.note((question.key for question, each in found if not each.refusals), self.now)
                    for question, each in found:
                        self._count(question, each, questions[question])
                    for question, problem in wave:
                        if isinstance(problem, AwsError):
                            self._fail(question, problem)
        except KeyboardInterrupt:
            self.say(f"  interrupted: what came is kept, the same command goes on from there ({self._place})")
            raise

    def _count(self, question: Question, answer: Answer, before: Mapping[Key, Known]) -> None:
        """Count one answer and say that it came."""
        self.came += 1
        self.prices += len(answer.readings)
        self.jumped += jumps(before, answer.readings)
        self.vanished += vanished(before, answer)
        self.refused += answer.refusals
        number = len(answer.readings)
        prices = "no price" if not number else "1 price" if number == 1 else f"{number} prices"
        refused = f", {len(answer.refusals)} refused" if answer.refusals else ""
        self.say(f"  {self._place}  {question.words}: {prices}{refused}")

    def _fail(self, question: Question, problem: AwsError) -> None:
        """Count one failure and say what it was.

        Raises:
            CredentialsError: `problem`, where it is one.
        """
        if isinstance(problem, CredentialsError):
            raise problem
        self.came += 1
        self.failures.append((question.words, problem))
        self.say(f"  {self._place}  {question.words}: failed: {problem.message}")

    @property
    def _place(self) -> str:
        """How far the refresh is."""
        return f"{self.came:>{len(str(self.total))}}/{self.total}"
