"""The states of a job's nodes, gathered through a tree, so that no node reads all files.

Node K reads nodes 16 K + 1 to 16 K + 16 and adds the states of these nodes and of those below them to its own: counts,
extremes, and a bit per node. Thus the first node knows all states. If a node ended before the nodes below it, the node
above reads these instead, a few at a time.

Ages are durations that each node measures and the tree adds up: clocks need not agree.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Any

from launcher.agent.node import spread
from launcher.agent.node.spread import NO_RATES, RateSpread

FAN_OUT = 16
_MAX_NAMED = 8


def children(part: int, parts: int) -> range:
    """The nodes that a node reads directly.

    >>> children(0, 40), children(2, 40), children(3, 40)
    (range(1, 17), range(33, 40), range(40, 40))
    """
    first = FAN_OUT * part + 1
    return range(min(first, parts), min(first + FAN_OUT, parts))


def below(part: int, parts: int) -> Iterator[int]:
    """A node and all nodes below it."""
    level = range(part, part + 1)
    while level:
        yield from level
        level = range(min(FAN_OUT * level[0] + 1, parts), min(FAN_OUT * level[-1] + 1 + FAN_OUT, parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The known state of a node and of the nodes below it.

    Attributes:
        reported: Number of nodes that have reported their restored checkpoint.
        lowest: The lowest restored step; `agreement.NONE` if a node restored none.
        highest: The highest restored step.
        wrote: Bits of the nodes whose command wrote to its checkpoint folder.
        wrote_none: Bits of the nodes in whose checkpoint folder nothing ever appeared.
        clean: Bits of the nodes whose command ended normally, with exit code 0.
        ended: Bits of the nodes whose agent has ended.
        last: The lowest of the newest checkpoints of nodes that write any and whose command has ended: no later one can
            ever be complete. `agreement.NONE` if a node finished none; None while no such command has ended.
        question: The number of the first node's newest question that a node has answered (`confirmation`).
        confirmed: Bits of the nodes that answered this question with yes.
        denied: Bits of the nodes that answered this question with no.
        stopped: Name and exit code of an agent that ended before its command started.
        silent: Names by number of nodes without a heartbeat for too long; only a few of many.
        silent_s: Seconds since the last heartbeat of the node that has been silent longest.
        age_s: Maximum age of all values here, in seconds.
        work: Steps per second of each node's own work (`rates`).
        chips: Rates of each node's slowest chip.
    """

    reported: int = 0
    lowest: int | None = None
    highest: int | None = None
    wrote: int = 0
    wrote_none: int = 0
    clean: int = 0
    ended: int = 0
    last: int | None = None
    question: int = 0
    confirmed: int = 0
    denied: int = 0
    stopped: tuple[str, int] | None = None
    silent: Mapping[int, str] = field(default_factory=dict)
    silent_s: float = 0.0
    age_s: float = 0.0
    work: RateSpread = NO_RATES
    chips: RateSpread = NO_RATES

    def to_json(self) -> dict[str, Any]:
        """The JSON form, as a part of a node's state."""
        return {
            "reported": [self.reported, self.lowest, self.highest],
            "bits": [f"{bits:x}" for bits in (self.wrote, self.wrote_none, self.clean, self.ended)],
            "last": self.last,
            "answers": [self.question, f"{self.confirmed:x}", f"{self.denied:x}"],
            "stopped": self.stopped,
            "silent": {str(part): name for part, name in self.silent.items()},
            "silent_s": round(self.silent_s, 1),
            "age_s": round(self.age_s, 1),
            "rates": [self.work.to_json(), self.chips.to_json()],
        }


