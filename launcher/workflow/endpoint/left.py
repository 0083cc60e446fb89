"""What exists in AWS, and is billed, when the story of an endpoint ends early: looked up, not guessed."""

from dataclasses import dataclass
from decimal import Decimal

from launcher.aws import stacks
from launcher.aws.endpoints import find
from launcher.aws.session import Session
from launcher.model.endpoint import Endpoint
from launcher.model.errors import SlipwayError
from launcher.model.quote import Quote
from launcher.workflow.endpoint.calls import serving_stack

NOT_BEGUN = "REVIEW_IN_PROGRESS"
"""A stack that has a change set and nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What a story left behind: words for the user, none when there is nothing, and the stack with its status."""

    words: str | None
    stack: tuple[str, str] | None = None


def left_behind(quoted: Quote, decided: Endpoint, session: Session) -> Left:
    """Look at the stack and the endpoint of a plan. A look that fails says so in words."""
    name = quoted.plan.name
    ends = f"slipway down {name} removes it"
    try:
        stack = stacks.find(session, serving_stack(name))
        state = find(session, decided.name)
    except SlipwayError as problem:
        return Left(words=f"AWS cannot be asked whether the endpoint runs and is billed ({problem.message}): {ends}")
    if stack is None:
        return Left(words=None)
    at_it = stack.status.endswith("_IN_PROGRESS") and stack.status != NOT_BEGUN
    goes_on = f"CloudFormation goes on ({stack.status}), and " if at_it else ""
    if state is not None:
        runs = f"endpoint {decided.name} runs, {state.status}{_rate(quoted, decided)}"
        words = f"{goes_on}{runs}: slipway endpoint test {name} asks it, {ends}"
    elif goes_on:
        words = f"{goes_on}the endpoint may come up{_rate(quoted, decided)}: {ends}"
    else:
        words = f"stack {stack.name} is left, {stack.status}, without its endpoint: {ends}"
    return Left(words=words, stack=(stack.name, stack.status))


def _rate(quoted: Quote, decided: Endpoint) -> str:
    """The most that one version costs an hour once it is scaled up: the quote's rate is that of `target.nodes`."""
    if quoted.usd_per_hour is None:
        return ""
    most = quoted.usd_per_hour / Decimal(quoted.plan.place.nodes) * decided.most
    return f", at up to ${most:.2f} an hour"
