"""The stories of `endpoint`: find a deployed one, see that it runs what was deployed, ask it, and load it."""

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from launcher.aws import stacks
from launcher.aws.chat import chat
from launcher.aws.endpoints import bearer_token, described, embed, going_off, queue
from launcher.aws.session import Session
from launcher.model.endpoint import EndpointMode
from launcher.model.endpoint_call import EndpointState, LoadStep, LoadTest, Reply, ServedEndpoint
from launcher.model.errors import DeploymentFailedError, ImpossibleError, SlipwayError, UnreadableInputError
from launcher.records.run_folder import RunFolder, latest

PROMPT = "Count from one to twenty in words, separated by commas."
IN_SERVICE = "InService"
CHANGING = ("Creating", "Updating", "SystemUpdating", "RollingBack")
SETTLE_S, SETTLE_POLL_S = 7200.0, 15.0
"""How long a deployment is waited for: an hour to start, and as long for what it replaces."""
ALARM = "AWS::CloudWatch::Alarm"
TOKEN_S = 3600
STALL_S, QUEUE_S = 60.0, 1800.0
MEDIAN, TAIL = 0.5, 0.95
LOAD_FILE = "load.json"
Ask = Callable[[], Reply]


def served(name: str, session: Session) -> ServedEndpoint:
    """The endpoint of a plan, by the outputs of its stack.

    Raises:
        ImpossibleError: it is not deployed in the region.
        AwsError: a call failed.
    """
    stack = f"slipway-{name}-serving"
    found = stacks.find(session, stack)
    if found is None or "EndpointName" not in found.outputs:
        message = f"no endpoint of {name} in {session.region}: there is no stack {stack}"
        raise ImpossibleError(message, hint="slipway deploy, or another --region")
    outputs = found.outputs
    return ServedEndpoint(
        name=outputs["EndpointName"],
        region=session.region,
        mode=EndpointMode(outputs["Mode"]),
        config=outputs["EndpointConfigName"],
        stack=stack,
        component=outputs.get("InferenceComponentName"),
        base_url=outputs.get("OpenAiUrl"),
        requests_uri=outputs.get("RequestsUri"),
        served_name=name,
    )


def state_of(endpoint: ServedEndpoint, session: Session) -> EndpointState:
    """The endpoint's state, when it is in service with the configuration it was deployed with.

    After a failed update SageMaker goes back to the old configuration and says InService again.

    Raises:
        DeploymentFailedError: it is not in service, or runs another configuration; with the reason and the alarms.
        AwsError: a call failed.
    """
    state = described(session, endpoint.name)
    if state.status == IN_SERVICE and state.config == endpoint.config:
        return state
    names = (each.physical_id for each in stacks.resources(session, endpoint.stack) if each.type == ALARM)
    reasons = [each for each in (state.reason, *going_off(session, tuple(names))) if each]
    told = f": {'; '.join(reasons)}" if reasons else ""
    if state.status != IN_SERVICE:
        raise DeploymentFailedError(f"endpoint {endpoint.name} is {state.status}{told}")
    message = (
        f"endpoint {endpoint.name} runs {state.config}, deployed was {endpoint.config}: the update was rolled back"
    )
    raise DeploymentFailedError(message + told, hint=f"the containers' log: see the dashboard of {endpoint.stack}")


def settled(
    endpoint: ServedEndpoint,
    session: Session,
    tell: Callable[[str], None],
    *,
    limit_s: float = SETTLE_S,
    clock: Callable[[], float] = time.monotonic,
    wait: Callable[[float], None] = stacks.wait,
) -> EndpointState:
    """The endpoint's state once it no longer changes, told of at every change; see `state_of`.

    Args:
        endpoint: the endpoint.
        session: its region.
        tell: is told how it stands.
        limit_s: how long it is waited for.
        clock: seconds.
        wait: lets seconds pass.

    Raises:
        DeploymentFailedError: it is still changing after that time, or is not as it was deployed.
        AwsError: a call failed.
    """
    begun, seen = clock(), ""
    while (state := described(session, endpoint.name)).status in CHANGING:
        words = f"endpoint {endpoint.name}: {state.status}, {state.instances} instances"
        if words != seen:
            tell(words)
        seen = words
        if clock() - begun > limit_s:
            raise DeploymentFailedError(f"{words}, still, after {limit_s / 60:.0f} minutes")
        wait(SETTLE_POLL_S)
    return state_of(endpoint, session)


def asker(
    endpoint: ServedEndpoint,
    session: Session,
    *,
    prompt: str = PROMPT,
    most_tokens: int = 64,
    timeout_s: float | None = None,
) -> Ask:
    """What sends one request of the endpoint's own kind: chat with streaming, an embedding, or one for the queue."""
    if endpoint.mode is EndpointMode.ASYNCHRONOUS:
        body: dict[str, Any] = {
            "model": endpoint.served_name,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": most_tokens,
        }
        return lambda: queue(session, endpoint, body, timeout_s=timeout_s or QUEUE_S)
    if endpoint.base_url is None:
        return lambda: embed(session, endpoint, prompt)
    base_url, token = endpoint.base_url, bearer_token(session, TOKEN_S)
    return lambda: chat(base_url, token, prompt, most_tokens=most_tokens, stall_s=timeout_s or STALL_S)


