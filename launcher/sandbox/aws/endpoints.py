"""AWS::SageMaker::Model, EndpointConfig, Endpoint and InferenceComponent, in moto's SageMaker.

Judged by: botocore 1.44.5 (sagemaker/2017-07-24 service-2.json) for each request; the rules between resources by the
SageMaker developer guide (2026-11).

Emulated: the validation of each request with SageMaker's own model; the check that referenced models, configurations,
alarms, buckets, subnets, security groups and training plans exist; the refusals of training plans (endpoint_plans.py);
the replacement of a changed configuration or model; the rollback of an update because an alarm is in state ALARM, or
because the new container does not start; the refusal of changed variants; the answers of the containers
(launcher/sandbox/endpoint).
moto's own models are not used: they lack the newer types and components.
Not emulated: time and cost; instances, images, downloads; stepwise traffic shifting.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from moto.applicationautoscaling.models import applicationautoscaling_backends
from moto.cloudwatch.models import cloudwatch_backends
from moto.logs.models import logs_backends
from moto.sagemaker.exceptions import ValidationError
from moto.sagemaker.models import SageMakerModelBackend, sagemaker_backends

from launcher.aws.api_shape import complaints
from launcher.sandbox.aws.buckets import backend_of
from launcher.sandbox.aws.endpoint_plans import refuse_full_plans, refuse_other_plans
from launcher.sandbox.aws.model import Created, Model, Requested, ResourceRefusedError
from launcher.sandbox.aws.network import network_problem
from launcher.sandbox.aws.training_plans import bought_in, in_use
from launcher.sandbox.cluster.training_plan import TrainingPlan
from launcher.sandbox.endpoint.model_server import Behaviour, Hosted

IN_SERVICE = "InService"
_LONGEST_NAME = 63


@dataclass(slots=True, kw_only=True)
class StoredEntity:
    """A model, a configuration or a component in moto's SageMaker, whose API expects these attribute names."""

    kind: str
    name: str
    arn: str
    request: Mapping[str, Any]
    creation_time: datetime = field(default_factory=lambda: datetime.now(UTC))
    shown: dict[str, Any] = field(default_factory=dict)

    @property
    def tags(self) -> list[dict[str, str]]:
        """The tags of the entity."""
        return list(self.request.get("Tags", []))

    @property
    def model_name(self) -> str:
        """The name of a model."""
        return self.name

    @property
    def endpoint_config_name(self) -> str:
        """The name of a configuration."""
        return self.name

    @property
    def response_object(self) -> dict[str, Any]:
        """The entity as a Describe call returns it."""
        request = {key: value for key, value in self.request.items() if key != "Tags"}
        return {**request, **self.summary(), **self.shown}

    def summary(self) -> dict[str, Any]:
        """The entity as a List call returns it."""
        return {f"{self.kind}Name": self.name, f"{self.kind}Arn": self.arn, "CreationTime": self.creation_time}


@dataclass(slots=True, kw_only=True)
class Live:
    """An endpoint in moto's SageMaker, with the configuration and the containers that it runs."""

    endpoint_name: str
    arn: str
    request: Mapping[str, Any]
    config: StoredEntity
    containers: Mapping[str, Mapping[str, Any]]
    instance_counts: dict[str, int]
    endpoint_status: str = IN_SERVICE
    creation_time: datetime = field(default_factory=lambda: datetime.now(UTC))
    last_modified_time: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def tags(self) -> list[dict[str, str]]:
        """The tags of the endpoint."""
        return list(self.request.get("Tags", []))

    @property
    def variants(self) -> list[Mapping[str, Any]]:
        """The variants of the endpoint's configuration."""
        return list(self.config.request["ProductionVariants"])

    @property
    def response_object(self) -> dict[str, Any]:
        """The endpoint as DescribeEndpoint returns it."""
        shown = {
            "EndpointConfigName": self.config.name,
            "ProductionVariants": [self._variant(variant) for variant in self.variants],
            "LastDeploymentConfig": self.request.get("DeploymentConfig"),
            "AsyncInferenceConfig": self.config.request.get("AsyncInferenceConfig"),
        }
        return {**self.summary(), **{key: value for key, value in shown.items() if value is not None}}

    def summary(self) -> dict[str, Any]:
        """The endpoint as ListEndpoints returns it."""
        return {
            "EndpointName": self.endpoint_name,
            "EndpointArn": self.arn,
            "CreationTime": self.creation_time,
            "LastModifiedTime": self.last_modified_time,
            "EndpointStatus": self.endpoint_status,
        }

    def _variant(self, variant: Mapping[str, Any]) -> dict[str, Any]:
        count = self.instance_counts[variant["VariantName"]]
        shown = {key: variant[key] for key in ("RoutingConfig", "ManagedInstanceScaling") if key in variant}
        weight = variant.get("InitialVariantWeight", 1)
        described = {"VariantName": variant["VariantName"], "CurrentWeight": weight, "DesiredWeight": weight, **shown}
        return {**described, "CurrentInstanceCount": count, "DesiredInstanceCount": count}


