"""The helpers of the `endpoint` commands: find a deployed endpoint, check its configuration, and send requests."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from launcher.aws import stacks
from launcher.aws.chat import chat
from launcher.aws.endpoint_parts import describe_component
from launcher.aws.endpoints import bearer_token, embed, find, in_alarm, queue
from launcher.aws.log_groups import problem_line
from launcher.aws.session import Session
from launcher.model.endpoint import EndpointMode
from launcher.model.endpoint_call import EndpointState, Reply, ServedEndpoint
from launcher.model.errors import DeploymentFailedError, ImpossibleError
from launcher.model.stages import Notify, stage
from launcher.model.units import duration_text, number_of
from launcher.workflow.cluster.guard_stop import read_endpoint_stop

PROMPT = "Count from one to twenty in words, separated by commas."
IN_SERVICE = "InService"
CHANGING = ("Creating", "Updating", "SystemUpdating", "RollingBack")
SETTLE_S, SETTLE_POLL_S = 7200.0, 15.0
"""How long Slipway waits for a deployment: an hour for the start, and an hour for the endpoint that it replaces."""
ALARM = "AWS::CloudWatch::Alarm"
TOKEN_S = 3600
STALL_S, QUEUE_S = 60.0, 1800.0
SendRequest = Callable[[], Reply]


def serving_stack(name: str) -> str:
    """The stack of a plan's endpoint."""
    return f"slipway-{name}-serving"


def served_endpoint(name: str, session: Session) -> ServedEndpoint:
    """The endpoint of a plan, read from the outputs of its stack.

    Raises:
        ImpossibleError: the region has no such endpoint.
    """
    stack = serving_stack(name)
    stack_state = stacks.find(session, stack)
    if stack_state is None or "EndpointName" not in stack_state.outputs:
        message = f"{name} has no endpoint in {session.region}: stack {stack} does not exist"
        raise ImpossibleError(message, hint="slipway deploy FILE, or another --region")
    outputs = stack_state.outputs
    return ServedEndpoint(
        name=outputs["EndpointName"],
        region=session.region,
        mode=EndpointMode(outputs["Mode"]),
        config=outputs["EndpointConfigName"],
        stack=stack,
        component=outputs.get("InferenceComponentName"),
        base_url=_base_url(outputs.get("OpenAiUrl"), session),
        requests_uri=outputs.get("RequestsUri"),
        served_name=name,
        model=outputs.get("ModelName", ""),
    )


def _base_url(url: str | None, session: Session) -> str | None:
    """The base URL for OpenAI clients, on the host where the session's own client finds SageMaker's runtime."""
    if url is None:
        return None
    runtime_url = str(session.client("sagemaker-runtime").meta.endpoint_url)
    return f"{runtime_url.rstrip('/')}{urlsplit(url).path}"


def state_of(endpoint: ServedEndpoint, session: Session) -> EndpointState:
    """The endpoint's state, if it is in service with the deployed configuration.

    After a failed update SageMaker returns to the old configuration and reports InService again.

    Raises:
        DeploymentFailedError: it is not in service, or runs another configuration; with the reason and the alarms.
    """
    state = _describe_endpoint(endpoint, session)
    component = describe_component(session, endpoint.component) if endpoint.component is not None else None
    running = [("", state.status, state.config, endpoint.config, state.reason)]
    if component is not None and state.status == IN_SERVICE:
        status, runs = component["InferenceComponentStatus"], component["Specification"].get("ModelName", "")
        reason = component.get("FailureReason", "")
        running.append((f"component {endpoint.component} of ", status, runs, endpoint.model, reason))
    for prefix, status, runs, deployed, reason in running:
        if status == IN_SERVICE and runs == deployed:
            continue
        details = "".join(f"; {detail}" for detail in (reason, *problems(endpoint, session)) if detail)
        name = f"{prefix}endpoint {endpoint.name}"
        if status != IN_SERVICE:
            raise DeploymentFailedError(f"{name} is {status}{details}")
        message = f"{name} runs {runs}, deployed was {deployed}: the update was rolled back"
        changed = "deploy a changed plan: to CloudFormation, the same plan contains no change"
        hint = f"{changed}; the containers' log: see the dashboard of {endpoint.stack}"
        raise DeploymentFailedError(message + details, hint=hint)
    return state


