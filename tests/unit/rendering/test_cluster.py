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
    def test_on_demand_grows_from_nothing(self, configuration_of):
        configuration = configuration_of()
        assert queue(configuration)["CapacityType"] == "ONDEMAND"
        assert (resource(configuration)["MinCount"], resource(configuration)["MaxCount"]) == (0, 2)
        assert "CapacityReservationTarget" not in resource(configuration)

    def test_spot(self, configuration_of):
        assert queue(configuration_of(purchase={"option": "spot"}))["CapacityType"] == "SPOT"

    @pytest.mark.parametrize("option", ["savings-plan", "reserved"])
    def test_a_commitment_is_launched_on_demand(self, configuration_of, option):
        assert queue(configuration_of(purchase={"option": option}))["CapacityType"] == "ONDEMAND"

    def test_a_block_is_up_whole_all_the_time_and_without_placement_group(self, configuration_of):
        configuration = configuration_of(purchase=BLOCK)
        assert queue(configuration)["CapacityType"] == "CAPACITY_BLOCK"
        assert (resource(configuration)["MinCount"], resource(configuration)["MaxCount"]) == (2, 2)
        assert resource(configuration)["CapacityReservationTarget"] == {"CapacityReservationId": "cr-0123456789abcdef0"}
        assert queue(configuration)["Networking"]["PlacementGroup"] == {"Enabled": False}

    def test_an_on_demand_reservation_has_no_placement_group_either(self, configuration_of):
        configuration = configuration_of(
            purchase={"option": "on-demand", "reservation": {"id": "cr-0123456789abcdef0"}}
        )
        assert queue(configuration)["CapacityType"] == "ONDEMAND"
        assert queue(configuration)["Networking"]["PlacementGroup"] == {"Enabled": False}
        assert resource(configuration)["MinCount"] == 0

    def test_nodes_of_a_job_come_together_or_not_at_all(self, configuration_of):
        assert configuration_of()["Scheduling"]["ScalingStrategy"] == "all-or-nothing"

    def test_further_types_are_further_queues(self, configuration_of):
        target = {"fallback_types": ["p5en.48xlarge", "p4d.24xlarge"]}
        configuration = configuration_of(target=target, purchase={"option": "spot"})
        assert [slurm_queue["Name"] for slurm_queue in configuration["Scheduling"]["SlurmQueues"]] == [
            "p5-48xlarge",
            "p5en-48xlarge",
            "p4d-24xlarge",
        ]
        assert {slurm_queue["CapacityType"] for slurm_queue in configuration["Scheduling"]["SlurmQueues"]} == {"SPOT"}

    def test_a_further_queue_never_uses_the_block(self, configuration_of):
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
    def test_the_plan_decides_about_the_placement_group(self, configuration_of, wanted):
        configuration = configuration_of(target={"placement_group": wanted})
        assert queue(configuration)["Networking"]["PlacementGroup"] == {"Enabled": wanted}

    def test_nvme_is_mounted(self, configuration_of):
        assert queue(configuration_of())["ComputeSettings"]["LocalStorage"]["EphemeralVolume"] == {
            "MountDir": "/scratch"
        }

    def test_gpus_are_checked_before_a_job_and_neuron_chips_are_not(self, configuration_of):
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
    def test_the_topology_is_corrected_where_it_is_published(self, configuration_of, name, region, settings):
        configuration = configuration_of(target={"instance_type": name, "region": region})
        assert resource(configuration).get("CustomSlurmSettings") == settings

    def test_combined_interfaces_are_an_option(self, configuration_of):
        assert configuration_of(target={"efa_layout": "classic"})["DevSettings"] == {"EfaInterfaceType": "efa"}
        assert "DevSettings" not in configuration_of()

    def test_a_neuron_type_gets_its_driver_unless_the_image_has_it(self, configuration_of):
        trn2 = {"instance_type": "trn2.48xlarge"}
        action = queue(configuration_of(target=trn2))["CustomActions"]["OnNodeConfigured"]
        assert action["Script"].endswith("/node.sh")
        assert "aws-neuronx-dkms=2.31.7.0" in action["Args"]
        baked = queue(configuration_of(target={**trn2, "ami": "ami-0123456789abcdef0"}))
        assert all(argument.startswith("--") for argument in arguments(baked))
        assert all(argument.startswith("--") for argument in arguments(queue(configuration_of())))

    def test_an_old_python_is_joined_by_a_new_one(self, configuration_of):
        options = arguments(queue(configuration_of(target={"os": "alinux2023"})))
        assert options[-2:] == ["--python=python3.11", "python3.11"]

    @pytest.mark.parametrize("name, chips", [("p5.48xlarge", "nvidia"), ("trn2.48xlarge", "neuron")])
    def test_accelerators_are_reported_under_the_clusters_name(self, configuration_of, name, chips):
        options = arguments(queue(configuration_of(target={"instance_type": name})))
        assert options[:4] == [
            "--reports=s3://slipway-small-checkpoints/jobs/.guard/trouble/boots",
            *("--metrics=s3://slipway-small-assets/metrics.py", "--cluster=small", f"--chips={chips}"),
        ]