@dataclass(slots=True)
class Endpoints:
    """The models of all four types. `behaviour` decides whether a started container becomes ready."""

    behaviour: Callable[[], Behaviour]

    def models(self) -> tuple[Model, ...]:
        """The emulated resources of an endpoint."""
        name = "AWS::SageMaker"
        return (
            Model(
                type=f"{name}::Model",
                make=_make_model,
                change=lambda requested, _: _make_model(requested),
                remove=_drop,
            ),
            Model(
                type=f"{name}::EndpointConfig",
                make=_make_config,
                change=lambda requested, _: _make_config(requested),
                remove=_drop,
            ),
            Model(type=f"{name}::Endpoint", make=self._make_endpoint, change=self._change_endpoint, remove=_drop),
            Model(
                type=f"{name}::InferenceComponent",
                make=self._make_component,
                change=self._change_component,
                remove=_drop,
            ),
        )

    def _make_endpoint(self, requested: Requested) -> Created:
        _check(requested, "CreateEndpoint", "UpdateEndpoint")
        name, sagemaker = requested.get("EndpointName") or requested.name, _sagemaker(requested)
        if name in sagemaker.endpoints:
            raise ResourceRefusedError(f"Cannot create already existing endpoint {_arn(requested, 'endpoint', name)}")
        config = _config(requested)
        _alarms(requested, requested.get("DeploymentConfig", {}))
        self._refuse_unless_reserved(requested, config, {}, {})
        self._refuse_unless_started(requested, name)
        created = Live(
            endpoint_name=name,
            arn=_arn(requested, "endpoint", name),
            request=dict(requested.properties),
            config=config,
            containers=_containers(requested, config),
            instance_counts={
                variant["VariantName"]: variant["InitialInstanceCount"]
                for variant in config.request["ProductionVariants"]
            },
        )
        sagemaker.endpoints[name] = created  # type: ignore[assignment]  # asked by name and not by type
        return Created(physical_resource_id=created.arn, attributes={"EndpointName": name})

    def _change_endpoint(self, requested: Requested, before: Created) -> Created:
        """Change the configuration. If an alarm is in state ALARM, the old one stays, and the endpoint is InService.

        CloudFormation then reports success, the worse of the two outcomes that are possible on AWS.
        """
        _check(requested, "CreateEndpoint", "UpdateEndpoint")
        live: Any = _sagemaker(requested).endpoints.get(before.attributes["EndpointName"])
        if live is None:
            raise ResourceRefusedError(f"Could not find endpoint {before.physical_resource_id}")
        config = _config(requested)
        refuse_variants(requested, live, config)
        live.request = dict(requested.properties)
        live.last_modified_time = datetime.now(UTC)
        if config.name == live.config.name or _alarms(requested, requested.get("DeploymentConfig", {})):
            return before
        running = live.instance_counts if requested.get("RetainAllVariantProperties") else {}
        self._refuse_unless_reserved(requested, config, running, requested.get("DeploymentConfig", {}))
        self._refuse_unless_started(requested, live.endpoint_name)
        if not requested.get("RetainAllVariantProperties"):
            live.instance_counts = {}
        retained = {
            variant["VariantName"]: variant["InitialInstanceCount"] for variant in config.request["ProductionVariants"]
        }
        live.instance_counts = {name: live.instance_counts.get(name, count) for name, count in retained.items()}
        live.config, live.containers = config, _containers(requested, config)
        return before

    def _make_component(self, requested: Requested) -> Created:
        _check(requested, "CreateInferenceComponent", "UpdateInferenceComponent")
        name = requested.get("InferenceComponentName") or requested.name
        if name in components(requested.account_id, requested.region_name):
            raise ResourceRefusedError(f"Cannot create already existing inference component {name}")
        live: Any = _sagemaker(requested).endpoints.get(requested.need("EndpointName"))
        if live is None or requested.get("VariantName") not in live.instance_counts:
            raise ResourceRefusedError(f"Could not find variant {requested.get('VariantName')} of the endpoint")
        self._refuse_unless_started(requested, name, "InferenceComponents")
        return self._stored_component(requested, name)

    def _change_component(self, requested: Requested, before: Created) -> Created:
        """Change to another specification, unless an alarm is in state ALARM."""
        _check(requested, "CreateInferenceComponent", "UpdateInferenceComponent")
        if _alarms(requested, requested.get("DeploymentConfig", {})):
            return before
        name = str(before.attributes["InferenceComponentName"])
        self._refuse_unless_started(requested, name, "InferenceComponents")
        return self._stored_component(requested, name)

    @staticmethod
    def _stored_component(requested: Requested, name: str) -> Created:
        model = requested.need("Specification").get("ModelName")
        container = _container(requested, model)
        count = requested.get("RuntimeConfig", {}).get("CopyCount", 1)
        entity = StoredEntity(
            kind="InferenceComponent",
            name=name,
            arn=_arn(requested, "inference-component", name),
            request={key: value for key, value in dict(requested.properties).items() if key != "DeploymentConfig"},
            shown={
                "InferenceComponentStatus": IN_SERVICE,
                "RuntimeConfig": {"DesiredCopyCount": count, "CurrentCopyCount": count},
                "Environment": container.get("Environment", {}),
                "LastDeploymentConfig": requested.get("DeploymentConfig"),
            },
        )
        components(requested.account_id, requested.region_name)[name] = entity
        return Created(physical_resource_id=entity.arn, attributes={"InferenceComponentName": name})

    def _refuse_unless_started(self, requested: Requested, name: str, kind: str = "Endpoints") -> None:
        """Refuse if the new container does not start; a failed container writes a line to its log."""
        if self.behaviour().starts:
            return
        group = f"/aws/sagemaker/{kind}/{name}"
        logs = logs_backends[requested.account_id][requested.region_name]
        if group in logs.groups:
            stream, moment = f"main/{secrets.token_hex(8)}", int(datetime.now(UTC).timestamp() * 1000)
            logs.create_log_stream(group, stream)
            logs.put_log_events(group, stream, [{"timestamp": moment, "message": "ERROR the model cannot be loaded"}])
        text = f"The primary container of {name} did not pass the ping health check."
        raise ResourceRefusedError(f"{text} Please check CloudWatch logs for this endpoint: {group}")

    @staticmethod
    def _refuse_unless_reserved(
        requested: Requested, config: StoredEntity, running: Mapping[str, int], deployment: Mapping[str, Any]
    ) -> None:
        """Refuse an endpoint or its new version if a training plan does not hold its instances."""
        sagemaker = _sagemaker(requested)
        refuse_full_plans(
            config.request["ProductionVariants"],
            _plans(requested),
            lambda arn: in_use(sagemaker, arn),
            running=running,
            deployment=deployment,
        )


