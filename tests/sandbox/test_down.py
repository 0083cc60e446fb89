"""`slipway down` against the embedded AWS: removed resources, retained resources, refusals."""

import json
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from launcher.catalog.load import load
from launcher.model.administrator import by_administrator
from launcher.records import run_folder
from launcher.records.report_document import report_document, stored_report
from launcher.sandbox.sandbox import Sandbox
from launcher.workflow.deploy.context import DeployOptions
from launcher.workflow.deploy.deployment import deployed_parts
from launcher.workflow.quote.fresh import gated_quote
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.run.spike import remove_clusters
from tests.sandbox import clients
from tests.unit.records.reports import ENDPOINT, REPORT

REGION = "us-east-2"
pytestmark = pytest.mark.xdist_group("sandbox-down")
BEFORE = datetime.now(UTC) - timedelta(minutes=1)
SPIKE_PLAN = {
    "slipway": 1,
    "workload": {"train": {"model": {"params_b": 1.0}, "hours": 0.5}},
    "target": {"kind": "parallelcluster", "region": REGION, "instance_type": "p5.48xlarge", "nodes": 1},
    "purchase": {"option": "on-demand"},
}

NETWORK = {
    "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}},
    "Subnet": {"Type": "AWS::EC2::Subnet", "Properties": {"VpcId": {"Ref": "Vpc"}, "CidrBlock": "10.0.0.0/24"}},
    "Address": {"Type": "AWS::EC2::EIP", "Properties": {"Domain": "vpc"}},
    "Nat": {
        "Type": "AWS::EC2::NatGateway",
        "Properties": {"SubnetId": {"Ref": "Subnet"}, "AllocationId": {"Fn::GetAtt": ["Address", "AllocationId"]}},
    },
}
STORE = {
    "Resources": {
        "Bucket": {"Type": "AWS::S3::Bucket", "DeletionPolicy": "Retain"},
        "Policy": {
            "Type": "AWS::S3::BucketPolicy",
            "Properties": {"Bucket": {"Ref": "Bucket"}, "PolicyDocument": {"Version": "2012-10-17", "Statement": []}},
        },
    },
    "Outputs": {"BucketName": {"Value": {"Ref": "Bucket"}}},
}
TRAINING = {
    "Resources": {"Topic": {"Type": "AWS::SNS::Topic", "Properties": {}}},
    "Outputs": {"StoreUri": {"Value": "s3://weights/runs"}, "PrivateSubnetId": {"Value": "subnet-0123"}},
}


def share(name):
    """A network's template with the export that clusters import."""
    return {
        "Resources": NETWORK,
        "Outputs": {"VpcId": {"Value": {"Ref": "Vpc"}, "Export": {"Name": f"slipway-{name}-shared-network:VpcId"}}},
    }


def using(name):
    """A cluster's template that imports a network."""
    group = {"GroupDescription": "nodes", "VpcId": {"Fn::ImportValue": f"slipway-{name}-shared-network:VpcId"}}
    return {"Resources": {"Nodes": {"Type": "AWS::EC2::SecurityGroup", "Properties": group}}}


