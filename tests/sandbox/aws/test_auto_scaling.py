"""The sandbox's Auto Scaling groups: refusals, user data run for real, hooks, replacements, lack of capacity."""

import base64
import itertools
import json
import time
from datetime import UTC, datetime, timedelta

import pytest
from botocore.exceptions import ClientError

from tests.infra.guard_modules import guard_module
from tests.sandbox.aws.answers import REGION

USER_DATA = """#!/bin/bash
metadata="$AWS_EC2_METADATA_SERVICE_ENDPOINT"
token="$(curl -sf -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' "$metadata/latest/api/token")"
for path in instance-id tags/instance/slipway:run; do
    curl -sf -H "X-aws-ec2-metadata-token: $token" "$metadata/latest/meta-data/$path"
    echo
done >"$TMPDIR/seen"
sleep 600
"""
HOOK = {
    "LifecycleHookName": "save",
    "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING",
    "HeartbeatTimeout": 30,
}
"""A hook with the shortest time that AWS takes: a group without it ends at once."""
PATIENCE_S = 60


@pytest.fixture(scope="module")
def subnet(client):
    ec2 = client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    return ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]


@pytest.fixture
def create(client, subnet):
    """Creates a launch template and a group, with changes of either."""

    def make(name, *, data=None, user_data=USER_DATA, **changes):
        encoded = base64.b64encode(user_data.encode()).decode()
        template = {
            "ImageId": "ami-00000000000000000",
            "InstanceType": "g5.xlarge",
            "UserData": encoded,
            "MetadataOptions": {"HttpTokens": "required", "InstanceMetadataTags": "enabled"},
            **(data or {}),
        }
        made = client("ec2").create_launch_template(LaunchTemplateName=name, LaunchTemplateData=template)
        specification = {"LaunchTemplateId": made["LaunchTemplate"]["LaunchTemplateId"], "Version": "1"}
        request = {
            "AutoScalingGroupName": name,
            "MinSize": 0,
            "MaxSize": 2,
            "VPCZoneIdentifier": subnet,
            "LaunchTemplate": specification,
        }
        client("autoscaling").create_auto_scaling_group(**{**request, **changes})
        return specification

    return make


@pytest.fixture
def group(client):
    def described(name):
        (found,) = client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"]
        return found

    return described


def failed_activity(client, name):
    """The newest failed activity of a group, None without one."""
    answer = client("autoscaling").describe_scaling_activities(AutoScalingGroupName=name)
    return next((activity for activity in answer["Activities"] if activity["StatusCode"] == "Failed"), None)


def living(client):
    """The instances that run or start."""
    states = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    answer = client("ec2").describe_instances(Filters=states)
    return [instance for reservation in answer["Reservations"] for instance in reservation["Instances"]]


def until(condition):
    end = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return value


def in_service(described):
    return [each["InstanceId"] for each in described["Instances"] if each["LifecycleState"] == "InService"]


def run(client, instance, line):
    ssm = client("ssm")
    sent = ssm.send_command(InstanceIds=[instance], DocumentName="AWS-RunShellScript", Parameters={"commands": [line]})[
        "Command"
    ]["CommandId"]
    shown = {}

    def ended():
        shown.update(ssm.get_command_invocation(CommandId=sent, InstanceId=instance))
        return shown["Status"] != "InProgress"

    until(ended)
    return shown


