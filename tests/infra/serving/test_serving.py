"""Endpoints: containers, copies, capacity, deployments, and the requirements of the five examples."""

import json
import re

import pytest

from tests.infra.serving.conftest import COMPONENT, CONFIG, ENDPOINT, MODEL, container, only, statements, variant


class TestContainer:
    def test_inferentia_endpoint_has_pinned_image_and_neuron_ami(self, endpoint_stack):
        endpoint = endpoint_stack("llama31-8b-inf2")
        image = "huggingface-vllm-inference-neuronx:0.11.0-optimum0.4.5-neuronx-py310-sdk2.26.1-ubuntu22.04"
        assert container(endpoint)["Image"] == f"763104351884.dkr.ecr.us-east-1.amazonaws.com/{image}"
        assert variant(endpoint)["InferenceAmiVersion"] == "al2-ami-sagemaker-inference-neuron-2"

    def test_gpu_endpoint_has_vllm_image_and_ami_for_cuda(self, endpoint_stack):
        endpoint = endpoint_stack("llama31-8b-g6e")
        assert "/vllm:0.31.0-gpu-py312-cu130-" in container(endpoint)["Image"]
        assert variant(endpoint)["InferenceAmiVersion"] == "al2023-ami-sagemaker-inference-gpu-4-1"

    def test_container_environment_equals_quoted_shape(self, endpoint_stack):
        environment = container(endpoint_stack("llama33-70b-inf2"))["Environment"]
        assert environment == {
            "SM_ON_MODEL": "/opt/ml/model",
            "SM_ON_SERVED_MODEL_NAME": "llama33-70b-inf2",
            "SM_ON_TENSOR_PARALLEL_SIZE": "24",
            "SM_ON_BATCH_SIZE": "8",
            "SM_ON_SEQUENCE_LENGTH": "2048",
        }
        assert container(endpoint_stack("embedding-inf2"))["Environment"]["SM_ON_TASK"] == "embed"

    def test_model_from_s3_has_network_isolation(self, serving_example):
        source = container(serving_example)["ModelDataSource"]["S3DataSource"]
        assert source["S3Uri"].endswith("/")
        assert (source["S3DataType"], source["CompressionType"]) == ("S3Prefix", "None")
        assert only(serving_example, MODEL)["EnableNetworkIsolation"] is True

    def test_model_from_hugging_face_hub_is_not_isolated(self, endpoint_stack):
        endpoint = endpoint_stack(model="qwen3-8b", artifacts_uri=None, place={"instance_type": "g6e.2xlarge"})
        assert "ModelDataSource" not in container(endpoint)
        assert container(endpoint)["Environment"]["SM_VLLM_MODEL"] == "Qwen/Qwen3-8B"
        assert only(endpoint, MODEL)["EnableNetworkIsolation"] is False
        assert statements(endpoint, "LoadModel") == []

    def test_uncompiled_neuron_shape_may_use_hub_cache(self, endpoint_stack):
        endpoint = endpoint_stack(artifacts_uri=None, model_uri="s3://models-of-the-team/weights")
        assert container(endpoint)["Environment"]["SM_ON_ALLOW_NON_CACHED_MODEL"] == ""
        assert only(endpoint, MODEL)["EnableNetworkIsolation"] is False

    def test_startup_timeouts_are_sagemakers_maximum(self, serving_example):
        components = serving_example.resources("serving", COMPONENT).values()
        (where,) = [component["Specification"]["StartupParameters"] for component in components] or [
            variant(serving_example)
        ]
        assert where["ContainerStartupHealthCheckTimeoutInSeconds"] == 3600
        assert where["ModelDataDownloadTimeoutInSeconds"] == 3600

    def test_volume_size_set_only_without_instance_store(self, endpoint_stack):
        assert variant(endpoint_stack("llama33-70b-inf2"))["VolumeSizeInGB"] == 300
        assert "VolumeSizeInGB" not in variant(endpoint_stack("llama31-8b-g6e"))

    @pytest.mark.parametrize("serve, mode", [({}, "variant"), ({"min_instances": 0}, "components")])
    def test_training_plan_is_capacity_of_the_variant_alone(self, endpoint_stack, serve, mode):
        arn = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/chat"
        bought = {"arn": arn, "count": 2, "ends_at": "2026-12-30T11:30:00Z"}
        rest = {"purchase": {"option": "training-plan", "training_plan": bought}}
        place, weights = {"instance_type": "p5.48xlarge"}, {"artifacts_uri": None, "model_uri": "s3://models/llama"}
        assembly = endpoint_stack(place=place, rest=rest, **weights, **serve)
        reserved = {"CapacityReservationPreference": "capacity-reservations-only", "MlReservationArn": arn}
        assert variant(assembly)["CapacityReservationConfig"] == reserved
        assert bool(assembly.resources("serving", COMPONENT)) is (mode == "components")

    def test_guard_with_its_event_rule_exists_before_the_endpoint(self, serving_example):
        template = serving_example.template("serving")["Resources"]
        (endpoint,) = [resource for resource in template.values() if resource["Type"] == ENDPOINT]
        of_guard = {
            name
            for name, resource in template.items()
            if resource["Type"] in ("AWS::Lambda::Function", "AWS::Lambda::Permission", "AWS::Events::Rule")
        }
        assert len(of_guard) >= 5
        assert of_guard <= set(endpoint["DependsOn"])
        (log,) = [
            name
            for name, resource in template.items()
            if resource.get("Properties", {}).get("LogGroupName", "").startswith("/aws/sagemaker/")
        ]
        assert all(log in template[name]["DependsOn"] for name in of_guard)

    def test_endpoint_on_demand_has_no_reserved_capacity(self, serving_example):
        assert "CapacityReservationConfig" not in variant(serving_example)

    def test_several_gpus_become_data_parallel_replicas_of_one_container(self, endpoint_stack):
        place = {"instance_type": "g6e.12xlarge"}
        endpoint = endpoint_stack(artifacts_uri=None, model_uri="s3://models/w", tensor_parallel=1, place=place)
        assert container(endpoint)["Environment"]["SM_VLLM_DATA_PARALLEL_SIZE"] == "4"
        assert endpoint.resources("serving", COMPONENT) == {}


