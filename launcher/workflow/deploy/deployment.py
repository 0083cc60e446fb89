"""The `deploy` command: deploys a quoted plan's cluster in AWS or in the sandbox, or only shows the changes."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from launcher.aws.session import Session
from launcher.catalog.regular_file import folder_of
from launcher.cdk.runner import RecordingRunner, SubprocessRunner
from launcher.model.enums import PREPAID
from launcher.model.errors import ImpossibleError, InterruptedAtQuestionError, SlipwayError
from launcher.model.plan import Plan
from launcher.model.quote import Quote
from launcher.model.stages import Notify
from launcher.planning.pin import zone
from launcher.pricing.priced import Priced
from launcher.records import run_folder
from launcher.records.command_record import recorded_command
from launcher.records.run_folder import DRY_RUN, undone_if_declined
from launcher.rendering.batch import PENDING
from launcher.rendering.blanks import with_archive, with_names
from launcher.rendering.names import deployed_names
from launcher.targets.clusters import cluster_of
from launcher.workflow.cluster.capacity_start import CapacityStart
from launcher.workflow.deploy.account import Account
from launcher.workflow.deploy.assembly_difference import all_new
from launcher.workflow.deploy.chart import chart_and_layer
from launcher.workflow.deploy.context import DeployContext, DeployOptions
from launcher.workflow.deploy.difference import shown_only
from launcher.workflow.deploy.difference_text import difference_lines
from launcher.workflow.deploy.in_sandbox import context_in, prerequisites_for, sandbox_for
from launcher.workflow.deploy.stack_deployment import Deployment
from launcher.workflow.deploy.steps import plan_lines, record
from launcher.workflow.doctor.diagnosis import JOB_EXAMINATIONS, PLAN_EXAMINATIONS, refuse_unless_ready, subject_of
from launcher.workflow.doctor.left_running import report_running_costs
from launcher.workflow.quote.commands import command
from launcher.workflow.quote.existing_head import existing_head_type, existing_nat_mode
from launcher.workflow.quote.existing_network import network_importers
from launcher.workflow.quote.fresh import Kept


def deploy_quote(priced: Priced, rank: int, quoted: Quote, options: DeployOptions) -> Mapping[str, Mapping[str, str]]:
    """Deploy a quoted plan's stacks, and return their outputs.

    Raises:
        ImpossibleError: the plan's jobs use an existing cluster.
        SlipwayError: a step failed; the run folder has the results until then.
    """
    notify, named = options.notify, quoted.plan.request.target.cluster
    if named is not None:
        message = f"target.cluster: cluster {named} exists, and {quoted.plan.name} is a job for it: nothing to deploy"
        raise ImpossibleError(
            message, hint=f"{command(priced, 'launch')} starts the job; remove target.cluster to build one"
        )
    folder = run_folder.create(quoted.plan.name, datetime.now(UTC), options.root, dry_run=options.dry_run)
    run = f"{quoted.plan.name}-{folder.path.name}".lower()
    bundle = record(folder, quoted, rank, priced.catalog, folder_of(Path(priced.path)), run=run)
    notify(f"run folder {folder.path.relative_to(options.root)}")
    done = _called_when_done(options, quoted.plan.place.region)
    ends = ends_with_it(options, quoted.plan.place.region)
    with undone_if_declined(folder), report_ended_sandbox(notify, ends=ends), ExitStack() as stack:
        stack.enter_context(recorded_command(folder, "deploy", sandbox=options.sandbox, done=done))
        context = account_for(priced, quoted, options, stack).context
        deployment = Deployment.synthesise(folder, quoted, bundle, context)
        if options.dry_run:
            description = plan_lines(quoted.plan)
            show_deployment(deployment, description, options)
            return {}
        deployment = deployment.with_image()
        approval = stack.enter_context(deployment.approval(deployment.difference(), plan_lines(quoted.plan)))
        if not ends:
            cost_notice = report_running_costs(
                quoted.plan, context.environment, priced.catalog, notify, sandbox=options.sandbox
            )
            stack.enter_context(cost_notice)
        deployed_stacks = deployment.bring_up(approval)
        if quoted.plan.place.option in PREPAID:
            CapacityStart(
                plan=quoted.plan,
                deployed=cluster_of(quoted.plan),
                session=deployment.session,
                cluster=deployed_stacks.cluster_name,
                notify=notify,
                waits=not options.sandbox,
            ).check()
        # The same files, with the names of the existing cluster.
        folder.write_bundle(with_archive(with_names(bundle, deployed_names(deployed_stacks.training)), PENDING))
        return deployed_stacks.outputs


@contextmanager
def report_ended_sandbox(notify: Notify, *, ends: bool) -> Iterator[None]:
    """Report after an interruption that nothing is left, if the sandbox `ends` with the command."""
    try:
        yield
    except InterruptedAtQuestionError:
        raise
    except KeyboardInterrupt:
        if ends:
            notify("interrupted: the sandbox of this command has ended, and nothing of it exists")
        raise


def ends_with_it(options: DeployOptions, region: str) -> bool:
    """Whether the deployment ends with this command's own sandbox; False on AWS and in a sandbox that keeps running."""
    if not options.sandbox:
        return False
    sandbox = options.running_sandbox(region)
    return sandbox is None or sandbox.record is None


