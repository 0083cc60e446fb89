"""The second day of a cluster, on every target: a failed job is mended, keys change, down, and it is launched again."""

import json
import os
import re
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from launcher.aws import log_groups
from launcher.aws.session import Session
from launcher.catalog.load import load
from launcher.catalog.quotas import load_quotas
from launcher.model.emulator import EMULATED_ACCOUNT as ACCOUNT
from launcher.model.enums import TargetKind
from launcher.model.errors import DeclinedError, DeploymentFailedError, ImpossibleError
from launcher.model.report import RunStatus
from launcher.planning.quotas import quota_needs
from launcher.sandbox.cluster.training_plan import TrainingPlan
from launcher.sandbox.sandbox import Sandbox
from launcher.workflow.deploy.deployment import deploy_quote
from launcher.workflow.deploy.difference import update_obstacle
from launcher.workflow.deploy.down import RemovalTarget, survey, take_down
from launcher.workflow.doctor.diagnosis import diagnose, subject_of
from launcher.workflow.quote.existing_head import existing_head_type
from launcher.workflow.quote.fresh import Picked
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from launcher.workflow.run.job import waits_s
from launcher.workflow.run.launch import launch_quote
from launcher.workflow.run.launch_options import LaunchOptions
from launcher.workflow.run.plan_launch import Fallback
from tests.emulators.aws_account import in_front_of
from tests.sandbox.clients import client
from tests.unit.workflow.doctor.conftest import METRIC, allowed, quotas
from tests.unit.workflow.doctor.reservations import HELD
from tests.waiting import until

REGION = "us-east-2"
SAVE = 'cd "$SLIPWAY_CHECKPOINT_DIR"; mkdir step-{0}; echo x >step-{0}/weights'
PLAN = {
    "slipway": 1,
    "name": "second",
    "workload": {"train": {"model": {"params_b": 0.0002}, "method": "pretrain", "hours": 0.5}},
    "purchase": {"option": "on-demand", "price_overrides": {"p5.48xlarge/on-demand": "50"}},
    "run": {"command": ["sh", "-c", "exit 3"], "retries": 0},
}
FREE, STOP, NEW = "free", "stopped fleet", "new cluster"
ZONE: tuple[str, str, object, str] = ("target", "az_id", "use2-az2", NEW)
EVERYWHERE: list[tuple[str, str, object, str]] = [
    ("guardrails", "ttl_h", 5, FREE),
    ("guardrails", "notify", ["a@example.com"], FREE),
    ("guardrails", "hung_minutes", 45, FREE),
    ("budget", "max_usd", 9000, FREE),
    ("budget", "stop_at_usd", 8000, FREE),
    ("storage", "access_log", True, FREE),
]
KEYS: dict[str, list[tuple[str, str, object, str]]] = {
    "parallelcluster": [
        *EVERYWHERE,
        ("guardrails", "idle_minutes", 30, STOP),
        ("target", "nodes", 4, FREE),
        ("target", "placement_group", False, STOP),
        ("target", "os", "alinux2023", NEW),
        ("storage", "head_node", "m6i.4xlarge", NEW),
        ("storage", "lustre_gib", 1200, FREE),
        ("storage", "login_nodes", 2, FREE),
    ],
    "hyperpod-slurm": [
        *EVERYWHERE,
        ("guardrails", "idle_minutes", 30, FREE),
        ("target", "nodes", 3, FREE),
        ("target", "instance_type", "p4d.24xlarge", NEW),
        ("storage", "head_node", "m6i.4xlarge", NEW),
        ("storage", "login_nodes", 1, FREE),
    ],
    "eks": [
        *EVERYWHERE,
        ("guardrails", "idle_minutes", 30, FREE),
        ("network", "api_cidrs", ["192.0.3.0/24"], FREE),
        ("target", "nodes", 3, FREE),
        ("target", "instance_type", "trn1.32xlarge", NEW),
        ("purchase", "option", "spot", NEW),
        ("storage", "head_node", "m6i.4xlarge", FREE),
    ],
    "hyperpod-eks": [
        *EVERYWHERE,
        ("guardrails", "idle_minutes", 30, FREE),
        ("network", "api_cidrs", ["192.0.3.0/24"], FREE),
        ("target", "nodes", 3, FREE),
        ("target", "instance_type", "p4d.24xlarge", NEW),
        ("storage", "head_node", "m6i.4xlarge", NEW),
    ],
    "ec2": [
        *EVERYWHERE,
        ("guardrails", "idle_minutes", 30, FREE),
        ("target", "nodes", 3, FREE),
    ],
}
"""For each target keys of a plan, and what their change needs of the cluster that is there; a zone needs a new one."""
BLOCK_ID = "cr-0123456789abcdef0"
BLOCK = (("purchase", "option", "capacity-block"), ("purchase", "reservation", {"id": BLOCK_ID, "fee_usd": 5000}))
BOUGHT = TrainingPlan(
    arn=f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:training-plan/second",
    instance_type="ml.p5.48xlarge",
    count=2,
    zone_id="use2-az1",
    starts_at=None,
    ends_at=None,
    fee_usd="5000",
)
PREPAID = {
    "parallelcluster": (BLOCK, "0 of 2 x p5.48xlarge in use2-az1 and 2 of this plan's own cluster"),
    "hyperpod-slurm": (
        (
            ("purchase", "option", "training-plan"),
            ("purchase", "training_plan", {"arn": BOUGHT.arn, "count": 2, "fee_usd": 5000}),
        ),
        "training plan: Active, 2 instances in use2-az1",
    ),
}
PREPAID |= {
    "eks": PREPAID["parallelcluster"],
    "hyperpod-eks": PREPAID["hyperpod-slurm"],
    "ec2": (BLOCK, "2 of 2 x p5.48xlarge in use2-az1"),
}
"""What is bought in advance on each target, and what the doctor says of it at a second launch."""


