"""The `prices refresh` command: it requests prices from AWS, writes them to the user's cache, and lists the changes."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from launcher import plan_file
from launcher.aws import regions
from launcher.aws.clients import Sessions
from launcher.aws.feeds.addresses import addresses
from launcher.aws.feeds.fee_offers import fee_offer
from launcher.aws.feeds.public_files import Interest, PublicFiles
from launcher.aws.session import CredentialsError, NoAccountError
from launcher.catalog.fetched_prices import FetchedPrices, Refusal, Unmatched
from launcher.catalog.load import Catalog
from launcher.catalog.price_moves import KnownPrice, Move, jumps, known_prices, vanished_prices
from launcher.catalog.selector import SAGEMAKER, Key
from launcher.catalog.usage_types import item_units, usage_types
from launcher.model.errors import AwsError, ImpossibleError
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.model.stages import Notify, Stage, stage
from launcher.model.units import number_of
from launcher.records.cache_folder import cache_folder
from launcher.records.price_cache import PriceCache
from launcher.records.refresh_report import RefreshReport
from launcher.targets.registry import target_of
from launcher.workflow.quote.price_needs import (
    BILL_ITEM,
    EVERY_TYPE,
    FIRST_REGIONS,
    PRICE_FILE,
    REGIONAL,
    SPOT_BAND,
    SPOT_PAGE,
    Question,
    bands_and_items,
    for_everything,
    for_place,
    for_plan,
    public_files,
    unpublished_kinds,
    within,
)
from launcher.workflow.quote.price_tasks import FetchPrices, answers, public, request_prices
from launcher.workflow.quote.prices import check_regions, known_catalog

FILE_KINDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    PRICE_FILE: {"AmazonEC2": ("on-demand", "reserved"), "AmazonSageMaker": (SAGEMAKER,)},
    SPOT_PAGE: {EVERY_TYPE[0]: ("spot",)},
    SPOT_BAND: {},
    BILL_ITEM: {},
}
"""The kinds of price in the answers of a question, except bands and bill items."""
_ZONED = {"on-demand": False, "spot": True}
"""Whether the answers of a kind name an availability zone."""


def refresh_file(
    path: Path | None,
    only: Sequence[str],
    *,
    environment: Mapping[str, str],
    now: datetime,
    notify: Notify,
    everywhere: bool = False,
    settings: tuple[str, ...] = (),
) -> RefreshReport:
    """Fresh prices for a plan file, or for everything without one: with credentials from AWS's APIs, else its files.

    `only`: regions instead of the plan's. `everywhere`: without credentials and regions, read the price files of every
    region. `settings`: values over those of the plan file, each KEY=VALUE.

    Raises:
        CredentialsError: the credentials are rejected; the answers so far are stored.
        ImpossibleError: the plan names something that the catalog does not have, no question is left, or the cache
        cannot
            be written.
    """
    catalog = known_catalog(environment, now)
    check_regions(catalog, only)
    if path is None:
        questions = within(for_everything(catalog), only or catalog.regions)
    else:
        request = plan_file.load(path, settings)
        if only:
            request = replace(request, target=replace(request.target, region=tuple(dict.fromkeys(only))))
        questions = for_plan(request, catalog)
        _report_fees(request, catalog, environment, now, notify)
    if not questions:
        raise ImpossibleError("there are no prices to request in these regions", hint="use other regions")
    try:
        every = (*questions, *bands_and_items(questions, catalog))
        return refresh(every, catalog=catalog, environment=environment, now=now, notify=notify)
    # Without an account most prices are public, in files of hundreds of megabytes.
    except NoAccountError:
        notify("  no AWS credentials: reading AWS's public price files")
    named = sorted({region for question in questions for region in question.regions})
    few = not only and not everywhere and len(named) > len(FIRST_REGIONS)
    chosen = [region for region in named if region in FIRST_REGIONS or not few] or named[: len(FIRST_REGIONS)]
    if few:
        notify(f"  price files of {', '.join(chosen)} only: use --region for others, or --all for every region")
    files = public_files(questions, catalog, chosen)
    report = refresh_public(files, catalog=catalog, environment=environment, now=now, notify=notify)
    return replace(report, public=True, unasked=unpublished_kinds(questions))


def _report_fees(
    request: PlanRequest, catalog: Catalog, environment: Mapping[str, str], now: datetime, notify: Notify
) -> None:
    for target in (target_of(kind) for kind in request.target.kind or ()):
        if not target.fee_service:
            continue
        by_hand = f"set your account's price in purchase.price_overrides: {', '.join(target.fee_keys)}"
        folder = cache_folder(environment).parent / "feeds"
        for region in request.target.region or catalog.commercial(catalog.regions):
            label = f"  fees of {target.title} in {region}"
            try:
                offer = fee_offer(folder, addresses(environment), target.fee_service, region, now)
            except AwsError as problem:
                notify(f"{label}: {problem.message}; {by_hand}")
                break
            if offer is None:
                notify(f"{label}: the Price List's index has no service of that name; {by_hand}")
                break
            service, fees = offer
            notify(f"{label}, by service {service} (not confirmed; none of it prices a plan; {by_hand}):")
            for fee in fees:
                notify(f"    {fee.usage_type}: ${fee.usd} per {fee.unit}")


def refresh_for(
    request: PlanRequest,
    *,
    catalog: Catalog,
    environment: Mapping[str, str],
    now: datetime,
    notify: Notify,
    place: Place | None = None,
) -> RefreshReport:
    """Fresh prices for a plan or one candidate; the caller loads the catalog, quotes and gates again.

    Raises:
        CredentialsError: credentials are missing or expired; the answers so far are stored.
        ImpossibleError: the plan names something that the catalog does not have, or the cache cannot be written.
    """
    questions = for_plan(request, catalog) if place is None else for_place(place, request)
    return refresh(questions, catalog=catalog, environment=environment, now=now, notify=notify)


def refresh(
    questions: Sequence[Question], *, catalog: Catalog, environment: Mapping[str, str], now: datetime, notify: Notify
) -> RefreshReport:
    """Query AWS, and store each answer in the environment's cache when it arrives.

    A failed question does not affect the others' answers. After an interrupt, or for an hour after a failure, the next
    refresh sends only the missing questions. The shipped snapshot is never changed. Prices are stored under the date of
    `now` (UTC).

    Raises:
        CredentialsError: credentials are missing or expired; the answers so far are stored.
        UnreadableInputError: a file of the cache has another format.
    """
    cache = PriceCache(folder=cache_folder(environment))
    cache.keep((), now.date())
    sessions = Sessions(environment)
    with closing(sessions), closing(_files(environment, catalog)) as files:
        reachable, skipped = _reachable(tuple(dict.fromkeys(questions)), sessions, notify)
        run = _Run(cache=cache, fetch=request_prices(sessions, files, now), now=now, notify=notify)
        return replace(run.report(reachable, catalog), skipped_regions=skipped)


def refresh_public(
    questions: Sequence[Question], *, catalog: Catalog, environment: Mapping[str, str], now: datetime, notify: Notify
) -> RefreshReport:
    """Read AWS's public files and write each answer to the cache when it arrives; the arguments are those of `refresh`.

    Raises:
        UnreadableInputError: a cache file has an invalid format.
    """
    cache = PriceCache(folder=cache_folder(environment))
    cache.keep((), now.date())
    with closing(_files(environment, catalog)) as files:
        run = _Run(cache=cache, fetch=public(files, now, notify), now=now, notify=notify)
        return run.report(tuple(questions), catalog)


def _files(environment: Mapping[str, str], catalog: Catalog) -> PublicFiles:
    """AWS's public files in this environment, for the prices that the catalog has tables for."""
    # The public files have no prices of UltraServers.
    types = frozenset(name for name in catalog.instance_types if not name.startswith("u-"))
    interest = Interest(
        types=types,
        ml_types=frozenset(f"ml.{name}" for name in types),
        usage_types=usage_types(),
        units=item_units(),
    )
    return PublicFiles(cache_folder(environment).parent / "feeds", addresses(environment), interest)