def _called_when_done(options: DeployOptions, region: str) -> str:
    if options.dry_run:
        return DRY_RUN
    if not options.sandbox:
        return "deployed"
    return "deployed in the sandbox" + (", which has ended" if ends_with_it(options, region) else "")


def show_deployment(deployment: Deployment, description: Iterable[str], options: DeployOptions) -> None:
    """The second part of a dry run, after synthesis: report the changes in the account, and the deploy command.

    Raises:
        ImpossibleError: Slipway would refuse the deployment.
    """
    context, assembly, plan = deployment.context, deployment.assembly, deployment.plan
    region = plan.place.region
    looked_at = account_shown(options, region)
    if looked_at is None:
        empty = all_new(assembly, "a new sandbox is empty")
        for line in difference_lines(empty, context, region, description, deployment.quoted):
            options.notify(line)
    else:
        shown_only(assembly, Session(environment=looked_at, region=region), context, description, deployment.quoted)
    replace(deployment, context=replace(context, runner=RecordingRunner())).show()


def deployed_parts(options: DeployOptions, plan: Plan) -> Kept:
    """What the deployed cluster of a plan keeps; nothing if no cluster exists or AWS cannot be called."""
    environment = account_shown(options, plan.place.region)
    if environment is None:
        return Kept()
    session = Session(environment=environment, region=plan.place.region)
    try:
        return Kept(
            head=existing_head_type(plan, session),
            nat=existing_nat_mode(plan, session),
            shared_by=network_importers(plan.request, session),
        )
    except SlipwayError:
        # A dry run needs no account; a deployment meets the same problem at its next call.
        return Kept()


def account_shown(options: DeployOptions, region: str) -> Mapping[str, str] | None:
    """The environment in which a dry run reads existing resources; None for a sandbox that does not exist yet."""
    if not options.sandbox:
        return options.environment
    sandbox = options.running_sandbox(region)
    return None if sandbox is None else sandbox.process_environment(options.environment)


def deploys(plan: Plan) -> bool:
    """Whether a plan has its own stacks: its jobs use no existing cluster."""
    return plan.request.target.ssh_host is None and plan.request.target.cluster is None


def account_for(priced: Priced, quoted: Quote, options: DeployOptions, stack: ExitStack) -> Account:
    """The account of a deployment: AWS's is checked first, its own sandbox lasts as long as `stack`.

    Raises:
        ImpossibleError: the account lacks something that the plan needs; the error has the command that fixes each.
    """
    plan = quoted.plan
    if options.sandbox and not options.dry_run:
        where = plan.place.region
        sandbox = stack.enter_context(
            sandbox_for(where, options.scheduler, options.emulator, options.notify, options.environment)
        )
        prerequisites = prerequisites_for(sandbox, plan)
        for prerequisite in prerequisites:
            options.notify(f"{prerequisite} is emulated; your own is not read")
        context = context_in(sandbox, priced, plan, options)
        return Account.emulated(context, sandbox, prerequisites)
    if not options.dry_run and options.account is None:
        where, now = plan.place.region, datetime.now(UTC)
        subject = subject_of(
            plan,
            where,
            catalog=priced.catalog,
            environment=options.environment,
            now=now,
            up_usd_per_hour=quoted.left_up_usd_per_hour,
        )
        again = command(priced, "doctor", "--pick", quoted.short_id)
        refuse_unless_ready(subject, options.notify, again, PLAN_EXAMINATIONS if deploys(plan) else JOB_EXAMINATIONS)
    # The CDK CLI reads the identity of the credentials: a dry run is synthesised for the account that it reads.
    environment = (account_shown(options, plan.place.region) if options.dry_run else None) or options.environment
    context = DeployContext(
        runner=SubprocessRunner(),
        environment=environment,
        account=options.account,
        zone=zone(plan.place, priced.catalog),
        catalog=priced.catalog,
        queues=options.queues,
        notify=options.notify,
        max_usd=priced.context.rules.max_usd,
        approve=options.approve,
        root=options.root,
        pinned=None if options.dry_run else lambda: chart_and_layer(options.environment, options.notify),
    )
    return Account.aws(context)
