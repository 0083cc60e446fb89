"""The story of `deploy`: a quoted plan's cluster, in AWS, in the sandbox, or only shown."""

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.aws.session import Session
from launcher.cdk.commands import Assembly, Cdk, deploy
from launcher.cdk.runner import RecordingRunner, SubprocessRunner
from launcher.model.bundle import Bundle
from launcher.model.errors import ImpossibleError
from launcher.model.plan import Plan
from launcher.model.quote import Quote
from launcher.model.stages import Tell
from launcher.planning.pin import zone
from launcher.pricing.priced import Priced
from launcher.records import run_folder
from launcher.records.command_record import recorded_command
from launcher.records.run_folder import RunFolder, undone_if_declined
from launcher.rendering.batch import PENDING
from launcher.rendering.blanks import with_archive, with_names
from launcher.rendering.names import deployed_names
from launcher.workflow.cost.left import telling_what_is_left
from launcher.workflow.deploy.chart import chart_and_layer
from launcher.workflow.deploy.difference import agreed, all_new, difference_lines, difference_of, shown_only
from launcher.workflow.deploy.readback.reading import ClusterState
from launcher.workflow.deploy.steps import (
    Approve,
    DeployContext,
    bring_up,
    nobody_asked,
    plan_words,
    record,
    synthesise,
)

if TYPE_CHECKING:
    from launcher.sandbox.sandbox import Sandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployOptions:
    """Where and how a deployment goes; a dry run synthesises, says what would change, and changes nothing.

    `box` is a sandbox that runs already and goes on afterwards; None: with `sandbox` a new one, which ends with it, and
    whose clusters are scheduled by `scheduler`: "slurm", "local", or "auto" for Slurm where it is installed. Outside
    of it, `account` is prepared for the CDK first (None: it is examined instead), and `cluster` asks the scheduler of a
    cluster what it runs (None: nothing answers that). `approve` is called when everything that would happen was shown,
    and raises where somebody says no.
    """

    root: Path
    tell: Tell
    sandbox: bool = False
    dry_run: bool = False
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    box: "Sandbox | None" = None
    # No job is submitted, so that a cluster needs no Slurm.
    scheduler: str = "local"
    account: str | None = None
    cluster: Callable[[str], ClusterState] | None = None
    approve: Approve = nobody_asked


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployTarget:
    """What a deployment happens in: its context, and in a sandbox that, with what was put there for the plan."""

    context: DeployContext
    box: "Sandbox | None" = None
    stand_ins: tuple[str, ...] = ()


def deploy_quote(priced: Priced, rank: int, quoted: Quote, options: DeployOptions) -> Mapping[str, Mapping[str, str]]:
    """Deploy a quoted plan's stacks; their outputs.

    Raises:
        ImpossibleError: the plan's jobs go to a cluster that exists.
        SlipwayError: a step failed; the run folder holds what was done until then.
    """
    tell, named = options.tell, quoted.plan.request.target.cluster
    if named is not None:
        message = f"target.cluster: cluster {named} exists, and {quoted.plan.name} is a job for it: nothing to deploy"
        raise ImpossibleError(
            message, hint=f"{priced.command('launch')} starts the job; drop target.cluster to build one"
        )
    folder = run_folder.create(quoted.plan.name, datetime.now(UTC), options.root, dry_run=options.dry_run)
    run = f"{quoted.plan.name}-{folder.path.name}".lower()
    bundle = record(folder, quoted, rank, priced.catalog, Path(priced.path).resolve().parent, run=run)
    tell(f"run folder {folder.path.relative_to(options.root)}")
    done = _called_when_done(options, quoted.plan.place.region)
    with undone_if_declined(folder), ExitStack() as stack:
        stack.enter_context(recorded_command(folder, "deploy", sandbox=options.sandbox, done=done))
        context = target_for(priced, quoted, options, stack).context
        cdk, assembly = synthesise(folder, quoted, context)
        if options.dry_run:
            words = plan_words(quoted.plan)
            show_deployment(folder, quoted, bundle, assembly, context=context, words=words, options=options)
            return {}
        session = Session(environment=context.environment, region=quoted.plan.place.region)
        stack.enter_context(agreed(difference_of(assembly, session), quoted, context, plan_words(quoted.plan)))
        if not ends_with_it(options, quoted.plan.place.region):
            told = telling_what_is_left(quoted.plan, context.environment, priced.catalog, tell, sandbox=options.sandbox)
            stack.enter_context(told)
        made = bring_up(folder, quoted, bundle, context, cdk=cdk, assembly=assembly, now=datetime.now(UTC))
        # The same files, which refer to the cluster that is there now.
        folder.write_bundle(with_archive(with_names(bundle, deployed_names(made.training)), PENDING))
        return made.outputs


