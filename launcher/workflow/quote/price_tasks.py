"""Sends each price request to its service."""

from collections.abc import Callable, Generator, Iterable, Mapping
from datetime import datetime
from queue import Empty, SimpleQueue
from threading import Event, Thread

from launcher.aws import capacity_block_prices, price_list, savings_plans, spot_history, training_plans
from launcher.aws.clients import Sessions
from launcher.aws.feeds.bill_items import bill_answer
from launcher.aws.feeds.public_files import PublicFiles
from launcher.catalog.fetched_prices import FetchedPrices
from launcher.catalog.selector import SAGEMAKER
from launcher.catalog.usage_types import item_units, usage_types_of
from launcher.model.enums import PurchaseOption
from launcher.model.errors import AwsError
from launcher.model.stages import Notify
from launcher.workflow.quote.price_needs import BILL_ITEM, Question

AT_ONCE = 8
"""Parallel requests: the services allow a few per second, and each takes some tenths of a second."""
MEGABYTE = 1_000_000
REPORT_EVERY = 64 * MEGABYTE
"""Bytes of a download between two progress lines."""


AskSigned = Callable[[Question, Sessions, datetime], FetchedPrices]
FetchPrices = Callable[[Question], FetchedPrices]
"""Returns the answer to a request.

Raises:
    AwsError: the request failed.
"""


def _on_demand(question: Question, sessions: Sessions, now: datetime) -> FetchedPrices:
    session = sessions.session(price_list.HOME, "pricing")
    return price_list.ec2(session, question.names[0], question.regions, now, reserved=question.reserved)


def _spot(question: Question, sessions: Sessions, now: datetime) -> FetchedPrices:
    return spot_history.spot(sessions.session(question.regions[0], "ec2"), question.names, now)


def _capacity_blocks(question: Question, sessions: Sessions, now: datetime) -> FetchedPrices:
    session = sessions.session(question.regions[0], "ec2")
    return capacity_block_prices.capacity_blocks(session, question.names[0], question.count, now)


def _training_plans(question: Question, sessions: Sessions, now: datetime) -> FetchedPrices:
    session = sessions.session(question.regions[0], "sagemaker")
    return training_plans.training_plans(session, question.names[0], question.count, now)


def _savings_plans(question: Question, sessions: Sessions, now: datetime) -> FetchedPrices:  # noqa: ARG001 - rates have no date
    session, name = sessions.session(savings_plans.HOME, "savingsplans"), question.names[0]
    if not name.startswith("ml."):
        return savings_plans.ec2(session, name, question.regions)
    prices = sessions.session(price_list.HOME, "pricing")
    return savings_plans.sagemaker(session, prices, name, question.regions)


def _sagemaker(question: Question, sessions: Sessions, now: datetime) -> FetchedPrices:
    session = sessions.session(price_list.HOME, "pricing")
    return price_list.sagemaker(session, question.names[0], question.regions, now)


def _bill_items(question: Question, sessions: Sessions, now: datetime) -> FetchedPrices:
    service, region = question.names[0], question.regions[0]
    known = usage_types_of(service, region)
    products = price_list.bill_products(sessions.session(price_list.HOME, "pricing"), service, region, known)
    return bill_answer(products, known, item_units(), region, now)


SIGNED: Mapping[str, AskSigned] = {
    PurchaseOption.ON_DEMAND.value: _on_demand,
    PurchaseOption.SPOT.value: _spot,
    PurchaseOption.CAPACITY_BLOCK.value: _capacity_blocks,
    PurchaseOption.TRAINING_PLAN.value: _training_plans,
    PurchaseOption.SAVINGS_PLAN.value: _savings_plans,
    SAGEMAKER: _sagemaker,
    BILL_ITEM: _bill_items,
}
"""The AWS call for each kind of request; reserved rates come with the on-demand rates."""


def request_prices(sessions: Sessions, files: PublicFiles, now: datetime) -> FetchPrices:
    """Return a function that uses AWS's APIs, and a public file if no API exists."""

    def ask(question: Question) -> FetchedPrices:
        if question.kind in SIGNED:
            return SIGNED[question.kind](question, sessions, now)
        return public(files, now, lambda _: None)(question)

    return ask


def public(files: PublicFiles, now: datetime, notify: Notify) -> FetchPrices:
    """Return a function that uses AWS's public files; `notify` receives the progress of a large file."""

    def ask(question: Question) -> FetchedPrices:
        progress = _download_progress(question.text, notify)
        match question.kind:
            case "spot-page":
                return files.spot(question.regions, now.date(), progress)
            case "spot-band":
                return files.advisor(question.regions, now.date(), progress)
            case _:
                return files.offer(question.names[0], question.regions[0], now, progress)

    return ask


def _download_progress(label: str, notify: Notify) -> Callable[[int, int | None], None]:
    reported = 0

    def progress(came: int, whole: int | None) -> None:
        nonlocal reported
        part = came // REPORT_EVERY
        if part > reported:
            reported = part
            of = f" of {whole / MEGABYTE:,.0f}" if whole else ""
            notify(f"  {label}: {came / MEGABYTE:,.0f}{of} MB")

    return progress


def answers(
    questions: Iterable[Question], ask: FetchPrices
) -> Generator[list[tuple[Question, FetchedPrices | AwsError]]]:
    """The answers as they arrive, simultaneous ones in one list; an error in place of a failed answer.

    If the caller stops iterating, remaining questions are not sent. The threads are daemons, so that an interrupted
    program ends immediately, without waiting for the last service.
    """
    waiting: SimpleQueue[Question] = SimpleQueue()
    came: SimpleQueue[tuple[Question, FetchedPrices | Exception]] = SimpleQueue()
    for waiting_question in questions:
        waiting.put(waiting_question)
    pending, stopped = waiting.qsize(), Event()

    def work() -> None:
        while not stopped.is_set():
            try:
                question = waiting.get_nowait()
            except Empty:
                return
            came.put((question, _outcome(question, ask)))

    for _ in range(min(AT_ONCE, pending)):
        Thread(target=work, name="prices", daemon=True).start()
    try:
        while pending:
            wave = [came.get()]
            while not came.empty():
                wave.append(came.get())
            pending -= len(wave)
            yield [(question, _expected_outcome(outcome)) for question, outcome in wave]
    finally:
        stopped.set()


def _outcome(question: Question, ask: FetchPrices) -> FetchedPrices | Exception:
    try:
        return ask(question)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as problem:
        cause = f"{type(problem).__name__}: {str(problem)[:80]}"
        failure = AwsError(f"an answer of unknown format, so no price is read from it ({cause})")
        failure.__cause__ = problem
        return failure
    except Exception as problem:  # noqa: BLE001 - handed to the waiting thread, which raises what it does not expect
        return problem


def _expected_outcome(outcome: FetchedPrices | Exception) -> FetchedPrices | AwsError:
    """An outcome after which a refresh can continue; any other is raised."""
    if isinstance(outcome, FetchedPrices | AwsError):
        return outcome
    raise outcome
