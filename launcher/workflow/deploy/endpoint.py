"""Deploys an endpoint's stack, waits for it, compares it with the plan, and sends a real request."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from launcher.aws import stacks
from launcher.aws.endpoints import find
from launcher.aws.session import Session
from launcher.aws.stacks import StackState
from launcher.catalog.regular_file import folder_of
from launcher.catalog.serving_images import load_images
from launcher.model.bundle import Bundle
from launcher.model.endpoint import RETENTION_DAYS, Endpoint, EndpointMode, keeps_requests
from launcher.model.endpoint_call import Reply, ServedEndpoint
from launcher.model.enums import Rollout
from launcher.model.errors import DeploymentFailedError, SlipwayError
from launcher.model.plan import Plan
from launcher.model.quote import Quote
from launcher.model.report import EndpointReport, Report, RunStatus
from launcher.model.stages import Notify
from launcher.model.units import number_of
from launcher.planning.endpoint import ServingDeployment
from launcher.pricing.priced import Priced
from launcher.records import run_folder
from launcher.records.command_record import recorded_command
from launcher.records.report_document import answer_figures
from launcher.records.run_folder import RunFolder, undone_if_declined
from launcher.workflow.cluster.endpoint import (
    problems,
    request_sender,
    served_endpoint,
    serving_stack,
    wait_until_settled,
)
from launcher.workflow.deploy.account import Account
from launcher.workflow.deploy.assembly_difference import difference_of
from launcher.workflow.deploy.context import DeployOptions
from launcher.workflow.deploy.deployment import account_for, show_deployment
from launcher.workflow.deploy.stack_deployment import Deployment, Outputs
from launcher.workflow.deploy.steps import record
from launcher.workflow.history.run_story import LaunchLog

ROLLOUTS: Mapping[Rollout, str] = {
    Rollout.ALL_AT_ONCE: "all at once; the old version stays for 15 minutes",
    Rollout.CANARY: "with part of the requests first",
    Rollout.ROLLING: "in steps",
}
IMAGE_LENGTH = 60
"""The length of an image name before a question; the stack has the full name."""


NOT_BEGUN = "REVIEW_IN_PROGRESS"
"""The status of a stack that has only a change set."""


def left_behind(quoted: Quote, decided: Endpoint, session: Session) -> tuple[str | None, StackState | None]:
    """What a deployment left: a message for the user, None without any, and the stack.

    If the stack and the endpoint cannot be read, the message says so.
    """
    name = quoted.plan.name
    ends = f"slipway down {name} removes it"
    try:
        stack = stacks.find(session, serving_stack(name))
        state = find(session, decided.name)
    except SlipwayError as problem:
        return f"Slipway cannot read whether the endpoint runs and is billed ({problem.message}): {ends}", None
    if stack is None:
        return None, None
    at_it = stack.status.endswith("_IN_PROGRESS") and stack.status != NOT_BEGUN
    goes_on = f"CloudFormation continues ({stack.status}), and " if at_it else ""
    if state is not None:
        runs = f"endpoint {decided.name} runs, {state.status}{_rate(quoted, decided)}"
        text = f"{goes_on}{runs}: slipway endpoint test {name} sends a request, {ends}"
    elif goes_on:
        text = f"{goes_on}the endpoint may still start{_rate(quoted, decided)}: {ends}"
    else:
        text = f"stack {stack.name} remains ({stack.status}), without its endpoint: {ends}"
    return text, stack


def _rate(quoted: Quote, decided: Endpoint) -> str:
    """The maximum cost per hour of one version after scaling up: the quote's rate covers `target.nodes`."""
    if quoted.usd_per_hour is None:
        return ""
    most = quoted.usd_per_hour / Decimal(quoted.plan.place.nodes) * decided.most
    return f", at up to ${most:.2f} an hour"


def endpoint_lines(served: ServingDeployment) -> Iterator[str]:
    """What a deployment creates, from the plan."""
    decided, place = served.endpoint, served.plan.place
    count = f"{decided.least} to {decided.most}" if decided.most > decided.least else f"{decided.least}"
    bought = place.option.value.replace("-", " ")
    yield f"endpoint {decided.name}: {count} x {decided.instance_type}, {bought}, in {place.region}"
    copies = f"{decided.copies} cop{'y' if decided.copies == 1 else 'ies'} an instance"
    source = decided.model_uri or "the Hugging Face hub"
    concurrency = f"{number_of(decided.concurrency, 'request')} at once in each"
    yield f"model from {source}: {copies}, {concurrency}"
    image = decided.image.rpartition("/")[2]
    yield f"image {image if len(image) <= IMAGE_LENGTH else image[:IMAGE_LENGTH] + '…'}"
    if decided.scales_to_zero:
        yield "scales to 0 without requests, and up again with the first request"
    if keeps_requests(served.serve, decided.mode):
        name = served.plan.name
        retention = f"stays after slipway down {name}; its objects expire after {RETENTION_DAYS} days"
        yield f"requests: a new bucket, which {retention}"
    yield f"a new version comes {ROLLOUTS[decided.rollout]}; its alarms roll it back"


def show_endpoint(priced: Priced, rank: int, quoted: Quote, options: DeployOptions) -> None:
    """Run a dry run: write the run folder's files, and report the changes and the deploy command."""
    catalog = priced.catalog
    folder = run_folder.create(quoted.plan.name, datetime.now(UTC), options.root, dry_run=True)
    bundle = record(folder, quoted, rank, catalog, folder_of(Path(priced.path)))
    options.notify(f"run folder {folder.path.relative_to(options.root)}")
    with ExitStack() as stack:
        context = account_for(priced, quoted, options, stack).context
        deployment = Deployment.synthesise(folder, quoted, bundle, context)
        description = endpoint_lines(ServingDeployment(plan=quoted.plan, catalog=catalog, images=load_images()))
        show_deployment(deployment, description, options)


