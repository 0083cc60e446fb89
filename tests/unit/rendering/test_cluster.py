"""The settings of a cluster configuration, in the form that the service requires."""

import pytest
import yaml

from launcher.model.errors import ImpossibleError
from launcher.model.update import Needs
from launcher.planning.pin import zone
from launcher.rendering.cluster import cluster_name, queue_name
from launcher.rendering.names import deployed_names, symbolic_names
from launcher.targets.parallelcluster.files import cluster_configuration, cluster_yaml
from launcher.targets.parallelcluster.updates import changes

BLOCK = {"option": "capacity-block", "reservation": {"id": "cr-0123456789abcdef0"}}


@pytest.fixture(scope="session")
def configuration_of(catalog, plan_of):
    """The configuration of BASE with more keys laid over it."""

    def make(**extra):
        plan = plan_of(**extra)
        return cluster_configuration(plan, instances=catalog.instance_types, names=symbolic_names(plan))

    return make


def queue(configuration, index=0):
    return configuration["Scheduling"]["SlurmQueues"][index]


def arguments(queue):
    return queue["CustomActions"]["OnNodeConfigured"]["Args"]


def resource(configuration, index=0):
    (only,) = queue(configuration, index)["ComputeResources"]
    return only


class TestCapacity:
    def test_on_demand_queue_has_a_minimum_of_zero_nodes(self, configuration_of):
        configuration = configuration_of()
        assert queue(configuration)["CapacityType"] == "ONDEMAND"
        assert (resource(configuration)["MinCount"], resource(configuration)["MaxCount"]) == (0, 2)
        assert "CapacityReservationTarget" not in resource(configuration)

    def test_spot_purchase_gives_a_spot_queue(self, configuration_of):
        assert queue(configuration_of(purchase={"option": "spot"}))["CapacityType"] == "SPOT"

    @pytest.mark.parametrize("option", ["savings-plan", "reserved"])
    def test_commitment_is_launched_as_on_demand_capacity(self, configuration_of, option):
        assert queue(configuration_of(purchase={"option": option}))["CapacityType"] == "ONDEMAND"

    def test_capacity_block_has_constant_size_and_no_placement_group(self, configuration_of):
        configuration = configuration_of(purchase=BLOCK)
        assert queue(configuration)["CapacityType"] == "CAPACITY_BLOCK"
        assert (resource(configuration)["MinCount"], resource(configuration)["MaxCount"]) == (2, 2)
        assert resource(configuration)["CapacityReservationTarget"] == {"CapacityReservationId": "cr-0123456789abcdef0"}
        assert queue(configuration)["Networking"]["PlacementGroup"] == {"Enabled": False}

    def test_on_demand_reservation_has_no_placement_group(self, configuration_of):
        configuration = configuration_of(
            purchase={"option": "on-demand", "reservation": {"id": "cr-0123456789abcdef0"}}
        )
        assert queue(configuration)["CapacityType"] == "ONDEMAND"
        assert queue(configuration)["Networking"]["PlacementGroup"] == {"Enabled": False}
        assert resource(configuration)["MinCount"] == 0

    def test_scaling_strategy_is_all_nodes_together(self, configuration_of):
        assert configuration_of()["Scheduling"]["ScalingStrategy"] == "all-or-nothing"

    def test_fallback_types_become_further_queues(self, configuration_of):
        target = {"fallback_types": ["p5en.48xlarge", "p4d.24xlarge"]}
        configuration = configuration_of(target=target, purchase={"option": "spot"})
        assert [slurm_queue["Name"] for slurm_queue in configuration["Scheduling"]["SlurmQueues"]] == [
            "p5-48xlarge",
            "p5en-48xlarge",
            "p4d-24xlarge",
        ]
        assert {slurm_queue["CapacityType"] for slurm_queue in configuration["Scheduling"]["SlurmQueues"]} == {"SPOT"}

    def test_fallback_queue_does_not_use_the_capacity_block(self, configuration_of):
        configuration = configuration_of(target={"fallback_types": ["p4d.24xlarge"]}, purchase=BLOCK)
        assert queue(configuration, 1)["CapacityType"] == "ONDEMAND"
        assert resource(configuration, 1)["MinCount"] == 0
        assert "CapacityReservationTarget" not in resource(configuration, 1)


