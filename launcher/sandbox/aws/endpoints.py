"""AWS::SageMaker::Model, EndpointConfig, Endpoint and InferenceComponent, in moto's SageMaker.

Emulated: the check of each request against SageMaker's own model of it; that what they name is there: models,
configurations, alarms, buckets; a new configuration or model in the place of a changed one; an update that is taken
back because an alarm is going off, or because the new container does not start; what their containers answer
(launcher/sandbox/endpoint). moto's own models are not used: they know none of the newer types and no component.
Not emulated: that anything takes time, or costs; instances, images, downloads; that traffic moves in steps.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from moto.cloudwatch.models import cloudwatch_backends
from moto.logs.models import logs_backends
from moto.sagemaker.exceptions import ValidationError
from moto.sagemaker.models import SageMakerModelBackend, sagemaker_backends

from launcher.aws.api_shape import complaints
from launcher.sandbox.aws.buckets import backend_of
from launcher.sandbox.aws.model import Created, Model, Requested, ResourceRefusedError
from launcher.sandbox.endpoint.model_server import Conduct, Hosted

IN_SERVICE = "InService"
_GOING_OFF = "ALARM"
_LONGEST_NAME = 63


@dataclass(slots=True, kw_only=True)
class StoredEntity:
    """A model, a configuration or a component as moto's SageMaker keeps it: its API asks for these names."""

    kind: str
    name: str
    arn: str
    request: Mapping[str, Any]
    creation_time: datetime = field(default_factory=lambda: datetime.now(UTC))
    shown: dict[str, Any] = field(default_factory=dict)

    @property
    def tags(self) -> list[dict[str, str]]:
        """Its tags."""
        return list(self.request.get("Tags", []))

    @property
    def model_name(self) -> str:
        """A model's name."""
        return self.name

    @property
    def endpoint_config_name(self) -> str:
        """A configuration's name."""
        return self.name

    @property
    def response_object(self) -> dict[str, Any]:
        """It as it is described."""
        own = {key: value for key, value in self.request.items() if key != "Tags"}
        return {**own, **self.summary(), **self.shown}

    def summary(self) -> dict[str, Any]:
        """It in a list."""
        return {f"{self.kind}Name": self.name, f"{self.kind}Arn": self.arn, "CreationTime": self.creation_time}


@dataclass(slots=True, kw_only=True)
class Live:
    """An endpoint as moto's SageMaker keeps it, with the configuration and the containers that it runs."""

    endpoint_name: str
    arn: str
    request: Mapping[str, Any]
    config: StoredEntity
    containers: Mapping[str, Mapping[str, Any]]
    counts: dict[str, int]
    endpoint_status: str = IN_SERVICE
    creation_time: datetime = field(default_factory=lambda: datetime.now(UTC))
    last_modified_time: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def tags(self) -> list[dict[str, str]]:
        """Its tags."""
        return list(self.request.get("Tags", []))

    @property
    def variants(self) -> list[Mapping[str, Any]]:
        """The variants of its configuration."""
        return list(self.config.request["ProductionVariants"])

    @property
    def response_object(self) -> dict[str, Any]:
        """It as DescribeEndpoint shows it."""
        shown = {
            "EndpointConfigName": self.config.name,
            "ProductionVariants": [self._variant(variant) for variant in self.variants],
            "LastDeploymentConfig": self.request.get("DeploymentConfig"),
            "AsyncInferenceConfig": self.config.request.get("AsyncInferenceConfig"),
        }
        return {**self.summary(), **{key: value for key, value in shown.items() if value is not None}}

    def summary(self) -> dict[str, Any]:
        """It in a list."""
        return {
            "EndpointName": self.endpoint_name,
            "EndpointArn": self.arn,
            "CreationTime": self.creation_time,
            "LastModifiedTime": self.last_modified_time,
            "EndpointStatus": self.endpoint_status,
        }

    def _variant(self, each: Mapping[str, Any]) -> dict[str, Any]:
        count = self.counts[each["VariantName"]]
        shown = {key: each[key] for key in ("RoutingConfig", "ManagedInstanceScaling") if key in each}
        weight = each.get("InitialVariantWeight", 1)
        found = {"VariantName": each["VariantName"], "CurrentWeight": weight, "DesiredWeight": weight, **shown}
        return {**found, "CurrentInstanceCount": count, "DesiredInstanceCount": count}