def parse(document: Any) -> Gathered:
    """Parse the state that another node gathered; empty if unreadable."""
    try:
        reported, lowest, highest = document["reported"]
        wrote, wrote_none, clean, ended = (int(bits, 16) for bits in document["bits"])
        stopped, last = document["stopped"], document["last"]
        number, confirmed, denied = document["answers"]
        work, chips = (spread.parse(rates) for rates in document["rates"])
        return Gathered(
            reported=int(reported),
            lowest=lowest if lowest is None else int(lowest),
            highest=highest if highest is None else int(highest),
            wrote=wrote,
            wrote_none=wrote_none,
            clean=clean,
            ended=ended,
            last=last if last is None else int(last),
            question=int(number),
            confirmed=int(confirmed, 16),
            denied=int(denied, 16),
            stopped=None if stopped is None else (str(stopped[0]), int(stopped[1])),
            silent={int(part): str(name) for part, name in document["silent"].items()},
            silent_s=float(document["silent_s"]),
            age_s=float(document["age_s"]),
            work=work,
            chips=chips,
        )
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError):
        return Gathered()


def node_state(part: int, state: Mapping[str, Any]) -> Gathered:
    """The gathered form of a node's own state."""
    restored, bit, code = state.get("restored"), 1 << part, state.get("exit_code")
    has_reported = type(restored) is int
    stopped = bool(state.get("ended")) and "go" not in state
    last = state.get("last")
    number, confirms = _answer(state.get("answer"))
    rates = state.get("rates")
    rates = rates if isinstance(rates, dict) else {}
    return Gathered(
        reported=int(has_reported),
        lowest=restored if has_reported else None,
        highest=restored if has_reported else None,
        wrote=bit if state.get("wrote") is True else 0,
        wrote_none=bit if state.get("wrote") is False else 0,
        clean=bit if state.get("clean") is True else 0,
        ended=bit if state.get("ended") else 0,
        last=last if type(last) is int and state.get("wrote") is True else None,
        question=number,
        confirmed=bit if number and confirms else 0,
        denied=bit if number and not confirms else 0,
        stopped=(name_of(part, state), code if type(code) is int else 0) if stopped else None,
        work=spread.one(part, name_of(part, state), rates.get("work")),
        chips=spread.one(part, name_of(part, state), rates.get("chips")),
    )


def _answer(value: Any) -> tuple[int, bool]:
    if isinstance(value, list | tuple) and len(value) == len(("number", "yes")) and type(value[0]) is int:
        return value[0], value[1] is True
    return 0, False


def name_of(part: int, state: Mapping[str, Any]) -> str:
    """The name of a node."""
    return str(state.get("node", f"number {part}"))


def join_states(one: Gathered, other: Gathered) -> Gathered:
    """Combine two gathered states."""
    steps = [step for gathered in (one, other) for step in (gathered.lowest, gathered.highest) if step is not None]
    lasts = [gathered.last for gathered in (one, other) if gathered.last is not None]
    number = max(one.question, other.question)
    # An answer to an earlier question says nothing about the newest one.
    answers = [gathered for gathered in (one, other) if gathered.question == number]
    # The state is one small object that is read every few seconds: it names a few nodes of thousands.
    silent = dict(sorted({**one.silent, **other.silent}.items())[:_MAX_NAMED])
    return Gathered(
        reported=one.reported + other.reported,
        lowest=min(steps, default=None),
        highest=max(steps, default=None),
        wrote=one.wrote | other.wrote,
        wrote_none=one.wrote_none | other.wrote_none,
        clean=one.clean | other.clean,
        ended=one.ended | other.ended,
        last=min(lasts, default=None),
        question=number,
        confirmed=reduce(or_, (answer.confirmed for answer in answers)),
        denied=reduce(or_, (answer.denied for answer in answers)),
        stopped=one.stopped or other.stopped,
        silent=silent,
        silent_s=max(one.silent_s, other.silent_s),
        age_s=max(one.age_s, other.age_s),
        work=spread.join_rates(one.work, other.work),
        chips=spread.join_rates(one.chips, other.chips),
    )


def later(gathered: Gathered, seconds: float) -> Gathered:
    """The same state, received that many seconds later."""
    silent_s = gathered.silent_s + seconds if gathered.silent else 0.0
    return join_states(Gathered(silent_s=silent_s, age_s=gathered.age_s + seconds), gathered)