class TestTypes:
    @pytest.mark.parametrize("name, efa", [("p5.48xlarge", True), ("trn2.48xlarge", True), ("trn1.2xlarge", False)])
    def test_efa_and_placement_group_follow_from_the_type(self, configuration_of, name, efa):
        region = "us-east-1" if name == "trn1.2xlarge" else "us-east-2"
        configuration = configuration_of(target={"instance_type": name, "region": region})
        assert resource(configuration)["Efa"] == {"Enabled": efa}
        assert queue(configuration)["Networking"]["PlacementGroup"] == {"Enabled": efa}

    @pytest.mark.parametrize("wanted", [True, False])
    def test_placement_group_of_the_plan_overrides_the_default(self, configuration_of, wanted):
        configuration = configuration_of(target={"placement_group": wanted})
        assert queue(configuration)["Networking"]["PlacementGroup"] == {"Enabled": wanted}

    def test_nvme_volume_is_mounted_at_scratch(self, configuration_of):
        assert queue(configuration_of())["ComputeSettings"]["LocalStorage"]["EphemeralVolume"] == {
            "MountDir": "/scratch"
        }

    def test_gpu_health_check_is_enabled_for_nvidia_and_absent_for_neuron(self, configuration_of):
        assert queue(configuration_of())["HealthChecks"] == {"Gpu": {"Enabled": True}}
        assert "HealthChecks" not in queue(configuration_of(target={"instance_type": "trn2.48xlarge"}))

    @pytest.mark.parametrize(
        "name, region, settings",
        [
            ("p5.48xlarge", "us-east-2", {"Sockets": 2, "CoresPerSocket": 48, "ThreadsPerCore": 2}),
            ("p4d.24xlarge", "us-east-1", {"Sockets": 2, "CoresPerSocket": 24, "ThreadsPerCore": 2}),
            ("p5.4xlarge", "us-east-2", None),
            ("trn2.48xlarge", "us-east-2", None),
        ],
    )
    def test_published_cpu_topology_is_set_in_slurm(self, configuration_of, name, region, settings):
        configuration = configuration_of(target={"instance_type": name, "region": region})
        assert resource(configuration).get("CustomSlurmSettings") == settings

    def test_classic_efa_layout_sets_the_interface_type(self, configuration_of):
        assert configuration_of(target={"efa_layout": "classic"})["DevSettings"] == {"EfaInterfaceType": "efa"}
        assert "DevSettings" not in configuration_of()

    def test_public_nodes_with_efa_have_one_interface(self, configuration_of):
        configuration = configuration_of(target={"instance_type": "g6e.8xlarge"}, network={"nat": "none"})
        assert queue(configuration)["Networking"]["AssignPublicIp"] is True
        assert resource(configuration)["Efa"]["Enabled"] is True
        assert configuration["DevSettings"] == {"EfaInterfaceType": "efa"}

    def test_neuron_driver_is_installed_unless_the_plan_has_an_ami(self, configuration_of):
        trn2 = {"instance_type": "trn2.48xlarge"}
        action = queue(configuration_of(target=trn2))["CustomActions"]["OnNodeConfigured"]
        assert action["Script"].endswith("/node.sh")
        assert "aws-neuronx-dkms=2.31.7.0" in action["Args"]
        baked = queue(configuration_of(target={**trn2, "ami": "ami-0123456789abcdef0"}))
        assert all(argument.startswith("--") for argument in arguments(baked))
        assert all(argument.startswith("--") for argument in arguments(queue(configuration_of())))

    def test_old_python_of_the_operating_system_installs_a_newer_one(self, configuration_of):
        options = arguments(queue(configuration_of(target={"os": "alinux2023"})))
        assert options[-2:] == ["--python=python3.11", "python3.11"]

    @pytest.mark.parametrize("name, chips", [("p5.48xlarge", "nvidia"), ("trn2.48xlarge", "neuron")])
    def test_accelerator_metrics_use_the_name_of_the_cluster(self, configuration_of, name, chips):
        options = arguments(queue(configuration_of(target={"instance_type": name})))
        assert options[:4] == [
            "--reports=s3://slipway-small-checkpoints/jobs/.guard/messages/boots",
            *("--metrics=s3://slipway-small-assets/metrics.py", "--cluster=small", f"--chips={chips}"),
        ]


