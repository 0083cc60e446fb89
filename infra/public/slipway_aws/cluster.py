"""A plan's cluster or endpoint inside another CDK app, with that app's own VPC, bucket and key."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from aws_cdk import Annotations, IResource, Stack, Stage, Token, Validations
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.build import add_stacks, limits_of, refuse_unbuildable
from infra.chart_files import add_chart
from infra.parts.hyperpod_chart import HyperPodChart
from infra.pinned import pin_plan
from infra.stacks.sagemaker_endpoint import ServingStack
from launcher import Options, plan_file
from launcher.catalog.hyperpod_chart import chart_pins
from launcher.catalog.load import Catalog
from launcher.cdk.chart import download_command
from launcher.model.errors import ImpossibleError
from launcher.model.monitoring import JOBS_PREFIX
from launcher.model.plan import Plan
from launcher.model.quote import Quote
from launcher.records.quote_document import quote_document
from launcher.workflow.quote.price import price
from slipway_aws.budget import BudgetGate
from slipway_aws.flags import own_flags
from slipway_aws.priced import PricedConstruct
from slipway_aws.refusals import readable

_VPC, _SUBNET, _BUCKET = "vpc-00000000", "subnet-0000000{}", "slipway-bucket-of-the-app"
_KEY = "arn:aws:kms:{}:000000000000:key/00000000-0000-0000-0000-000000000000"
"""What stands in a plan for resources of the app, whose ids exist after their deployment: the plan is checked and
priced with an existing VPC, bucket and key, and its digest does not depend on the app."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """Resources of the app that a plan uses."""

    vpc: ec2.IVpc | None
    subnets: tuple[ec2.ISubnet, ...]
    bucket: s3.IBucket | None
    key: kms.IKey | None
    tags: Mapping[str, str]

    @property
    def created_resources(self) -> Iterator[IResource]:
        """Those that the app itself creates: their ids are known after their deployment."""
        if self.vpc is not None and Token.is_unresolved(self.vpc.vpc_id):
            yield self.vpc
        if self.bucket is not None and Token.is_unresolved(self.bucket.bucket_name):
            yield self.bucket
        if self.key is not None and Token.is_unresolved(self.key.key_arn):
            yield self.key

    def settings(self, region: str) -> tuple[str, ...]:
        """Their places in a plan for a region, as values over those of the plan file."""
        settings = [f"tags.{key}={value}" for key, value in self.tags.items()]
        if self.vpc is not None:
            subnets = [_literal(one.subnet_id) or _SUBNET.format(number) for number, one in enumerate(self.subnets)]
            settings.append(f"network.vpc_id={_literal(self.vpc.vpc_id) or _VPC}")
            settings.append(f"network.subnet_ids=[{', '.join(subnets)}]")
        if self.bucket is not None:
            settings.append(f"checkpoint.uri=s3://{_literal(self.bucket.bucket_name) or _BUCKET}/{JOBS_PREFIX}")
        if self.key is not None:
            settings.append(f"storage.kms_key_arn={_literal(self.key.key_arn) or _KEY.format(region)}")
        return tuple(settings)

    def put_into(self, plan: Plan) -> Plan:
        """The plan with the resources' own ids, which are tokens, and its digest as it was."""
        request = plan.request
        if self.vpc is not None:
            subnet_ids = tuple(subnet.subnet_id for subnet in self.subnets)
            request = replace(request, network=replace(request.network, vpc_id=self.vpc.vpc_id, subnet_ids=subnet_ids))
        if self.bucket is not None:
            uri = f"s3://{self.bucket.bucket_name}/{JOBS_PREFIX}"
            request = replace(request, checkpoint=replace(request.checkpoint, uri=uri))
        if self.key is not None:
            request = replace(request, storage=replace(request.storage, kms_key_arn=self.key.key_arn))
        return replace(plan, request=request)