@dataclass(frozen=True)
class Account:
    sandbox: Sandbox

    def client(self, service):
        return clients.client(self.sandbox, service, region_name=REGION)

    def make(self, name, template, *, protected=False, cluster=None):
        body = template if "Resources" in template else {"Resources": template}
        self.client("cloudformation").create_stack(
            StackName=name,
            TemplateBody=json.dumps(body),
            EnableTerminationProtection=protected,
            Tags=[] if cluster is None else [{"Key": "slipway:cluster", "Value": cluster}],
        )

    def cluster(self, name, *, objects=0, pods=False):
        """A cluster of three stacks with as many kibibytes in its checkpoint bucket; the bucket."""
        self.make(f"slipway-{name}-network", NETWORK, cluster=name)
        self.make(f"slipway-{name}-checkpoints", STORE, protected=True, cluster=name)
        outputs = {**TRAINING["Outputs"], **({"AccessRoleArn": {"Value": "arn:aws:iam::1:role/a"}} if pods else {})}
        self.make(f"slipway-{name}-training", {**TRAINING, "Outputs": outputs}, cluster=name)
        (stack,) = self.client("cloudformation").describe_stacks(StackName=f"slipway-{name}-checkpoints")["Stacks"]
        bucket = stack["Outputs"][0]["OutputValue"]
        for number in range(objects):
            self.client("s3").put_object(Bucket=bucket, Key=f"jobs/{name}/step-{number}/a", Body=b"x" * 1024)
        return bucket

    def stacks(self, part):
        return {
            stack["StackName"]
            for stack in self.client("cloudformation").describe_stacks()["Stacks"]
            if part in stack["StackName"]
        }

    def buckets(self):
        return {bucket["Name"] for bucket in self.client("s3").list_buckets()["Buckets"]}


@pytest.fixture(scope="module")
def sandbox_account():
    with Sandbox(region=REGION, scheduler="local") as sandbox:
        yield Account(sandbox)


@pytest.fixture
def down(sandbox_account, tmp_path, monkeypatch, slipway):
    """Runs `slipway down` in an empty folder: exit code, standard output, standard error."""
    for name, value in sandbox_account.sandbox.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: slipway("down", *arguments)


def read_retained(out):
    return {resource["kind"]: resource for resource in json.loads(out)["kept"]}


class TestWhatAKubernetesClusterMade:
    """Its objects' load balancers and volumes are in no stack, and who would remove them goes with it."""

    def make(self, account, name):
        """What a claim of a pod has made."""
        volume = {"AvailabilityZone": f"{REGION}a", "Size": 40, "VolumeType": "gp3"}
        owned = [{"Key": f"kubernetes.io/cluster/slipway-{name}", "Value": "owned"}]
        tags = [{"ResourceType": "volume", "Tags": owned}]
        return account.client("ec2").create_volume(**volume, TagSpecifications=tags)["VolumeId"]

    def test_retained_volume_listed_before_and_after_down_with_price(self, sandbox_account, down):
        sandbox_account.cluster("pods", pods=True)
        volume = self.make(sandbox_account, "pods")
        shown, done = down("pods", "--dry-run", "--json"), down("pods", "--yes", "--json")
        for code, out, err in (shown, done):
            assert code == 0, err
            volume_entry = read_retained(out)["volume"]
            assert (volume_entry["name"], volume_entry["gib"]) == (volume, 40.0)
            assert float(volume_entry["usd_per_month"]) > 0
            command = f"aws ec2 delete-volume --volume-id {volume} --region {REGION}"
            assert volume_entry["reason"].endswith(by_administrator(command))
        assert {volume["VolumeId"] for volume in sandbox_account.client("ec2").describe_volumes()["Volumes"]} >= {
            volume
        }

    def test_down_of_cluster_without_pods_lists_no_volumes(self, sandbox_account, down):
        sandbox_account.cluster("slurm")
        self.make(sandbox_account, "slurm")
        code, out, err = down("slurm", "--yes", "--json")
        assert code == 0, err
        assert "volume" not in read_retained(out)