class TestCopies:
    def test_copies_on_one_instance_are_components_with_accelerators(self, endpoint_stack):
        component = only(endpoint_stack("llama31-8b-inf2"), COMPONENT)
        needs = component["Specification"]["ComputeResourceRequirements"]
        assert needs == {"NumberOfAcceleratorDevicesRequired": 4, "MinMemoryRequiredInMb": 196608}
        assert component["RuntimeConfig"] == {"CopyCount": 3}
        assert variant(endpoint_stack("llama31-8b-inf2"))["ManagedInstanceScaling"] == {
            "Status": "ENABLED",
            "MinInstanceCount": 1,
            "MaxInstanceCount": 5,
        }

    def test_endpoint_config_of_components_has_role_and_no_model(self, endpoint_stack):
        endpoint = endpoint_stack("llama31-8b-inf2")
        assert "ExecutionRoleArn" in only(endpoint, CONFIG)
        assert "ModelName" not in variant(endpoint)

    def test_routing_strategy_is_least_outstanding_requests(self, endpoint_stack):
        for name in ("llama31-8b-inf2", "llama33-70b-inf2", "llama31-8b-g6e"):
            assert variant(endpoint_stack(name))["RoutingConfig"] == {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"}


class TestDeployment:
    def test_single_instance_update_is_blue_green_all_at_once(self, endpoint_stack):
        policy = only(endpoint_stack("llama31-8b-g6e"), ENDPOINT)["DeploymentConfig"]["BlueGreenUpdatePolicy"]
        assert policy["TrafficRoutingConfiguration"] == {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 300}
        # A quote bills a quarter of an hour of both versions.
        assert policy["TerminationWaitInSeconds"] == 600

    def test_old_version_waits_longer_than_alarm_evaluation(self, endpoint_stack):
        canary = {"deployment": "canary", "min_instances": 4, "max_instances": 8}
        for endpoint in (
            endpoint_stack("llama31-8b-g6e"),
            endpoint_stack("asynchronous-inf2"),
            endpoint_stack(**canary),
        ):
            config = only(endpoint, ENDPOINT)["DeploymentConfig"]
            policy = config["BlueGreenUpdatePolicy"]
            waits = policy["TrafficRoutingConfiguration"]["WaitIntervalInSeconds"], policy["TerminationWaitInSeconds"]
            assert sum(waits) == 900 < policy["MaximumExecutionTimeoutInSeconds"]
            rollback = [alarm["AlarmName"]["Ref"] for alarm in config["AutoRollbackConfiguration"]["Alarms"]]
            alarm = endpoint.resources("serving", "AWS::CloudWatch::Alarm")[rollback[0]]
            assert min(waits) >= alarm["Period"] * alarm["EvaluationPeriods"]

    def test_several_instances_update_is_rolling_by_half(self, endpoint_stack):
        policy = only(endpoint_stack("llama33-70b-inf2"), ENDPOINT)["DeploymentConfig"]["RollingUpdatePolicy"]
        assert policy["MaximumBatchSize"] == {"Type": "CAPACITY_PERCENT", "Value": 50}

    def test_canary_deployment_shifts_a_quarter_of_capacity(self, endpoint_stack):
        endpoint = endpoint_stack(deployment="canary", min_instances=4, max_instances=8)
        routing = only(endpoint, ENDPOINT)["DeploymentConfig"]["BlueGreenUpdatePolicy"]["TrafficRoutingConfiguration"]
        assert (routing["Type"], routing["CanarySize"]) == ("CANARY", {"Type": "CAPACITY_PERCENT", "Value": 25})

    def test_deployment_alarms_roll_back_new_version(self, serving_example):
        resources = [*serving_example.resources("serving", COMPONENT).values(), only(serving_example, ENDPOINT)]
        (config,) = [resource["DeploymentConfig"] for resource in resources if "DeploymentConfig" in resource]
        named = [alarm["AlarmName"]["Ref"] for alarm in config["AutoRollbackConfiguration"]["Alarms"]]
        metrics = {serving_example.resources("serving", "AWS::CloudWatch::Alarm")[key]["MetricName"] for key in named}
        assert metrics in ({"Invocation5XXErrors", "ModelLatency"}, {"InvocationFailures"})
        (watch,) = statements(serving_example, "DescribeAlarms")
        arns = watch["Resource"] if isinstance(watch["Resource"], list) else [watch["Resource"]]
        assert [arn["Fn::GetAtt"][0] for arn in arns] == named

    def test_update_retains_instance_count_of_scaled_variant_alone(self, endpoint_stack):
        assert only(endpoint_stack("llama33-70b-inf2"), ENDPOINT)["RetainAllVariantProperties"] is True
        assert "RetainAllVariantProperties" not in only(endpoint_stack("llama31-8b-inf2"), ENDPOINT)
        fixed = endpoint_stack(min_instances=3, max_instances=3)
        assert not fixed.resources("serving", "AWS::ApplicationAutoScaling::ScalableTarget")
        assert "RetainAllVariantProperties" not in only(fixed, ENDPOINT)

    def test_every_update_has_new_config_under_same_endpoint_name(self, serving_example):
        assert "EndpointConfigName" not in only(serving_example, CONFIG)
        assert only(serving_example, ENDPOINT)["EndpointName"] == f"slipway-{serving_example.plan.name}"
        outputs = serving_example.template("serving")["Outputs"]
        assert outputs["EndpointConfigName"]["Value"] == only(serving_example, ENDPOINT)["EndpointConfigName"]
        assert outputs["PlanDigest"]["Value"] == serving_example.plan.digest


class TestStore:
    def test_asynchronous_answers_expire_in_private_bucket(self, endpoint_stack):
        bucket = only(endpoint_stack("asynchronous-inf2"), "AWS::S3::Bucket")
        assert bucket["LifecycleConfiguration"]["Rules"][0]["ExpirationInDays"] == 30
        assert all(bucket["PublicAccessBlockConfiguration"].values())

    def test_data_capture_stores_input_and_output(self, endpoint_stack):
        capture = only(endpoint_stack("embedding-inf2"), CONFIG)["DataCaptureConfig"]
        assert [option["CaptureMode"] for option in capture["CaptureOptions"]] == ["Input", "Output"]
        assert capture["InitialSamplingPercentage"] == 100

    def test_endpoint_without_queue_or_capture_has_no_bucket(self, endpoint_stack):
        assert endpoint_stack("llama31-8b-g6e").resources("serving", "AWS::S3::Bucket") == {}
        assert "DataCaptureConfig" not in only(endpoint_stack("llama31-8b-g6e"), CONFIG)

    def test_kms_key_encrypts_volumes_and_is_granted_to_role(self, endpoint_stack):
        endpoint = endpoint_stack("llama33-70b-inf2")
        key = "arn:aws:kms:us-east-1:123456789012:key/0f9a1c2e-58d1-4a43-9a61-5c3b0a5b7d10"
        assert only(endpoint, CONFIG)["KmsKeyId"] == key
        # The containers' role, and the guard's, which publishes to a topic under the key.
        assert [statement["Resource"] for statement in statements(endpoint, "UseKey")] == [key, key]
        (lend,) = statements(endpoint, "CreateKeyGrant")
        assert lend["Condition"] == {"Bool": {"kms:GrantIsForAWSResource": "true"}}


class TestPermissions:
    def test_container_role_reads_only_model_prefix(self, endpoint_stack):
        (load,) = statements(endpoint_stack("llama33-70b-inf2"), "LoadModel")
        assert load["Action"] == "s3:GetObject"
        assert json.dumps(load["Resource"]).endswith('models-of-the-team/llama-3.3-70b/inf2-tp24-b8-s2048/*"]]}')

    def test_container_role_pulls_only_one_repository(self, endpoint_stack):
        (pull,) = statements(endpoint_stack("llama31-8b-g6e"), "PullImage")
        assert json.dumps(pull["Resource"]).endswith(':ecr:us-east-1:763104351884:repository/vllm"]]}')

    def test_sagemaker_assumes_role_only_for_source_account(self, serving_example):
        roles = serving_example.resources("serving", "AWS::IAM::Role").values()
        (trust,) = [
            role["AssumeRolePolicyDocument"]["Statement"][0]
            for role in roles
            if "sagemaker" in json.dumps(role["AssumeRolePolicyDocument"])
        ]
        assert trust["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}

    def test_caller_policy_allows_invoke_and_bearer_token(self, endpoint_stack):
        endpoint = endpoint_stack("llama31-8b-inf2")
        (invoke,) = statements(endpoint, "Invoke")
        assert invoke["Action"] == "sagemaker:InvokeEndpoint"
        assert [re.findall(r":(\S+/slipway-\S+?)\"", json.dumps(resource))[0] for resource in invoke["Resource"]] == [
            "endpoint/slipway-llama31-8b-inf2",
            "inference-component/slipway-llama31-8b-inf2",
        ]
        assert [statement["Action"] for statement in statements(endpoint, "BearerToken")] == [
            "sagemaker:CallWithBearerToken"
        ]

    def test_caller_policy_of_asynchronous_endpoint_allows_put_request(self, endpoint_stack):
        endpoint = endpoint_stack("asynchronous-inf2")
        assert [statement["Action"] for statement in statements(endpoint, "Invoke")] == [
            "sagemaker:InvokeEndpointAsync"
        ]
        assert statements(endpoint, "BearerToken") == []
        assert [statement["Action"] for statement in statements(endpoint, "WriteRequests")] == ["s3:PutObject"]

    def test_log_group_retention_is_30_days(self, serving_example):
        groups = serving_example.resources("serving", "AWS::Logs::LogGroup").values()
        assert {group["RetentionInDays"] for group in groups} == {30}
        kind = "InferenceComponents" if serving_example.resources("serving", COMPONENT) else "Endpoints"
        assert f"/aws/sagemaker/{kind}/slipway-{serving_example.plan.name}" in [
            group.get("LogGroupName") for group in groups
        ]


def test_openai_url_output_has_component_path(endpoint_stack):
    for name, part in (("llama31-8b-inf2", "/inference-components/slipway-llama31-8b-inf2"), ("llama31-8b-g6e", "")):
        url = json.dumps(endpoint_stack(name).template("serving")["Outputs"]["OpenAiUrl"]["Value"])
        assert url.endswith(f'/endpoints/slipway-{name}{part}/openai/v1"]]}}')
    assert "OpenAiUrl" not in endpoint_stack("embedding-inf2").template("serving")["Outputs"]


NETWORK = {
    "vpc_id": "vpc-0a1b2c3d4e5f60718",
    "subnet_ids": ["subnet-0a1b2c3d", "subnet-1a1b2c3d"],
    "security_group_ids": ["sg-0a1b2c3d"],
}
IN_VPC = {"Subnets": NETWORK["subnet_ids"], "SecurityGroupIds": NETWORK["security_group_ids"]}


class TestNetwork:
    """SageMaker: what a policy of the organisation may demand (sagemaker:VpcSubnets, sagemaker:VpcSecurityGroupIds)."""

    def test_containers_of_variant_have_interfaces_in_plan_subnets(self, endpoint_stack):
        endpoint = endpoint_stack(
            tensor_parallel=8, rest={"network": NETWORK}, place={"instance_type": "inf2.24xlarge"}
        )
        components = endpoint.resources("serving", COMPONENT)
        assert bool(components) == ("VpcConfig" in only(endpoint, CONFIG))
        assert only(endpoint, MODEL)["VpcConfig"] == IN_VPC
        (interfaces,) = statements(endpoint, "Interfaces")
        assert "ec2:CreateNetworkInterface" in interfaces["Action"]

    def test_containers_of_components_use_endpoint_vpc_config(self, endpoint_stack):
        endpoint = endpoint_stack(
            tensor_parallel=2, rest={"network": NETWORK}, place={"instance_type": "inf2.24xlarge"}
        )
        assert endpoint.resources("serving", COMPONENT)
        assert only(endpoint, CONFIG)["VpcConfig"] == only(endpoint, MODEL)["VpcConfig"] == IN_VPC
        assert only(endpoint, CONFIG)["EnableNetworkIsolation"] == only(endpoint, MODEL)["EnableNetworkIsolation"]
        assert only(endpoint, CONFIG)["ExecutionRoleArn"] == only(endpoint, MODEL)["ExecutionRoleArn"]

    def test_containers_without_network_have_no_interface_permission(self, serving_example):
        assert "VpcConfig" not in {**only(serving_example, MODEL), **only(serving_example, CONFIG)}
        assert statements(serving_example, "Interfaces") == []
