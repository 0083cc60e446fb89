"""The emulator of AWS PCS refuses limits, names, versions and settings as the service does."""

import base64
import time
from functools import partial

import pytest
from botocore.exceptions import ClientError

from launcher.aws import pcs as calls
from launcher.aws import ssm
from launcher.aws.session import Session
from launcher.model.pcs import IMAGE_PARAMETER
from launcher.sandbox.aws.pcs import EMPTIED, REPLACED_S
from launcher.targets.pcs.cluster import PcsCluster
from launcher.targets.pcs.files import instance_script
from tests.sandbox.aws.answers import REGION
from tests.waiting import until

MULTIPART = 'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="x"\n\n--x--\n'


@pytest.fixture(scope="module")
def world(client):
    """A VPC with a subnet, a security group that admits itself, a profile, and launch templates by name."""
    ec2, iam = client("ec2"), client("iam")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/20")["Subnet"]["SubnetId"]
    group = ec2.create_security_group(GroupName="nodes", Description="x", VpcId=vpc)["GroupId"]
    itself = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}]
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=itself)
    ec2.authorize_security_group_egress(GroupId=group, IpPermissions=itself)
    profiles = {}
    for name, path in (("own", "/aws-pcs/"), ("other", "/")):
        iam.create_role(RoleName=name, Path=path, AssumeRolePolicyDocument="{}")
        profiles[name] = iam.create_instance_profile(InstanceProfileName=name, Path=path)["InstanceProfile"]["Arn"]
        iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)

    def template(name, user_data=MULTIPART, **data):
        encoded = base64.b64encode(user_data.encode()).decode()
        given = {"UserData": encoded, **data}
        created = ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=given)
        return {"id": created["LaunchTemplate"]["LaunchTemplateId"], "version": "1"}

    return {"subnet": subnet, "group": group, "profiles": profiles, "template": template}


def cluster_request(world, **changes):
    network = {"subnetIds": [world["subnet"]], "securityGroupIds": [world["group"]]}
    base = {
        "clusterName": "small",
        "scheduler": {"type": "SLURM", "version": "25.11"},
        "size": "SMALL",
        "networking": network,
    }
    return {**base, **changes}


def active(pcs, name):
    """Wait until a cluster is out of creation."""
    until = time.monotonic() + 20
    while pcs.get_cluster(clusterIdentifier=name)["cluster"]["status"] != "ACTIVE":
        assert time.monotonic() < until
        time.sleep(0.2)


@pytest.fixture
def pcs(client):
    """The API, emptied afterwards."""
    pcs_client = client("pcs")
    yield pcs_client
    remove_clusters(pcs_client)


def remove_clusters(pcs_client):
    for cluster in pcs_client.list_clusters()["clusters"]:
        active(pcs_client, cluster["id"])
        id_ = cluster["id"]
        for queue in pcs_client.list_queues(clusterIdentifier=id_)["queues"]:
            pcs_client.delete_queue(clusterIdentifier=id_, queueIdentifier=queue["id"])
        for group in pcs_client.list_compute_node_groups(clusterIdentifier=id_)["computeNodeGroups"]:
            pcs_client.delete_compute_node_group(clusterIdentifier=id_, computeNodeGroupIdentifier=group["id"])
        until(partial(is_deleted, pcs_client, id_))


def is_deleted(pcs_client, id_):
    try:
        pcs_client.delete_cluster(clusterIdentifier=id_)
    except pcs_client.exceptions.ConflictException:
        return False
    return True


@pytest.fixture
def pcs_cluster(pcs, world):
    pcs.create_cluster(**cluster_request(world))
    active(pcs, "small")
    return "small"


@pytest.fixture
def template(world, request):
    return world["template"](request.node.name[:100])


def group_request(world, template, **changes):
    base = {
        "clusterIdentifier": "small",
        "computeNodeGroupName": "nodes",
        "subnetIds": [world["subnet"]],
        "customLaunchTemplate": template,
        "iamInstanceProfileArn": world["profiles"]["own"],
        "scalingConfiguration": {"minInstanceCount": 0, "maxInstanceCount": 2},
        "instanceConfigs": [{"instanceType": "g5.xlarge"}],
    }
    return {**base, **changes}