class TestRemovedResources:
    def test_down_removes_all_stacks_except_checkpoints(self, sandbox_account, down):
        bucket = sandbox_account.cluster("alpha", objects=2)
        code, out, err = down("alpha", "--yes", "--json", "-v")
        assert code == 0, err
        assert sandbox_account.stacks("-alpha-") == {"slipway-alpha-checkpoints"}
        assert bucket in sandbox_account.buckets()
        document = json.loads(out)
        assert document["schema"] == "slipway.down/1"
        assert document["done"] is True
        assert [stack["name"] for stack in document["stacks"]] == ["slipway-alpha-training", "slipway-alpha-network"]
        assert {stack["status"] for stack in document["stacks"]} == {"DELETE_COMPLETE"}
        store = read_retained(out)["checkpoints"]
        assert (store["name"], store["gib"] * 2**30) == (bucket, 2048)
        assert float(document["usd_per_month"]) == float(store["usd_per_month"])
        assert "NatGateway" in err

    def test_network_held_by_guardduty_and_cni_names_commands_and_goes_after_them(self, sandbox_account, down):
        """GuardDuty and the VPC CNI create their resources by themselves and keep them after the cluster."""
        sandbox_account.cluster("held")
        stack = sandbox_account.client("cloudformation").describe_stack_resources(StackName="slipway-held-network")
        ids = {resource["LogicalResourceId"]: resource["PhysicalResourceId"] for resource in stack["StackResources"]}
        ec2 = sandbox_account.client("ec2")
        group = ec2.create_security_group(
            GroupName=f"GuardDutyManagedSecurityGroup-{ids['Vpc']}", Description="-", VpcId=ids["Vpc"]
        )["GroupId"]
        endpoint = ec2.create_vpc_endpoint(
            VpcEndpointType="Interface",
            VpcId=ids["Vpc"],
            ServiceName=f"com.amazonaws.{REGION}.guardduty-data",
            SubnetIds=[ids["Subnet"]],
            SecurityGroupIds=[group],
        )["VpcEndpoint"]["VpcEndpointId"]
        interface = ec2.create_network_interface(SubnetId=ids["Subnet"], Description="aws-K8S-i-0123")
        interface = interface["NetworkInterface"]["NetworkInterfaceId"]
        code, _, err = down("held", "--region", REGION, "--yes")
        assert code == 6, err
        commands = re.findall(r"(\S+) \(.*\): (aws ec2 .*)", err)
        assert dict(commands) == {
            endpoint: f"aws ec2 delete-vpc-endpoints --vpc-endpoint-ids {endpoint} --region {REGION}",
            interface: f"aws ec2 delete-network-interface --network-interface-id {interface} --region {REGION}",
            group: f"aws ec2 delete-security-group --group-id {group} --region {REGION}",
        }
        assert "GuardDutyManagedSecurityGroup" in err
        ec2.delete_vpc_endpoints(VpcEndpointIds=[endpoint])
        ec2.delete_network_interface(NetworkInterfaceId=interface)
        ec2.delete_security_group(GroupId=group)
        code, _, err = down("held", "--region", REGION, "--yes")
        assert code == 0, err
        assert sandbox_account.stacks("held") == {"slipway-held-checkpoints"}

    def test_second_down_reports_already_removed(self, sandbox_account, down):
        sandbox_account.cluster("again")
        assert down("again", "--yes")[0] == 0
        code, out, _ = down("again", "--yes")
        assert code == 0
        assert "nothing: it is already removed" in out
        assert sandbox_account.stacks("-again-") == {"slipway-again-checkpoints"}

    def test_down_dry_run_lists_stacks_and_deletes_none(self, sandbox_account, down):
        sandbox_account.cluster("shown", objects=1)
        code, out, _ = down("shown", "--dry-run")
        assert code == 0
        assert "slipway-shown-training  CREATE_COMPLETE" in out
        assert "1 object; slipway down shown --checkpoints deletes them" in out
        assert len(sandbox_account.stacks("-shown-")) == 3

    def test_down_with_checkpoints_deletes_versions_and_uploads(self, sandbox_account, down):
        bucket = sandbox_account.cluster("wiped", objects=3)
        s3 = sandbox_account.client("s3")
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        s3.put_object(Bucket=bucket, Key="jobs/wiped/step-0/a", Body=b"newer")
        s3.delete_object(Bucket=bucket, Key="jobs/wiped/step-1/a")
        s3.create_multipart_upload(Bucket=bucket, Key="jobs/wiped/step-9/a")
        code, out, err = down("wiped", "--checkpoints", "--yes", "--confirm", "wiped", "--json")
        assert code == 0, err
        assert sandbox_account.stacks("-wiped-") == set()
        assert bucket not in sandbox_account.buckets()
        assert "checkpoints" not in read_retained(out)

    def test_interrupted_checkpoint_removal_is_completed(self, sandbox_account, down):
        bucket = sandbox_account.cluster("halfway")
        sandbox_account.client("s3").delete_bucket(Bucket=bucket)
        code, _, err = down("halfway", "--checkpoints", "--yes", "--confirm", "halfway")
        assert code == 0, err
        assert sandbox_account.stacks("-halfway-") == set()


