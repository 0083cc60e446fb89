"""ParallelCluster's own template of a shown configuration agrees with the quote."""

import pytest

from launcher.model import monitoring, sizing
from launcher.records.quote_document import quote_document
from launcher.workflow.deploy.render import render_quote, show_bundle
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from tests.infra.agreement import HEAD_ALARMS, IMAGE_GIB, resources
from tests.infra.conftest import PLAN_FILES
from tests.infra.pcluster_driver import ask
from tests.plans import NOW

pytestmark = [pytest.mark.pcluster, pytest.mark.xdist_group("pcluster")]

EXAMPLE = "p4d-lustre"
"""The one with a file system and a login node."""
PRICED = {
    "AWS::AutoScaling::AutoScalingGroup",
    "AWS::CloudWatch::Alarm",
    "AWS::CloudWatch::CompositeAlarm",
    "AWS::EC2::Instance",
    "AWS::EC2::LaunchTemplate",
    "AWS::ElasticLoadBalancingV2::LoadBalancer",
    "AWS::FSx::FileSystem",
    "AWS::Logs::LogGroup",
    "AWS::Logs::MetricFilter",
    "AWS::Route53::HostedZone",
}
UNDER_A_CENT = {"AWS::DynamoDB::Table", "AWS::Lambda::Function"}
"""Two tables paid by the request, and functions that run when a cluster is made or deleted: not in the quote."""
FREE = (
    "AWS::AutoScaling::LifecycleHook",
    "AWS::CloudFormation::",
    "AWS::EC2::NetworkInterface",
    "AWS::EC2::PlacementGroup",
    "AWS::EC2::SecurityGroup",
    "AWS::ElasticLoadBalancingV2::Listener",
    "AWS::ElasticLoadBalancingV2::TargetGroup",
    "AWS::FSx::DataRepositoryAssociation",
    "AWS::IAM::",
)


@pytest.fixture(scope="module")
def agreed_quote(catalog):
    return price(PLAN_FILES[EXAMPLE], NOW, PriceOptions()).quote(1)


@pytest.fixture(scope="module")
def templates(tmp_path_factory, agreed_quote, catalog):
    """ParallelCluster's templates of the configuration as it is shown."""
    files = show_bundle(render_quote(agreed_quote, catalog.instance_types), agreed_quote.plan).files
    (text,) = [file.text for file in files if file.path.endswith("cluster.yaml")]
    path = tmp_path_factory.mktemp("template") / "cluster.yaml"
    path.write_text(text, encoding="utf-8")
    (templates,) = ask("templates", [path])
    return {str(index): template for index, template in enumerate(templates)}


@pytest.fixture(scope="module")
def lines(agreed_quote, catalog):
    return {
        component["name"]: component
        for component in quote_document(agreed_quote, 1, catalog.instance_types)["components"]
    }


def test_every_resource_type_is_priced_or_known_free(templates):
    kinds = {resource["Type"] for template in templates.values() for resource in template["Resources"].values()}
    assert {kind for kind in kinds - PRICED - UNDER_A_CENT if not kind.startswith(FREE)} == set()
    assert kinds >= PRICED


def test_head_node_alarms_and_metrics_equal_billed_counts(templates):
    alarms = resources(templates, "AWS::CloudWatch::Alarm")
    assert len(alarms) == HEAD_ALARMS == len(monitoring.HEAD_NODE_ALARMS)
    assert {alarm["AlarmName"].rpartition("-")[2] for alarm in alarms} == set(monitoring.HEAD_NODE_ALARMS)
    assert len(resources(templates, "AWS::CloudWatch::CompositeAlarm")) == 1
    # Disk comes in under one more set of dimensions than the alarm reads.
    metrics = {(alarm["Namespace"], alarm["MetricName"]) for alarm in alarms if alarm["Namespace"] != "AWS/EC2"}
    assert len(metrics) + 1 == monitoring.HEAD_NODE_METRICS
    assert len(resources(templates, "AWS::Logs::MetricFilter")) == 1


def test_login_nodes_have_one_zone_and_load_balancer_as_billed(templates, lines):
    assert len(resources(templates, "AWS::Route53::HostedZone")) == monitoring.DNS_ZONES
    (balancer,) = resources(templates, "AWS::ElasticLoadBalancingV2::LoadBalancer")
    assert (balancer["Type"], balancer["Scheme"]) == ("network", "internal")
    (head,) = (line for name, line in lines.items() if name.startswith("head node "))
    assert lines["load balancer of the login nodes"]["quantity"] == head["quantity"]
    (group,) = resources(templates, "AWS::AutoScaling::AutoScalingGroup")
    assert int(group["DesiredCapacity"]) == 1
    assert "1 login node m6i.large" in lines


def test_nodes_and_volumes_equal_quote(templates, lines):
    disks_by_type: dict[str, list[dict]] = {}
    for resource in resources(templates, "AWS::EC2::LaunchTemplate"):
        disks = [disk["Ebs"] for disk in resource["LaunchTemplateData"]["BlockDeviceMappings"] if "Ebs" in disk]
        disks_by_type.setdefault(resource["LaunchTemplateData"]["InstanceType"], []).extend(disks)
    # The head node of four nodes has the login nodes' type.
    assert set(disks_by_type) == {"p4d.24xlarge", "m6i.large"}
    (node,) = disks_by_type["p4d.24xlarge"]
    head, login = sorted(disks_by_type["m6i.large"], key=lambda disk: "VolumeSize" not in disk)
    assert {"4 x p4d.24xlarge on-demand", "head node m6i.large", "1 login node m6i.large"} <= lines.keys()
    for disk in (node, head, login):
        # Beyond these, gp3 is paid by the operation and the megabyte.
        assert (disk["VolumeType"], disk["Iops"], disk["Throughput"]) == ("gp3", 3000, 125)
    assert (node["VolumeSize"], head["VolumeSize"]) == (sizing.COMPUTE_ROOT_GIB, sizing.HEAD_ROOT_GIB)
    # The image's own size, which the bill takes as this.
    assert "VolumeSize" not in login
    assert sizing.LOGIN_ROOT_GIB == IMAGE_GIB


def test_file_system_and_logs_equal_quote(templates, lines):
    (system,) = resources(templates, "AWS::FSx::FileSystem")
    file_system = system["StorageCapacity"], system["LustreConfiguration"]["PerUnitStorageThroughput"]
    assert file_system == (4800, 250)
    assert "FSx Lustre 4800 GiB, 250 MB/s/TiB" in lines
    retention_days = {resource["RetentionInDays"] for resource in resources(templates, "AWS::Logs::LogGroup")}
    assert retention_days == {sizing.LOG_RETENTION_DAYS}
