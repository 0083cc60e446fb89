"""One deployment of a quoted plan: one synthesis, its difference, deployment of that assembly, and its outputs."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from launcher.aws import stacks
from launcher.aws.session import Session
from launcher.cdk.commands import Assembly, Cdk, deploy
from launcher.cdk.control_part import control_part
from launcher.model.bundle import Bundle
from launcher.model.endpoint import Endpoint
from launcher.model.errors import DeploymentFailedError
from launcher.model.machine_image import IMAGE_INPUT
from launcher.model.plan import Plan
from launcher.model.quote import Quote
from launcher.model.stages import stage
from launcher.model.units import duration_text, number_of
from launcher.records.quote_document import image_object
from launcher.records.run_folder import RunFolder
from launcher.rendering.names import TRAINING_STACK, stack_name
from launcher.targets.clusters import cluster_of
from launcher.workflow.cluster.readback.reading import StackVerification
from launcher.workflow.cluster.training_plans import refuse_unless_training_plan_fits
from launcher.workflow.cluster.verify import verify
from launcher.workflow.deploy.account_preparation import prepare_account
from launcher.workflow.deploy.assembly_difference import AssemblyDifference, difference_of
from launcher.workflow.deploy.context import DeployContext, Deployed
from launcher.workflow.deploy.difference import approved_deployment
from launcher.workflow.deploy.failed_creation import empty_failed_creation
from launcher.workflow.deploy.failed_logs import FailedLogs
from launcher.workflow.deploy.leftover_log import remove_leftover_log
from launcher.workflow.deploy.stack_events import StackEvents, rates_by_stack
from launcher.workflow.deploy.steps import OUTPUT_OF_NODES, refuse_without_efa

Outputs = Mapping[str, Mapping[str, str]]
"""The outputs of stacks, by the stack's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What is deployed, and where to."""

    # The run folder, which keeps the assembly and the outputs.
    folder: RunFolder
    # The plan and its money; the gate has allowed it.
    quoted: Quote
    # The rendered files.
    bundle: Bundle
    # The account, and what the deployment runs with.
    context: DeployContext
    # The stacks that are shown and deployed.
    assembly: Assembly

    @classmethod
    def synthesise(cls, folder: RunFolder, quoted: Quote, bundle: Bundle, context: DeployContext) -> Self:
        """The deployment of a run folder's plan. A dry run calls nothing; else the files that it names are packed too.

        Raises:
            ImpossibleError: synthesis failed, the nodes would have no EFA, or HyperPod's chart cannot be fetched.
        """
        cdk = cdk_of(context)
        amounts = quoted.amounts(context.max_usd)
        with stage(context.notify, "synthesising the stacks"):
            assembly = cdk.synth(folder.path / "plan.json", quoted.digest, folder.assembly, amounts)
        refuse_without_efa(quoted.plan, assembly, context.instances)
        if context.pinned is not None and assembly.names_chart:
            assembly = assembly.add_files(context.pinned())
        return cls(folder=folder, quoted=quoted, bundle=bundle, context=context, assembly=assembly)

    def with_image(self) -> Self:
        """The deployment with the image of its nodes, whose id the quote in the run folder then has.

        Raises:
            AwsError: a call failed.
        """
        image = cluster_of(self.plan).image(self.plan, self.session)
        if image is None:
            return self
        quote = {**self.folder.read_json("quote.json"), "image": image_object(image)}
        self.folder.write_json("quote.json", quote)
        return replace(self, quoted=replace(self.quoted, image=image))

    @property
    def plan(self) -> Plan:
        """The plan."""
        return self.quoted.plan

    @property
    def session(self) -> Session:
        """The account and region."""
        return Session(environment=self.context.environment, region=self.plan.place.region)

    def difference(self) -> AssemblyDifference:
        """What the assembly changes in the account."""
        return difference_of(self.assembly, self.session, self.plan.place.target)

    def approval(
        self, difference: AssemblyDifference, description: Iterable[str]
    ) -> AbstractContextManager[AbstractContextManager[None]]:
        """Show a difference and have it approved; the block deploys (`difference.agreed`)."""
        image = self.quoted.image
        lines = description if image is None else (*description, f"image of the nodes: {image.text}")
        return approved_deployment(difference, self.quoted, self.context, lines)

    def bring_up(self, approval: AbstractContextManager[None]) -> Deployed:
        """Deploy the assembly that was shown, write its outputs, and read back the resources.

        `around` surrounds only the deployment: it stops the fleet, if the update needs that.

        Raises:
            DeploymentFailedError: CloudFormation failed, or the resources differ from the plan.
        """
        plan, notify, session = self.plan, self.context.notify, self.session
        refuse_unless_training_plan_fits(plan, session, datetime.now(UTC))
        remove_leftover_log(plan, session, notify)
        empty_failed_creation(plan, session, notify)
        prepared = self._control_part_first()
        training_stack = stack_name(plan, TRAINING_STACK)
        image = self.quoted.image
        inputs = {} if image is None or image.kept else {f"{training_stack}:{IMAGE_INPUT}": image.id}
        with approval:
            outputs = prepared.deploy(inputs=inputs)
        with stage(notify):
            checked = self.verify_resources()
        notify(f"read back and as planned: {number_of(len(checked.verified), 'fact')}, stacks: {len(checked.stacks)}")
        return Deployed(outputs=outputs, verification=checked)

    def _control_part_first(self) -> "Deployment":
        """Deploy a new cluster's control plane before its nodes if this computer has to reach its API."""
        reach = self.context.reach
        if reach is None:
            return self
        stack = stacks.find(self.session, stack_name(self.plan, TRAINING_STACK))
        if stack is not None and OUTPUT_OF_NODES in stack.outputs:
            return self
        with TemporaryDirectory(prefix="slipway-control-") as place:
            part = control_part(self.assembly, Path(place) / "cdk.out")
            self.context.notify("control plane first: nodes start after its API has answered this computer")
            outputs = replace(self, assembly=part).deploy()
        reach(next(output for output in outputs.values() if "ClusterEndpoint" in output))
        # The account was prepared for both.
        return replace(self, context=replace(self.context, account=None))

    def deploy(self, *, inputs: Mapping[str, str] | None = None) -> Outputs:
        """Deploy the assembly with progress; return the outputs of its stacks, which the run folder keeps.

        `inputs` are parameters of its stacks (`cdk.commands.deploy`).

        Raises:
            DeploymentFailedError: CloudFormation failed.
        """
        cdk, notify, region = cdk_of(self.context), self.context.notify, self.plan.place.region
        if self.context.account is not None:
            qualifier = self.plan.request.security.qualifier
            account = self.context.account
            prepare_account(cdk, self.assembly, self.session, account=account, qualifier=qualifier, notify=notify)
        rates = rates_by_stack(self.assembly, self.context.catalog, region)
        logs = FailedLogs(session=self.session, plan=self.plan)
        with StackEvents(notify, rates, on_failed=logs.read) as events:
            try:
                outputs = deploy(
                    self.quoted,
                    self.bundle,
                    self.assembly,
                    cdk,
                    outputs=self.folder.path / "outputs.json",
                    now=datetime.now(UTC),
                    on_line=events.line,
                    inputs=inputs,
                )
            except DeploymentFailedError as failure:
                raise logs.explain(failure) from failure
        notify(f"deployed in {duration_text(events.elapsed_s())}: {', '.join(self.assembly.stacks)}")
        return outputs

    def show(self) -> None:
        """Report the deploy command; the runner of a dry run records it."""
        outputs, notify = self.folder.path / "outputs.json", self.context.notify
        now, cdk = datetime.now(UTC), cdk_of(self.context)
        deploy(self.quoted, self.bundle, self.assembly, cdk, outputs=outputs, now=now, on_line=notify)

    def verify_resources(self, *, endpoint: Endpoint | None = None, deployed_now: bool = True) -> StackVerification:
        """The resources as they are, compared with the plan; an endpoint has no cluster and no zone.

        Raises:
            DeploymentFailedError: the resources differ from the plan.
        """
        queues, zone = (None, None) if endpoint is not None else (self.context.queues, self.context.zone)
        return verify(
            self.plan,
            self.session,
            self.assembly.stacks,
            queues=queues,
            zone=zone,
            usd_per_hour=self.quoted.guard_usd_per_hour,
            endpoint=endpoint,
            deployed_now=deployed_now,
            max_usd=self.context.max_usd,
        )


def cdk_of(context: DeployContext) -> Cdk:
    """The CDK's program, as a deployment runs it."""
    return Cdk(runner=context.runner, environment=context.environment)
