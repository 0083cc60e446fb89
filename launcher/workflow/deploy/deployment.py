"""The story of `deploy`: a quoted plan's cluster, in AWS, in the sandbox, or only shown."""

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.cdk.commands import deploy
from launcher.cdk.runner import RecordingRunner, Runner, SubprocessRunner
from launcher.model.errors import ImpossibleError
from launcher.model.plan import Plan
from launcher.model.quote import Quote
from launcher.planning.pin import zone
from launcher.pricing.priced import Priced
from launcher.records import run_folder
from launcher.rendering.names import deployed_names
from launcher.workflow.cost.left import telling_what_stands
from launcher.workflow.deploy.readback.reading import ClusterState
from launcher.workflow.deploy.render import render_quote
from launcher.workflow.deploy.steps import Setting, Tell, bring_up, plan_words, record, show_difference, synthesise

if TYPE_CHECKING:
    from launcher.sandbox.sandbox import Sandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployOptions:
    """Where and how a deployment goes; a dry run runs nothing and says what it would run.

    `box` is a sandbox that runs already and goes on afterwards; None: with `sandbox` a new one, which ends with it, and
    whose clusters are scheduled by `scheduler`: "slurm", "local", or "auto" for Slurm where it is installed. Outside
    of it, `account` is prepared for the CDK first (None: it is examined instead), and `cluster` asks the scheduler of a
    cluster what it runs (None: nothing answers that).
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a deployment happens in: its setting, and in a sandbox that, with what was put there for the plan."""

    setting: Setting
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
        raise ImpossibleError(message, hint="slipway launch starts the job; drop target.cluster to build a cluster")
    folder = run_folder.create(quoted.plan.name, datetime.now(UTC), options.root)
    bundle = record(folder, quoted, rank, priced.catalog, Path(priced.path).resolve().parent)
    tell(f"run folder {folder.path.relative_to(options.root)}")
    with ExitStack() as stack:
        setting = ground_for(priced, quoted, options, stack).setting
        cdk, assembly = synthesise(folder, quoted, setting)
        if options.dry_run:
            for line in plan_words(quoted.plan):
                tell(f"would make {line}")
            outputs = folder.path / "outputs.json"
            return deploy(quoted, bundle, assembly, cdk, outputs=outputs, now=datetime.now(UTC), on_line=tell)
        show_difference(cdk, assembly, plan_words(quoted.plan), tell)
        if not options.sandbox:
            stack.enter_context(telling_what_stands(quoted.plan, options.environment, priced.catalog, tell))
        done = bring_up(folder, quoted, bundle, setting, cdk=cdk, assembly=assembly, now=datetime.now(UTC))
        # The files once more, as they refer to the cluster that is there now.
        run = f"{quoted.plan.name}-{folder.path.name}".lower()
        names = deployed_names(done.training)
        folder.write_bundle(render_quote(quoted, setting.instances, names=names, run=run))
        return done.outputs


def deploys(plan: Plan) -> bool:
    """Whether a plan has stacks of its own: its jobs go to no cluster that exists."""
    return plan.request.target.ssh_host is None and plan.request.target.cluster is None


def ground_for(priced: Priced, quoted: Quote, options: DeployOptions, stack: ExitStack) -> Ground:
    """What a deployment happens in; a sandbox of its own lasts as long as `stack`, an account is examined first.

    Raises:
        ImpossibleError: the account lacks what the plan needs, with the command that mends each.
    """
    plan = quoted.plan
    if options.sandbox and not options.dry_run:
        from launcher.workflow.deploy.in_sandbox import furnished, sandbox_for, setting_in

        box = stack.enter_context(sandbox_for(plan.place.region, options.scheduler, options.box, options.tell))
        stand_ins = furnished(box, plan)
        for each in stand_ins:
            options.tell(f"{each} is a stand-in of that name: your own is not looked at")
        setting = setting_in(box, priced, plan, options.environment, options.tell)
        return Ground(setting=setting, box=box, stand_ins=stand_ins)
    runner: Runner = RecordingRunner() if options.dry_run else SubprocessRunner()
    if not options.dry_run and options.account is None and deploys(plan):
        from launcher.workflow.doctor.diagnosis import refuse_unless_ready, subject_of

        where, now = plan.place.region, datetime.now(UTC)
        subject = subject_of(plan, where, catalog=priced.catalog, environment=options.environment, now=now)
        refuse_unless_ready(subject, options.tell)
    setting = Setting(
        runner=runner,
        environment=options.environment,
        account=options.account,
        zone=zone(plan.place, priced.catalog),
        instances=priced.catalog.instance_types,
        cluster=options.cluster,
        tell=options.tell,
        max_usd=priced.context.rules.max_usd,
    )
    return Ground(setting=setting)