def test_instance_runs_user_data_reads_tags_and_waits_for_hook(client, create, group, world_sandbox):
    create("alive", LifecycleHookSpecificationList=[HOOK])
    assert "the job on alive" not in world_sandbox.running_jobs()
    scaling = client("autoscaling")
    hooks = scaling.describe_lifecycle_hooks(AutoScalingGroupName="alive")["LifecycleHooks"]
    assert [(hook["LifecycleHookName"], hook["HeartbeatTimeout"]) for hook in hooks] == [("save", 30)]
    tag = {"ResourceId": "alive", "ResourceType": "auto-scaling-group", "Key": "slipway:run", "Value": "job-1"}
    scaling.create_or_update_tags(Tags=[{**tag, "PropagateAtLaunch": True}])
    scaling.set_desired_capacity(AutoScalingGroupName="alive", DesiredCapacity=1)
    (instance,) = until(lambda: in_service(group("alive")))

    def seen():
        lines = run(client, instance, "cat $TMPDIR/seen")["StandardOutputContent"].split()
        return lines if len(lines) > 1 else []

    assert until(seen) == [instance, "job-1"]
    assert run(client, instance, "exit 3")["ResponseCode"] == 3
    assert "the job on alive" in world_sandbox.running_jobs()
    scaling.set_desired_capacity(AutoScalingGroupName="alive", DesiredCapacity=0)
    until(lambda: group("alive")["Instances"][0]["LifecycleState"] == "Terminating:Wait")
    scaling.complete_lifecycle_action(
        AutoScalingGroupName="alive",
        LifecycleHookName="save",
        InstanceId=instance,
        LifecycleActionResult="CONTINUE",
    )
    until(lambda: not group("alive")["Instances"])
    assert "the job on alive" not in world_sandbox.running_jobs()
    (reservation,) = client("ec2").describe_instances(InstanceIds=[instance])["Reservations"]
    assert reservation["Instances"][0]["State"]["Name"] == "terminated"


@pytest.mark.slow
def test_lost_instance_is_replaced(client, create, group, world_sandbox):
    create("lost", LifecycleHookSpecificationList=[HOOK])
    client("autoscaling").set_desired_capacity(AutoScalingGroupName="lost", DesiredCapacity=1)
    (first,) = until(lambda: in_service(group("lost")))
    world_sandbox.fail_node("lost", first)
    (second,) = until(lambda: in_service(group("lost")))
    assert second != first
    client("autoscaling").delete_auto_scaling_group(AutoScalingGroupName="lost", ForceDelete=True)


def test_lack_of_capacity_is_failed_activity_until_capacity_returns(client, create, group, world_sandbox):
    create("dry")
    world_sandbox.limit_instances(lacking=["g5.xlarge"])
    client("autoscaling").set_desired_capacity(AutoScalingGroupName="dry", DesiredCapacity=1)

    def newest():
        answer = client("autoscaling").describe_scaling_activities(AutoScalingGroupName="dry")
        return answer["Activities"][:1]

    (activity,) = until(newest)
    assert activity["StatusCode"] == "Failed"
    assert (
        f"do not have sufficient g5.xlarge capacity in the Availability Zone you requested ({REGION}"
        in (activity["StatusMessage"])
    )
    world_sandbox.limit_instances()
    until(lambda: in_service(group("dry")))
    client("autoscaling").delete_auto_scaling_group(AutoScalingGroupName="dry", ForceDelete=True)


def test_lack_of_capacity_in_two_zones_starts_instance_in_third(client, create, group, subnet, world_sandbox):
    ec2 = client("ec2")
    (first,) = ec2.describe_subnets(SubnetIds=[subnet])["Subnets"]
    free = {zone["ZoneName"] for zone in ec2.describe_availability_zones()["AvailabilityZones"]}
    others = sorted(free - {first["AvailabilityZone"]})[:2]
    cidrs = zip(others, ("10.0.1.0/24", "10.0.2.0/24"), strict=True)
    subnets = [
        ec2.create_subnet(VpcId=first["VpcId"], CidrBlock=cidr, AvailabilityZone=zone)["Subnet"]["SubnetId"]
        for zone, cidr in cidrs
    ]
    create("zones", VPCZoneIdentifier=",".join([subnet, *subnets]))
    world_sandbox.limit_instances(lacking=[f"g5.xlarge/{zone}" for zone in (first["AvailabilityZone"], others[0])])
    try:
        client("autoscaling").set_desired_capacity(AutoScalingGroupName="zones", DesiredCapacity=1)
        (instance,) = until(lambda: group("zones")["Instances"])
        assert instance["AvailabilityZone"] == others[1]
        assert failed_activity(client, "zones") is None
    finally:
        world_sandbox.limit_instances()
        client("autoscaling").delete_auto_scaling_group(AutoScalingGroupName="zones", ForceDelete=True)