class _PlanConstruct(PricedConstruct):
    """A plan's stacks below a construct of another app.

    Attributes:
        stacks: the plan's stacks, each deployed on its own; the last one is that of the cluster or endpoint.
        quote: the quote of the plan, `slipway.quote/1`.
    """

    SERVES = False

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        plan: str | Path,
        given: _Given,
        max_usd: Decimal | None,
        gate: bool,
    ) -> None:
        super().__init__(scope, id_)
        own_flags(self)
        with readable():
            self._priced, catalog = _quote_plan(Path(plan), given, max_usd, serves=self.SERVES)
            pinned = self._priced.plan
            refuse_unbuildable(pinned, catalog)
            account = _account(self, given, pinned)
            amounts = self._priced.amounts(max_usd)
            limits = limits_of(
                pinned,
                rate=amounts.get("usd_per_hour"),
                max_usd=max_usd,
                other_usd_per_hour=amounts.get("other_usd_per_hour", Decimal(0)),
                job_hours=amounts.get("job_hours"),
            )
        add_stacks(self, given.put_into(pinned), catalog=catalog, account=account, limits=limits)
        self.stacks = tuple(child for child in self.node.children if isinstance(child, Stack))
        self.quote: dict[str, Any] = quote_document(self._priced, 1, catalog.instance_types)
        verdict = self._priced.gate
        self.high_usd = None if self._priced.usd is None else self._priced.usd.high
        self.refusal = "" if verdict.allows_launch else verdict.reason
        self.remedy = verdict.hint
        self.gated = gate
        if gate:
            Validations.of(self).add_plugins(BudgetGate(self))
        elif self.refusal:
            text = f"the gate refuses this plan: {self.refusal}"
            Annotations.of(self.stacks[-1]).add_warning_v2("slipway:gate", text)