def refused(call, **request):
    with pytest.raises(ClientError) as refusal:
        call(**request)
    error = refusal.value.response["Error"]
    return error["Code"], error["Message"]


def setting(name):
    return {"slurmCustomSettings": [{"parameterName": name, "parameterValue": "1"}]}


class TestClusters:
    @pytest.mark.parametrize(
        "changes, words",
        [
            ({"clusterName": "no_underscore"}, "does not match pattern"),
            ({"clusterName": "a" * 41}, "more than the maximum of 40"),
            ({"size": "HUGE"}, "not a valid enum value"),
            ({"scheduler": {"type": "SLURM", "version": "24.11"}}, "allowed: 25.05, 25.11, 26.05"),
            ({"slurmConfiguration": setting("SlurmctldParameters")}, "SlurmctldParameters is not supported"),
            ({"slurmConfiguration": setting("KillWait")}, "KillWait is not supported"),
            ({"slurmConfiguration": {"slurmCustomSettings": []}}, "an empty list"),
            (
                {"slurmConfiguration": {"accounting": {"mode": "STANDARD", "defaultPurgeTimeInDays": 0}}},
                "defaultPurgeTimeInDays",
            ),
            (
                {"networking": {"subnetIds": ["subnet-00000000", "subnet-00000001"], "securityGroupIds": []}},
                "exactly one",
            ),
            ({"networking": {"subnetIds": ["subnet-00000000"], "securityGroupIds": ["sg-00000000"]}}, "does not exist"),
        ],
    )
    def test_invalid_cluster_request_refused(self, pcs, world, changes, words):
        code, message = refused(pcs.create_cluster, **cluster_request(world, **changes))
        assert code == "ValidationException"
        assert words in message

    def test_valid_cluster_request_creates_cluster(self, pcs, world):
        slurm = {"slurmCustomSettings": [{"parameterName": "RequeueExit", "parameterValue": "75"}]}
        created = pcs.create_cluster(**cluster_request(world, slurmConfiguration=slurm))["cluster"]
        assert created["status"] == "CREATING"
        assert created["id"].startswith("pcs_")

    def test_only_one_cluster_creates_at_a_time(self, pcs, world):
        pcs.create_cluster(**cluster_request(world))
        code, message = refused(pcs.create_cluster, **cluster_request(world, clusterName="second"))
        assert (code, "small" in message) == ("ServiceQuotaExceededException", True)
        active(pcs, "small")
        assert refused(pcs.create_cluster, **cluster_request(world))[0] == "ConflictException"
        pcs.create_cluster(**cluster_request(world, clusterName="second"))

    def test_cluster_or_group_in_use_is_not_deleted(self, pcs, world, pcs_cluster, template):
        group = pcs.create_compute_node_group(**group_request(world, template))["computeNodeGroup"]
        queued = [{"computeNodeGroupId": group["id"]}]
        pcs.create_queue(clusterIdentifier="small", queueName="jobs", computeNodeGroupConfigurations=queued)
        assert refused(pcs.delete_cluster, clusterIdentifier=pcs_cluster)[0] == "ConflictException"
        wish = {"clusterIdentifier": "small", "computeNodeGroupIdentifier": "nodes"}
        assert refused(pcs.delete_compute_node_group, **wish)[0] == "ConflictException"
        assert refused(pcs.get_cluster, clusterIdentifier="none")[0] == "ResourceNotFoundException"

    def test_cluster_is_not_deleted_shortly_after_its_last_group(self, pcs, world, pcs_cluster, template):
        pcs.create_compute_node_group(**group_request(world, template))
        pcs.delete_compute_node_group(clusterIdentifier="small", computeNodeGroupIdentifier="nodes")
        assert refused(pcs.delete_cluster, clusterIdentifier=pcs_cluster)[0] == "ConflictException"
        time.sleep(EMPTIED.total_seconds())
        pcs.delete_cluster(clusterIdentifier=pcs_cluster)
        assert refused(pcs.get_cluster, clusterIdentifier="small")[0] == "ResourceNotFoundException"


@pytest.fixture(scope="class")
def shared_pcs(client, world):
    """The API with a cluster for all tests of a class: its creation takes two seconds."""
    pcs_client = client("pcs")
    pcs_client.create_cluster(**cluster_request(world))
    active(pcs_client, "small")
    yield pcs_client
    remove_clusters(pcs_client)


