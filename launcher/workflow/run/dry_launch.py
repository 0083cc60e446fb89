"""What a launch refuses before it begins, and a dry run: a launch that shows its steps and does nothing."""

from launcher.model.plan import Plan
from launcher.model.quote import Quote
from launcher.model.target import SLURM
from launcher.pricing.priced import Priced
from launcher.rendering.cluster import queue_name
from launcher.targets.clusters import cluster_of
from launcher.targets.registry import target_of
from launcher.workflow.deploy.deployment import deploy_quote, deploys
from launcher.workflow.run.earlier_step import refuse_from_step
from launcher.workflow.run.launch_options import LaunchOptions
from launcher.workflow.run.relaunch import refuse_fresh


def refuse_job(plan: Plan, options: LaunchOptions) -> None:
    """Refuse, before anything is deployed, a job that cannot begin as requested or be submitted from here."""
    if options.fresh:
        refuse_fresh(plan)
    if options.from_step is not None:
        refuse_from_step(plan)
    if not options.sandbox:
        cluster_of(plan).refuse_job(plan, options.environment)


def show_launch(priced: Priced, rank: int, quoted: Quote, options: LaunchOptions) -> None:
    """A dry run: list the run folder's files, the changes in the account, and the place of the job.

    Raises:
        ImpossibleError: a launch would be refused.
    """
    plan = quoted.plan
    refuse_job(plan, options)
    if deploys(plan):
        deploy_quote(priced, rank, quoted, options)
    where = plan.request.target.ssh_host or f"cluster {plan.cluster_name}"
    slurm = target_of(plan.place.target).scheduler == SLURM
    queue = f", partition {queue_name(plan.place.instance_type)}" if slurm else ""
    options.notify(f"would submit the job to {where}{queue}; nothing was done")