def ends_with_it(options: DeployOptions, region: str) -> bool:
    """Whether what is deployed goes with a sandbox of its own; False in AWS and in a sandbox that stays."""
    if not options.sandbox:
        return False
    from launcher.workflow.deploy.in_sandbox import attached

    box = options.box or attached(options.environment, region)
    return box is None or box.stays is None


def _called_when_done(options: DeployOptions, region: str) -> str:
    if options.dry_run:
        return "dry run"
    if not options.sandbox:
        return "deployed"
    return "deployed in the sandbox" + (", which has ended" if ends_with_it(options, region) else "")


def show_deployment(
    folder: RunFolder,
    quoted: Quote,
    bundle: Bundle,
    assembly: Assembly,
    *,
    context: DeployContext,
    words: Iterable[str],
    options: DeployOptions,
) -> None:
    """A dry run from its synthesis on: what would change in the account, and the command that would do it.

    Raises:
        ImpossibleError: the deployment would be refused.
    """
    region = quoted.plan.place.region
    looked_at = _account_shown(options, region)
    if looked_at is None:
        for line in difference_lines(all_new(assembly, "a sandbox begins empty"), context, region, words):
            options.tell(line)
    else:
        shown_only(assembly, Session(environment=looked_at, region=region), context, words)
    cdk = Cdk(runner=RecordingRunner(), environment=context.environment)
    outputs = folder.path / "outputs.json"
    deploy(quoted, bundle, assembly, cdk, outputs=outputs, now=datetime.now(UTC), on_line=options.tell)


def _account_shown(options: DeployOptions, region: str) -> Mapping[str, str] | None:
    """The environment in which a dry run asks what is there; None where that is a sandbox which is not there yet."""
    if not options.sandbox:
        return options.environment
    from launcher.workflow.deploy.in_sandbox import attached

    box = options.box or attached(options.environment, region)
    return None if box is None else box.process_environment(options.environment)


def deploys(plan: Plan) -> bool:
    """Whether a plan has stacks of its own: its jobs go to no cluster that exists."""
    return plan.request.target.ssh_host is None and plan.request.target.cluster is None


def target_for(priced: Priced, quoted: Quote, options: DeployOptions, stack: ExitStack) -> DeployTarget:
    """What a deployment happens in; a sandbox of its own lasts as long as `stack`, an account is examined first.

    Raises:
        ImpossibleError: the account lacks what the plan needs, with the command that mends each.
    """
    plan = quoted.plan
    if options.sandbox and not options.dry_run:
        from launcher.workflow.deploy.in_sandbox import context_in, sandbox_for, stand_ins_for

        where = plan.place.region
        box = stack.enter_context(sandbox_for(where, options.scheduler, options.box, options.tell, options.environment))
        stand_ins = stand_ins_for(box, plan)
        for each in stand_ins:
            options.tell(f"{each} is a stand-in of that name: your own is not looked at")
        context = context_in(box, priced, plan, options)
        return DeployTarget(context=context, box=box, stand_ins=stand_ins)
    if not options.dry_run and options.account is None:
        from launcher.workflow.doctor.diagnosis import (
            JOB_EXAMINATIONS,
            PLAN_EXAMINATIONS,
            refuse_unless_ready,
            subject_of,
        )

        where, now = plan.place.region, datetime.now(UTC)
        subject = subject_of(plan, where, catalog=priced.catalog, environment=options.environment, now=now)
        refuse_unless_ready(subject, options.tell, PLAN_EXAMINATIONS if deploys(plan) else JOB_EXAMINATIONS)
    # The CDK CLI asks whose credentials these are: what a dry run compares is synthesised for the account it looks at.
    environment = (_account_shown(options, plan.place.region) if options.dry_run else None) or options.environment
    context = DeployContext(
        runner=SubprocessRunner(),
        environment=environment,
        account=options.account,
        zone=zone(plan.place, priced.catalog),
        catalog=priced.catalog,
        cluster=options.cluster,
        tell=options.tell,
        max_usd=priced.context.rules.max_usd,
        approve=options.approve,
        root=options.root,
        pinned=None if options.dry_run else lambda: chart_and_layer(options.environment, options.tell),
    )
    return DeployTarget(context=context)