class TestRefusedGroups:
    @pytest.mark.parametrize(
        "changes, words",
        [
            ({"computeNodeGroupName": "a" * 26}, "more than the maximum of 25"),
            ({"purchaseOption": "CHEAP"}, "not a valid enum value"),
            ({"scalingConfiguration": {"minInstanceCount": 3, "maxInstanceCount": 2}}, "more than maxInstanceCount"),
            (
                {"scalingConfiguration": {"minInstanceCount": 1, "maxInstanceCount": 2}},
                "a group must be all static or all dynamic",
            ),
            ({"scalingConfiguration": {"minInstanceCount": 0, "maxInstanceCount": 33}}, "takes 32 instances"),
            ({"instanceConfigs": [{"instanceType": "p5.bogus"}]}, "no instance type p5.bogus"),
            ({"customLaunchTemplate": {"id": "lt-0", "version": "1"}}, "no version 1 of launch template lt-0"),
            ({"slurmConfiguration": setting("CPUs")}, "CPUs is not supported"),
            ({"purchaseOption": "CAPACITY_BLOCK"}, "do not agree"),
        ],
    )
    def test_invalid_compute_node_group_refused(self, shared_pcs, world, template, changes, words):
        code, message = refused(shared_pcs.create_compute_node_group, **group_request(world, template, **changes))
        assert code == "ValidationException"
        assert words in message

    def test_profile_with_role_of_other_path_refused(self, shared_pcs, world, template):
        other = {"iamInstanceProfileArn": world["profiles"]["other"]}
        assert (
            "The role ARN is invalid"
            in refused(shared_pcs.create_compute_node_group, **group_request(world, template, **other))[1]
        )

    @pytest.mark.parametrize(
        "data, words",
        [
            ({"user_data": "#!/bin/bash\n"}, "not MIME multipart"),
            (
                {"NetworkInterfaces": [{"NetworkCardIndex": 1, "InterfaceType": "efa-only", "Groups": ["sg-1"]}]},
                "efa-only",
            ),
            ({"NetworkInterfaces": [{"NetworkCardIndex": 1, "InterfaceType": "efa"}]}, "no Groups"),
        ],
    )
    def test_launch_template_without_pcs_user_data_refused(self, shared_pcs, world, data, words):
        template = world["template"](f"t-{words.replace(' ', '-')}", **data)
        assert words in refused(shared_pcs.create_compute_node_group, **group_request(world, template))[1]

    # The last one: its groups stay.
    def test_more_than_ten_node_groups_refused(self, shared_pcs, world, template):
        for number in range(10):
            wish = group_request(world, template, computeNodeGroupName=f"nodes-{number}")
            wish["scalingConfiguration"] = {"minInstanceCount": 0, "maxInstanceCount": 1}
            shared_pcs.create_compute_node_group(**wish)
        code, message = refused(shared_pcs.create_compute_node_group, **group_request(world, template))
        assert (code, "10 compute node groups" in message) == ("ServiceQuotaExceededException", True)