class TestHeadNode:
    @pytest.mark.parametrize("nodes, expected", [(4, "m6i.large"), (5, "m6i.xlarge"), (64, "m6i.2xlarge")])
    def test_head_node_size_grows_with_the_number_of_nodes(self, configuration_of, nodes, expected):
        assert configuration_of(target={"nodes": nodes})["HeadNode"]["InstanceType"] == expected

    def test_head_node_type_of_the_plan_is_used(self, configuration_of):
        assert configuration_of(storage={"head_node": "c6i.large"})["HeadNode"]["InstanceType"] == "c6i.large"

    def test_head_and_login_nodes_are_reachable_through_ssm_only(self, configuration_of):
        head = configuration_of(storage={"login_nodes": 1})
        for machine in (head["HeadNode"], *head["LoginNodes"]["Pools"]):
            assert machine["Ssh"] == {"AllowedIps": "127.0.0.1/32"}
            policies = [policy["Policy"] for policy in machine["Iam"]["AdditionalIamPolicies"]]
            # AmazonSSMManagedInstanceCore reads every parameter of the account.
            assert policies[0].endswith("-entered")
        assert "KeyName" not in yaml.safe_dump(head)

    def test_login_pool_removal_with_running_nodes_needs_a_new_cluster(self, configuration_of):
        full, empty, none = (
            configuration_of(storage=storage) for storage in ({"login_nodes": 2}, {"login_pool": True}, {})
        )

        def login_node_needs(old, new):
            both = {"ClusterConfiguration": old}, {"ClusterConfiguration": new}
            return [change.needs for change in changes(*both) if change.plan_key == "storage.login_nodes"]

        assert (login_node_needs(full, empty), login_node_needs(empty, none)) == ([Needs.NOTHING], [Needs.NOTHING])
        assert login_node_needs(full, none) == [Needs.NEW_CLUSTER]

    def test_instance_metadata_requires_tokens(self, configuration_of):
        configuration = configuration_of()
        assert configuration["Imds"] == {"ImdsSupport": "v2.0"}
        assert configuration["HeadNode"]["Imds"] == {"Secured": True}

    def test_nodes_have_the_slipway_policy_and_no_s3_access_of_parallelcluster(self, configuration_of):
        configuration = configuration_of()
        (policy,) = queue(configuration)["Iam"]["AdditionalIamPolicies"]
        assert policy["Policy"].endswith("policy/parallelcluster/slipway-small")
        assert "S3Access" not in yaml.safe_dump(configuration)

    def test_nodes_and_head_node_have_no_public_address(self, configuration_of):
        configuration = configuration_of()
        assert queue(configuration)["Networking"]["AssignPublicIp"] is False
        assert "ElasticIp" not in configuration["HeadNode"]["Networking"]