def _plans(requested: Requested) -> Mapping[str, TrainingPlan]:
    return bought_in(requested.account_id, requested.region_name)


def _make_model(requested: Requested) -> Created:
    _check(requested, "CreateModel")
    container = requested.need("PrimaryContainer")
    requested.need("ExecutionRoleArn")
    uri = container.get("ModelDataSource", {}).get("S3DataSource", {}).get("S3Uri")
    bucket = str(uri or "").removeprefix("s3://").partition("/")[0]
    if uri is not None and bucket not in backend_of(requested.account_id, requested.region_name).buckets:
        raise ResourceRefusedError(f"Could not access model data at {uri}: there is no bucket {bucket}")
    _refuse_network(requested)
    return _create(requested, "Model", "model", _sagemaker(requested)._models)  # noqa: SLF001 - moto's own keeping


def _make_config(requested: Requested) -> Created:
    _check(requested, "CreateEndpointConfig")
    models = _sagemaker(requested)._models  # noqa: SLF001 - moto's own keeping
    for variant in requested.need("ProductionVariants"):
        name = variant.get("ModelName")
        if name is None and requested.get("ExecutionRoleArn") is None:
            raise ResourceRefusedError("ExecutionRoleArn is required for variants without a model")
        if name is not None and name not in models:
            raise ResourceRefusedError(f"Could not find model {_arn(requested, 'model', name)}")
    _refuse_network(requested)
    refuse_other_plans(requested.need("ProductionVariants"), _plans(requested))
    return _create(requested, "EndpointConfig", "endpoint-config", _sagemaker(requested).endpoint_configs)


