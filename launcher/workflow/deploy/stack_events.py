"""The progress of `cdk deploy`: CloudFormation's events as lines, and the cost so far."""

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
from launcher.model.spending import small
from launcher.model.stages import Notify, Stage, StagePart, stage
from launcher.model.units import HOUR_S, number_of
from launcher.workflow.doctor.rates import running_rates

CELLS = 6
"""The cells of one line of `cdk deploy`: stack, count, time, state, type, path with logical id."""
STACK = "AWS::CloudFormation::Stack"
ENDINGS = ("_COMPLETE", "_FAILED", "_SKIPPED")
_ID = re.compile(r" \((\w+)\)")
_COUNT = re.compile(r"(\d+)/(\d+)")


def rates_by_stack(assembly: Assembly, catalog: Catalog, region: str) -> dict[str, dict[str, Decimal]]:
    """The hourly cost of an assembly's stacks before any job runs, by stack and logical id."""
    return {name: running_rates(safe_json.load(path), catalog, region) for name, path in assembly.templates.items()}


class StackEvents:
    """Shows CloudFormation's progress from the lines of `cdk deploy`, and the cost so far."""

    def __init__(
        self,
        notify: Notify,
        rates: Mapping[str, Mapping[str, Decimal]],
        clock: Callable[[], float] = time.monotonic,
        on_failed: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Start the clock.

        Args:
            notify: receives one line per stack, and shows the work in progress if it can.
            rates: dollars per hour of resources by stack and logical id.
            clock: returns seconds.
            on_failed: receives the type of each resource that fails, before a rollback goes on.
        """
        self._notify, self._rates, self._clock = notify, rates, clock
        self._on_failed = on_failed
        self._begun = clock()
        self._stack = ""
        self._stage: Stage | None = None
        self._doing: dict[str, StagePart] = {}
        self._paid: list[tuple[float, Decimal]] = []

    def __enter__(self) -> Self:
        """Show progress until the block ends."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop showing progress, also after an error."""
        if self._stage is not None:
            self._stage.end()

    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._begun

    def line(self, text: str) -> None:
        """Process one line of `cdk deploy`."""
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
        match = _ID.search(path)
        name = path[: match.start()] if match else path.partition(" ")[0]
        if state.endswith(ENDINGS):
            self._doing.pop(name, None)
            self._over(state, kind, name)
        else:
            self._began(state, kind, name, match[1] if match else name, now)
        if self._stage is not None:
            share = int(counted[1]) / int(counted[2]) if counted and int(counted[2]) else None
            self._stage.now(partial(self._progress_text, count), share=share, parts=tuple(self._doing.values()))

    def _begin(self, stack: str, count: int) -> None:
        if self._stage is not None:
            self._stage.end()
        self._stack, self._doing = stack, {}
        # The stack counts itself.
        self._stage = stage(
            self._notify, f"stack {stack}" + (f": {number_of(count - 1, 'resource')}" if count > 1 else "")
        )

    def _began(self, state: str, kind: str, name: str, logical_id: str, now: float) -> None:
        """Record a resource in progress: hourly costs count from its creation."""
        if kind == STACK and name == self._stack:
            return
        if name not in self._doing:
            self._doing[name] = StagePart(description=f"{name}  {kind}", begun=now)
            usd = self._rates.get(self._stack, {}).get(logical_id)
            if usd is not None and state.startswith("CREATE"):
                self._paid.append((now, usd))

    def _over(self, state: str, kind: str, name: str) -> None:
        """Report a finished resource; a failed one in any case."""
        line = f"  {state:<16} {kind:<38} {name}"
        if state.endswith("_FAILED"):
            self._on_failed(kind)
        if state.endswith("_FAILED") or self._stage is None:
            self._notify(line)
        else:
            self._stage.detail(line)

    def _progress_text(self, count: str) -> str:
        """The stack's progress, and the maximum cost so far: cost counts from the start of each creation."""
        paid = sum((rate * Decimal(repr(self._clock() - begun)) for begun, rate in self._paid), Decimal(0)) / HOUR_S
        rate = sum((price for _, price in self._paid), Decimal(0))
        far = count.replace("/", " of ")
        return far + (f", at most ${small(paid)} so far at ${small(rate)} an hour" if rate else "")