NUMBERS = itertools.count(1)


def mixed(specification, types, **distribution):
    """A mixed instances policy; on spot if it names a strategy for spot."""
    on_demand = 100 if "OnDemandAllocationStrategy" in distribution else 0
    shares = {"OnDemandBaseCapacity": 0, "OnDemandPercentageAboveBaseCapacity": on_demand}
    overrides = [{"InstanceType": type_} for type_ in types]
    return {
        "LaunchTemplate": {"LaunchTemplateSpecification": specification, "Overrides": overrides},
        "InstancesDistribution": {**shares, **distribution},
    }


@pytest.fixture
def mixed_group(client, create, subnet, world_sandbox):
    """Creates a group over three types and two zones, with EC2's capacity and prices, and removes it."""
    ec2, made = client("ec2"), []
    (first,) = ec2.describe_subnets(SubnetIds=[subnet])["Subnets"]
    zones = sorted(zone["ZoneName"] for zone in ec2.describe_availability_zones()["AvailabilityZones"])
    (other,) = [zone for zone in zones if zone != first["AvailabilityZone"]][-1:]
    second = ec2.create_subnet(VpcId=first["VpcId"], CidrBlock="10.0.9.0/24", AvailabilityZone=other)["Subnet"]
    places = {"a": first["AvailabilityZone"], "b": other}

    def named(limits):
        """Limits of pools, such as g5.xlarge/a, by the names of zones."""
        return {f"{pool.partition('/')[0]}/{places[pool[-1]]}": value for pool, value in limits.items()}

    def make(distribution, desired, *, free=(), spot_usd=(), lacking=(), **quotas):
        scaling, name = client("autoscaling"), f"mixed-{next(NUMBERS)}"
        world_sandbox.limit_instances(
            free=named(dict(free)),
            spot_usd=named(dict(spot_usd)),
            lacking=list(named(dict.fromkeys(lacking))),
            **quotas,
        )
        specification = create(f"{name}-template")
        scaling.create_auto_scaling_group(
            AutoScalingGroupName=name,
            MinSize=0,
            MaxSize=4,
            DesiredCapacity=desired,
            VPCZoneIdentifier=f"{subnet},{second['SubnetId']}",
            MixedInstancesPolicy=mixed(specification, ("g6.xlarge", "g5.xlarge", "inf2.xlarge"), **distribution),
        )
        made.append(name)
        return name

    yield make, {zone: letter for letter, zone in places.items()}
    world_sandbox.limit_instances()
    scaling = client("autoscaling")
    for name in made:
        scaling.delete_auto_scaling_group(AutoScalingGroupName=name, ForceDelete=True)
    ec2.delete_subnet(SubnetId=second["SubnetId"])


USD = {f"{type_}/{zone}": usd for type_, usd in (("g6.xlarge", "0.6"), ("g5.xlarge", "0.4")) for zone in "ab"} | {
    "inf2.xlarge/a": "0.3",
    "inf2.xlarge/b": "0.5",
}
"""Spot prices: inf2 is the cheapest in the first zone, g5 in the second one."""
FEW = {"inf2.xlarge/a": 1, "g5.xlarge/b": 0}