def _reachable(
    questions: Sequence[Question], sessions: Sessions, notify: Notify
) -> tuple[tuple[Question, ...], tuple[str, ...]]:
    """The requests without the regions that the account may not use, and those regions."""
    asked_regions = {region for question in questions if question.kind in REGIONAL for region in question.regions}
    # One region is the user's own choice: if the account may not use it, its answer says so.
    if len(asked_regions) <= 1:
        return tuple(questions), ()
    try:
        usable = regions.enabled_regions(sessions.session(sessions.home, "ec2"))
    except CredentialsError:
        raise
    except AwsError as problem:
        notify(f"  {problem.message}: requesting all regions")
        return tuple(questions), ()
    reachable = [
        part
        for question in questions
        for part in (within((question,), usable) if question.kind in REGIONAL else (question,))
    ]
    return tuple(reachable), tuple(sorted(asked_regions - usable))


def _recent_rows(question: Question, catalog: Catalog) -> dict[Key, KnownPrice]:
    kinds: tuple[str, ...] = (question.kind, "reserved") if question.reserved else (question.kind,)
    names: Collection[str] = question.names
    if question.kind in FILE_KINDS:
        kinds = FILE_KINDS[question.kind].get(question.names[0], ())
        names = [f"ml.{name}" if SAGEMAKER in kinds else name for name in catalog.instance_types]
    prices: dict[Key, KnownPrice] = {}
    for kind in kinds:
        prices.update(known_prices(catalog.store, kind, names, question.regions))
    if question.kind == SPOT_PAGE:
        return {key: price for key, price in prices.items() if not key.zone}
    return {key: price for key, price in prices.items() if key.kind not in _ZONED or bool(key.zone) is _ZONED[key.kind]}