def with_change(plan, *keys):
    plan = deepcopy(plan)
    for section, key, value, *_ in keys:
        plan.setdefault(section, {})[key] = value
    return plan


class Account:
    """A sandbox, and what a person types in it.

    From the second launch on it is examined as an account is: every quota is what the plan needs, and all of it is used
    while its cluster stands; a Capacity Block has as many machines as the plan has nodes.
    """

    def __init__(self, kind, sandbox, front, root):
        self.sandbox, self.front, self.root, self.told = sandbox, front, root, []
        target = {"region": REGION, "az_id": "use2-az1", "instance_type": "p5.48xlarge", "nodes": 2, "kind": kind}
        self.plan = with_change(PLAN, *(("target", key, value) for key, value in target.items()))
        environment = sandbox.process_environment({})
        self.session = Session(environment=environment, region=REGION)
        programs = root / "programs"
        programs.mkdir()
        for name in ("aws", "session-manager-plugin"):
            (programs / name).touch(mode=0o755)
        path = f"{programs}:{os.environ['PATH']}"
        self.examined = {**environment, "AWS_ENDPOINT_URL": front.url, "PATH": path}
        front.canned["iam.SimulatePrincipalPolicy"] = allowed
        front.canned["ec2.DescribeCapacityReservations"] = lambda _: {"CapacityReservations": [self.block()]}
        front.canned["service-quotas.ListAWSDefaultServiceQuotas"] = {"Quotas": []}
        self.used = None

    def priced(self, plan, **options):
        path = self.root / "second.json"
        path.write_text(json.dumps(plan))
        priced = price(path, datetime.now(UTC), PriceOptions(any_age=True, **options))
        self.told = []
        return Picked(priced, *pick(priced, None))

    def options(self):
        settings = {"root": self.root, "sandbox": True, "emulator": self.sandbox, "notify": self.told.append}
        return LaunchOptions(progress=lambda _: None, poll_s=0.3, **settings)

    def launch(self, plan):
        priced, rank, quoted = self.priced(plan)
        self.used = self.examine(quoted.plan, priced.catalog)
        return launch_quote(priced, rank, quoted, self.options())[1]

    def deploy(self, plan, **options):
        priced, rank, quoted = self.priced(plan)
        # What is declined, or refused before the question, is not examined: that takes its time.
        used = self.used if "approve" in options else self.examine(quoted.plan, priced.catalog)
        deploy_quote(priced, rank, quoted, replace(self.options(), **options))
        self.used = used

    def examine(self, plan, catalog):
        """What a plan needs of every quota, once the account is found ready for it."""
        needs = quota_needs(plan, catalog.instance_types, load_quotas())
        amounts = {need.name: need.amount for need in needs}
        if self.used is None:  # the first launch prepares the account
            return amounts
        # Plain instances end with their job.
        stays = self.sandbox.clusters() and plan.place.target is not TargetKind.EC2
        now, used = datetime.now(UTC), self.used if stays else {}
        # What one cluster may have at most is used by none.
        counted = [need.name for need in needs if not need.name.startswith("Maximum")]
        metrics = {name: {**METRIC, "MetricDimensions": {"Resource": f"{name} {now}"}} for name in counted}
        cloudwatch = client(self.sandbox, "cloudwatch", region_name=REGION)
        for name, metric in metrics.items():
            dimensions = [{"Name": key, "Value": value} for key, value in metric["MetricDimensions"].items()]
            point = {"MetricName": metric["MetricName"], "Dimensions": dimensions, "Value": used.get(name, 0)}
            moment = {"Timestamp": now - timedelta(minutes=6)}
            cloudwatch.put_metric_data(Namespace=metric["MetricNamespace"], MetricData=[{**point, **moment}])
        usage = {name: {"Value": float(amounts[name]), "UsageMetric": metrics[name]} for name in counted}
        self.front.canned["service-quotas.ListServiceQuotas"] = lambda sent: {
            "Quotas": [{**quota, **usage.get(quota["QuotaName"], {})} for quota in quotas(sent["ServiceCode"])]
        }
        found = diagnose(subject_of(plan, REGION, catalog=catalog, environment=self.examined, now=now))
        assert not found.failures, found.failures
        self.told += [f"{check.name}: {check.got}" for check in found.checks]
        return amounts

    def block(self):
        """The reservation, with as many free machines as no instance holds."""
        filters = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
        pages = client(self.sandbox, "ec2", region_name=REGION).describe_instances(Filters=filters)["Reservations"]
        occupied = sum(
            instance.get("CapacityReservationId") == BLOCK_ID for page in pages for instance in page["Instances"]
        )
        now = datetime.now(UTC)
        window = {"StartDate": now - timedelta(hours=1), "EndDate": now + timedelta(days=1)}
        return {**HELD, "CapacityReservationId": BLOCK_ID, "AvailableInstanceCount": 2 - occupied, **window}

    def next_candidate(self, plan):
        """Whether a waiting job would be taken back, where no machines come for it in its zone."""
        picked = self.priced(plan)
        other = self.root / "other.json"
        other.write_text(json.dumps(with_change(plan, ZONE)))
        fallback = Fallback(
            options=self.options(),
            candidates=lambda: price(other, datetime.now(UTC), PriceOptions(any_age=True, everything=True)),
            requote=lambda _: picked,
            options_for=lambda _: self.options(),
            obstacle=partial(update_obstacle, base=self.root, environment=self.session.environment),
        )
        fallback.tried.append(picked.quoted.plan.place)
        return fallback.announce_next()

    def events(self):
        """How many events every stack has: a deployment adds some."""
        cloudformation = client(self.sandbox, "cloudformation", region_name=REGION)
        stacks = [stack["StackName"] for stack in cloudformation.describe_stacks()["Stacks"]]
        return {name: len(cloudformation.describe_stack_events(StackName=name)["StackEvents"]) for name in stacks}