class TestRetainedResources:
    def test_shared_network_removed_with_last_cluster(self, sandbox_account, down):
        sandbox_account.make("slipway-team-shared-network", share("team"))
        sandbox_account.make("slipway-one-training", using("team"))
        sandbox_account.make("slipway-two-training", using("team"))
        code, out, _ = down("one", "--yes", "--json")
        assert code == 0
        network = read_retained(out)["network"]
        assert network["name"] == "slipway-team-shared-network"
        assert network["reason"].startswith("used by slipway-two-training")
        # A NAT gateway and its address, $0.045 and $0.005 an hour in us-east-2, for AWS's month of 730 hours.
        assert float(network["usd_per_month"]) == pytest.approx(36.5)
        assert sandbox_account.stacks("-shared-network")
        assert down("two", "--yes")[0] == 0
        assert not sandbox_account.stacks("-shared-network")

    def test_second_plan_of_shared_network_is_quoted_without_its_nat(self, sandbox_account, tmp_path):
        """Quotes in the sandbox and dry runs read the users of the network, as a launch on AWS does."""
        path, said = tmp_path / "plan.yaml", []
        plan = SPIKE_PLAN | {"name": "second", "network": {"name": "crew", "az_ids": ["use2-az1"]}}
        path.write_text(json.dumps({**plan, "target": {**SPIKE_PLAN["target"], "az_id": "use2-az1"}}))
        sandbox = sandbox_account.sandbox
        for options in (
            DeployOptions(root=tmp_path, sandbox=True, emulator=sandbox, notify=said.append),
            DeployOptions(root=tmp_path, dry_run=True, environment=sandbox.environment, notify=said.append),
        ):
            quoted = partial(gated_quote, path, BEFORE, PriceOptions(any_age=True), selection=None, notify=said.append)
            alone = quoted(deployed=partial(deployed_parts, options)).quoted
            assert any("network crew is counted as new: $" in finding.message for finding in alone.findings)
            sandbox_account.make("slipway-crew-shared-network", share("crew"))
            sandbox_account.make("slipway-first-training", using("crew"))
            second = quoted(deployed=partial(deployed_parts, options)).quoted
            names = [{line.name for line in quote.components} for quote in (alone, second)]
            assert names[0] - names[1] == {"NAT gateway", "public IPv4 address of the NAT"}
            assert said[-1].startswith("network crew exists for slipway-first-training: the NAT and endpoints")
            for stack in ("slipway-first-training", "slipway-crew-shared-network"):
                sandbox_account.client("cloudformation").delete_stack(StackName=stack)

    def test_shared_network_of_plan_without_users_removed(self, sandbox_account, down, tmp_path):
        sandbox_account.make("slipway-lone-shared-network", share("lone"))
        (tmp_path / "plan.yaml").write_text(
            "slipway: 1\nname: last\ntarget: {region: us-east-2}\nnetwork: {name: lone, az_ids: [use2-az1]}\n"
        )
        code, _, err = down("plan.yaml", "--yes")
        assert code == 0, err
        assert not sandbox_account.stacks("-lone-shared-network")

    def test_reason_of_a_stopped_endpoint_is_read_before_its_stack_is_removed(self, sandbox_account, down, tmp_path):
        """No `slipway status` ran between the guard's stop and `down`."""
        sandbox_account.make("slipway-served-serving", TRAINING["Resources"], cluster="served")
        state = {"stop_reason": "its 2 hours have ended", "stopped_at": (BEFORE + timedelta(hours=9)).isoformat()}
        sandbox_account.client("ssm").put_parameter(
            Name="/slipway/slipway-served-serving/guard", Value=json.dumps(state), Type="String"
        )
        folder = run_folder.create("served", BEFORE, tmp_path)
        plan = {"slipway": 1, "name": "served", "target": {"kind": "sagemaker-endpoint", "region": REGION}}
        folder.write_json("plan.json", plan)
        endpoint = replace(ENDPOINT, region=REGION)
        report = replace(REPORT, name="served", attempts=(), endpoint=endpoint, simulated=False)
        folder.write_json("report.json", report_document(replace(report, stacks=(("slipway-served-serving", "x"),))))
        assert down("served", "--yes")[0] == 0
        assert not sandbox_account.stacks("-served-")
        kept = stored_report(folder)
        assert (kept.guard_reason, kept.stacks) == (
            "its 2 hours have ended",
            (("slipway-served-serving", "DELETE_COMPLETE"),),
        )

    def test_existing_store_and_subnet_are_retained(self, sandbox_account, down):
        sandbox_account.make("slipway-guest-training", TRAINING)
        code, out, _ = down("guest", "--yes", "--json")
        assert code == 0
        assert read_retained(out)["checkpoints"]["name"] == "s3://weights/runs"
        assert read_retained(out)["network"]["name"] == "subnet-0123"

    def test_retained_logs_belong_to_cluster_only(self, sandbox_account, down):
        sandbox_account.cluster("logged")
        logs = sandbox_account.client("logs")
        for name in ("slipway-logged-202611201200", "slipway-logged-too-202611201200"):
            logs.create_log_group(logGroupName=f"/aws/parallelcluster/{name}")
        logs.put_retention_policy(logGroupName="/aws/parallelcluster/slipway-logged-202611201200", retentionInDays=30)
        _, out, _ = down("logged", "--dry-run", "--json")
        retained = [entry for entry in json.loads(out)["kept"] if entry["kind"] == "logs"]
        assert [entry["name"] for entry in retained] == ["/aws/parallelcluster/slipway-logged-202611201200"]
        assert retained[0]["reason"] == "each line is kept for 30 days"

    def test_cluster_left_by_provider_named_with_delete_command(self, sandbox_account, down):
        sandbox_account.make("slipway-lost-checkpoints", STORE)
        sandbox_account.make("slipway-lost", TRAINING)
        _, out, _ = down("lost", "--dry-run", "--json")
        assert read_retained(out)["cluster"]["name"] == "slipway-lost"
        assert (
            "pcluster delete-cluster --region us-east-2 --cluster-name slipway-lost"
            in read_retained(out)["cluster"]["reason"]
        )
        assert json.loads(out)["incomplete"] is True


