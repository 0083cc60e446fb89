"""Price and infrastructure agree: the templates of every example contain what its quote counts."""

import copy
import re

import pytest
import yaml

from launcher.catalog.assets import asset
from launcher.model import monitoring
from launcher.rendering.node import METRICS_SCRIPT
from launcher.workflow.deploy.render import render_quote, show_bundle
from tests.infra.agreement import HEAD_METRICS, USAGE, cluster_of, differences, resources
from tests.infra.conftest import ROOT

EXAMPLES = {path.stem: path for part in ("*", "open/*") for path in sorted(ROOT.glob(f"examples/{part}.yaml"))}
"""Plans as the launcher deploys them; where one leaves a choice, the best candidate."""


@pytest.fixture(scope="module")
def example_sides(both_sides, catalog):
    """Of an example: its templates as the launcher deploys them, the configuration that is shown, its quote's JSON."""

    def all_three(name):
        quoted, templates, quote_json = both_sides(EXAMPLES[name])
        files = show_bundle(render_quote(quoted, catalog.instance_types), quoted.plan).files
        (text,) = [file.text for file in files if file.path.endswith("cluster.yaml")]
        return templates, yaml.safe_load(text), quote_json

    return all_three


@pytest.mark.parametrize("name", EXAMPLES)
def test_deployed_stacks_equal_quote(example_sides, name):
    templates, shown, quote = example_sides(name)
    assert quote["usd"] is not None
    assert differences(templates, shown, quote) == []


# ------------------------------------------------------------------------------------------- each quantity, changed


def stack(templates, kind):
    """The one resource of a type."""
    (only_resource,) = resources(templates, kind)
    return only_resource


def add(kind):
    """A second one of something, made by the stacks."""

    def change(templates, shown, quote):
        template = next(iter(templates.values()))
        existing = resources(templates, kind)
        template["Resources"]["OneMore"] = {"Type": kind, "Properties": copy.deepcopy(existing[0]) if existing else {}}

    return change


def drop(kind):
    """None of something is made."""

    def change(templates, shown, quote):
        for template in templates.values():
            definitions = template["Resources"]
            template["Resources"] = {
                key: definition for key, definition in definitions.items() if definition["Type"] != kind
            }

    return change


def build(change):
    """A change of what ParallelCluster is given."""
    return lambda templates, shown, quote: change(cluster_of(templates))


def in_shown(change):
    """The same change in the shown files only."""
    return lambda templates, shown, quote: change(shown)


def queue(configuration):
    return configuration["Scheduling"]["SlurmQueues"][0]


def resource(configuration):
    return queue(configuration)["ComputeResources"][0]


def root(machine):
    return machine["LocalStorage"]["RootVolume"]


def pool(configuration):
    return configuration["LoginNodes"]["Pools"][0]


def lustre(configuration):
    return configuration["SharedStorage"][0]["FsxLustreSettings"]


def endpoint(templates, shown, quote):
    match = next(
        vpc_endpoint
        for vpc_endpoint in resources(templates, "AWS::EC2::VPCEndpoint")
        if vpc_endpoint["VpcEndpointType"] == "Interface"
    )
    match["SubnetIds"].append(match["SubnetIds"][0])


def log_days(templates, shown, quote):
    for log_group in resources(templates, "AWS::Logs::LogGroup"):
        log_group["RetentionInDays"] = 90
    for configuration in (shown, cluster_of(templates)):
        configuration["Monitoring"]["Logs"]["CloudWatch"]["RetentionInDays"] = 90


def expiry(tagged):
    def change(templates, shown, quote):
        rules = [
            rule
            for bucket in resources(templates, "AWS::S3::Bucket")
            for rule in bucket["LifecycleConfiguration"]["Rules"]
            if "ExpirationInDays" in rule and bool(rule.get("TagFilters")) is tagged
        ]
        rules[0]["ExpirationInDays"] += 1

    return change


def without_report(configuration):
    arguments = queue(configuration)["CustomActions"]["OnNodeConfigured"]["Args"]
    queue(configuration)["CustomActions"]["OnNodeConfigured"]["Args"] = [
        argument for argument in arguments if "--metrics=" not in str(argument)
    ]


def setting(key, value):
    def change(templates, shown, quote):
        stack(templates, "AWS::Lambda::Function")["Environment"]["Variables"][key] = value

    return change


def schedule(templates, shown, quote):
    rule = next(
        event_rule for event_rule in resources(templates, "AWS::Events::Rule") if "ScheduleExpression" in event_rule
    )
    rule["ScheduleExpression"] = "rate(1 minutes)"


def without_listener(templates, shown, quote):
    del stack(templates, "AWS::Lambda::Function")["Environment"]["Variables"]["FOLDER_URI"]


def without_rate(templates, shown, quote):
    del stack(templates, "AWS::Lambda::Function")["Environment"]["Variables"]["USD_PER_NODE_HOUR"]