def _refuse_network(requested: Requested) -> None:
    if problem := network_problem(requested.get("VpcConfig"), requested.account_id, requested.region_name):
        raise ResourceRefusedError(problem)


def _create(requested: Requested, kind: str, part: str, entities: Any) -> Created:
    """Create another entity: models and configurations cannot be changed."""
    name = requested.name[:_LONGEST_NAME]
    if name in entities:
        name = f"{requested.logical_id[: _LONGEST_NAME - 13]}-{secrets.token_hex(6)}"
    entity = StoredEntity(kind=kind, name=name, arn=_arn(requested, part, name), request=dict(requested.properties))
    entities[name] = entity
    return Created(physical_resource_id=entity.arn, attributes={f"{kind}Name": name})


def _drop(requested: Requested, created: Created) -> None:
    """Delete an entity; do nothing if it is already gone. Refuse an endpoint that has inference components."""
    part, _, name = created.physical_resource_id.rpartition(":")[2].partition("/")
    sagemaker = _sagemaker(requested)
    entities: dict[str, Any] = {
        "model": sagemaker._models,  # noqa: SLF001 - moto's own keeping
        "endpoint-config": sagemaker.endpoint_configs,
        "endpoint": sagemaker.endpoints,
        "inference-component": components(requested.account_id, requested.region_name),
    }
    if part == "endpoint" and _components_of(requested.account_id, requested.region_name, name):
        raise ResourceRefusedError(f"Cannot delete endpoint {name}: it has inference components")
    entities[part].pop(name, None)


def _check(requested: Requested, *operations: str) -> None:
    """Validate the properties with the models of the requests that CloudFormation sends."""
    problems = complaints("sagemaker", operations, dict(requested.properties))
    if problems:
        raise ResourceRefusedError(f"Properties validation failed: {'; '.join(problems)}")


def _alarms(requested: Requested, deployment: Mapping[str, Any]) -> bool:
    names = [alarm["AlarmName"] for alarm in deployment.get("AutoRollbackConfiguration", {}).get("Alarms", [])]
    alarms = cloudwatch_backends[requested.account_id][requested.region_name].alarms
    missing = [name for name in names if name not in alarms]
    if missing:
        raise ResourceRefusedError(f"Could not find alarms: {', '.join(missing)}")
    return any(alarms[name].state_value == "ALARM" for name in names)