class TestSettings:
    def test_slurm_requeues_the_exit_code_of_the_agent(self, configuration_of):
        settings = configuration_of()["Scheduling"]["SlurmSettings"]
        assert {"RequeueExit": 75} in settings["CustomSlurmSettings"]
        assert settings["QueueUpdateStrategy"] == "DRAIN"

    @pytest.mark.parametrize("minutes, expected", [("auto", 5), (0, 525_600), (0.2, 1), (7.5, 8), (60, 60)])
    def test_idle_minutes_are_rounded_up_to_whole_minutes(self, configuration_of, minutes, expected):
        configuration = configuration_of(guardrails={"idle_minutes": minutes})
        assert configuration["Scheduling"]["SlurmSettings"]["ScaledownIdletime"] == expected

    def test_lustre_storage_settings_follow_the_plan(self, configuration_of):
        storage = {
            "lustre_gib": 2400,
            "lustre_mb_s_per_tib": 500,
            "kms_key_arn": "arn:aws:kms:us-east-2:123456789012:key/k",
        }
        (fsx,) = configuration_of(storage=storage)["SharedStorage"]
        settings = fsx["FsxLustreSettings"]
        assert (settings["StorageCapacity"], settings["PerUnitStorageThroughput"]) == (2400, 500)
        assert (settings["DeploymentType"], settings["KmsKeyId"]) == (
            "PERSISTENT_2",
            "arn:aws:kms:us-east-2:123456789012:key/k",
        )
        assert "DataRepositoryAssociations" not in settings
        assert "SharedStorage" not in configuration_of()

    def test_training_data_in_s3_is_linked_into_lustre(self, configuration_of):
        configuration = configuration_of(
            workload={"train": {"data": {"uri": "s3://corpus/tokens"}}}, storage={"lustre_gib": 1200}
        )
        (link,) = configuration["SharedStorage"][0]["FsxLustreSettings"]["DataRepositoryAssociations"]
        assert (link["DataRepositoryPath"], link["FileSystemPath"]) == ("s3://corpus/tokens", "/data")

    def test_permissions_boundary_is_set_for_every_role(self, configuration_of):
        arn = "arn:aws:iam::123456789012:policy/engineers"
        assert configuration_of(security={"permissions_boundary_arn": arn})["Iam"] == {"PermissionsBoundary": arn}

    def test_head_node_alarms_are_enabled_and_dashboards_disabled(self, configuration_of):
        monitoring = configuration_of()["Monitoring"]
        assert monitoring["Alarms"] == {"Enabled": True}
        assert monitoring["Dashboards"] == {"CloudWatch": {"Enabled": False}}

    def test_cluster_tags_name_cluster_plan_and_digest(self, configuration_of, plan_of):
        tag_values = {tag["Key"]: tag["Value"] for tag in configuration_of()["Tags"]}
        assert tag_values == {"slipway:cluster": "small", "slipway:plan": "small", "slipway:digest": plan_of().digest}

    def test_deployment_outputs_replace_symbolic_names(self, catalog, plan_of):
        outputs = {
            "PrivateSubnetId": "subnet-1",
            "NodeSecurityGroupId": "sg-1",
            "NodePolicyArn": "arn:1",
            "StoreUri": "s3://b/jobs",
        }
        head = cluster_configuration(plan_of(), instances=catalog.instance_types, names=deployed_names(outputs))[
            "HeadNode"
        ]
        assert head["Networking"] == {"SubnetId": "subnet-1", "AdditionalSecurityGroups": ["sg-1"]}
        with pytest.raises(KeyError):
            deployed_names({"PrivateSubnetId": "subnet-1"})


class TestNames:
    def test_queue_names_of_all_types_fit_the_parallelcluster_limit(self, catalog):
        trained = [
            instance_type for instance_type in catalog.instance_types.values() if instance_type.accelerator is not None
        ]
        assert trained
        assert all(
            len(queue_name(instance_type.name)) <= 25
            for instance_type in trained
            if "parallelcluster" in instance_type.targets
        )

    def test_longest_plan_name_gives_a_valid_cluster_name(self, plan_of):
        assert len(cluster_name(plan_of(name="x" * 40))) <= 60

    def test_open_zone_is_the_first_zone_offering_the_type(self, catalog, plan_of):
        assert zone(plan_of().place, catalog) == "use2-az1"
        assert zone(plan_of(target={"az_id": "use2-az3"}).place, catalog) == "use2-az3"


class TestRefusals:
    @pytest.mark.parametrize(
        "extra, code",
        [
            ({"purchase": {"option": "capacity-block"}}, "block-without-id"),
            ({"target": {"kind": "parallelcluster"}, "purchase": {"option": "training-plan"}}, "option-without-nodes"),
            ({"target": {"fallback_types": ["p5.48xlarge"]}}, "duplicate-queue"),
            ({"guardrails": {"notify": ["arn:aws:s3:::a-bucket"]}}, "notify-unreachable"),
        ],
    )
    def test_impossible_cluster_configuration_is_refused_with_a_code(self, configuration_of, extra, code):
        with pytest.raises(ImpossibleError) as refusal:
            configuration_of(**extra)
        assert [finding.code for finding in refusal.value.findings] == [code]


def test_cluster_yaml_text_equals_the_cluster_configuration(catalog, plan):
    given = {"instances": catalog.instance_types, "names": symbolic_names(plan)}
    assert yaml.safe_load(cluster_yaml(plan, **given)) == cluster_configuration(plan, **given)