CHANGES = {
    # Name of the quantity, number of the case, example: what is changed.
    ("NAT gateways", 1, "p5-spot"): add("AWS::EC2::NatGateway"),
    ("NAT gateways", 2, "trn2-capacity-block"): drop("AWS::EC2::NatGateway"),
    ("NAT instance m6i.large", 1, "p5-spot"): drop("AWS::EC2::Instance"),
    ("NAT instance m6i.large", 2, "p5-spot"): lambda templates, shown, quote: stack(
        templates, "AWS::EC2::Instance"
    ).update(InstanceType="m6i.xlarge"),
    ("NAT GB-months", 1, "p5-spot"): lambda templates, shown, quote: stack(templates, "AWS::EC2::Instance")[
        "BlockDeviceMappings"
    ][0]["Ebs"].update(VolumeSize=16),
    ("NAT addresses", 2, "p5-spot"): lambda templates, shown, quote: stack(templates, "AWS::EC2::Instance")[
        "NetworkInterfaces"
    ][0].update(AssociatePublicIpAddress=False),
    ("NAT addresses", 1, "p5-spot"): add("AWS::EC2::EIP"),
    ("public addresses", 1, "g6e-lora"): build(
        lambda configuration: configuration["HeadNode"]["Networking"].pop("ElasticIp")
    ),
    ("public addresses", 2, "g6e-lora"): build(
        lambda configuration: configuration["Scheduling"]["SlurmQueues"][0]["Networking"].update(AssignPublicIp=False)
    ),
    ("NAT gateways", 3, "g6e-lora"): add("AWS::EC2::NatGateway"),
    ("interface endpoints", 1, "shared-network"): endpoint,
    ("interface endpoints", 2, "shared-network"): drop("AWS::EC2::VPCEndpoint"),
    ("alarms", 1, "shared-network"): add("AWS::CloudWatch::Alarm"),
    ("alarms", 2, "shared-network"): drop("AWS::CloudWatch::Alarm"),
    ("alarms", 3, "p5-spot"): build(lambda configuration: configuration["Monitoring"]["Alarms"].update(Enabled=False)),
    ("composite alarms", 1, "p5-spot"): add("AWS::CloudWatch::CompositeAlarm"),
    ("dashboards", 1, "p5-spot"): add("AWS::CloudWatch::Dashboard"),
    ("dashboards", 2, "p5-spot"): build(
        lambda configuration: configuration["Monitoring"]["Dashboards"]["CloudWatch"].update(Enabled=True)
    ),
    ("function price", 1, "p5-spot"): lambda templates, shown, quote: stack(templates, "AWS::Lambda::Function").update(
        MemorySize=1024
    ),
    ("function price", 2, "p5-spot"): schedule,
    ("S3 listings", 1, "p5-spot"): without_listener,
    ("S3 listings", 2, "p5-spot"): schedule,
    ("budgets", 1, "p4d-lustre"): add("AWS::Budgets::Budget"),
    ("budgets", 2, "p5-spot"): drop("AWS::Budgets::Budget"),
    ("custom metrics", 1, "p5-spot"): without_rate,
    ("custom metrics", 2, "p5-spot"): build(without_report),
    ("CloudWatch requests", 1, "p5-spot"): setting("IDLE_MINUTES", "0"),
    ("CloudWatch requests", 2, "trn2-capacity-block"): setting("IDLE_MINUTES", "0"),
    ("log GB-months", 1, "p5-spot"): log_days,
    ("replaced GB-months", 1, "p5-spot"): expiry(tagged=True),
    ("access log GB-months", 1, "p4d-lustre"): expiry(tagged=False),
    ("node type", 1, "p5-spot"): build(
        lambda configuration: resource(configuration).update(InstanceType="p5en.48xlarge")
    ),
    ("node type", 2, "p5-spot"): in_shown(
        lambda configuration: resource(configuration).update(InstanceType="p5en.48xlarge")
    ),
    ("nodes", 1, "p4d-lustre"): build(lambda configuration: resource(configuration).update(MaxCount=5)),
    ("nodes", 2, "p4d-lustre"): in_shown(lambda configuration: resource(configuration).update(MaxCount=3)),
    ("node-hours", 1, "trn2-capacity-block"): build(lambda configuration: resource(configuration).update(MaxCount=3)),
    ("bought as", 1, "p5-spot"): build(lambda configuration: queue(configuration).update(CapacityType="ONDEMAND")),
    ("head node", 1, "p5-spot"): build(
        lambda configuration: configuration["HeadNode"].update(InstanceType="m6i.4xlarge")
    ),
    ("login node", 1, "p4d-lustre"): build(lambda configuration: pool(configuration).update(InstanceType="m6i.xlarge")),
    ("login node-hours", 1, "p4d-lustre"): build(lambda configuration: pool(configuration).update(Count=2)),
    ("login node-hours", 2, "p5-spot"): build(
        lambda configuration: configuration.update(LoginNodes={"Pools": [{"Count": 1, "InstanceType": "m6i.large"}]})
    ),
    ("load balancers", 1, "p4d-lustre"): build(lambda configuration: configuration.pop("LoginNodes")),
    ("gp3 GB-months", 1, "p5-spot"): build(lambda configuration: root(configuration["HeadNode"]).update(Size=200)),
    ("gp3 GB-months", 2, "p5-spot"): in_shown(
        lambda configuration: root(queue(configuration)["ComputeSettings"]).update(Size=101)
    ),
    ("io2 GB-months", 1, "p5-spot"): build(
        lambda configuration: root(configuration["HeadNode"]).update(VolumeType="io2")
    ),
    ("file systems", 1, "p4d-lustre"): build(lambda configuration: lustre(configuration).update(StorageCapacity=7200)),
    ("file systems", 2, "p4d-lustre"): in_shown(
        lambda configuration: lustre(configuration).update(PerUnitStorageThroughput=125)
    ),
    ("file system price", 1, "p4d-lustre"): build(
        lambda configuration: lustre(configuration).update(PerUnitStorageThroughput=500)
    ),
    ("file system GB-months", 1, "p4d-lustre"): build(lambda configuration: configuration.pop("SharedStorage")),
}