@pytest.mark.parametrize(
    "distribution, free, expected",
    [
        ({"OnDemandAllocationStrategy": "prioritized"}, {}, ["g6.xlarge/a", "g6.xlarge/b"]),
        ({"OnDemandAllocationStrategy": "prioritized"}, {"g6.xlarge/a": 0}, ["g5.xlarge/a", "g6.xlarge/b"]),
        ({"OnDemandAllocationStrategy": "lowest-price"}, {}, ["inf2.xlarge/a", "inf2.xlarge/b"]),
        ({"SpotAllocationStrategy": "price-capacity-optimized"}, {}, ["inf2.xlarge/a", "g5.xlarge/b"]),
        # Two instances are wanted: a pool of one is not among those with the highest capacity.
        ({"SpotAllocationStrategy": "price-capacity-optimized"}, FEW, ["g5.xlarge/a", "inf2.xlarge/b"]),
        ({"SpotAllocationStrategy": "capacity-optimized"}, FEW, ["g6.xlarge/a", "g6.xlarge/b"]),
        (
            {"SpotAllocationStrategy": "capacity-optimized-prioritized"},
            {"g6.xlarge/a": 1},
            ["g5.xlarge/a", "g6.xlarge/b"],
        ),
        ({"SpotAllocationStrategy": "lowest-price"}, FEW, ["inf2.xlarge/a", "inf2.xlarge/b"]),
    ],
)
def test_allocation_strategy_chooses_types_within_zones_balanced_by_count(
    mixed_group, group, distribution, free, expected
):
    make, letters = mixed_group
    name = make(distribution, 2, free=free, spot_usd=USD)
    until(lambda: len(in_service(group(name))) == 2)
    pools = [f"{each['InstanceType']}/{letters[each['AvailabilityZone']]}" for each in group(name)["Instances"]]
    assert sorted(pools, key=lambda pool: pool[-1]) == expected


ALL = [f"{type_}/{zone}" for type_ in ("g6.xlarge", "g5.xlarge", "inf2.xlarge") for zone in "ab"]


@pytest.mark.parametrize(
    "distribution, limits, message",
    [
        (
            {"SpotAllocationStrategy": "price-capacity-optimized"},
            {"lacking": ALL},
            "Could not launch Spot Instances. InsufficientInstanceCapacity - There is no Spot capacity available that",
        ),
        (
            {"OnDemandAllocationStrategy": "prioritized"},
            {"lacking": ALL},
            "Could not launch On-Demand Instances. InsufficientInstanceCapacity - We currently do not have sufficient",
        ),
        (
            {"SpotAllocationStrategy": "price-capacity-optimized"},
            {"spot_vcpus": 3},
            "Could not launch Spot Instances. MaxSpotInstanceCountExceeded - Max spot instance count exceeded.",
        ),
        (
            {"OnDemandAllocationStrategy": "prioritized"},
            {"vcpus": 3},
            "Could not launch On-Demand Instances. VcpuLimitExceeded - You have requested more vCPU capacity",
        ),
        (
            {"SpotAllocationStrategy": "price-capacity-optimized", "SpotMaxPrice": "0.1"},
            {"spot_usd": USD},
            "Could not launch Spot Instances. SpotMaxPriceTooLow - Your Spot request price of 0.1 is lower than",
        ),
    ],
)
def test_refused_launch_of_mixed_group_is_failed_activity_with_market_and_code(
    client, mixed_group, distribution, limits, message
):
    name = mixed_group[0](distribution, 1, **limits)
    activity = until(lambda: failed_activity(client, name))
    assert activity["StatusMessage"].startswith(message)
    assert activity["StatusMessage"].endswith(". Launching EC2 instance failed.")


@pytest.mark.parametrize(
    "distribution, message",
    [
        (
            {"SpotAllocationStrategy": "capacity-optimized", "SpotInstancePools": 2},
            "only available with the lowest-price",
        ),
        ({"SpotAllocationStrategy": "lowest-price", "SpotInstancePools": 21}, "between 1 and 20, got 21"),
        ({"SpotAllocationStrategy": "cheapest"}, "SpotAllocationStrategy must be one of"),
        ({"OnDemandPercentageAboveBaseCapacity": 101}, "between 0 and 100, got 101"),
    ],
)
def test_invalid_distribution_refused(mixed_group, distribution, message):
    with pytest.raises(ClientError, match=message):
        mixed_group[0](distribution, 0)


