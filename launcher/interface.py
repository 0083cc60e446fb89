"""The Python interface: typed functions that return the `--json` output of the commands.

`import launcher` loads this module only when a name of it is used. Names are stable: additions belong to the contract
of the JSON (docs/python.md). Every refusal is a `SlipwayError` with the exit code that the command would return.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

from launcher.model.errors import SlipwayError, UnreadableInputError
from launcher.model.values import YEARS, describe
from launcher.pricing.priced import Priced
from launcher.records.cache_folder import cache_folder
from launcher.records.quote_document import quote_document
from launcher.workflow.quote.fresh import Picked
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price

Document: TypeAlias = dict[str, Any]
"""A JSON object of the contract: money is text, so that no cent is lost."""
PlanFile: TypeAlias = str | os.PathLike[str]


_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "region": str,
    "everything": bool,
    "prices_as_of": date,
    "max_price_age": int,
    "max_usd": Decimal,
    "cache": Path,
    "now": datetime,
    "settings": tuple,
}
AMOUNT = re.compile(r"-?[0-9]+([.][0-9]+)?")
"""Money as in the JSON."""
Notify: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The additions of the command line to a plan file, under the names of its options.

    `now` is the time of pricing, UTC; None: the current time. `cache` is the folder of refreshed prices; None: the
    user's own folder. `settings` are values over those of the plan file, each KEY=VALUE.
    """

    region: str | None = None
    everything: bool = False
    prices_as_of: date | None = None
    max_price_age: int | None = None
    max_usd: Decimal | None = None
    cache: Path | None = None
    now: datetime | None = None
    settings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the types of the values."""
        for name, kinds in _KINDS.items():
            value = getattr(self, name)
            if value is not None and (not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool)):
                expected = " or ".join(kind.__name__ for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))
                raise UnreadableInputError(f"Options.{name} must be {expected}, got {describe(value)}")
        if isinstance(self.prices_as_of, datetime):
            raise UnreadableInputError(f"Options.prices_as_of must be date, got {describe(self.prices_as_of)}")
        if self.max_usd is not None and not (self.max_usd.is_finite() and self.max_usd >= 0):
            raise UnreadableInputError(f"Options.max_usd must be 0 dollars or more, got {self.max_usd}")
        if self.max_price_age is not None and self.max_price_age < 0:
            raise UnreadableInputError(f"Options.max_price_age must be 0 days or more, got {self.max_price_age}")
        for name in ("prices_as_of", "now"):
            value = getattr(self, name)
            if value is not None and value.year not in YEARS:
                allowed = f"a day of {YEARS.start} to {YEARS.stop - 1}"
                raise UnreadableInputError(f"Options.{name} must be {allowed}, got {describe(value)}")

    def moment(self) -> datetime:
        """The time of pricing, to the second."""
        now = datetime.now(UTC) if self.now is None else self.now
        return now.astimezone(UTC).replace(microsecond=0)

    def price_options(self) -> PriceOptions:
        """The same options for the workflow functions."""
        return PriceOptions(
            cache=self.cache or cache_folder(os.environ),
            runs=Path.cwd(),
            region=self.region,
            everything=self.everything,
            prices_as_of=self.prices_as_of,
            max_price_age=self.max_price_age,
            max_usd=self.max_usd,
            settings=self.settings,
        )


DEFAULTS = Options()


def _silent(_: str) -> None:
    """Print nothing."""


def plan(file: PlanFile, options: Options = DEFAULTS) -> Document:
    """Every purchase option for the job of a plan file, best first: `slipway.plan/1`. No AWS call; spends nothing.

    Raises:
        SlipwayError: the file cannot be read, or nothing that it requests is possible.
    """
    from launcher.answers import plan_document as answer

    return answer.document(price(Path(file), options.moment(), options.price_options()))


def quote(file: PlanFile, choice: str | int | None = None, options: Options = DEFAULTS) -> Document:
    """One candidate with every line of its bill: `slipway.quote/1`.

    Args:
        file: the plan file.
        choice: a short id, or a rank; None: the cheapest candidate that can be launched.
        options: the options of the command line.

    Raises:
        SlipwayError: the file cannot be read, nothing that it requests is possible, or the candidate does not exist.
    """
    selection = None if choice is None else str(choice)
    priced = price(Path(file), options.moment(), replace(options.price_options(), picked=selection))
    rank, quoted = pick(priced, selection)
    return quote_document(quoted, rank, priced.catalog.instance_types)


def compare(file: PlanFile, options: Options = DEFAULTS) -> Document:
    """One job on every instance type, GPU against Trainium with the port, and a verdict: `slipway.compare/1`.

    Raises:
        SlipwayError: the file cannot be read, or nothing that it requests is possible.
    """
    from launcher.answers import compare_document as answer
    from launcher.workflow.quote import compare as story

    return answer.document(story.compare(Path(file), options.moment(), options.price_options()))


def diff(old: str, new: str | None = None, options: Options = DEFAULTS, *, folder: PlanFile = ".") -> Document:
    """The effect of a change of plans on their totals: `slipway.diff/1`; compares files, folders or git revisions.

    Raises:
        SlipwayError: a side is no file, folder or revision, or a plan after the change cannot be read.
    """
    from launcher.answers import diff as answer
    from launcher.workflow.quote import diff as story

    price_options = options.price_options()
    difference = story.diff(
        old,
        new,
        options.moment(),
        price_options,
        old_options=price_options,
        folder=Path(folder),
        environment=os.environ,
    )
    return answer.document(difference, None)


def sweep(file: PlanFile, values: Mapping[str, Sequence[Any]], options: Options = DEFAULTS) -> Document:
    """A plan at every combination of values of its keys: `slipway.sweep/1`.

    Args:
        file: the plan file.
        values: the values of each key, by its dotted name.
        options: the options of the command line.

    Raises:
        SlipwayError: the file cannot be read, or the plan has no such key or does not allow a value.
    """
    from launcher.answers import sweep as answer
    from launcher.workflow.quote import sweep as story

    axes = [(key, tuple(listed)) for key, listed in values.items()]
    return answer.document(story.sweep_axes(Path(file), axes, options.moment(), options.price_options()))


def launch(
    file: PlanFile,
    *,
    max_usd: Decimal,
    choice: str | int | None = None,
    sandbox: bool = False,
    notify: Notify = _silent,
    options: Options = DEFAULTS,
) -> Document:
    """Launch a plan, follow its job to the end, and return its report: `slipway.report/1`. This spends money.

    `max_usd` stands for the question that the command asks: the launch is refused where 1 run in 10 costs more. The
    run folder is made in the current folder.

    Args:
        file: the plan file, or a saved plan.
        max_usd: dollars that the launch may cost, compared with the high estimate.
        choice: a short id, or a rank; None: the cheapest candidate that can be launched.
        sandbox: launch in an emulated AWS on this computer.
        notify: receives each line of progress.
        options: the options of the command line.

    Raises:
        SlipwayError: the launch was refused, or the deployment or the job failed.
    """
    from launcher.records.report_document import report_document
    from launcher.workflow.run.launch_options import LaunchOptions
    from launcher.workflow.run.plan_launch import launch_plan

    price_options = replace(replace(options, max_usd=max_usd).price_options(), any_age=sandbox)
    launch_options = LaunchOptions(root=Path.cwd(), sandbox=sandbox, notify=notify, progress=lambda _: None)
    caller = _Caller(notify=notify)
    selection = None if choice is None else str(choice)
    done = launch_plan(
        Path(file), options.moment, price_options, selection=selection, options=launch_options, console=caller
    )
    if not isinstance(done, tuple):
        raise UnreadableInputError(f"{file} launches nothing")
    return report_document(done[1])


@contextmanager
def _runs_of(name: str, region: str | None, store: str | None, notify: Notify) -> Iterator[None]:
    """Use the runs of a name that a region or a store has, launched on any computer; without both, this computer's."""
    from launcher.records.run_folder import FETCHED
    from launcher.workflow.history.run_index import RunLocation, fetch

    token = None
    try:
        if region is not None or store is not None:
            token = FETCHED.set(fetch(name, RunLocation(region=region, store=store), os.environ, notify))
        yield
    except SlipwayError as problem:
        problem.name_subject(name)
        raise
    finally:
        if token is not None:
            FETCHED.reset(token)