class TestJobs:
    """A cluster with a queue, as the launcher and the guard change it."""

    @pytest.fixture
    def nodes(self, pcs, world, pcs_cluster, template, world_sandbox):
        group = pcs.create_compute_node_group(**group_request(world, template))["computeNodeGroup"]
        queued = [{"computeNodeGroupId": group["id"]}]
        pcs.create_queue(clusterIdentifier="small", queueName="jobs", computeNodeGroupConfigurations=queued)
        return lambda: [node for node in world_sandbox.nodes("small") if node.instance_id]

    @pytest.fixture
    def session(self, world_sandbox):
        return Session(environment=world_sandbox.process_environment({}), region=REGION)

    def test_nodes_stop_and_start_by_output_commands(self, pcs, nodes, session):
        assert len(nodes()) == 2
        stop = {"minInstanceCount": 0, "maxInstanceCount": 0}
        group = {"clusterIdentifier": "small", "computeNodeGroupIdentifier": "nodes"}
        pcs.update_compute_node_group(**group, scalingConfiguration=stop)
        assert nodes() == []
        code, message = refused(pcs.update_compute_node_group, **group, scalingConfiguration=stop)
        assert (code, message) == ("ConflictException", "compute node group nodes is UPDATING")
        start = (
            "aws pcs update-compute-node-group --region us-east-2 --cluster-identifier small"
            " --compute-node-group-identifier nodes --scaling-configuration minInstanceCount=0,maxInstanceCount=2"
        )
        messages, paused, outputs = [], [], {"ClusterName": "small", "StartFleet": start}

        def pause(seconds):
            paused.append(seconds)
            time.sleep(0.5)

        PcsCluster().start(outputs, session, messages.append, sleep=pause)
        assert len(nodes()) == 2
        assert messages == ["node group nodes of small was stopped: its nodes can start again"]
        assert pcs.get_compute_node_group(**group)["computeNodeGroup"]["status"] == "ACTIVE"
        assert len(paused) > 1  # for the stop's own update, and for the start's
        PcsCluster().start(outputs, session, messages.append, sleep=pause)
        assert len(messages) == 1

    def test_node_group_grows_beyond_first_size(self, pcs, nodes, client):
        group = {"clusterIdentifier": "small", "computeNodeGroupIdentifier": "nodes"}
        pcs.update_compute_node_group(**group, scalingConfiguration={"minInstanceCount": 0, "maxInstanceCount": 3})
        names, ids = zip(*((node.name, node.instance_id) for node in nodes()), strict=True)
        assert names == ("nodes-1", "nodes-2", "nodes-3")
        found = client("ec2").describe_instances(InstanceIds=ids)["Reservations"]
        assert {each["State"]["Name"] for entry in found for each in entry["Instances"]} == {"running"}

    def test_cluster_parts_are_removed_in_order(self, pcs, nodes, session):
        messages, paused = [], []
        id_ = calls.describe_cluster(session, "small").id
        PcsCluster().empty(session, {"PcsClusterId": id_}, messages.append, paused.append)
        assert calls.queues(session, "small") == calls.groups(session, "small") == ()
        assert messages == [
            "removing 1 queue of the PCS cluster before the stack",
            "removing 1 node group of the PCS cluster before the stack",
        ]
        assert pcs.get_cluster(clusterIdentifier="small")["cluster"]["status"] == "ACTIVE"

    def test_queues_are_described_with_instance_types(self, nodes, session, world_sandbox):
        stack = type("Stack", (), {"outputs": {"ClusterName": "small"}})()
        (queue,) = PcsCluster().queues(session, stack)
        assert (queue.name, queue.instance_type, queue.capacity_type, queue.maximum) == (
            "jobs",
            "g5.xlarge",
            "ONDEMAND",
            2,
        )
        assert PcsCluster().instance_counts(session, {"PcsClusterId": calls.describe_cluster(session, "small").id}) == {
            "g5.xlarge": 2
        }


def test_image_parameter_resolves_to_ami(world_sandbox):
    session = Session(environment=world_sandbox.process_environment({}), region=REGION)
    assert ssm.parameter(session, IMAGE_PARAMETER).startswith("ami-")


@pytest.fixture
def update_cluster(stack, world):
    """A stack with a cluster; a call updates it and returns the stack's status and the refusals."""

    def deploy(**changes):
        network = {"SubnetIds": [world["subnet"]], "SecurityGroupIds": [world["group"]]}
        properties = {
            "Name": "kept",
            "Size": "SMALL",
            "Scheduler": {"Type": "SLURM", "Version": "25.11"},
            "Networking": network,
            **changes,
        }
        return stack({"Cluster": {"Type": "AWS::PCS::Cluster", "Properties": properties}})["StackStatus"]

    assert deploy() == "CREATE_COMPLETE"
    return deploy


@pytest.mark.parametrize(
    "changes, status",
    [
        ({"Scheduler": {"Type": "SLURM", "Version": "25.05"}}, "UPDATE_ROLLBACK_COMPLETE"),
        ({"Scheduler": {"Type": "SLURM", "Version": "26.05"}}, "UPDATE_COMPLETE"),
        ({"SlurmConfiguration": {"SlurmCustomSettings": []}}, "UPDATE_ROLLBACK_COMPLETE"),
        ({"SlurmConfiguration": {"ScaleDownIdleTimeInSeconds": 900}}, "UPDATE_COMPLETE"),
    ],
)
def test_cluster_update_changes_only_updatable_properties(update_cluster, changes, status):
    assert update_cluster(**changes) == status