SPOT = {"InstanceMarketOptions": {"MarketType": "spot"}}


@pytest.mark.parametrize(
    "quota",
    [
        (SPOT, {"spot_vcpus": 4}, "Max spot instance count exceeded"),
        ({}, {"vcpus": 4}, "You have requested more vCPU capacity than your current vCPU limit of 4"),
    ],
)
def test_quota_allows_the_first_instance_and_refuses_the_second(client, create, world_sandbox, quota):
    market, limits, message = quota
    create("quota", data=market)
    world_sandbox.limit_instances(**limits)
    try:
        client("autoscaling").set_desired_capacity(AutoScalingGroupName="quota", DesiredCapacity=2)
        activity = until(lambda: failed_activity(client, "quota"))
        assert activity["StatusMessage"].startswith(message)
        assert activity["StatusMessage"].endswith("Launching EC2 instance failed.")
        assert len(living(client)) == 1
    finally:
        world_sandbox.limit_instances()
        client("autoscaling").delete_auto_scaling_group(AutoScalingGroupName="quota", ForceDelete=True)
        until(lambda: not living(client))
        client("ec2").delete_launch_template(LaunchTemplateName="quota")


def spot_usd(client):
    """The prices of p5 in effect by zone."""
    answer = client("ec2").describe_spot_price_history(
        InstanceTypes=["p5.48xlarge"], ProductDescriptions=["Linux/UNIX"], StartTime=datetime.now(UTC)
    )
    return {entry["AvailabilityZone"]: float(entry["SpotPrice"]) for entry in answer["SpotPriceHistory"]}