class TestRefusals:
    def test_down_without_terminal_requires_yes(self, sandbox_account, down):
        sandbox_account.cluster("asked")
        code, _, err = down("asked")
        assert code == 2
        assert "add --yes" in err
        assert len(sandbox_account.stacks("-asked-")) == 3

    @pytest.mark.parametrize("words", [(), ("--confirm", "another")])
    def test_down_with_yes_does_not_delete_checkpoints(self, sandbox_account, down, words):
        name = f"held{len(words)}"
        bucket = sandbox_account.cluster(name)
        code, _, err = down(name, "--checkpoints", "--yes", *words)
        assert code == 2
        assert name in err
        assert bucket in sandbox_account.buckets()
        assert len(sandbox_account.stacks(f"-{name}-")) == 3

    def test_down_of_unknown_name_suggests_similar_name(self, sandbox_account, down):
        sandbox_account.cluster("near")
        code, _, err = down("naer", "--yes", "--region", REGION)
        assert code == 5
        assert "did you mean near?" in err

    def test_down_of_protected_stack_refused_with_fix(self, sandbox_account, down):
        sandbox_account.make("slipway-locked-training", TRAINING, protected=True)
        code, _, err = down("locked", "--yes")
        assert code == 5
        assert "--no-enable-termination-protection" in err
        assert sandbox_account.stacks("-locked-") == {"slipway-locked-training"}

    def test_down_of_plan_on_existing_cluster_refused(self, down, tmp_path):
        (tmp_path / "plan.yaml").write_text("slipway: 1\nname: job\ntarget: {cluster: common, region: us-east-2}\n")
        code, _, err = down("plan.yaml", "--yes")
        assert code == 5
        assert "slipway down common" in err

    def test_down_without_region_refused(self, down, monkeypatch):
        for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
            monkeypatch.delenv(name)
        code, _, err = down("somewhere", "--yes")
        assert code == 2
        assert "add --region" in err

    def test_refusal_with_json_flag_is_error_document(self, down):
        code, out, _ = down("nobody", "--yes", "--json")
        assert code == 5
        assert json.loads(out)["schema"] == "slipway.error/1"