def probe(endpoint: ServedEndpoint, session: Session, ask: Ask) -> tuple[EndpointState, Reply]:
    """Whether an endpoint runs what was deployed, and one real answer of it.

    Raises:
        DeploymentFailedError: it does not, or does not answer.
        AwsError: a call failed.
    """
    state = state_of(endpoint, session)
    return state, ask()


def ramp(most: int) -> tuple[int, ...]:
    """Requests at once, doubled up to the most.

    >>> ramp(12), ramp(1)
    ((1, 2, 4, 8, 12), (1,))
    """
    doubled = [1 << power for power in range(max(0, most.bit_length())) if 1 << power < most]
    return (*doubled, most)


def step(ask: Ask, concurrency: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> LoadStep:
    """Keep so many requests under way for a while; each that was begun is waited for, and counts.

    Args:
        ask: sends one request.
        concurrency: requests at once.
        seconds: in which new ones are begun.
        clock: seconds.
    """
    begun = clock()

    def keep(_: int) -> list[Reply | SlipwayError]:
        found: list[Reply | SlipwayError] = []
        while clock() - begun < seconds:
            try:
                found.append(ask())
            except SlipwayError as problem:
                found.append(problem)
                if len(found) > 2 and not any(isinstance(each, Reply) for each in found):  # noqa: PLR2004 - it is down
                    break
        return found

    with ThreadPoolExecutor(max_workers=concurrency) as workers:
        results = [each for found in workers.map(keep, range(concurrency)) for each in found]
    lasted = clock() - begun
    replies = [each for each in results if isinstance(each, Reply)]
    failures = [each for each in results if isinstance(each, SlipwayError)]
    return LoadStep(
        concurrency=concurrency,
        seconds=lasted,
        requests=len(results),
        failures=len(failures),
        output_tokens=sum(each.output_tokens for each in replies),
        first_s=percentiles([each.first_s for each in replies if each.first_s is not None]),
        whole_s=percentiles([each.whole_s for each in replies]),
        failure=failures[0].message if failures else "",
    )


def percentiles(values: list[float]) -> tuple[float, float] | None:
    """Half of the values, and 95 of 100, are no larger; None without any.

    >>> percentiles([3.0, 1.0, 2.0])
    (2.0, 3.0)
    """
    if not values:
        return None
    ordered = sorted(values)
    middle, tail = (ordered[max(0, math.ceil(share * len(ordered)) - 1)] for share in (MEDIAN, TAIL))
    return middle, tail


def load(
    endpoint: ServedEndpoint,
    session: Session,
    ask: Ask,
    *,
    most: int,
    seconds: float,
    root: Path,
    tell: Callable[[LoadStep], None],
) -> LoadTest:
    """A ramp of requests at once, beside the quote of the newest run, and kept in its folder.

    Raises:
        DeploymentFailedError: the endpoint is not as deployed, or a step had no answer at all.
        AwsError: a call failed.
    """
    state = state_of(endpoint, session)
    steps = []
    for concurrency in ramp(most):
        done = step(ask, concurrency, seconds)
        tell(done)
        if done.failures == done.requests:
            raise DeploymentFailedError(f"no answer with {concurrency} requests at once: {done.failure}")
        steps.append(done)
    folder = _run(endpoint.served_name, root)
    rate, tokens = _quoted(folder)
    found = LoadTest(
        name=endpoint.served_name,
        steps=tuple(steps),
        instances=state.instances,
        usd_per_instance_hour=rate,
        quoted_tokens_per_s=tokens,
    )
    if folder is not None:
        folder.write_json(LOAD_FILE, load_document(found))
    return found


def _run(name: str, root: Path) -> RunFolder | None:
    """The newest run of a plan in this folder, where there is one."""
    try:
        return latest(name, root)
    except SlipwayError:
        return None


def _quoted(folder: RunFolder | None) -> tuple[Decimal | None, float | None]:
    """The quoted rate of an instance and its tokens a second; None where there is no quote."""
    if folder is None:
        return None, None
    try:
        quote = folder.read_json("quote.json")
    except UnreadableInputError:
        return None, None
    price, serving = quote.get("price") or {}, quote.get("serving") or {}
    try:
        rate = Decimal(str(price.get("usd_per_hour")))
    except InvalidOperation:
        return None, serving.get("tokens_per_s")
    return rate, serving.get("tokens_per_s")


def load_document(found: LoadTest) -> dict[str, Any]:
    """A load test as JSON."""
    dollars = found.usd_per_million_output_tokens
    return {
        "schema": "slipway.load/1",
        "name": found.name,
        "instances": found.instances,
        "steps": [_step_document(each) for each in found.steps],
        "measured_tokens_per_s": round(found.best.tokens_per_s, 3),
        "measured_usd_per_million_output_tokens": format(dollars, "f") if dollars is not None else None,
        "quoted_tokens_per_s": found.quoted_tokens_per_s,
    }


def _step_document(each: LoadStep) -> dict[str, Any]:
    """One step as JSON; times in milliseconds."""

    def ms(pair: tuple[float, float] | None) -> dict[str, float] | None:
        return None if pair is None else {"p50": round(1000 * pair[0], 1), "p95": round(1000 * pair[1], 1)}

    return {
        "concurrency": each.concurrency,
        "seconds": round(each.seconds, 3),
        "requests": each.requests,
        "failures": each.failures,
        "tokens_per_s": round(each.tokens_per_s, 3),
        "ttft_ms": ms(each.first_s),
        "latency_ms": ms(each.whole_s),
    }