@dataclass(slots=True)
class Endpoints:
    """The models of all four types. `conduct` says whether a container that is started comes up."""

    conduct: Conduct

    def models(self) -> tuple[Model, ...]:
        """Them."""
        name = "AWS::SageMaker"
        return (
            Model(type=f"{name}::Model", make=_make_model, change=lambda wanted, _: _make_model(wanted), remove=_drop),
            Model(
                type=f"{name}::EndpointConfig",
                make=_make_config,
                change=lambda wanted, _: _make_config(wanted),
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

    def _make_endpoint(self, wanted: Requested) -> Created:
        _check(wanted, "CreateEndpoint", "UpdateEndpoint")
        name, sagemaker = wanted.get("EndpointName") or wanted.name, _sagemaker(wanted)
        if name in sagemaker.endpoints:
            raise ResourceRefusedError(f"Cannot create already existing endpoint {_arn(wanted, 'endpoint', name)}")
        config = _config(wanted)
        _alarms(wanted, wanted.get("DeploymentConfig", {}))
        self._refuse_unless_started(wanted, name)
        made = Live(
            endpoint_name=name,
            arn=_arn(wanted, "endpoint", name),
            request=dict(wanted.properties),
            config=config,
            containers=_containers(wanted, config),
            counts={
                variant["VariantName"]: variant["InitialInstanceCount"]
                for variant in config.request["ProductionVariants"]
            },
        )
        sagemaker.endpoints[name] = made  # type: ignore[assignment]  # asked by name and not by type
        return Created(physical_resource_id=made.arn, attributes={"EndpointName": name})

    def _change_endpoint(self, wanted: Requested, before: Created) -> Created:
        """Another configuration, unless an alarm goes off: then the old one stays, and the endpoint says InService.

        CloudFormation is told that all went well, the worse of the two things that may happen on AWS.
        """
        _check(wanted, "CreateEndpoint", "UpdateEndpoint")
        live: Any = _sagemaker(wanted).endpoints.get(before.attributes["EndpointName"])
        if live is None:
            raise ResourceRefusedError(f"Could not find endpoint {before.physical_resource_id}")
        config, live.request = _config(wanted), dict(wanted.properties)
        live.last_modified_time = datetime.now(UTC)
        if config.name == live.config.name or _alarms(wanted, wanted.get("DeploymentConfig", {})):
            return before
        self._refuse_unless_started(wanted, live.endpoint_name)
        if not wanted.get("RetainAllVariantProperties"):
            live.counts = {}
        kept = {
            variant["VariantName"]: variant["InitialInstanceCount"] for variant in config.request["ProductionVariants"]
        }
        live.counts = {name: live.counts.get(name, count) for name, count in kept.items()}
        live.config, live.containers = config, _containers(wanted, config)
        return before

    def _make_component(self, wanted: Requested) -> Created:
        _check(wanted, "CreateInferenceComponent", "UpdateInferenceComponent")
        name = wanted.get("InferenceComponentName") or wanted.name
        if name in components(wanted.account_id, wanted.region_name):
            raise ResourceRefusedError(f"Cannot create already existing inference component {name}")
        live: Any = _sagemaker(wanted).endpoints.get(wanted.need("EndpointName"))
        if live is None or wanted.get("VariantName") not in live.counts:
            raise ResourceRefusedError(f"Could not find variant {wanted.get('VariantName')} of the endpoint")
        self._refuse_unless_started(wanted, name, "InferenceComponents")
        return self._kept_component(wanted, name)

    def _change_component(self, wanted: Requested, before: Created) -> Created:
        """Another specification, unless an alarm goes off."""
        _check(wanted, "CreateInferenceComponent", "UpdateInferenceComponent")
        if _alarms(wanted, wanted.get("DeploymentConfig", {})):
            return before
        name = str(before.attributes["InferenceComponentName"])
        self._refuse_unless_started(wanted, name, "InferenceComponents")
        return self._kept_component(wanted, name)

    @staticmethod
    def _kept_component(wanted: Requested, name: str) -> Created:
        model = wanted.need("Specification").get("ModelName")
        container = _container(wanted, model)
        count = wanted.get("RuntimeConfig", {}).get("CopyCount", 1)
        kept = StoredEntity(
            kind="InferenceComponent",
            name=name,
            arn=_arn(wanted, "inference-component", name),
            request={key: value for key, value in dict(wanted.properties).items() if key != "DeploymentConfig"},
            shown={
                "InferenceComponentStatus": IN_SERVICE,
                "RuntimeConfig": {"DesiredCopyCount": count, "CurrentCopyCount": count},
                "Environment": container.get("Environment", {}),
                "LastDeploymentConfig": wanted.get("DeploymentConfig"),
            },
        )
        components(wanted.account_id, wanted.region_name)[name] = kept
        return Created(physical_resource_id=kept.arn, attributes={"InferenceComponentName": name})

    def _refuse_unless_started(self, wanted: Requested, name: str, kind: str = "Endpoints") -> None:
        """Go on when the container comes up; one that does not leaves a line in its log."""
        if self.conduct.behaviour.starts:
            return
        group = f"/aws/sagemaker/{kind}/{name}"
        known = logs_backends[wanted.account_id][wanted.region_name]
        if group in known.groups:
            stream, moment = f"main/{secrets.token_hex(8)}", int(datetime.now(UTC).timestamp() * 1000)
            known.create_log_stream(group, stream)
            known.put_log_events(group, stream, [{"timestamp": moment, "message": "ERROR the model cannot be loaded"}])
        text = f"The primary container of {name} did not pass the ping health check."
        raise ResourceRefusedError(f"{text} Please check CloudWatch logs for this endpoint: {group}")


def _make_model(wanted: Requested) -> Created:
    _check(wanted, "CreateModel")
    container = wanted.need("PrimaryContainer")
    wanted.need("ExecutionRoleArn")
    uri = container.get("ModelDataSource", {}).get("S3DataSource", {}).get("S3Uri")
    bucket = str(uri or "").removeprefix("s3://").partition("/")[0]
    if uri is not None and bucket not in backend_of(wanted.account_id, wanted.region_name).buckets:
        raise ResourceRefusedError(f"Could not access model data at {uri}: there is no bucket {bucket}")
    return _keep(wanted, "Model", "model", _sagemaker(wanted)._models)  # noqa: SLF001 - moto's own keeping


def _make_config(wanted: Requested) -> Created:
    _check(wanted, "CreateEndpointConfig")
    known = _sagemaker(wanted)._models  # noqa: SLF001 - moto's own keeping
    for each in wanted.need("ProductionVariants"):
        name = each.get("ModelName")
        if name is None and wanted.get("ExecutionRoleArn") is None:
            raise ResourceRefusedError("ExecutionRoleArn is required for variants without a model")
        if name is not None and name not in known:
            raise ResourceRefusedError(f"Could not find model {_arn(wanted, 'model', name)}")
    return _keep(wanted, "EndpointConfig", "endpoint-config", _sagemaker(wanted).endpoint_configs)


def _keep(wanted: Requested, kind: str, part: str, known: Any) -> Created:
    """Make another one: neither models nor configurations can be changed."""
    name = wanted.name[:_LONGEST_NAME]
    if name in known:
        name = f"{wanted.logical_id[: _LONGEST_NAME - 13]}-{secrets.token_hex(6)}"
    kept = StoredEntity(kind=kind, name=name, arn=_arn(wanted, part, name), request=dict(wanted.properties))
    known[name] = kept
    return Created(physical_resource_id=kept.arn, attributes={f"{kind}Name": name})


def _drop(wanted: Requested, made: Created) -> None:
    """Remove it; one that somebody has removed before is no failure."""
    part, _, name = made.physical_resource_id.rpartition(":")[2].partition("/")
    sagemaker = _sagemaker(wanted)
    known: dict[str, Any] = {
        "model": sagemaker._models,  # noqa: SLF001 - moto's own keeping
        "endpoint-config": sagemaker.endpoint_configs,
        "endpoint": sagemaker.endpoints,
        "inference-component": components(wanted.account_id, wanted.region_name),
    }
    if part == "endpoint" and _components_of(wanted.account_id, wanted.region_name, name):
        raise ResourceRefusedError(f"Cannot delete endpoint {name}: it has inference components")
    known[part].pop(name, None)


def _check(wanted: Requested, *operations: str) -> None:
    """Hold the properties against the requests that they become."""
    found = complaints("sagemaker", operations, dict(wanted.properties))
    if found:
        raise ResourceRefusedError(f"Properties validation failed: {'; '.join(found)}")


def _alarms(wanted: Requested, deployment: Mapping[str, Any]) -> bool:
    names = [alarm["AlarmName"] for alarm in deployment.get("AutoRollbackConfiguration", {}).get("Alarms", [])]
    known = cloudwatch_backends[wanted.account_id][wanted.region_name].alarms
    missing = [name for name in names if name not in known]
    if missing:
        raise ResourceRefusedError(f"Could not find alarms: {', '.join(missing)}")
    return any(known[name].state_value == _GOING_OFF for name in names)


def _config(wanted: Requested) -> StoredEntity:
    name = wanted.need("EndpointConfigName")
    found: Any = _sagemaker(wanted).endpoint_configs.get(name)
    if not isinstance(found, StoredEntity):
        raise ResourceRefusedError(f"Could not find endpoint configuration {_arn(wanted, 'endpoint-config', name)}")
    return found


def _containers(wanted: Requested, config: StoredEntity) -> dict[str, Mapping[str, Any]]:
    variants = config.request["ProductionVariants"]
    return {
        variant["VariantName"]: _container(wanted, variant.get("ModelName"))
        for variant in variants
        if "ModelName" in variant
    }


def _container(wanted: Requested, model: str | None) -> Mapping[str, Any]:
    found: Any = _sagemaker(wanted)._models.get(str(model))  # noqa: SLF001 - moto's own keeping
    if not isinstance(found, StoredEntity):
        raise ResourceRefusedError(f"Could not find model {_arn(wanted, 'model', str(model))}")
    container: Mapping[str, Any] = found.request["PrimaryContainer"]
    return container


def _sagemaker(wanted: Requested) -> SageMakerModelBackend:
    return sagemaker_backends[wanted.account_id][wanted.region_name]


def _arn(wanted: Requested, part: str, name: str) -> str:
    return f"arn:aws:sagemaker:{wanted.region_name}:{wanted.account_id}:{part}/{name}"


_COMPONENTS: dict[tuple[str, str], dict[str, StoredEntity]] = {}


def components(account: str, region: str) -> dict[str, StoredEntity]:
    """The inference components of a region, by name: moto keeps none."""
    return _COMPONENTS.setdefault((account, region), {})


def _components_of(account: str, region: str, endpoint: str) -> list[StoredEntity]:
    return [entity for entity in components(account, region).values() if entity.request["EndpointName"] == endpoint]


def component(account: str, region: str, name: str) -> StoredEntity:
    """A component."""
    found = components(account, region).get(name)
    if found is None:
        raise ValidationError(message=f"Could not find inference component {name}.")
    return found


def hosted(account: str, region: str, name: str) -> Hosted | None:
    """An endpoint as its containers were started, those of its component where it has one; None where there is none."""
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