def test_down_uses_region_of_newest_run(sandbox_account, down, tmp_path, monkeypatch):
    sandbox_account.cluster("placed")
    folder = Path(tmp_path, ".slipway", "runs", "placed", "20261120T120000Z")
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(json.dumps({"slipway": 1, "name": "placed", "target": {"region": REGION}}))
    (folder.parent / "latest").symlink_to(folder.name)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "eu-west-1")
    assert down("placed", "--yes")[0] == 0
    assert sandbox_account.stacks("-placed-") == {"slipway-placed-checkpoints"}


class TestSpikeRemoval:
    """After a spike: what it created goes; what existed before, or cannot go, is reported with its price."""

    @pytest.fixture
    def remove(self, sandbox_account, tmp_path):
        def run(name, *, begun, **changes):
            folder = run_folder.create(name, datetime.now(UTC), tmp_path)
            (folder.path / "plan.json").write_text(json.dumps(SPIKE_PLAN | {"name": name} | changes))
            lines = []
            remaining = remove_clusters(
                [folder], begun, load(), sandbox_account.sandbox.process_environment({}), lines.append
            )
            return remaining, lines

        return run

    def test_spike_removal_deletes_stacks_and_checkpoints(self, sandbox_account, remove):
        bucket = sandbox_account.cluster("job-spike-p5", objects=2)
        sandbox_account.cluster("job")
        remaining, lines = remove("job-spike-p5", begun=BEFORE)
        assert remaining == ()
        assert sandbox_account.stacks("-job-spike-p5-") == set()
        assert bucket not in sandbox_account.buckets()
        assert len(sandbox_account.stacks("-job-")) == 3
        assert any("removed what the spike created" in line for line in lines)

    def test_spike_removal_keeps_existing_cluster_and_names_price(self, sandbox_account, remove):
        sandbox_account.cluster("old-spike-p5")
        (why, summary, *_, last), _ = remove("old-spike-p5", begun=datetime.now(UTC) + timedelta(minutes=1))
        assert len(sandbox_account.stacks("-old-spike-p5-")) == 3
        assert why == "old-spike-p5 was not removed: it existed before the spike started"
        assert "an hour" in summary
        assert last == f"to remove them: slipway down old-spike-p5 --region {REGION}"

    def test_spike_removal_without_created_cluster_is_silent(self, sandbox_account, remove):
        assert remove("never-spike-p5", begun=BEFORE) == ((), [])
        sandbox_account.cluster("team")
        target = SPIKE_PLAN["target"] | {"cluster": "team"}
        assert remove("mine-spike-p5", begun=BEFORE, target=target) == ((), [])
        assert len(sandbox_account.stacks("-team-")) == 3