def no():
    raise DeclinedError("nothing was done")


# A story takes a minute of a core: HyperPod's two are those of ParallelCluster and EKS with other calls.
def stories(slow):
    marks = {
        kind: [pytest.mark.xdist_group(f"second-{kind}"), *([pytest.mark.slow] if kind in slow else [])]
        for kind in KEYS
    }
    return [pytest.param(kind, marks=marks[kind]) for kind in KEYS]


HEADS = {"parallelcluster": "m6i.large", "hyperpod-slurm": "m6i.xlarge", "hyperpod-eks": "m6i.xlarge"}
"""The types of the head nodes that keep their type."""


@pytest.mark.parametrize("kind", stories(slow=("hyperpod-slurm", "hyperpod-eks", "ec2")))
def test_cluster_is_reused_changed_removed_and_recreated(kind, tmp_path):
    with Sandbox(region=REGION, scheduler="local") as sandbox, in_front_of(sandbox.endpoint) as front:
        account = Account(kind, sandbox, front, tmp_path)
        with pytest.raises(DeploymentFailedError, match="failed"):
            account.launch(account.plan)
        events = account.events()

        mended = with_change(account.plan, ("run", "command", ["sh", "-c", SAVE.format(1)]))
        assert account.launch(mended).status is RunStatus.SUCCEEDED
        assert account.events() == events, "\n".join(account.told)
        assert "cluster second exists as planned: nothing is deployed" in account.told
        own = any("of it used" in line and "by this plan's own stacks" in line for line in account.told)
        assert own is (kind != "ec2")

        assert waits_s(account.priced(mended).quoted.plan) == (9000 if "hyperpod" in kind else 1800)
        assert not account.next_candidate(mended)
        assert any("in use2-az2 is left out: " in line for line in account.told), "\n".join(account.told)
        assert account.told[-1].endswith("the job continues to wait")

        there = existing_head_type(account.priced(mended).quoted.plan, account.session)
        assert there == HEADS.get(kind)

        refused = [change for change in KEYS[kind] if change[3] == NEW]
        allowed = [change for change in KEYS[kind] if change[3] != NEW]
        # A zone that the network has not; what EKS replaces under its name, one by one; the others together.
        groups = [[ZONE], *[[change] for change in refused]] if kind == "eks" else [[ZONE], refused]
        for keys in filter(None, groups):
            with pytest.raises(ImpossibleError, match=r"cannot be changed in this way|refuses this") as problem:
                account.deploy(with_change(mended, *keys), approve=no)
            paths = {finding.path for finding in problem.value.findings} - {""}
            assert paths <= {f"{section}.{key}" for section, key, *_ in keys}
            assert kind == "eks" or keys == [ZONE] or len(paths) == len(keys)
        assert account.events() == events

        account.deploy(with_change(mended, *allowed))
        assert account.events() != events
        text = "\n".join(account.told)
        stops = {f"{section}.{key}" for section, key, _, needs in allowed if needs == STOP}
        assert set(re.findall(rf"{STOP} .* \((.*)\)", text)) == stops
        assert ("the compute fleet is stopped for this" in text) is (kind == "parallelcluster")
        assert "read back and as planned" in text

        found = survey(
            RemovalTarget(cluster="second", region=REGION, network=None), account.session, load(), erase=False
        )
        take_down(found, account.session, load(), account.told.append)
        assert not sandbox.clusters()
        log = "/aws/eks/slipway-second/cluster"
        has_control_plane = "eks" in kind
        assert (log in {group.name for group in log_groups.log_groups(account.session, log)}) is has_control_plane

        bought, message = PREPAID[kind]
        sandbox.create_prerequisites(training_plans=[BOUGHT])
        again = with_change(mended, *bought, ("run", "command", ["sh", "-c", SAVE.format(2)]))
        assert account.launch(again).status is RunStatus.SUCCEEDED
        assert any(f"removed log group {log}" in line for line in account.told) is has_control_plane
        # HyperPod's instances are in AWS's account, and plain instances end with their job.
        free = 2 if kind == "ec2" or "hyperpod" in kind else 0
        until(lambda: account.block()["AvailableInstanceCount"] == free)
        last = with_change(again, ("run", "command", ["sh", "-c", SAVE.format(3)]))
        assert account.launch(last).status is RunStatus.SUCCEEDED
        assert any(message in line for line in account.told), "\n".join(account.told)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parallelcluster", "eks"])