def refuse_variants(requested: Requested, live: Live, config: StoredEntity) -> None:
    """Refuse what UpdateEndpoint refuses of variants (SageMaker developer guide).

    "If the update would change the instance type for any model that is a target for auto scaling, the update fails"
    (endpoint-scaling-update); "your new endpoint configuration must have the same variant name" (deployment guardrails,
    exclusions). No source describes a change between variants with and without inference components, nor another type
    of a variant with components: both are refused.
    """
    before = {variant["VariantName"]: variant for variant in live.variants}
    after = {variant["VariantName"]: variant for variant in config.request["ProductionVariants"]}
    targets = applicationautoscaling_backends[requested.account_id][requested.region_name].targets
    scaled = {resource for dimensions in targets.values() for resource in dimensions}
    scaling = sorted(name for name in before if f"endpoint/{live.endpoint_name}/variant/{name}" in scaled)
    for name in before.keys() & after.keys():
        types = [variants[name].get("InstanceType") for variants in (before, after)]
        if types[0] != types[1] and name in scaling:
            message = f"The variant {name} is a target for automatic scaling: deregister it before its type changes"
            raise ResourceRefusedError(f"{message} from {types[0]} to {types[1]}")
        if ("ModelName" in before[name]) is not ("ModelName" in after[name]):
            raise ResourceRefusedError(f"The variant {name} cannot change between a model and inference components")
        if types[0] != types[1] and "ModelName" not in before[name]:
            raise ResourceRefusedError(f"The variant {name} has inference components and keeps its type {types[0]}")
    if before.keys() != after.keys() and requested.get("DeploymentConfig"):
        names = f"{', '.join(before)} and {', '.join(after)}"
        raise ResourceRefusedError(
            f"With DeploymentConfig, both configurations must have the same variants, got {names}"
        )
    if gone := [name for name in scaling if name not in after]:
        raise ResourceRefusedError(f"The variant {gone[0]} is a target for automatic scaling: deregister it first")


def _config(requested: Requested) -> StoredEntity:
    name = requested.need("EndpointConfigName")
    config: Any = _sagemaker(requested).endpoint_configs.get(name)
    if not isinstance(config, StoredEntity):
        raise ResourceRefusedError(f"Could not find endpoint configuration {_arn(requested, 'endpoint-config', name)}")
    return config


def _containers(requested: Requested, config: StoredEntity) -> dict[str, Mapping[str, Any]]:
    variants = config.request["ProductionVariants"]
    return {
        variant["VariantName"]: _container(requested, variant.get("ModelName"))
        for variant in variants
        if "ModelName" in variant
    }


def _container(requested: Requested, model: str | None) -> Mapping[str, Any]:
    model_entity: Any = _sagemaker(requested)._models.get(str(model))  # noqa: SLF001 - moto's own keeping
    if not isinstance(model_entity, StoredEntity):
        raise ResourceRefusedError(f"Could not find model {_arn(requested, 'model', str(model))}")
    container: Mapping[str, Any] = model_entity.request["PrimaryContainer"]
    return container


def _sagemaker(requested: Requested) -> SageMakerModelBackend:
    return sagemaker_backends[requested.account_id][requested.region_name]


def _arn(requested: Requested, part: str, name: str) -> str:
    return f"arn:aws:sagemaker:{requested.region_name}:{requested.account_id}:{part}/{name}"


_COMPONENTS: dict[tuple[str, str], dict[str, StoredEntity]] = {}


def components(account: str, region: str) -> dict[str, StoredEntity]:
    """The inference components of a region, by name; moto has none."""
    return _COMPONENTS.setdefault((account, region), {})


def _components_of(account: str, region: str, endpoint: str) -> list[StoredEntity]:
    return [entity for entity in components(account, region).values() if entity.request["EndpointName"] == endpoint]


def component(account: str, region: str, name: str) -> StoredEntity:
    """A component by its name."""
    stored = components(account, region).get(name)
    if stored is None:
        raise ValidationError(message=f"Could not find inference component {name}.")
    return stored


def hosted_endpoint(account: str, region: str, name: str) -> Hosted | None:
    """An endpoint with the settings of its containers, or of its component if it has one; None if it does not exist."""
    live: Any = sagemaker_backends[account][region].endpoints.get(name)
    if not isinstance(live, Live):
        return None
    of = _components_of(account, region, name)
    container = next(iter(live.containers.values()), {})
    environment = of[0].shown["Environment"] if of else container.get("Environment", {})
    output = live.config.request.get("AsyncInferenceConfig", {}).get("OutputConfig", {})
    return Hosted(
        name=name,
        status=live.endpoint_status,
        environment=environment,
        components=tuple(entity.name for entity in of),
        answers=output.get("S3OutputPath"),
        failures=output.get("S3FailurePath"),
    )