def is_same_state(one: Gathered, other: Gathered) -> bool:
    """Whether two states differ only in the time that has passed, and in rates, which nobody waits for."""
    unchanged: dict[str, Any] = {"silent_s": 0.0, "age_s": 0.0, "work": NO_RATES, "chips": NO_RATES}
    return replace(one, **unchanged) == replace(other, **unchanged)


class Listener:
    """The states that one node reads from the nodes below it."""

    def __init__(self, part: int, parts: int, *, now: float) -> None:
        self._part = part
        self._parts = parts
        self._states: dict[int, dict[str, Any]] = {}
        self._changed_at = dict.fromkeys(children(part, parts), now)
        self._turn = 0
        self._rounds = 1
        self._to_read = len(self._changed_at)

    @property
    def wide(self) -> int:
        """The number of nodes to read at the last poll."""
        return self._to_read

    def parts_to_read(self, most: int, now: float) -> list[int]:
        """The nodes to read now: those directly below, and instead of an ended node the nodes below it; in turns."""
        pending, parts = list(children(self._part, self._parts)), []
        while pending:
            part = pending.pop(0)
            # An ended node writes no more, so what the nodes below it write has to be read from them.
            if self._is_over(part):
                pending += [] if self._is_complete(part) else children(part, self._parts)
            else:
                parts.append(part)
        for part in parts:
            self._changed_at.setdefault(part, now)
        self._rounds, self._to_read = max(1, math.ceil(len(parts) / most)), len(parts)
        if self._rounds == 1:
            return parts
        begin = self._turn % len(parts)
        self._turn += most
        return (parts + parts)[begin : begin + most]

    def update(self, part: int, state: dict[str, Any] | None, now: float) -> None:
        """Record the state in a node's file; None: the file cannot be read."""
        before = self._states.get(part)
        if state is None or state == before:
            return
        self._states[part] = state
        if before is not None:  # reports that exist at the first poll may have been written at any time before
            self._changed_at[part] = now

    def gather(self, state: Mapping[str, Any], now: float, *, silent_after_s: float) -> Gathered:
        """This node's own state, combined with all known states of the nodes below it.

        A node counts as silent after `silent_after_s` seconds without a heartbeat.
        """
        gathered = node_state(self._part, state)
        pending = list(children(self._part, self._parts))
        while pending:
            part = pending.pop(0)
            node = self._states.get(part, {})
            age_s = now - self._changed_at.get(part, now)
            if self._is_over(part):
                if self._is_complete(part):
                    gathered = join_states(gathered, parse(node.get("below")))
                else:
                    gathered = join_states(gathered, node_state(part, node))
                    pending += children(part, self._parts)
                continue
            of_it = later(parse(node["below"]), age_s) if "below" in node else later(node_state(part, node), age_s)
            gathered = join_states(gathered, of_it)
            # A node that is read in turns is heard only once in so many polls.
            if age_s >= silent_after_s * self._rounds:
                gathered = join_states(
                    gathered, Gathered(silent={part: name_of(part, node)}, silent_s=age_s, age_s=age_s)
                )
        return gathered

    def _is_over(self, part: int) -> bool:
        return bool(self._states.get(part, {}).get("ended"))

    def _is_complete(self, part: int) -> bool:
        """Whether all nodes below a node had ended before it: then the node's gathered state is final."""
        ended = parse(self._states.get(part, {}).get("below")).ended
        return all(ended >> part_below & 1 for part_below in below(part, self._parts))


def depth(parts: int) -> int:
    """The number of levels below the first node.

    >>> depth(1), depth(2), depth(17), depth(18), depth(2048)
    (0, 1, 1, 2, 3)
    """
    return 0 if parts <= 1 else math.ceil(round(math.log((parts - 1) * (FAN_OUT - 1) + FAN_OUT, FAN_OUT) - 1, 9))