class TestHeadNode:
    @pytest.mark.parametrize("nodes, expected", [(4, "m6i.large"), (5, "m6i.xlarge"), (64, "m6i.2xlarge")])
    def test_head_node_grows_with_the_nodes(self, configuration_of, nodes, expected):
        assert configuration_of(target={"nodes": nodes})["HeadNode"]["InstanceType"] == expected

    def test_the_plan_can_name_it(self, configuration_of):
        assert configuration_of(storage={"head_node": "c6i.large"})["HeadNode"]["InstanceType"] == "c6i.large"

    def test_head_node_is_reached_through_ssm_and_by_nothing_else(self, configuration_of):
        head = configuration_of(storage={"login_nodes": 1})
        for machine in (head["HeadNode"], *head["LoginNodes"]["Pools"]):
            assert machine["Ssh"] == {"AllowedIps": "127.0.0.1/32"}
            policies = [policy["Policy"] for policy in machine["Iam"]["AdditionalIamPolicies"]]
            # AmazonSSMManagedInstanceCore reads every parameter of the account.
            assert policies[0].endswith("-entered")
        assert "KeyName" not in yaml.safe_dump(head)

    def test_the_login_nodes_end_before_their_pool_goes(self, configuration_of):
        full, empty, none = (
            configuration_of(storage=storage) for storage in ({"login_nodes": 2}, {"login_pool": True}, {})
        )

        def login_node_needs(old, new):
            both = {"ClusterConfiguration": old}, {"ClusterConfiguration": new}
            return [change.needs for change in changes(*both) if change.plan_key == "storage.login_nodes"]

        assert (login_node_needs(full, empty), login_node_needs(empty, none)) == ([Needs.NOTHING], [Needs.NOTHING])
        assert login_node_needs(full, none) == [Needs.NEW_CLUSTER]

    def test_metadata_answers_tokens_only(self, configuration_of):
        configuration = configuration_of()
        assert configuration["Imds"] == {"ImdsSupport": "v2.0"}
        assert configuration["HeadNode"]["Imds"] == {"Secured": True}

    def test_nodes_get_our_policy_and_not_parallelclusters_wide_one(self, configuration_of):
        configuration = configuration_of()
        (policy,) = queue(configuration)["Iam"]["AdditionalIamPolicies"]
        assert policy["Policy"].endswith("policy/parallelcluster/slipway-small")
        assert "S3Access" not in yaml.safe_dump(configuration)

    def test_no_public_address(self, configuration_of):
        configuration = configuration_of()
        assert queue(configuration)["Networking"]["AssignPublicIp"] is False
        assert "ElasticIp" not in configuration["HeadNode"]["Networking"]


class TestSettings:
    def test_the_agents_exit_code_requeues(self, configuration_of):
        settings = configuration_of()["Scheduling"]["SlurmSettings"]
        assert {"RequeueExit": 75} in settings["CustomSlurmSettings"]
        assert settings["QueueUpdateStrategy"] == "DRAIN"

    @pytest.mark.parametrize("minutes, expected", [("auto", 5), (0, 525_600), (0.2, 1), (7.5, 8), (60, 60)])
    def test_idle_nodes_stop_after_whole_minutes(self, configuration_of, minutes, expected):
        configuration = configuration_of(guardrails={"idle_minutes": minutes})
        assert configuration["Scheduling"]["SlurmSettings"]["ScaledownIdletime"] == expected

    def test_lustre(self, configuration_of):
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

    def test_training_data_are_linked_into_lustre(self, configuration_of):
        configuration = configuration_of(
            workload={"train": {"data": {"uri": "s3://corpus/tokens"}}}, storage={"lustre_gib": 1200}
        )
        (link,) = configuration["SharedStorage"][0]["FsxLustreSettings"]["DataRepositoryAssociations"]
        assert (link["DataRepositoryPath"], link["FileSystemPath"]) == ("s3://corpus/tokens", "/data")

    def test_the_boundary_reaches_every_role(self, configuration_of):
        arn = "arn:aws:iam::123456789012:policy/engineers"
        assert configuration_of(security={"permissions_boundary_arn": arn})["Iam"] == {"PermissionsBoundary": arn}

    def test_the_head_nodes_alarms_are_on(self, configuration_of):
        monitoring = configuration_of()["Monitoring"]
        assert monitoring["Alarms"] == {"Enabled": True}
        assert monitoring["Dashboards"] == {"CloudWatch": {"Enabled": False}}

    def test_tags(self, configuration_of, plan_of):
        tag_values = {tag["Key"]: tag["Value"] for tag in configuration_of()["Tags"]}
        assert tag_values == {"slipway:cluster": "small", "slipway:plan": "small", "slipway:digest": plan_of().digest}

    def test_names_of_a_deployment_take_the_place_of_words(self, catalog, plan_of):
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
    def test_names_fit_parallelcluster(self, catalog):
        trained = [
            instance_type for instance_type in catalog.instance_types.values() if instance_type.accelerator is not None
        ]
        assert trained
        assert all(
            len(queue_name(instance_type.name)) <= 25
            for instance_type in trained
            if "parallelcluster" in instance_type.targets
        )

    def test_the_longest_plan_name_fits(self, plan_of):
        assert len(cluster_name(plan_of(name="x" * 40))) <= 60

    def test_an_open_zone_is_the_first_that_offers_the_type(self, catalog, plan_of):
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
    def test_what_cannot_be_written_is_said(self, configuration_of, extra, code):
        with pytest.raises(ImpossibleError) as refusal:
            configuration_of(**extra)
        assert [finding.code for finding in refusal.value.findings] == [code]


def test_the_text_and_the_data_are_one(catalog, plan):
    given = {"instances": catalog.instance_types, "names": symbolic_names(plan)}
    assert yaml.safe_load(cluster_yaml(plan, **given)) == cluster_configuration(plan, **given)
