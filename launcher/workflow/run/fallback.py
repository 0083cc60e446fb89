"""No machines: the next candidate of the plan, quoted anew and through the gate again, then launched in its place."""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field, replace

from launcher.model.errors import SlipwayError
from launcher.model.plan import Place, Plan
from launcher.model.quote import Quote
from launcher.model.report import Report
from launcher.pricing.priced import Priced
from launcher.records.run_folder import RunFolder
from launcher.submit.jobs import NoPartitionError
from launcher.workflow.deploy.deployment import deploys
from launcher.workflow.doctor.left_running import telling_of_earlier
from launcher.workflow.quote.fresh import Picked
from launcher.workflow.run.launch import LaunchOptions, launch_quote
from launcher.workflow.run.submission_watch import NoCapacityError


def covered(place: Place, tried: Place) -> bool:
    """Whether a place would find no machines where another found none.

    The same type, bought the same way, in the same zone (or in a region that was tried whole) comes no sooner, unless
    fewer machines are wanted.
    """
    same = (place.target, place.instance_type, place.option, place.region) == (
        tried.target,
        tried.instance_type,
        tried.option,
        tried.region,
    )
    return same and place.nodes >= tried.nodes and tried.az_id in (None, place.az_id)


def next_rank(priced: Priced, tried: Sequence[Place], unfit: Container[Place] = ()) -> int | None:
    """The rank of the best candidate that the gate allows and none of the tried places covers; None: there is none.

    Args:
        priced: the candidates, best first; every zone a candidate of its own.
        tried: where no machines came.
        unfit: places that cannot be deployed beside what is there.
    """
    for rank, candidate in enumerate(priced.candidates, start=1):
        place = candidate.place
        if candidate.refusals or candidate.usd is None or any(covered(place, each) for each in tried):
            continue
        if place not in unfit and priced.quote(rank).gate.allowed:
            return rank
    return None


def _shares_cluster(one: Plan, other: Plan) -> bool:
    """Whether two plans are deployed to the same stacks."""
    return (one.cluster_name, one.place.region) == (other.cluster_name, other.place.region)


def place_words(place: Place) -> str:
    """A place as a person says it."""
    where = place.az_id or place.region
    return f"{place.nodes} x {place.instance_type}, {place.option.value.replace('-', ' ')}, in {where}"


@dataclass(slots=True, kw_only=True)
class Fallback:
    """A launch that goes on to the next candidate as long as there is one.

    `candidates` prices the plan file anew with every zone; `requote` gives the quote of a digest on prices that may be
    deployed on, or raises; `asking` shows it and gives the options whose question is about it. `obstacle` says why a
    candidate cannot be deployed to the stacks that are there, and is asked before a waiting job is taken back: the
    network of a cluster keeps its zone, and its service may keep the type of its nodes. `left` are the plans
    whose clusters were made, got no machines, and are still there: however the launch ends, it says so, with what
    they cost.
    """

    options: LaunchOptions
    candidates: Callable[[], Priced]
    requote: Callable[[str], Picked]
    asking: Callable[[Picked], LaunchOptions]
    obstacle: Callable[[Quote], str | None]
    tried: list[Place] = field(default_factory=list)
    left: list[Plan] = field(default_factory=list)
    judged: dict[Place, str | None] = field(default_factory=dict)

    def launch(self, first: Picked) -> tuple[RunFolder, Report]:
        """Launch a candidate, and after it the next ones.

        Raises:
            NoCapacityError: no candidate got machines.
            SlipwayError: a step failed.
        """
        with telling_of_earlier(self.left, self.options.environment, first.priced.catalog, self.options.tell):
            return self._launch(first)

    def _launch(self, first: Picked) -> tuple[RunFolder, Report]:
        """The same, which leaves behind what `left` names."""
        priced, rank, quoted = first
        self.tried.append(quoted.plan.place)
        while True:
            try:
                done = launch_quote(priced, rank, quoted, replace(self.options, give_up=self._another))
            except NoCapacityError as problem:
                self._leave(quoted.plan)
                self.options.tell(problem.message)
                following = self._following()
                if following is None:
                    raise
            except NoPartitionError as problem:
                if len(self.tried) == 1:
                    raise
                self.options.tell(problem.message)
                following = self._following()
                if following is None:
                    raise
            else:
                # Where it took over the cluster of an earlier attempt, that one is in use.
                self.left[:] = [each for each in self.left if not _shares_cluster(each, quoted.plan)]
                return done
            priced, rank, quoted = following

    def _leave(self, plan: Plan) -> None:
        """Take note of a cluster of the plan's own that is billed without a job."""
        if deploys(plan):
            self.left.append(plan)

    def _next(self, priced: Priced) -> int | None:
        """The rank of the best candidate that is left and can be deployed; None: there is none."""
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
            self.options.tell(f"{place_words(place)} is left out: {why}")

    def _obstacle(self, quoted: Quote) -> str | None:
        """Why a candidate is left out; one that cannot be judged is, too: the waiting job keeps its place."""
        try:
            return self.obstacle(quoted)
        except SlipwayError as problem:
            return problem.message

    def _another(self) -> bool:
        """Whether it is worth taking the job back."""
        priced = self.candidates()
        rank = self._next(priced)
        if rank is None:
            self.options.tell("no capacity yet, and the gate allows no other candidate: the job keeps waiting")
            return False
        self.options.tell(f"no capacity yet; the next candidate is {place_words(priced.candidates[rank - 1].place)}")
        return True

    def _following(self) -> Picked | None:
        """The next candidate whose new quote passes the gate, shown; None: there is none."""
        while True:
            priced = self.candidates()
            rank = self._next(priced)
            if rank is None:
                return None
            quoted = priced.quote(rank)
            self.tried.append(quoted.plan.place)
            try:
                found = self.requote(quoted.digest)
            except SlipwayError as refusal:
                self.options.tell(f"{place_words(quoted.plan.place)}: {refusal.message}")
                continue
            self.options = self.asking(found)
            return found