@dataclass(kw_only=True)
class _Run:
    """One refresh in progress: its inputs and its results."""

    cache: PriceCache
    fetch: FetchPrices
    now: datetime
    notify: Notify
    total: int = 0
    came: int = 0
    prices: int = 0
    jumped: list[Move] = field(default_factory=list)
    vanished: list[Move] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    unmatched: list[Unmatched] = field(default_factory=list)
    failures: list[tuple[str, AwsError]] = field(default_factory=list)
    asking: Stage = field(init=False)

    def report(self, questions: tuple[Question, ...], catalog: Catalog) -> RefreshReport:
        """Send the questions that an unfinished refresh has not answered, and report the answers.

        Raises:
            CredentialsError: the credentials are rejected; the answers so far are stored.
        """
        answered = self.cache.answered_queries(self.now)
        missing = [question for question in questions if question.key not in answered]
        if len(missing) < len(questions):
            have = len(questions) - len(missing)
            self.notify(f"  {have} of {len(questions)} answers are reused from the unfinished refresh")
        self.total = len(missing)
        with stage(self.notify, self._questions) as self.asking:
            self._fetch({question: _recent_rows(question, catalog) for question in missing})
        # Until then a repeated refresh sends only what is missing.
        if not self.failures and not self.refused:
            self.cache.finish()
        return RefreshReport(
            cache=self.cache.folder,
            asked=len(questions),
            answered=len(questions) - len(self.failures),
            resumed=len(questions) - len(missing),
            prices=self.prices,
            jumped=tuple(sorted(self.jumped, key=lambda move: move.key)),
            vanished=tuple(sorted(self.vanished, key=lambda move: move.key)),
            refused=tuple(sorted(self.refused, key=lambda refusal: refusal.key)),
            unmatched=tuple(sorted(self.unmatched, key=lambda unmatched: (unmatched.item, unmatched.region))),
            failures=tuple(sorted(self.failures, key=lambda failure: failure[0])),
            skipped_regions=(),
        )

    def _fetch(self, questions: Mapping[Question, Mapping[Key, KnownPrice]]) -> None:
        try:
            with closing(answers(questions, self.fetch)) as waves:
                for wave in waves:
                    answered = [(question, outcome) for question, outcome in wave if isinstance(outcome, FetchedPrices)]
                    self.cache.keep_answers((answer for _, answer in answered), self.now.date())
                    self.cache.note((question.key for question, answer in answered if not answer.refusals), self.now)
                    for question, reply in answered:
                        self._count(question, reply, questions[question])
                    for question, problem in wave:
                        if isinstance(problem, AwsError):
                            self._fail(question, problem)
        except KeyboardInterrupt:
            self.notify(
                f"  interrupted: received prices are stored, the same command continues from there ({self._place})"
            )
            raise

    def _count(self, question: Question, answer: FetchedPrices, before: Mapping[Key, KnownPrice]) -> None:
        self.came += 1
        self.prices += answer.prices
        self.jumped += jumps(before, answer.rates)
        self.vanished += vanished_prices(before, answer)
        self.refused += answer.refusals
        self.unmatched += answer.unmatched
        number = answer.prices
        prices = "no price" if not number else "1 price" if number == 1 else f"{number} prices"
        refused = f", {len(answer.refusals)} refused" if answer.refusals else ""
        summary = f"{question.text}: {prices}{refused}"
        self._report_answer(summary)
        (self.notify if answer.refusals else self.asking.detail)(f"  {self._place}  {summary}")

    def _fail(self, question: Question, problem: AwsError) -> None:
        """Count one failure, and report each message once; the final report lists all requests that failed."""
        if isinstance(problem, CredentialsError):
            raise problem
        self.came += 1
        # One cause, such as a missing permission, fails the question of every region.
        reported = any(failure.message == problem.message for _, failure in self.failures)
        self.failures.append((question.text, problem))
        self._report_answer(question.text)
        if not reported:
            self.notify(f"  {self._place}  {question.text}: failed: {problem.message}")

    def _report_answer(self, summary: str) -> None:
        self.asking.now(f"{self._place} answers, {summary}", share=self.came / max(1, self.total))

    @property
    def _questions(self) -> str:
        """The questions to send, in words; empty if every answer is stored."""
        return f"  {number_of(self.total, 'question')} to AWS" if self.total else ""

    @property
    def _place(self) -> str:
        return f"{self.came:>{len(str(self.total))}}/{self.total}"