def status(name: str, *, region: str | None = None, store: str | None = None, notify: Notify = _silent) -> Document:
    """The state of a plan's newest run: `slipway.status/1`.

    Args:
        name: the plan's name.
        region: find a run of any computer, by the Slipway stacks of this region.
        store: find a run of any computer, in this store, `s3://BUCKET`.
        notify: receives remarks.

    Raises:
        SlipwayError: no run of the plan is known, or AWS does not answer.
    """
    from launcher.answers import status as answer
    from launcher.workflow.run.status import run_state, with_running_job

    with _runs_of(name, region, store, notify):
        folder = with_running_job(name, Path.cwd(), os.environ, notify)
        return answer.document(run_state(name, folder, os.environ, notify))


def wait(
    name: str,
    *,
    timeout_s: float | None = None,
    poll_s: float = 30,
    region: str | None = None,
    store: str | None = None,
    notify: Notify = _silent,
) -> Document:
    """The state of a plan's newest run once its job has ended: `slipway.status/1`.

    Args:
        name: the plan's name.
        timeout_s: seconds after which the state is returned although the job goes on; None: no limit.
        poll_s: seconds between two looks.
        region: find a run of any computer, as `status` does.
        store: the same, in this store.
        notify: receives remarks.

    Raises:
        SlipwayError: no run of the plan is known, or AWS does not answer.
    """
    from launcher.workflow.run.status import GOING_ON

    end = None if timeout_s is None else time.monotonic() + timeout_s
    while (state := status(name, region=region, store=store, notify=notify))["status"] in GOING_ON:
        left = poll_s if end is None else end - time.monotonic()
        if left <= 0:
            break
        time.sleep(min(poll_s, left))
    return state