def run_endpoint(
    priced: Priced, rank: int, quoted: Quote, options: DeployOptions, *, ask: bool
) -> tuple[RunFolder, Report, Mapping[str, Mapping[str, str]]]:
    """Deploy a quoted plan's endpoint, or update the running one to the plan; `ask` also sends it a request.

    Returns:
        The run folder, its report, and the outputs of the stack.

    Raises:
        DeploymentFailedError: the deployment failed or was rolled back, or the endpoint is not as planned or does not
        answer.
        SlipwayError: a step failed; the run folder has everything until then.
        KeyboardInterrupt: the user stopped waiting; CloudFormation continues.
    """
    folder = run_folder.create(quoted.plan.name, datetime.now(UTC), options.root)
    noted = recorded_command(folder, "launch" if ask else "deploy", sandbox=options.sandbox, done="done")
    with undone_if_declined(folder), noted:
        return _run(folder, priced, rank, quoted, options, ask=ask)


def _run(
    folder: RunFolder, priced: Priced, rank: int, quoted: Quote, options: DeployOptions, *, ask: bool
) -> tuple[RunFolder, Report, Mapping[str, Mapping[str, str]]]:
    log = LaunchLog(folder=folder, quoted=quoted, simulated=options.sandbox)
    try:
        bundle = record(folder, quoted, rank, priced.catalog, folder_of(Path(priced.path)))
        options.notify(f"run folder {folder.path.relative_to(options.root)}")
        with ExitStack() as stack:
            outputs = _deploy(log, priced, bundle, options, stack, ask=ask)
        log.status = RunStatus.SUCCEEDED
    except KeyboardInterrupt:
        log.status = RunStatus.INTERRUPTED
        raise
    finally:
        report = log.write()
    return folder, report, outputs


def _deploy(
    log: LaunchLog, priced: Priced, bundle: Bundle, options: DeployOptions, stack: ExitStack, *, ask: bool
) -> Outputs:
    quoted, notify = log.quoted, options.notify
    served = ServingDeployment(plan=quoted.plan, catalog=priced.catalog, images=load_images())
    decided = served.endpoint
    account = account_for(priced, quoted, options, stack)
    context = account.context
    deployment = Deployment.synthesise(log.folder, quoted, bundle, context)
    session = deployment.session
    stack.enter_context(deployment.approval(difference_of(deployment.assembly, session), endpoint_lines(served)))
    try:
        try:
            outputs = deployment.deploy()
        except DeploymentFailedError as failure:
            raise _with_problems(failure, quoted.plan, session) from failure
        endpoint = _in_service(log, decided, deployment, account)
        if ask and log.endpoint is not None:
            reply = send_request(endpoint, session, notify)
            log.endpoint = replace(log.endpoint, reply=reply)
            log.folder.append_event("answered", answer=answer_figures(reply))
    except BaseException:
        if not options.sandbox:
            message, left = left_behind(quoted, decided, session)
            if left is not None and log.endpoint is None:
                log.stacks = ((left.name, left.status),)
            if message is not None:
                notify(message)
        raise
    return outputs


def _in_service(log: LaunchLog, decided: Endpoint, deployment: Deployment, account: Account) -> ServedEndpoint:
    """Wait for an endpoint with the requested configuration, read it back, and add both to the log."""
    folder, plan, session, notify = log.folder, deployment.plan, deployment.session, deployment.context.notify
    endpoint = served_endpoint(plan.name, session)
    folder.append_event("deployed", endpoint=endpoint.name, config=endpoint.config)
    state = wait_until_settled(endpoint, session, notify)
    folder.append_event("in-service", endpoint=endpoint.name, config=state.config, instances=state.instances)
    running = number_of(state.instances, "instance")
    notify(f"endpoint {endpoint.name}: {state.status}, {running}, with the requested configuration")
    checked = deployment.verify_resources(endpoint=decided)
    notify(f"read back and as planned: {number_of(len(checked.verified), 'fact')}, stacks: {len(checked.stacks)}")
    log.stacks = tuple((stack.name, stack.status) for stack in checked.stacks)
    log.verified, log.not_emulated = checked.verified, account.not_emulated(checked, endpoint=True)
    log.endpoint = EndpointReport(
        name=endpoint.name,
        region=endpoint.region,
        mode=endpoint.mode,
        status=state.status,
        config=state.config,
        instances=state.instances,
        url=endpoint.base_url,
        reply=None,
    )
    return endpoint


def send_request(endpoint: ServedEndpoint, session: Session, notify: Notify) -> Reply:
    """Send one real request of the endpoint's kind, and return the reply.

    Raises:
        DeploymentFailedError: the request was refused, stalled, broke off, or got a reply without a token.
    """
    queued = endpoint.mode is EndpointMode.ASYNCHRONOUS
    notify("sending a real request through its queue" if queued else "sending a real request, as a client does")
    reply = request_sender(endpoint, session)()
    notify(f"answered: {reply.summary}")
    return reply


def _with_problems(failure: DeploymentFailedError, plan: Plan, session: Session) -> DeploymentFailedError:
    """A failure together with the alarms and container messages of an endpoint that was already running."""
    try:
        reports = problems(served_endpoint(plan.name, session), session)
    except SlipwayError:
        # The endpoint does not exist, or AWS does not answer: the failure itself is reported.
        return failure
    more = "".join(f"\n{problem}" for problem in reports if problem.removeprefix("log: ") not in failure.message)
    return DeploymentFailedError(failure.message + more, hint=failure.hint)
