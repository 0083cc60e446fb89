"""ParallelCluster's update rules in Slipway, compared with the package's own verdict on the same changes."""

import csv
import io
import json
import re
from copy import deepcopy

import pytest

from launcher.catalog.updates import CLUSTER_UPDATES
from launcher.rendering.names import symbolic_names
from launcher.targets.parallelcluster.files import cluster_configuration
from launcher.targets.parallelcluster.updates import Patch
from tests.checks import some
from tests.infra.pcluster_driver import ask
from tests.plans import ROOT

pytestmark = [pytest.mark.pcluster, pytest.mark.xdist_group("pcluster")]

COLUMNS = ("key", "update_key", "policy", "as_of", "basis", "source")
ORIGIN = ("2026-11-23", "listed", "pcluster-updates")


def test_shipped_update_policies_equal_package(golden):
    """Of every key that the template of a configuration writes."""
    template = (ROOT / "templates/parallelcluster/cluster.yaml.j2").read_text(encoding="utf-8")
    written = set(re.findall(r"^ *(?:- )?(\w+):", template, re.MULTILINE))
    (policies,) = ask("policies", [ROOT / "examples/p5-spot.yaml"])
    rows = sorted(row for row in policies if written.issuperset(row[0].split("/")))
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([COLUMNS, *([*row, *ORIGIN] for row in rows)])
    golden(f"../../launcher/catalog/data/{CLUSTER_UPDATES}", text.getvalue())


def queue(configuration):
    return configuration["Scheduling"]["SlurmQueues"][0]


def resource(configuration):
    return queue(configuration)["ComputeResources"][0]


LUSTRE = {
    "Name": "fsx",
    "MountDir": "/fsx",
    "StorageType": "FsxLustre",
    "FsxLustreSettings": {"StorageCapacity": 1200, "DeploymentType": "PERSISTENT_2"},
}
POOL = {"Name": "login", "Count": 2, "InstanceType": "m6i.large"}
CHANGES = {
    "nothing": lambda new: None,
    "idle": lambda new: new["Scheduling"]["SlurmSettings"].update(ScaledownIdletime=99),
    "head": lambda new: new["HeadNode"].update(InstanceType="m6i.4xlarge"),
    "more": lambda new: resource(new).update(MaxCount=99),
    "fewer": lambda new: resource(new).update(MaxCount=1),
    "block-grows": lambda new: resource(new).update(MinCount=4, MaxCount=99),
    "only-static": lambda new: resource(new).update(MinCount=1),
    "bought": lambda new: queue(new).update(CapacityType="ONDEMAND"),
    "group": lambda new: queue(new)["Networking"]["PlacementGroup"].update(Enabled=False),
    "efa": lambda new: resource(new)["Efa"].update(Enabled=False),
    "type": lambda new: (queue(new).update(Name="other"), resource(new).update(InstanceType="p4d.24xlarge")),
    "queue-added": lambda new: new["Scheduling"]["SlurmQueues"].append({**deepcopy(queue(new)), "Name": "more"}),
    "same-name": lambda new: resource(new).update(InstanceType="p4d.24xlarge"),
    "script": lambda new: queue(new)["CustomActions"]["OnNodeConfigured"].update(Script="s3://other/node.sh"),
    "subnet": lambda new: queue(new)["Networking"].update(SubnetIds=["subnet-2"]),
    "strategy": lambda new: new["Scheduling"]["SlurmSettings"].update(QueueUpdateStrategy="TERMINATE"),
    "fleet-stop": lambda new: (
        new["Scheduling"]["SlurmSettings"].update(QueueUpdateStrategy="COMPUTE_FLEET_STOP"),
        queue(new).update(CapacityType="ONDEMAND"),
    ),
    "os": lambda new: new["Image"].update(Os="rhel9"),
    "ami": lambda new: new["Image"].update(CustomAmi="ami-1"),
    "disk": lambda new: queue(new)["ComputeSettings"]["LocalStorage"]["RootVolume"].update(Size=500),
    "policies": lambda new: queue(new)["Iam"]["AdditionalIamPolicies"].append({"Policy": "arn:other"}),
    "lustre": lambda new: new.update(SharedStorage=[deepcopy(LUSTRE)]),
    "logins": lambda new: new.update(LoginNodes={"Pools": [POOL]}),
    "tags": lambda new: new["Tags"].append({"Key": "a", "Value": "b"}),
    "tag": lambda new: new["Tags"][0].update(Value="b"),
    "boundary": lambda new: new.update(Iam={"PermissionsBoundary": "arn:policy"}),
    "layout": lambda new: new.update(DevSettings={"EfaInterfaceType": "efa"}),
    "logs": lambda new: new["Monitoring"]["Logs"]["CloudWatch"].update(RetentionInDays=90),
    "slurm": lambda new: new["Scheduling"]["SlurmSettings"].update(CustomSlurmSettings=[{"JobRequeue": 0}]),
}


def test_configuration_changes_allowed_and_refused_like_package(tmp_path, plan_named, catalog):
    """Each change there and back, with the fleet up and down, with login nodes and a file system and without."""
    plan = plan_named("p5-spot")
    plain = cluster_configuration(plan, instances=catalog.instance_types, names=symbolic_names(plan))
    full = {**plain, "SharedStorage": [LUSTRE], "LoginNodes": {"Pools": [POOL]}}
    requests = []
    for base in (plain, full):
        for change in CHANGES.values():
            new = deepcopy(base)
            change(new)
            for old, target in ((base, new), (new, base)):
                logins = "LoginNodes" in old
                requests += [{"old": old, "new": target, "fleet": up, "logins": logins} for up in (True, False)]
    for logins in (True, False):
        ended = {**full, "LoginNodes": {"Pools": [{**POOL, "Count": 0}]}}
        requests += [{"old": full, "new": ended, "fleet": True, "logins": logins}]
        requests += [{"old": ended, "new": {**plain, "SharedStorage": [LUSTRE]}, "fleet": True, "logins": logins}]
    grown = deepcopy(full)
    grown["SharedStorage"][0]["FsxLustreSettings"]["StorageCapacity"] = 2400
    grown["LoginNodes"]["Pools"][0]["Count"] = 0
    requests.append({"old": full, "new": grown, "fleet": True, "logins": True})
    files = [tmp_path / f"{number}.yaml" for number in range(len(requests))]
    for path, state in zip(files, requests, strict=True):
        path.write_text(json.dumps(state), encoding="utf-8")
    for state, verdicts in some(zip(requests, ask("update", files), strict=True)):
        patch = Patch(**state)
        assert sorted([difference.text, patch.allows(difference)] for difference in patch.differences) == verdicts, (
            state["new"]
        )