class SlipwayCluster(_PlanConstruct):
    """The cluster of a plan file, or what its training jobs need, in stacks of its own.

    The stacks have the names that `slipway launch` gives them, so that its commands find the cluster.

    Attributes:
        cluster_name: the cluster's name.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        plan: str | Path,
        vpc: ec2.IVpc | None = None,
        subnets: Sequence[ec2.ISubnet] | None = None,
        checkpoint_bucket: s3.IBucket | None = None,
        encryption_key: kms.IKey | None = None,
        tags: Mapping[str, str] | None = None,
        max_usd: Decimal | None = None,
        gate: bool = True,
        hyperpod_chart: str | Path | None = None,
    ) -> None:
        """Create the stacks of a plan.

        Args:
            scope: a stage, a stack, or any construct below one, in the plan's region.
            id_: the id within the parent.
            plan: a plan file that pins instance type, region and purchase option.
            vpc: the VPC of the nodes; None: that of the plan, or a new one.
            subnets: subnets of `vpc`: the nodes' is the first one, and EKS wants two zones; None: its private subnets.
            checkpoint_bucket: the bucket of the checkpoints; None: that of the plan, or a new one.
            encryption_key: the key of volumes, new buckets, logs and topics; docs/security.md has its policy.
            tags: more tags for all resources and nodes.
            max_usd: a limit in dollars below the plan's `budget.max_usd`, or for a plan without one.
            gate: False: a plan that the gate refuses is synthesised with a warning.
            hyperpod_chart: a folder with the pinned files of HyperPod's chart, for a cluster of hyperpod-eks.

        Raises:
            SlipwayError: the plan file is invalid or impossible, a resource is in another region, or a file of the
                chart is missing or is not the pinned one.
        """
        chosen = tuple(subnets) if subnets is not None else tuple(vpc.private_subnets) if vpc is not None else ()
        if vpc is not None and not chosen:
            raise ImpossibleError(
                f"{vpc.node.path} has no private subnets, and nodes need one: give subnets=[...], whose route to the"
                " internet leads through a NAT gateway"
            )
        if vpc is None and chosen:
            raise ImpossibleError("subnets belong to a VPC: give vpc= as well")
        given = _Given(vpc=vpc, subnets=chosen, bucket=checkpoint_bucket, key=encryption_key, tags=tags or {})
        super().__init__(scope, id_, plan=plan, given=given, max_usd=max_usd, gate=gate)
        self.cluster_name: str = self._priced.plan.cluster_name
        if any(isinstance(part, HyperPodChart) for stack in self.stacks for part in stack.node.children):
            self._add_chart(hyperpod_chart)

    def _add_chart(self, folder: str | Path | None) -> None:
        """Add HyperPod's chart to the app's assembly, or say how it gets there: no synthesis downloads it."""
        if folder is None:
            line = download_command(chart_pins(), Path("hyperpod-chart"))
            text = (
                f"cdk deploy needs HyperPod's chart: {line}; then SlipwayCluster(..., hyperpod_chart='hyperpod-chart')"
            )
            Annotations.of(self.stacks[-1]).add_warning_v2("slipway:chart", text)
            return
        stage = Stage.of(self)
        assert stage is not None  # noqa: S101 - every construct of an app has one
        with readable():
            add_chart(Path(stage.outdir), Path(folder), "cdk deploy")


class SlipwayEndpoint(_PlanConstruct):
    """The SageMaker endpoint of a serving plan, in a stack of its own.

    Attributes:
        endpoint_name: the endpoint's name.
        invoke_policy: the managed policy of those who call the endpoint.
    """

    SERVES = True

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        plan: str | Path,
        encryption_key: kms.IKey | None = None,
        tags: Mapping[str, str] | None = None,
        max_usd: Decimal | None = None,
        gate: bool = True,
    ) -> None:
        """Create the stack of a serving plan; the arguments are those of `SlipwayCluster`.

        Raises:
            SlipwayError: the plan file is invalid or impossible, or the key is in another region.
        """
        given = _Given(vpc=None, subnets=(), bucket=None, key=encryption_key, tags=tags or {})
        super().__init__(scope, id_, plan=plan, given=given, max_usd=max_usd, gate=gate)
        stack = next(stack for stack in self.stacks if isinstance(stack, ServingStack))
        self.endpoint_name: str = stack.endpoint_name
        self.invoke_policy: iam.IManagedPolicy = iam.ManagedPolicy.from_managed_policy_arn(
            self, "InvokePolicy", stack.callers.ref
        )


def _quote_plan(path: Path, given: _Given, max_usd: Decimal | None, *, serves: bool) -> tuple[Quote, Catalog]:
    """The quote of the only plan that a file states, with the catalog; `serves`: it must be a serving plan.

    The age of a price refuses nothing here: a synthesis buys nothing, and must give the same result tomorrow.

    Raises:
        SlipwayError: the file is invalid, does not state one plan, or is of the other kind.
    """
    regions = plan_file.load(path).target.region or ()
    options = Options(settings=given.settings(regions[0] if regions else ""), max_usd=max_usd)
    priced = price(path, options.moment(), replace(options.price_options(), any_age=True))
    if (priced.request.workload.serve is not None) != serves:
        kind, use = ("a training plan", "SlipwayCluster") if serves else ("a serving plan", "SlipwayEndpoint")
        raise ImpossibleError(f"{path} is {kind}", hint=f"build it with {use}")
    place = pin_plan(priced.request, priced.catalog).place
    ranks = (
        rank
        for rank, candidate in enumerate(priced.candidates, 1)
        # The traffic decides how many instances serve.
        if serves or (candidate.plan.place.target, candidate.plan.place.nodes) == (place.target, place.nodes)
    )
    rank = next(ranks, None)
    if rank is None:
        raise ImpossibleError(f"{path} has no price for {place.nodes} nodes on {place.target}", hint="pin target.nodes")
    return priced.quote(rank), priced.catalog


def _account(scope: Construct, given: _Given, plan: Plan) -> str | None:
    """The account of the stack or stage that a construct is in, else that of the app's resources; None if unknown.

    Raises:
        ImpossibleError: that stack or stage, or a resource that the app creates, is in another region or account.
    """
    region = plan.place.region
    enclosing = next(one for one in reversed(scope.node.scopes) if isinstance(one, Stack | Stage))
    stacks = [Stack.of(resource) for resource in given.created_resources]
    account = next(filter(None, (_literal(one.account) for one in (enclosing, *stacks))), None)
    known = _literal(enclosing.region)
    if known not in (None, region):
        raise ImpossibleError(
            f"{enclosing.node.path or 'the app'} is in {known}, the plan {plan.name} is for {region}",
            hint=f"give it env=Environment(region={region!r}), or change target.region of the plan",
        )
    for resource, stack in zip(given.created_resources, stacks, strict=True):
        # CloudFormation passes values on between stacks of one region and account alone.
        if (_literal(stack.region), _literal(stack.account)) != (region, account):
            account_of, region_of = _literal(stack.account), _literal(stack.region)
            where = f"{account_of or 'an unknown account'}, {region_of or 'an unknown region'}"
            expected = f"{account or 'an unknown account'}, {region}"
            raise ImpossibleError(
                f"{resource.node.path} is in {where}, the plan {plan.name} in {expected}",
                hint=f"give both stacks the same env=Environment(account=..., region={region!r})",
            )
    return account


def _literal(value: str | None) -> str | None:
    return None if value is None or Token.is_unresolved(value) else value