def test_open_reservation_filled_by_own_nodes_is_reused(kind, tmp_path):
    """HyperPod's instances run in AWS's account, and in no reservation of this one."""
    with Sandbox(region=REGION, scheduler="local") as sandbox, in_front_of(sandbox.endpoint) as front:
        account = Account(kind, sandbox, front, tmp_path)
        del front.canned["ec2.DescribeCapacityReservations"]
        ec2 = client(sandbox, "ec2", region_name=REGION)
        arguments = {"InstanceType": "p5.48xlarge", "InstancePlatform": "Linux/UNIX", "AvailabilityZoneId": "use2-az1"}
        reservation = ec2.create_capacity_reservation(**arguments, InstanceCount=2)["CapacityReservation"]
        name = reservation["CapacityReservationId"]
        assert (reservation["InstanceMatchCriteria"], reservation["AvailableInstanceCount"]) == ("open", 2)

        def free():
            (found,) = ec2.describe_capacity_reservations(CapacityReservationIds=[name])["CapacityReservations"]
            return found["AvailableInstanceCount"]

        run = ("run", "command", ["sh", "-c", SAVE.format(1)])
        reserved = with_change(account.plan, run, ("purchase", "reservation", {"id": name}))
        assert account.launch(reserved).status is RunStatus.SUCCEEDED
        assert free() == 0
        again = with_change(reserved, ("run", "command", ["sh", "-c", SAVE.format(2)]))
        assert account.launch(again).status is RunStatus.SUCCEEDED
        expected = "reservation: active, 0 of 2 x p5.48xlarge in use2-az1 and 2 of this plan's own cluster, no end"
        assert expected in account.told, "\n".join(account.told)

        found = survey(
            RemovalTarget(cluster="second", region=REGION, network=None), account.session, load(), erase=False
        )
        take_down(found, account.session, load(), account.told.append)
        assert free() == 2
        # Another's instances of that type in that zone run in it: it is open.
        subnets = ec2.describe_subnets(Filters=[{"Name": "availability-zone-id", "Values": ["use2-az1"]}])["Subnets"]
        ec2.run_instances(
            ImageId="ami-12c6146b", InstanceType="p5.48xlarge", SubnetId=subnets[0]["SubnetId"], MinCount=2, MaxCount=2
        )
        assert free() == 0
        with pytest.raises(AssertionError, match="0 of its instances are free"):
            account.launch(again)