def test_guard_refuses_replacement_whose_spot_price_exceeds_the_budget(client, create, group, subnet, world_sandbox):
    (described,) = client("ec2").describe_subnets(SubnetIds=[subnet])["Subnets"]
    zone = described["AvailabilityZone"]
    tags = {"slipway:cluster": "dear", "slipway:machine": "node", "slipway:run": "dear-1"}
    tagged = {"ResourceType": "instance", "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}
    create("dear", data={**SPOT, "InstanceType": "p5.48xlarge", "TagSpecifications": [tagged]})
    body = json.dumps({"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}})
    client("ssm").put_parameter(Name="/slipway/dear/guard", Value="{}", Type="String")
    variables = {
        "CLUSTER": "dear",
        "EC2": "dear",
        "STACK": client("cloudformation").create_stack(StackName="dear", TemplateBody=body)["StackId"],
        "TOPICS": client("sns").create_topic(Name="dear")["TopicArn"],
        "AWS_REGION": REGION,
        "STATE": "/slipway/dear/guard",
        "PREPAID": "false",
        "IDLE_MINUTES": "0",
        "USD_PER_NODE_HOUR": "60",
        "SPOT": "true",
        "JOB_MAX_USD": "400",
        "JOB_MAX_USD_NAME": "budget.max_usd",
        "JOB_NODE_HOURS": "6",
        "NODES": "1",
        "OTHER_USD_PER_HOUR": "0",
    }
    with guard_module("ec2") as module:

        def look(minutes, event=None):
            now = datetime.now(UTC) + timedelta(minutes=minutes)
            guard = module.InstanceGuard(module.Settings.of(variables), client, now)
            module.respond(guard, event or {"detail-type": "Scheduled Event"})
            return guard

        client("autoscaling").set_desired_capacity(AutoScalingGroupName="dear", DesiredCapacity=1)
        try:
            (first,) = until(lambda: in_service(group("dear")))
            world_sandbox.limit_instances(spot_usd={"p5.48xlarge": "61.5"})
            assert set(spot_usd(client).values()) == {61.5}
            assert look(0).rate == 61.5
            world_sandbox.fail_node("dear", first)
            (second,) = until(lambda: in_service(group("dear")))
            look(5)
            assert group("dear")["DesiredCapacity"] == 1
            world_sandbox.limit_instances(spot_usd={"p5.48xlarge": "95"})
            assert spot_usd(client)[zone] == 95
            look(10)
            assert group("dear")["DesiredCapacity"] == 1, "a running instance stays"
            detail = {"instance-id": second, "instance-action": "terminate"}
            look(12, {"detail-type": "EC2 Spot Instance Interruption Warning", "detail": detail})
            assert group("dear")["DesiredCapacity"] == 0
        finally:
            world_sandbox.limit_instances()
            client("autoscaling").delete_auto_scaling_group(AutoScalingGroupName="dear", ForceDelete=True)
            until(lambda: not living(client))


def test_targeted_reservation_takes_as_many_instances_as_it_has(client, create, group, subnet):
    ec2 = client("ec2")
    (described,) = ec2.describe_subnets(SubnetIds=[subnet])["Subnets"]
    reserved = ec2.create_capacity_reservation(
        InstanceType="g5.xlarge",
        InstancePlatform="Linux/UNIX",
        InstanceCount=1,
        AvailabilityZone=described["AvailabilityZone"],
        InstanceMatchCriteria="targeted",
    )["CapacityReservation"]["CapacityReservationId"]
    create(
        "owned",
        data={"CapacityReservationSpecification": {"CapacityReservationTarget": {"CapacityReservationId": reserved}}},
    )
    client("autoscaling").set_desired_capacity(AutoScalingGroupName="owned", DesiredCapacity=2)
    try:
        activity = until(lambda: failed_activity(client, "owned"))
        assert activity["StatusMessage"].startswith("The targeted Capacity Reservation does not have enough")
        (member,) = group("owned")["Instances"]
        (found,) = ec2.describe_capacity_reservations(CapacityReservationIds=[reserved])["CapacityReservations"]
        assert (found["TotalInstanceCount"], found["AvailableInstanceCount"]) == (1, 0)
        assert member["InstanceType"] == "g5.xlarge"
    finally:
        client("autoscaling").delete_auto_scaling_group(AutoScalingGroupName="owned", ForceDelete=True)


@pytest.mark.parametrize(
    "name, changes, message",
    [
        ("sizes", {"MinSize": 3}, "Min bound must not exceed max bound"),
        ("zone", {"VPCZoneIdentifier": "subnet-0"}, "The subnet ID 'subnet-0' does not exist"),
        (
            "both",
            {"MixedInstancesPolicy": {"InstancesDistribution": {"OnDemandBaseCapacity": 0}}},
            "either LaunchTemplate or MixedInstancesPolicy",
        ),
        ("image", {"data": {"ImageId": ""}}, "must contain the parameter ImageId"),
        ("long", {"user_data": "#!/bin/sh\n" + "#" * 17_000}, "User data is limited to 16384 bytes"),
        ("type", {"data": {"InstanceType": "g5.huge"}}, "Invalid instance type 'g5.huge'"),
        (
            "addresses",
            {
                "data": {
                    "NetworkInterfaces": [
                        {"DeviceIndex": 0, "AssociatePublicIpAddress": True},
                        {"DeviceIndex": 1},
                    ]
                }
            },
            "associatePublicIPAddress cannot be specified when launching with multiple interfaces",
        ),
    ],
)
def test_invalid_auto_scaling_group_refused(create, name, changes, message):
    with pytest.raises(ClientError, match="ValidationError") as refused:
        create(name, **changes)
    assert message in str(refused.value)


def test_desired_capacity_above_maximum_refused(client, create):
    create("small")
    with pytest.raises(ClientError, match="above max value 2"):
        client("autoscaling").set_desired_capacity(AutoScalingGroupName="small", DesiredCapacity=3)
