"""A SageMaker endpoint: its model, its instances, and how a new version replaces the old one."""

from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from infra.parts.endpoint_store import CAPTURED, FAILURES, OUTPUT, EndpointStore
from launcher.model.endpoint import Endpoint, EndpointMode, batch_percent
from launcher.model.enums import Rollout

START_UP_S = 3600
"""SageMaker's maximum, for a container's first health check and for the model's download: 70 B need half an hour on
inf2.48xlarge (optimum-neuron, deploy-llama-3-3-70b)."""
BAKE_S = 900
"""How long the old version keeps running while alarms watch the new one; the estimate bills the same 15 minutes."""
SHIFT_S = {Rollout.ALL_AT_ONCE: 300, Rollout.CANARY: 600}
"""The part of `BAKE_S` that is WaitIntervalInSeconds, the bake between two traffic shifts; the rest is
TerminationWaitInSeconds, after the last shift. ALL_AT_ONCE has one shift: the developer guide (all at once traffic
shifting) bakes with the second setting alone, but the API also requires the first. Neither setting is 0, so that old
instances never end as soon as the new ones respond."""
STEP_S = 600
DEPLOYMENT_S = 14_400
_SHARE = "CAPACITY_PERCENT"


class SageMakerEndpoint(Construct):
    """Model, configuration and endpoint, and its inference component if it uses components.

    CloudFormation generates the configuration's name, so a change creates a new configuration and updates the endpoint.
    The name of the active configuration shows whether an update was rolled back.

    Attributes:
        config: the configuration.
        endpoint: the endpoint.
        serves: the resource that must exist before the autoscaler.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        endpoint: Endpoint,
        role: iam.IRole,
        rollback: Sequence[cloudwatch.CfnAlarm],
        store: EndpointStore | None,
        kms_key_arn: str | None,
    ) -> None:
        """`rollback` alarms abort a deployment.

        `store` is None if the endpoint stores no requests; `kms_key_arn` None: AWS's own key.
        """
        super().__init__(scope, id_)
        self._endpoint, self._role, self._kms_key_arn = endpoint, role, kms_key_arn
        self.model = self._model()
        components, network = endpoint.mode is EndpointMode.COMPONENTS, self._network()
        # With components the configuration has the role, the network and the isolation of all containers (API
        # reference, CreateEndpointConfig); traffic encryption between containers is a setting of training jobs only.
        self.config = sagemaker.CfnEndpointConfig(
            self,
            "Config",
            production_variants=[self._shared_variant() if components else self._variant()],
            execution_role_arn=role.role_arn if components else None,
            enable_network_isolation=endpoint.isolated if components else None,
            vpc_config=sagemaker.CfnEndpointConfig.VpcConfigProperty(**network) if components and network else None,
            # Disks of the instance itself are encrypted by the hardware, and take no key.
            kms_key_id=kms_key_arn if endpoint.volume_gib is not None else None,
            async_inference_config=self._queue(store),
            data_capture_config=self._capture(store),
        )
        alarms = [alarm.ref for alarm in rollback]
        self.endpoint = sagemaker.CfnEndpoint(
            self,
            "Endpoint",
            endpoint_name=endpoint.name,
            endpoint_config_name=self.config.attr_endpoint_config_name,
            # Without it an update goes back to the configuration's own number of instances, in mid-traffic. A fixed
            # number is that number: no autoscaler would bring the endpoint to another one.
            retain_all_variant_properties=True if endpoint.scales and not components else None,
            deployment_config=None if components else self._deployment(alarms),
        )
        self.endpoint.node.add_dependency(role)
        self.serves: Construct = self._component(alarms) if components else self.endpoint

    def _model(self) -> sagemaker.CfnModel:
        """The container with its model, as uncompressed files of an S3 folder: nothing is unpacked at the start."""
        decided, source = self._endpoint, None
        network = self._network()
        if decided.model_uri is not None:
            source = sagemaker.CfnModel.ModelDataSourceProperty(
                s3_data_source=sagemaker.CfnModel.S3DataSourceProperty(
                    s3_uri=f"{decided.model_uri.rstrip('/')}/", s3_data_type="S3Prefix", compression_type="None"
                )
            )
        model = sagemaker.CfnModel(
            self,
            "Model",
            execution_role_arn=self._role.role_arn,
            enable_network_isolation=decided.isolated,
            # A component's model has the network of its configuration too, as AWS's SDK deploys one
            # (sagemaker-python-sdk, model.py, _create_sagemaker_model; model_builder.py, _deploy_core_endpoint).
            # Policies of organizations demand it of CreateModel.
            vpc_config=sagemaker.CfnModel.VpcConfigProperty(**network) if network else None,
            primary_container=sagemaker.CfnModel.ContainerDefinitionProperty(
                image=decided.image, environment=dict(decided.environment), model_data_source=source
            ),
        )
        model.node.add_dependency(self._role)
        return model

    def _network(self) -> Mapping[str, list[str]]:
        """The containers' subnets and security groups; empty in SageMaker's own network."""
        endpoint = self._endpoint
        if not endpoint.subnet_ids:
            return {}
        return {"subnets": list(endpoint.subnet_ids), "security_group_ids": list(endpoint.security_group_ids)}

    def _variant(self) -> sagemaker.CfnEndpointConfig.ProductionVariantProperty:
        queued = self._endpoint.mode is EndpointMode.ASYNCHRONOUS
        return sagemaker.CfnEndpointConfig.ProductionVariantProperty(
            model_name=self.model.attr_model_name,
            initial_variant_weight=1,
            container_startup_health_check_timeout_in_seconds=START_UP_S,
            model_data_download_timeout_in_seconds=START_UP_S,
            # A queue hands out requests itself.
            routing_config=None if queued else self._routing(),
            **self._instances(),
        )

    def _shared_variant(self) -> sagemaker.CfnEndpointConfig.ProductionVariantProperty:
        """Instances without a model of their own, whose number SageMaker adapts to the copies of the component."""
        decided = self._endpoint
        return sagemaker.CfnEndpointConfig.ProductionVariantProperty(
            routing_config=self._routing(),
            managed_instance_scaling=sagemaker.CfnEndpointConfig.ManagedInstanceScalingProperty(
                status="ENABLED", min_instance_count=decided.least, max_instance_count=decided.most
            ),
            **self._instances(),
        )

    def _instances(self) -> Mapping[str, Any]:
        """The instance settings of both kinds of variant; the initial count is at least one."""
        decided = self._endpoint
        return {
            "variant_name": decided.variant,
            "instance_type": decided.instance_type,
            "initial_instance_count": max(1, decided.least),
            "inference_ami_version": decided.ami,
            "volume_size_in_gb": decided.volume_gib,
            "capacity_reservation_config": self._capacity_reservation(),
        }

    def _capacity_reservation(self) -> sagemaker.CfnEndpointConfig.CapacityReservationConfigProperty | None:
        """The training plan in which alone the instances run; none without one, on demand."""
        if self._endpoint.training_plan_arn is None:
            return None
        return sagemaker.CfnEndpointConfig.CapacityReservationConfigProperty(
            capacity_reservation_preference="capacity-reservations-only",
            ml_reservation_arn=self._endpoint.training_plan_arn,
        )

    @staticmethod
    def _routing() -> sagemaker.CfnEndpointConfig.RoutingConfigProperty:
        """Route to the instance with the fewest requests in flight: response lengths differ by orders of magnitude."""
        return sagemaker.CfnEndpointConfig.RoutingConfigProperty(routing_strategy="LEAST_OUTSTANDING_REQUESTS")

    def _component(self, alarms: list[str]) -> sagemaker.CfnInferenceComponent:
        decided = self._endpoint
        kind = sagemaker.CfnInferenceComponent
        share = kind.InferenceComponentCapacitySizeProperty(type=_SHARE, value=self._batch_percent())
        return kind(
            self,
            "Copies",
            inference_component_name=decided.name,
            endpoint_name=self.endpoint.attr_endpoint_name,
            variant_name=decided.variant,
            # None can be made without a copy; the autoscaler takes it away again.
            runtime_config=kind.InferenceComponentRuntimeConfigProperty(
                copy_count=max(1, decided.least * decided.copies)
            ),
            specification=kind.InferenceComponentSpecificationProperty(
                model_name=self.model.attr_model_name,
                compute_resource_requirements=kind.InferenceComponentComputeResourceRequirementsProperty(
                    number_of_accelerator_devices_required=decided.chips,
                    min_memory_required_in_mb=decided.memory_mb,
                ),
                startup_parameters=kind.InferenceComponentStartupParametersProperty(
                    container_startup_health_check_timeout_in_seconds=START_UP_S,
                    model_data_download_timeout_in_seconds=START_UP_S,
                ),
            ),
            deployment_config=kind.InferenceComponentDeploymentConfigProperty(
                rolling_update_policy=kind.InferenceComponentRollingUpdatePolicyProperty(
                    maximum_batch_size=share,
                    wait_interval_in_seconds=STEP_S,
                    maximum_execution_timeout_in_seconds=DEPLOYMENT_S,
                ),
                auto_rollback_configuration=kind.AutoRollbackConfigurationProperty(
                    alarms=[kind.AlarmProperty(alarm_name=alarm) for alarm in alarms]
                ),
            ),
        )

    def _deployment(self, alarms: list[str]) -> sagemaker.CfnEndpoint.DeploymentConfigProperty:
        """The rollout of a new version: all at once next to the old, a tenth first, or in steps; alarms roll back."""
        kind = sagemaker.CfnEndpoint
        rollback = kind.AutoRollbackConfigProperty(alarms=[kind.AlarmProperty(alarm_name=alarm) for alarm in alarms])
        if self._endpoint.rollout is Rollout.ROLLING:
            rolling = kind.RollingUpdatePolicyProperty(
                maximum_batch_size=kind.CapacitySizeProperty(type=_SHARE, value=self._batch_percent()),
                wait_interval_in_seconds=STEP_S,
                maximum_execution_timeout_in_seconds=DEPLOYMENT_S,
            )
            return kind.DeploymentConfigProperty(rolling_update_policy=rolling, auto_rollback_configuration=rollback)
        canary = self._endpoint.rollout is Rollout.CANARY
        shift_s = SHIFT_S[self._endpoint.rollout]
        blue_green = kind.BlueGreenUpdatePolicyProperty(
            traffic_routing_configuration=kind.TrafficRoutingConfigProperty(
                type="CANARY" if canary else "ALL_AT_ONCE",
                canary_size=kind.CapacitySizeProperty(type=_SHARE, value=self._batch_percent()) if canary else None,
                wait_interval_in_seconds=shift_s,
            ),
            termination_wait_in_seconds=BAKE_S - shift_s,
            maximum_execution_timeout_in_seconds=DEPLOYMENT_S,
        )
        return kind.DeploymentConfigProperty(blue_green_update_policy=blue_green, auto_rollback_configuration=rollback)

    def _batch_percent(self) -> int:
        """The percentage of instances or copies that one step replaces."""
        return batch_percent(self._endpoint.least * self._endpoint.unit)

    def _queue(self, store: EndpointStore | None) -> sagemaker.CfnEndpointConfig.AsyncInferenceConfigProperty | None:
        """The queue of an asynchronous endpoint: an instance fetches as many requests as its containers decode."""
        decided = self._endpoint
        if decided.mode is not EndpointMode.ASYNCHRONOUS or store is None:
            return None
        kind = sagemaker.CfnEndpointConfig
        return kind.AsyncInferenceConfigProperty(
            client_config=kind.AsyncInferenceClientConfigProperty(
                max_concurrent_invocations_per_instance=decided.concurrency * decided.copies
            ),
            output_config=kind.AsyncInferenceOutputConfigProperty(
                s3_output_path=store.uri(OUTPUT), s3_failure_path=store.uri(FAILURES), kms_key_id=self._kms_key_arn
            ),
        )

    def _capture(self, store: EndpointStore | None) -> sagemaker.CfnEndpointConfig.DataCaptureConfigProperty | None:
        if self._endpoint.mode is EndpointMode.ASYNCHRONOUS or store is None:
            return None
        kind = sagemaker.CfnEndpointConfig
        return kind.DataCaptureConfigProperty(
            enable_capture=True,
            initial_sampling_percentage=100,
            destination_s3_uri=store.uri(CAPTURED),
            kms_key_id=self._kms_key_arn,
            capture_options=[kind.CaptureOptionProperty(capture_mode=mode) for mode in ("Input", "Output")],
        )
