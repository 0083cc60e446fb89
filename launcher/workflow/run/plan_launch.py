"""From a plan file to a finished run: priced, shown, approved, launched."""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from launcher import plan_file
from launcher.aws.session import Session
from launcher.catalog.regular_file import folder_of
from launcher.model.errors import SlipwayError, UnreadableInputError
from launcher.model.plan import Place, Plan
from launcher.model.quote import Quote
from launcher.model.report import Report
from launcher.pricing.priced import Priced
from launcher.records.run_folder import RunFolder
from launcher.submit.jobs import NoPartitionError
from launcher.workflow.deploy.deployment import deployed_parts, deploys
from launcher.workflow.deploy.difference import update_obstacle
from launcher.workflow.deploy.endpoint import run_endpoint, show_endpoint
from launcher.workflow.deploy.saved_plan import quoted_as_saved, saved_plan_of
from launcher.workflow.doctor.left_running import report_earlier_runs
from launcher.workflow.quote.data_prefixes import refuse_empty_data
from launcher.workflow.quote.fresh import Deployed, LaunchConsole, Picked, fresh_quote, gated_quote, nothing_deployed
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from launcher.workflow.quote.trainer import refuse_missing_trainer
from launcher.workflow.run.dry_launch import show_launch
from launcher.workflow.run.launch import launch_quote
from launcher.workflow.run.launch_options import LaunchOptions
from launcher.workflow.run.submission_watch import NoCapacityError


def is_hopeless(place: Place, tried: Place) -> bool:
    """Whether a place cannot have instances because `tried` had none.

    The same type and purchase option in the same zone (or in a region that was tried as a whole) has no instances
    either, unless fewer nodes are needed.
    """
    same = (place.target, place.instance_type, place.option, place.region) == (
        tried.target,
        tried.instance_type,
        tried.option,
        tried.region,
    )
    return same and place.nodes >= tried.nodes and tried.az_id in (None, place.az_id)


def next_rank(priced: Priced, tried: Sequence[Place], unfit: Container[Place] = ()) -> int | None:
    """The rank of the best candidate that the gate allows and that no tried place covers; None without any."""
    for rank, candidate in enumerate(priced.candidates, start=1):
        place = candidate.place
        if candidate.refusals or candidate.usd is None or any(is_hopeless(place, known_place) for known_place in tried):
            continue
        if place not in unfit and priced.quote(rank).gate.allows_launch:
            return rank
    return None


def _shares_cluster(plan: Plan, other: Plan) -> bool:
    return (plan.cluster_name, plan.place.region) == (other.cluster_name, other.place.region)


def place_text(place: Place) -> str:
    """A place in words for the user."""
    where = place.az_id or place.region
    return f"{place.nodes} x {place.instance_type}, {place.option.value.replace('-', ' ')}, in {where}"


@dataclass(slots=True, kw_only=True)
class Fallback:
    """A launch that continues with the next candidate while there is one."""

    options: LaunchOptions
    # Prices the plan file again with every zone.
    candidates: Callable[[], Priced]
    # Returns the quote of a digest at prices that allow a deployment, or raises.
    requote: Callable[[str], Picked]
    # Shows a quote, and returns options that ask about it.
    options_for: Callable[[Picked], LaunchOptions]
    # Says, before a waiting job is cancelled, why a candidate cannot be deployed to the existing stacks: a cluster's
    # network keeps its zone, and its service may keep the instance type.
    obstacle: Callable[[Quote], str | None]
    tried: list[Place] = field(default_factory=list)
    # Plans whose clusters were created, got no instances, and still exist: the end of the launch lists them with their
    # cost.
    failed_plans: list[Plan] = field(default_factory=list)
    judged: dict[Place, str | None] = field(default_factory=dict)

    def launch(self, first: Picked) -> tuple[RunFolder, Report]:
        """Launch a candidate, and then the next ones.

        Raises:
            NoCapacityError: no candidate got instances.
        """
        with report_earlier_runs(
            self.failed_plans, self.options.environment, first.priced.catalog, self.options.notify
        ):
            return self._launch(first)

    def _launch(self, first: Picked) -> tuple[RunFolder, Report]:
        priced, rank, quoted = first
        self.tried.append(quoted.plan.place)
        while True:
            try:
                done = launch_quote(priced, rank, quoted, replace(self.options, give_up=self.announce_next))
            except NoCapacityError as problem:
                if deploys(quoted.plan):
                    self.failed_plans.append(quoted.plan)
                self.options.notify(problem.message)
                following = self._following()
                if following is None:
                    raise
            except NoPartitionError as problem:
                if len(self.tried) == 1:
                    raise
                self.options.notify(problem.message)
                following = self._following()
                if following is None:
                    raise
            else:
                # Where it took over the cluster of an earlier attempt, that one is in use.
                self.failed_plans[:] = [plan for plan in self.failed_plans if not _shares_cluster(plan, quoted.plan)]
                return done
            priced, rank, quoted = following

    def _next(self, priced: Priced) -> int | None:
        while True:
            unfit = {place for place, why in self.judged.items() if why is not None}
            rank = next_rank(priced, self.tried, unfit)
            if rank is None:
                return None
            quoted = priced.quote(rank)
            place = quoted.plan.place
            if place not in self.judged:
                self.judged[place] = self._obstacle(quoted)
            why = self.judged[place]
            if why is None:
                return rank
            self.options.notify(f"{place_text(place)} is left out: {why}")

    def _obstacle(self, quoted: Quote) -> str | None:
        try:
            return self.obstacle(quoted)
        except SlipwayError as problem:
            return problem.message

    def announce_next(self) -> bool:
        """Report the next candidate that the gate allows; return whether there is one."""
        priced = self.candidates()
        rank = self._next(priced)
        if rank is None:
            self.options.notify("no capacity yet, and the gate allows no other candidate: the job continues to wait")
            return False
        self.options.notify(f"no capacity yet; the next candidate is {place_text(priced.candidates[rank - 1].place)}")
        return True

    def _following(self) -> Picked | None:
        while True:
            priced = self.candidates()
            rank = self._next(priced)
            if rank is None:
                return None
            quoted = priced.quote(rank)
            self.tried.append(quoted.plan.place)
            try:
                picked = self.requote(quoted.digest)
            except SlipwayError as refusal:
                self.options.notify(f"{place_text(quoted.plan.place)}: {refusal.message}")
                continue
            self.options = self.options_for(picked)
            return picked