STORE, REPORTS = "boots-of-pcs", "s3://boots-of-pcs/jobs/.guard/x/messages/boots"


def script_shell(chips):
    """The lifecycle actions of a group of g5.xlarge that is to have `chips` chips."""
    arguments = [
        "--lustre=fs",
        "--mount-name=ab",
        f"--chips=nvidia:{chips}",
        "--type=g5.xlarge",
        f"--reports={REPORTS}",
    ]
    script = {
        "name": "machine",
        "scriptSource": {"scriptLocation": f"s3://{STORE}/machine.sh"},
        "arguments": arguments,
        "onError": "TERMINATE",
        "executionPolicy": "EVERY_BOOT",
    }
    return {"scriptCachingPolicy": "CACHE_ONCE", "stages": {"nodeBootstrapped": [script]}}


@pytest.fixture
def reports(client):
    """The reports of boots by the end of their names."""
    s3 = client("s3")
    s3.create_bucket(Bucket=STORE, CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_object(Bucket=STORE, Key="machine.sh", Body=instance_script().encode())

    def read(end):
        keys = [row["Key"] for row in s3.list_objects_v2(Bucket=STORE, Prefix="jobs/").get("Contents", [])]
        return [s3.get_object(Bucket=STORE, Key=key)["Body"].read().decode() for key in keys if key.endswith(end)]

    yield read
    for row in s3.list_objects_v2(Bucket=STORE)["Contents"]:
        s3.delete_object(Bucket=STORE, Key=row["Key"])
    s3.delete_bucket(Bucket=STORE)


def instances_of(client, group_id, state):
    filters = [
        {"Name": "tag:aws:pcs:compute-node-group-id", "Values": [group_id]},
        {"Name": "instance-state-name", "Values": [state]},
    ]
    rows = client("ec2").describe_instances(Filters=filters)["Reservations"]
    return [instance["InstanceId"] for row in rows for instance in row["Instances"]]


@pytest.fixture
def create_group(pcs, world, pcs_cluster, template, reports):
    """Create a group whose instances are to have a number of chips, with a queue unless it is the login group."""

    def create(name, count, chips):
        request = group_request(
            world,
            template,
            computeNodeGroupName=name,
            scalingConfiguration={"minInstanceCount": count if name == "login" else 0, "maxInstanceCount": count},
            nodeLifecycleActions=script_shell(chips),
        )
        group = pcs.create_compute_node_group(**request)["computeNodeGroup"]["id"]
        if name != "login":
            users = [{"computeNodeGroupId": group}]
            pcs.create_queue(clusterIdentifier=pcs_cluster, queueName="jobs", computeNodeGroupConfigurations=users)
        return group

    return create


@pytest.mark.parametrize("name", ["nodes", pytest.param("login", marks=pytest.mark.slow)])
def test_instances_that_fail_to_boot_report_it_and_are_replaced_until_their_group_is_set_to_zero(
    pcs, client, create_group, reports, name
):
    group = create_group(name, 1, chips=8)
    until(lambda: len(reports("-failed.txt")) >= 3)
    assert all("found 1\nmachine.sh" in text and "an accelerator is missing" in text for text in reports("-failed.txt"))
    assert len(instances_of(client, group, "terminated")) >= 2
    pcs.update_compute_node_group(
        clusterIdentifier="small",
        computeNodeGroupIdentifier=group,
        scalingConfiguration={"minInstanceCount": 0, "maxInstanceCount": 0},
    )
    ended = len(reports("-failed.txt"))
    time.sleep(2 * REPLACED_S)
    assert len(reports("-failed.txt")) == ended
    assert instances_of(client, group, "running") == []


@pytest.mark.parametrize("name", ["nodes", "login"])
def test_instance_that_boots_reports_it_and_stays(client, create_group, reports, name):
    group = create_group(name, 1, chips=1)
    (text,) = reports("-ready.txt")
    assert text.endswith(" is ready\n")
    assert len(instances_of(client, group, "running")) == 1
    assert reports("-failed.txt") == []
