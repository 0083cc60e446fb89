"""ParallelCluster's validation of every configuration: its schema, its validators, its network interfaces."""

import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import yaml

from launcher.rendering.image import image_files
from launcher.rendering.names import symbolic_names
from launcher.targets.parallelcluster.files import cluster_yaml
from tests.checks import some
from tests.infra.pcluster_driver import PYTHON, ask
from tests.plans import ROOT

# A group of its own: these tests need no synthesis and take as long as all that do.
pytestmark = [pytest.mark.pcluster, pytest.mark.xdist_group("pcluster")]

ACCEPTED = {
    "KeyPairValidator": "there is no key pair on purpose: people come in through SSM",
    "EfaPlacementGroupValidator": "an on-demand reservation without a placement group of its own wants none",
}
"""Warnings that stay, by validator, and why. There are no accepted errors."""

PUBLIC_WITH_EFA = """
slipway: 1
name: public
target: {kind: parallelcluster, region: us-east-2, instance_type: g6e.8xlarge, nodes: 2}
purchase: {option: on-demand}
network: {nat: none}
"""


@pytest.fixture(scope="module")
def configurations(tmp_path_factory, plan_named, catalog, plan_names):
    """The rendered configuration of every plan file, by the file's name."""
    folder = tmp_path_factory.mktemp("configurations")
    files = {}
    for name in plan_names:
        plan = plan_named(name)
        text = cluster_yaml(plan, instances=catalog.instance_types, names=symbolic_names(plan))
        files[name] = folder / f"{name}.yaml"
        files[name].write_text(text, encoding="utf-8")
    return files


@pytest.fixture(scope="module")
def broken(tmp_path_factory, configurations):
    """Write a configuration with one thing wrong in it."""
    folder = tmp_path_factory.mktemp("broken")

    def write(name, breaking):
        data = yaml.safe_load(configurations["trn2-capacity-block" if "block" in name else "p5-spot"].read_text())
        queue = data["Scheduling"]["SlurmQueues"][0]
        breaking(data, queue, queue["ComputeResources"][0])
        path = folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(data))
        return path

    return write


def test_package_schema_accepts_every_configuration(configurations):
    assert ask("schema", configurations.values()) == [[]] * len(configurations)


def test_package_validators_accept_every_configuration(configurations):
    for name, messages in some(zip(configurations, ask("full", configurations.values()), strict=True)):
        objections = [
            message
            for message in messages
            if message.split()[1].rstrip(":") not in ACCEPTED or message.startswith("ERROR")
        ]
        assert objections == [], name


def test_package_validators_accept_public_nodes_with_efa(tmp_path, plan_at, catalog):
    path = tmp_path / "public.yaml"
    path.write_text(PUBLIC_WITH_EFA, encoding="utf-8")
    plan = plan_at(path)
    path.write_text(cluster_yaml(plan, instances=catalog.instance_types, names=symbolic_names(plan)), encoding="utf-8")
    assert "AssignPublicIp: true" in path.read_text(encoding="utf-8")
    (messages,) = ask("full", [path])
    assert [message for message in messages if message.startswith("ERROR")] == []


def test_package_image_schema_accepts_rendered_image(tmp_path, plan_named, catalog, plan_names):
    texts = {name: image_files(plan_named(name), catalog.instance_types).get("image.yaml") for name in plan_names}
    files = {name: tmp_path / f"{name}.yaml" for name, text in texts.items() if text is not None}
    assert {"trn1-spot", "trn2-capacity-block"} <= set(files)
    for name, path in files.items():
        path.write_text(texts[name], encoding="utf-8")
    assert ask("image", files.values()) == [[]] * len(files)
    (path, *_) = files.values()
    path.write_text(path.read_text(encoding="utf-8").replace("ParentImage", "ParentImag"), encoding="utf-8")
    ((message,),) = ask("image", [path])
    assert "ParentImag" in message