@pytest.mark.parametrize("case", CHANGES, ids=lambda case: "-".join(map(str, case)).replace(" ", "-"))
def test_changed_deployment_differs_from_quote(example_sides, case):
    quantity, _, name = case
    templates, shown, quote = example_sides(name)
    CHANGES[case](templates, shown, quote)
    assert quantity in differences(templates, shown, quote)


@pytest.mark.parametrize("name", ["p4d-lustre", "shared-network", "trn2-capacity-block"])
def test_changed_or_unknown_quote_line_differs_from_deployment(example_sides, name):
    """Of every line that templates decide: more of it, none of it; and a line that nobody knows."""
    templates, shown, quote = example_sides(name)
    decided = 0
    for index, line in enumerate(quote["components"]):
        more, none = copy.deepcopy(quote), copy.deepcopy(quote)
        more["components"][index]["quantity"] *= 1.1
        del none["components"][index]
        noticed = [differences(templates, shown, changed_quote) for changed_quote in (more, none)]
        if line["name"] not in USAGE:
            assert all(noticed), line["name"]
            decided += 1
    assert decided >= 14
    quote["components"].append({**quote["components"][-1], "name": "something new", "quantity": 1.0})
    assert differences(templates, shown, quote) == ["something new"]


NAMES = [
    ("p5-spot", "1 x p5", "9 x p5", "nodes"),
    ("p5-spot", "x p5.48xlarge", "x p5e.48xlarge", "node type"),
    ("p5-spot", "xlarge spot", "xlarge on-demand", "bought as"),
    ("p4d-lustre", "head node m6i.large", "head node m6i.2xlarge", "head node"),
    ("p4d-lustre", "login node m6i.large", "login node c6i.large", "login node"),
    ("p4d-lustre", "4800 GiB", "1200 GiB", "file systems"),
    ("p4d-lustre", "250 MB", "500 MB", "file systems"),
]


@pytest.mark.parametrize("name, old, new, quantity", NAMES)
def test_renamed_quote_line_differs_from_deployment(example_sides, name, old, new, quantity):
    templates, shown, quote = example_sides(name)
    for line in quote["components"]:
        line["name"] = line["name"].replace(old, new)
    assert differences(templates, shown, quote) == [quantity]


@pytest.mark.parametrize("part, quantity", [("FSx Lustre", "file system price"), ("guard", "function price")])
def test_changed_unit_price_differs_from_deployment(example_sides, part, quantity):
    templates, shown, quote = example_sides("p4d-lustre")
    (line,) = [component for component in quote["components"] if component["name"].startswith(part)]
    line["unit_price_usd"] = str(2 * float(line["unit_price_usd"]))
    assert differences(templates, shown, quote) == [quantity]


# ------------------------------------------------------------------------------- what runs, and what the bill counts


def test_reported_metrics_equal_counted_metrics():
    """The guard and the nodes run files of their own, which import nothing of the launcher."""
    files = ("templates/guard/guard.py", "templates/guard/schedule.py", "templates/guard/idleness.py", METRICS_SCRIPT)
    guard, schedule, idleness, nodes = (asset(name).read_text() for name in files)
    reported = re.findall(r'values\["(\w+)"\] =|"(\w+)": float\(count\)', guard)
    assert {first or second for first, second in reported} == {*monitoring.GUARD_METRICS, monitoring.SPEND_METRIC}
    assert re.findall(r'\("(\w+)", sample\.', nodes) == list(monitoring.NODE_METRICS)
    assert f"EVERY = timedelta(minutes={monitoring.GUARD_EVERY_MINUTES})" in schedule
    assert f"PERIOD_S = {3600 // monitoring.NODE_REPORTS_PER_HOUR}" in nodes
    assert f"JOBS_PERIOD_S = {3600 // monitoring.JOB_REPORTS_PER_HOUR}" in nodes
    assert re.findall(r'\("(\w+)", still_s', nodes) == re.findall(r'JOB_STILL = "(\w+)"', guard)
    assert len(re.findall(r'"\w+": "(?:Average|Sum)"', idleness)) == monitoring.IDLE_METRICS
    assert monitoring.HEAD_NODE_METRICS == HEAD_METRICS