def problems(endpoint: ServedEndpoint, session: Session) -> tuple[str, ...]:
    """Signs of why an endpoint is not as deployed: alarms in state ALARM, and the last log lines of its containers."""
    names = (resource.physical_id for resource in stacks.resources(session, endpoint.stack) if resource.type == ALARM)
    kind = "InferenceComponents" if endpoint.component is not None else "Endpoints"
    line = problem_line(session, f"/aws/sagemaker/{kind}/{endpoint.component or endpoint.name}")
    alarms = tuple(f"alarm: {alarm}" for alarm in in_alarm(session, tuple(names)))
    return alarms if line is None else (*alarms, f"log: {line}")


def wait_until_settled(
    endpoint: ServedEndpoint,
    session: Session,
    notify: Notify,
    *,
    limit_s: float = SETTLE_S,
    clock: Callable[[], float] = time.monotonic,
    wait: Callable[[float], None] = stacks.wait,
) -> EndpointState:
    """The endpoint's state once it no longer changes, with every change reported; see `state_of`.

    `limit_s`: the longest wait, seconds.

    Raises:
        DeploymentFailedError: it still changes after that time, or is not as deployed.
    """
    begun, reported = clock(), ""
    with stage(notify) as changing:
        while (state := _changing(endpoint, session)) is not None:
            summary = f"endpoint {endpoint.name}: {state.status}, {number_of(state.instances, 'instance')}"
            if summary != reported:
                notify(summary)
                changing.now(f"{state.status}, waited for {duration_text(limit_s)} at most")
            reported = summary
            if clock() - begun > limit_s:
                raise DeploymentFailedError(f"{summary}, still, after {duration_text(limit_s)}")
            wait(SETTLE_POLL_S)
    return state_of(endpoint, session)


def _describe_endpoint(endpoint: ServedEndpoint, session: Session) -> EndpointState:
    state = find(session, endpoint.name)
    if state is None:
        message = f"endpoint {endpoint.name} does not exist, but its stack {endpoint.stack} does"
        stack = stacks.find(session, endpoint.stack)
        reason = read_endpoint_stop(session, stack) if stack is not None else ""
        message += f": the guard deleted it, because {reason}" if reason else ""
        again = f"slipway down {endpoint.served_name}, then slipway deploy FILE"
        hint = again if reason else f"its guard deletes the endpoint after guardrails.ttl_h: {again}"
        raise DeploymentFailedError(message, hint=hint)
    return state


def _changing(endpoint: ServedEndpoint, session: Session) -> EndpointState | None:
    state = _describe_endpoint(endpoint, session)
    if state.status in CHANGING or endpoint.component is None:
        return state if state.status in CHANGING else None
    status = describe_component(session, endpoint.component)["InferenceComponentStatus"]
    return replace(state, status=f"its component {status}") if status in CHANGING else None


def request_sender(
    endpoint: ServedEndpoint,
    session: Session,
    *,
    prompt: str = PROMPT,
    most_tokens: int = 64,
    timeout_s: float | None = None,
) -> SendRequest:
    """Return a function that sends one request of the endpoint's kind: streaming chat, embedding, or queued request."""
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


def probe(endpoint: ServedEndpoint, session: Session, ask: SendRequest) -> tuple[EndpointState, Reply]:
    """The endpoint's state, if it runs the deployed configuration, and one real reply.

    Raises:
        DeploymentFailedError: the endpoint runs another configuration, or does not reply.
    """
    state = state_of(endpoint, session)
    return state, ask()