def launch_plan(
    path: Path,
    clock: Callable[[], datetime],
    price_options: PriceOptions,
    *,
    selection: str | None,
    options: LaunchOptions,
    console: LaunchConsole,
) -> tuple[RunFolder, Report] | Quote:
    """Launch a plan: in the sandbox at the known prices, on AWS at current prices.

    The job's folder and command are checked first. If no instances become available, the next candidate is quoted,
    approved and launched instead, unless `options.exact`. A saved plan is launched unchanged or not at all. For a
    serving plan, the endpoint is deployed and tested with a request. `selection` is a rank or a digest; None selects
    the best candidate. A dry run prints, and returns the quote that it would launch.

    Raises:
        SlipwayError: the launch was refused, or a step failed.
    """
    if options.interrupt_after_s is not None and not options.sandbox:
        raise UnreadableInputError("--interrupt-after works in the sandbox only", hint="add --sandbox")
    refuse_missing_trainer(path, plan_file.load(path, price_options.settings), options.environment)
    saved = saved_plan_of(path, price_options, selection)
    # A saved plan is carried out as it is.
    deployed = partial(deployed_parts, options) if saved is None else nothing_deployed
    log = _LaunchSequence(path=path, clock=clock, options=options, console=console, deployed=deployed)
    every_zone = replace(price_options, everything=True)
    if saved is None:
        first = log.quote(price_options, selection)
    else:
        first = quoted_as_saved(saved, lambda digest: log.quote(every_zone, digest), options.environment)
    serves = first.priced.request.workload.serve is not None
    if serves and options.interrupt_after_s is not None:
        message = "--interrupt-after interrupts a job, and a serving plan has none"
        raise UnreadableInputError(message, hint="drop --interrupt-after")
    if serves and (restart := "--fresh" if options.fresh else "--from-step" if options.from_step is not None else ""):
        raise UnreadableInputError(f"{restart} restarts a job, and a serving plan has none", hint=f"drop {restart}")
    if saved is None:
        console.show(first.priced, called=not options.sandbox)
    options = log.options_for(first)
    if serves:
        # The endpoint of a serving plan, deployed and tested; None if it was only shown
        if options.dry_run:
            show_endpoint(*first, options)
            return first.quoted
        folder, report, _ = run_endpoint(*first, options, ask=True)
        return folder, report
    if options.dry_run:
        show_launch(*first, options)
        return first.quoted
    if options.sandbox or saved is not None or options.exact:
        return launch_quote(*first, options)
    return Fallback(
        options=options,
        candidates=lambda: price(path, clock(), every_zone),
        requote=lambda digest: log.quote(every_zone, digest),
        options_for=log.options_for,
        obstacle=partial(update_obstacle, base=folder_of(path), environment=options.environment),
    ).launch(first)


@dataclass(frozen=True, slots=True, kw_only=True)
class _LaunchSequence:
    """Values that all steps of one launch share."""

    path: Path
    clock: Callable[[], datetime]
    options: LaunchOptions
    console: LaunchConsole
    deployed: Deployed

    def quote(self, price_options: PriceOptions, pick: str | None) -> Picked:
        notify, environment = self.console.say, self.options.environment
        if self.options.sandbox or self.options.dry_run:
            return gated_quote(
                self.path, self.clock(), price_options, selection=pick, notify=notify, deployed=self.deployed
            )
        picked = fresh_quote(
            self.path,
            self.clock(),
            price_options,
            selection=pick,
            environment=environment,
            notify=notify,
            deployed=self.deployed,
        )
        place = picked.quoted.plan.place
        refuse_empty_data(picked.priced.request, Session(environment=environment, region=place.region), notify)
        return picked

    def options_for(self, picked: Picked) -> LaunchOptions:
        where = "in the sandbox" if self.options.sandbox else f"on {place_text(picked.quoted.plan.place)}"
        question = f"launch {picked.quoted.plan.name} {where}"
        self.console.quote(picked)
        if not self.options.dry_run:
            self.console.refuse_unless_answerable(question)
        return replace(self.options, approve=lambda: self.console.approve(question))