SCHEMA_BREAKS = {
    "unknown-key": (lambda data, queue, _: queue.update(CapacityTyp="SPOT"), "CapacityTyp"),
    "capacity-type": (lambda data, queue, _: queue.update(CapacityType="spot"), "CapacityType"),
    "no-subnet": (lambda data, queue, _: queue["Networking"].pop("SubnetIds"), "SubnetIds"),
    "os": (lambda data, queue, _: data["Image"].update(Os="ubuntu2004"), "Os"),
    "allowed-ips": (lambda data, queue, _: data["HeadNode"]["Ssh"].update(AllowedIps="nobody"), "AllowedIps"),
    "strategy": (lambda data, queue, _: data["Scheduling"].update(ScalingStrategy="all"), "ScalingStrategy"),
}
VALIDATOR_BREAKS = {
    "block-grows": (
        lambda data, queue, resource: resource.update(MinCount=1),
        "Max count must be set to the same value of min count",
    ),
    "block-placement": (
        lambda data, queue, resource: queue["Networking"]["PlacementGroup"].update(Enabled=True),
        "placement group",
    ),
    "undecided-placement": (lambda data, queue, _: queue["Networking"].pop("PlacementGroup"), "placement group"),
    "efa-on-a-small-type": (
        lambda data, queue, resource: resource.update(InstanceType="m6i.xlarge"),
        "does not support EFA",
    ),
    "denied-setting": (
        lambda data, queue, _: data["Scheduling"]["SlurmSettings"]["CustomSlurmSettings"].append(
            {"TaskPlugin": "none"}
        ),
        "TaskPlugin",
    ),
    "long-name": (lambda data, queue, _: queue.update(Name="a" * 26), "at most 25 chars"),
}


def test_package_schema_refuses_broken_configuration(broken):
    files = [broken(name, breaking) for name, (breaking, _) in SCHEMA_BREAKS.items()]
    for (_, expected), (message, *rest) in zip(SCHEMA_BREAKS.values(), ask("schema", files), strict=True):
        assert expected in message
        assert not rest


def test_package_validators_refuse_broken_configuration(broken):
    files = [broken(name, breaking) for name, (breaking, _) in VALIDATOR_BREAKS.items()]
    for (name, (_, expected)), messages in zip(VALIDATOR_BREAKS.items(), ask("full", files), strict=True):
        assert any(expected in message for message in messages), (name, messages)


def test_catalog_interface_counts_equal_parallelcluster(configurations, catalog):
    """Of every type with EFA that can be trained on, in the configuration of one plan with the type exchanged."""
    types = [
        instance_type.name
        for instance_type in catalog.instance_types.values()
        if instance_type.efa_interfaces
        and instance_type.accelerator is not None
        and "parallelcluster" in instance_type.targets
    ]
    assert len(types) >= 10
    (answers,) = ask("interfaces", [with_types(configurations["p5-spot"], types)])
    kinds_by_type = {answer["type"]: Counter(kind for kind, *_ in answer["interfaces"]) for answer in answers}
    assert {name: counts["efa-only"] + counts["efa"] for name, counts in kinds_by_type.items()} == {
        name: catalog.instance_types[name].efa_interfaces for name in kinds_by_type
    }
    assert not any(answer["public"] for answer in answers)
    assert set(kinds_by_type) == set(types)


def test_parallelcluster_reads_stop_requested_by_guard():
    (answer,) = ask("stop", [ROOT / "templates/guard/guard.py"])
    assert answer == ["RUNNING", "STOP_REQUESTED"]


def with_types(path, types):
    """The configuration with one queue for each type."""
    data = yaml.safe_load(path.read_text())
    (queue,) = data["Scheduling"]["SlurmQueues"]
    queues = []
    for name in types:
        text = json.dumps(queue).replace("p5.48xlarge", name).replace("p5-48xlarge", name.replace(".", "-"))
        queues.append(json.loads(text))
    data["Scheduling"]["SlurmQueues"] = queues
    result = path.with_name("types.yaml")
    result.write_text(yaml.safe_dump(data))
    return result


def test_emulator_schema_equals_package_schema():
    command = [str(PYTHON), str(Path(__file__).with_name("pcluster_json_schema.py"))]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == (ROOT / "launcher/sandbox/cluster/parallelcluster.schema.json").read_text(encoding="utf-8")
