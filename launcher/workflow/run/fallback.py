"""No machines: the next candidate of the plan, quoted anew and through the gate again, then launched in its place."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from launcher.model.errors import SlipwayError
from launcher.model.plan import Place
from launcher.model.report import Report
from launcher.pricing.priced import Priced
from launcher.records.run_folder import RunFolder
from launcher.submit.jobs import NoPartitionError
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


def next_rank(priced: Priced, tried: Sequence[Place]) -> int | None:
    """The rank of the best candidate that the gate allows and none of the tried places covers; None: there is none.

    Args:
        priced: the candidates, best first; every zone a candidate of its own.
        tried: where no machines came.
    """
    for rank, candidate in enumerate(priced.candidates, start=1):
        if candidate.refusals or candidate.usd is None or any(covered(candidate.place, each) for each in tried):
            continue
        if priced.quote(rank).gate.allowed:
            return rank
    return None


def place_words(place: Place) -> str:
    """A place as a person says it."""
    where = place.az_id or place.region
    return f"{place.nodes} x {place.instance_type}, {place.option.value.replace('-', ' ')}, in {where}"


@dataclass(slots=True, kw_only=True)
class Fallback:
    """A launch that goes on to the next candidate as long as there is one.

    `candidates` prices the plan file anew with every zone; `requote` gives the quote of a digest on prices that may be
    deployed on, or raises; `approve` shows it and asks.
    """

    setting: LaunchOptions
    candidates: Callable[[], Priced]
    requote: Callable[[str], Picked]
    approve: Callable[[Picked], None]
    tried: list[Place] = field(default_factory=list)

    def launch(self, first: Picked) -> tuple[RunFolder, Report]:
        """Launch a candidate, and after it the next ones.

        Raises:
            NoCapacityError: no candidate got machines.
            SlipwayError: a step failed.
        """
        priced, rank, quoted = first
        self.tried.append(quoted.plan.place)
        while True:
            try:
                return launch_quote(priced, rank, quoted, replace(self.setting, give_up=self._another))
            except NoCapacityError as problem:
                self.setting.tell(problem.message)
                following = self._following()
                if following is None:
                    raise
            except NoPartitionError as problem:
                if len(self.tried) == 1:
                    raise
                self.setting.tell(problem.message)
                following = self._following()
                if following is None:
                    raise
            priced, rank, quoted = following

    def _another(self) -> bool:
        """Whether it is worth taking the job back."""
        priced = self.candidates()
        rank = next_rank(priced, self.tried)
        if rank is None:
            self.setting.tell("no machines yet, and no other candidate that the gate allows: the job keeps waiting")
            return False
        self.setting.tell(f"no machines yet; the next candidate is {place_words(priced.candidates[rank - 1].place)}")
        return True

    def _following(self) -> Picked | None:
        """The next candidate whose new quote passes the gate, approved; None: there is none."""
        while True:
            priced = self.candidates()
            rank = next_rank(priced, self.tried)
            if rank is None:
                return None
            quoted = priced.quote(rank)
            self.tried.append(quoted.plan.place)
            try:
                found = self.requote(quoted.digest)
            except SlipwayError as refusal:
                self.setting.tell(f"{place_words(quoted.plan.place)}: {refusal.message}")
                continue
            self.approve(found)
            return found