def cancel(name: str, *, region: str | None = None, store: str | None = None, notify: Notify = _silent) -> Document:
    """Cancel the job of a plan's newest run, and return its state: `slipway.status/1`. The cluster stays.

    Args:
        name: the plan's name.
        region: find a run of any computer, as `status` does.
        store: the same, in this store.
        notify: receives remarks.

    Raises:
        SlipwayError: the run has no job, or the job has not ended in time.
    """
    from launcher.answers import status as answer
    from launcher.workflow.run.cancel import cancel_run
    from launcher.workflow.run.status import with_running_job

    with _runs_of(name, region, store, notify):
        folder = with_running_job(name, Path.cwd(), os.environ, notify)
        return answer.document(cancel_run(name, folder, os.environ, notify))


def down(name: str, *, region: str | None = None, notify: Notify = _silent, options: Options = DEFAULTS) -> Document:
    """Remove a cluster and its network, or an endpoint; checkpoints stay: `slipway.down/1`.

    Args:
        name: the name of the cluster or endpoint.
        region: its region, if no run names it.
        notify: receives each line of progress.
        options: the options of the command line.

    Raises:
        SlipwayError: there is nothing to remove, or the removal failed.
    """
    from launcher.answers import down as answer
    from launcher.aws.session import Session
    from launcher.catalog.load import load
    from launcher.workflow.cluster.run_environment import environment_of_newest
    from launcher.workflow.deploy.down import record_removal, subject, survey, take_down
    from launcher.workflow.history.idle_tail import learn_tails

    root, catalog = Path.cwd(), load(overlay=options.price_options().cache, today=options.moment().date())
    environment = dict(os.environ if region is not None else environment_of_newest(name, root, os.environ))
    found = subject(name, region, root, environment)
    session = Session(environment=environment, region=found.region)
    surveyed = survey(found, session, catalog, erase=False)
    learn_tails(found.cluster, root, environment, options.moment(), notify)
    removal = take_down(surveyed, session, catalog, notify) if surveyed.going else surveyed.removal
    record_removal(removal, root, environment, notify)
    return answer.document(removal)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Caller:
    """The program that launches: it sees the lines of progress, and its limit is the answer to every question."""

    notify: Notify

    def say(self, text: str) -> None:
        """A remark."""
        self.notify(text)

    def show(self, priced: Priced, *, called: bool) -> None:
        """The candidates; a program prices them itself."""

    def quote(self, picked: Picked) -> None:
        """The quote, in one line."""
        usd, plan_name = picked.quoted.usd, picked.quoted.plan.name
        if usd is not None:
            self.notify(f"{plan_name}: ${usd.mid:,.2f}, 1 run in 10 above ${usd.high:,.2f}")

    def refuse_unless_answerable(self, action: str) -> None:
        """A program needs no terminal."""

    def approve(self, action: str) -> None:
        """The limit was compared with the quote already."""


def rows(document: Document) -> list[dict[str, Any]]:
    """The candidates of a plan or a comparison, or the points of a sweep, as flat rows for a data frame.

    Names are the document's own, joined by dots; money is a float, suitable for display but not for sums.

    >>> rows({"candidates": [{"rank": 1, "usd": {"low": "1.5", "mid": "2", "high": None}, "findings": []}]})
    [{'rank': 1, 'usd.low': 1.5, 'usd.mid': 2.0, 'usd.high': None}]
    """
    if "points" in document:
        listed = [{**point["values"], **(point["candidate"] or {})} for point in document["points"]]
    else:
        listed = document.get("candidates") or document.get("options") or []
    return [dict(_flat(row)) for row in listed]


def _flat(data: Mapping[str, Any], path: str = "") -> list[tuple[str, Any]]:
    """The plain values of an object by their dotted names; lists are omitted."""
    cells: list[tuple[str, Any]] = []
    for key, value in data.items():
        name = f"{path}.{key}" if path else key
        if isinstance(value, Mapping):
            cells += _flat(value, name)
        elif not isinstance(value, list):
            cells.append((name, _number(name, value)))
    return cells


def _number(name: str, value: Any) -> Any:
    """Money as a number: a text value below a name of dollars."""
    parts = name.split(".")
    money = any(part == "usd" or part.startswith("usd_") or part.endswith("_usd") for part in parts)
    return float(value) if money and isinstance(value, str) and AMOUNT.fullmatch(value) else value
