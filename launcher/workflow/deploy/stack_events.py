"""A deployment as the CDK tells of it, line by line: which stack, which resources are in progress, and for how long."""

import re
import time
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from types import TracebackType
from typing import Self

from launcher.agent import safe_json
from launcher.catalog.load import Catalog
from launcher.cdk.commands import Assembly
from launcher.model.durations import HOUR_S
from launcher.model.spending import small
from launcher.model.stages import Part, Stage, Tell, stage
from launcher.workflow.deploy.rates import running_rates

CELLS = 6
"""Of one line of `cdk deploy`: stack, count, time, state, type, path with logical id."""
STACK = "AWS::CloudFormation::Stack"
ENDINGS = ("_COMPLETE", "_FAILED", "_SKIPPED")
_ID = re.compile(r" \((\w+)\)")
_COUNT = re.compile(r"(\d+)/(\d+)")


def rates_by_stack(assembly: Assembly, catalog: Catalog, region: str) -> dict[str, dict[str, Decimal]]:
    """What the resources of an assembly's stacks cost an hour before any job runs, by stack and logical id."""
    return {name: running_rates(safe_json.load(path), catalog, region) for name, path in assembly.templates.items()}


class StackEvents:
    """Shows what CloudFormation is at, by the lines of `cdk deploy`, and what has been paid for it so far."""

    def __init__(
        self,
        tell: Tell,
        rates: Mapping[str, Mapping[str, Decimal]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin.

        Args:
            tell: takes a line a stack, and what is in progress where it can.
            rates: dollars an hour of resources by stack and logical id.
            clock: seconds.
        """
        self._tell, self._rates, self._clock = tell, rates, clock
        self._begun = clock()
        self._stack = ""
        self._stage: Stage | None = None
        self._doing: dict[str, Part] = {}
        self._paid: list[tuple[float, Decimal]] = []

    def __enter__(self) -> Self:
        """What is in progress is shown as long as the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Whatever became of the deployment."""
        if self._stage is not None:
            self._stage.end()

    def elapsed(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._begun

    def line(self, text: str) -> None:
        """Take in one line of `cdk deploy`."""
        cells = [cell.strip() for cell in text.split("|")]
        if len(cells) < CELLS:
            return
        stack, count, _, state, kind, path = cells[:CELLS]
        if not state.endswith((*ENDINGS, "_IN_PROGRESS")):
            return
        now, counted = self._clock(), _COUNT.fullmatch(count)
        if stack != self._stack or self._stage is None:
            self._begin(stack, int(counted[2]) if counted else 0)
        # The CDK adds CloudFormation's reason: "Network/Vpc (NetworkVpc1A2B) Resource creation Initiated".
        found = _ID.search(path)
        name = path[: found.start()] if found else path.partition(" ")[0]
        if state.endswith(ENDINGS):
            self._doing.pop(name, None)
            self._over(state, kind, name)
        else:
            self._began(state, kind, name, found[1] if found else name, now)
        if self._stage is not None:
            share = int(counted[1]) / int(counted[2]) if counted and int(counted[2]) else None
            self._stage.now(partial(self._words, count), share=share, parts=tuple(self._doing.values()))

    def _begin(self, stack: str, count: int) -> None:
        """CloudFormation goes on to another stack."""
        if self._stage is not None:
            self._stage.end()
        self._stack, self._doing = stack, {}
        # The stack counts itself.
        self._stage = stage(self._tell, f"stack {stack}" + (f": {count - 1} resources" if count > 1 else ""))

    def _began(self, state: str, kind: str, name: str, logical_id: str, now: float) -> None:
        """Take note of a resource in progress: what is paid by the hour counts from its creation on."""
        if kind == STACK and name == self._stack:
            return
        if name not in self._doing:
            self._doing[name] = Part(words=f"{name}  {kind}", begun=now)
            usd = self._rates.get(self._stack, {}).get(logical_id)
            if usd is not None and state.startswith("CREATE"):
                self._paid.append((now, usd))

    def _over(self, state: str, kind: str, name: str) -> None:
        """Tell of a resource that is done with; of one that failed in any case."""
        words = f"  {state:<16} {kind:<38} {name}"
        if state.endswith("_FAILED") or self._stage is None:
            self._tell(words)
        else:
            self._stage.detail(words)

    def _words(self, count: str) -> str:
        """How far the stack is, and what has been paid so far at most: it is counted from each creation's beginning."""
        paid = sum((rate * Decimal(repr(self._clock() - begun)) for begun, rate in self._paid), Decimal(0)) / HOUR_S
        rate = sum((each for _, each in self._paid), Decimal(0))
        far = count.replace("/", " of ")
        return far + (f", at most ${small(paid)} so far at ${small(rate)} an hour" if rate else "")
