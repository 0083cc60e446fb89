"""SageMaker's instances in templates: endpoints, HyperPod, notebooks, and the jobs that a template starts."""

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.agent import safe_json
from launcher.pricing.template.parts import (
    CLUSTER,
    HOSTING,
    ON_DEMAND,
    PLAN,
    STUDIO,
    TRAINING,
    Instances,
    Item,
    Missing,
    Part,
    mapping,
    mappings,
    number,
    why_unknown,
)
from launcher.pricing.template.values import Reference, Resource, Template, Unknown

CONFIG, TARGET = "AWS::SageMaker::EndpointConfig", "AWS::ApplicationAutoScaling::ScalableTarget"
STORAGE = "sagemaker.endpoint-storage"
JOB_NOTE = "runs with its job only"
MAX_SEARCHED = 40
"""Levels within each other that are searched for a job's instances."""


def endpoint(resource: Resource, template: Template) -> Iterator[Part]:
    """The variants of an endpoint's configuration."""
    config = template.referred_resource(resource.properties.get("EndpointConfigName"), CONFIG)
    if config is None:
        reason = "its configuration is not in this template"
        yield Missing(name="instances", group="compute", reason=reason)
        return
    for key in ("ProductionVariants", "ShadowProductionVariants"):
        for variant in mappings(config.properties.get(key)):
            yield from _variant(variant, resource, template)


def _variant(variant: Mapping[str, Any], endpoint_: Resource, template: Template) -> Iterator[Part]:
    name = str(variant.get("VariantName", "variant"))
    if "ServerlessConfig" in variant:
        return
    kind, count = variant.get("InstanceType"), number(variant.get("InitialInstanceCount"), 1)
    scaling = mapping(variant.get("ManagedInstanceScaling"))
    if not isinstance(kind, str) or count is None:
        unknown = kind if not isinstance(kind, str) else variant.get("InitialInstanceCount")
        reason = why_unknown(unknown, "InstanceType" if not isinstance(kind, str) else "InitialInstanceCount")
        yield Missing(name=name, group="compute", reason=reason)
        return
    most = max(count, number(scaling.get("MaxInstanceCount"), 0) or 0.0, _max_scaled(endpoint_, name, template))
    market, note = _market("MlReservationArn" in mapping(variant.get("CapacityReservationConfig")))
    yield Instances(types=(kind,), count=count, most=most, name=name, market=market, component=HOSTING, note=note)
    gib = number(variant.get("VolumeSizeInGB"))
    if gib:
        yield Item(item=STORAGE, name=f"volume, {name}", group="storage", each=gib, count=count, most=most)


def _market(planned: bool) -> tuple[str, str]:  # noqa: FBT001 - the question itself
    """The market of SageMaker's instances, and its note: a training plan is paid in advance."""
    return (PLAN, "paid in advance") if planned else (ON_DEMAND, "")


def _max_scaled(endpoint_: Resource, variant: str, template: Template) -> float:
    """The largest number to which a scalable target of the template scales a variant; 0 without one."""
    names = {str(Reference(logical_id=endpoint_.logical_id, attribute="EndpointName"))}
    names.add(str(endpoint_.properties.get("EndpointName")))
    wanted = {f"endpoint/{name}/variant/{variant}" for name in names}
    limits = [
        number(target.properties.get("MaxCapacity"), 0) or 0.0
        for target in template.resources()
        if target.type == TARGET and str(target.properties.get("ResourceId")) in wanted
    ]
    return max(limits, default=0.0)


def hyperpod(resource: Resource, _template: Template) -> Iterator[Part]:
    """The instance groups of a HyperPod cluster."""
    groups = mappings(resource.properties.get("InstanceGroups")) + mappings(
        resource.properties.get("RestrictedInstanceGroups")
    )
    if not groups:
        yield Missing(name="instances", group="compute", reason="its instance groups are not stated")
    for group in groups:
        name, kind = str(group.get("InstanceGroupName", "group")), group.get("InstanceType")
        count = number(group.get("InstanceCount"))
        if not isinstance(kind, str) or count is None:
            unknown = kind if not isinstance(kind, str) else group.get("InstanceCount")
            reason = why_unknown(unknown, "InstanceType" if not isinstance(kind, str) else "InstanceCount")
            yield Missing(name=name, group="compute", reason=reason)
            continue
        market, note = _market("TrainingPlanArn" in group)
        yield Instances(types=(kind,), count=count, most=count, name=name, market=market, component=CLUSTER, note=note)
        for storage in mappings(group.get("InstanceStorageConfigs")):
            if mapping(storage.get("EbsVolumeConfig")):
                yield Missing(name=f"volume, {name}", group="storage", reason="HyperPod's volumes have no listed price")


def notebook(resource: Resource, _template: Template) -> Iterator[Part]:
    """A notebook instance."""
    kind = resource.properties.get("InstanceType")
    if isinstance(kind, str):
        note = "at the rate of SageMaker Studio"
        yield Instances(types=(kind,), count=1, most=1, name="notebook", component=STUDIO, note=note)
    else:
        yield Missing(name="notebook", group="compute", reason=why_unknown(kind, "InstanceType"))


def processing_job(resource: Resource, _template: Template) -> Iterator[Part]:
    """A processing job, which runs when the stack is deployed."""
    yield from _job(mapping(mapping(resource.properties.get("ProcessingResources")).get("ClusterConfig")))


def started_jobs(resource: Resource, _template: Template) -> Iterator[Part]:
    """The training jobs that a state machine, a pipeline or a custom resource starts, by their definitions."""
    for key in ("Definition", "DefinitionString", "PipelineDefinition", "Create", "Update"):
        value = resource.properties.get(key)
        if key == "PipelineDefinition":
            value = mapping(value).get("PipelineDefinitionBody", value)
        if isinstance(value, Unknown):
            yield Missing(name="jobs that it starts", group="compute", reason=why_unknown(value, key))
            return
        if isinstance(value, str):
            try:
                value = safe_json.loads(value)
            except ValueError:
                continue
        found = list(_jobs(value, 0))
        if found:
            yield from found
            return


def _jobs(value: Any, depth: int) -> Iterator[Part]:
    if depth > MAX_SEARCHED:
        return
    if isinstance(value, list):
        for item in value:
            yield from _jobs(item, depth + 1)
        return
    stated = mapping(value)
    for key, item in stated.items():
        if key.lower() in {"resourceconfig", "clusterconfig"} and "InstanceType" in mapping(item):
            yield from _job(mapping(item))
        else:
            yield from _jobs(item, depth + 1)


def _job(resources: Mapping[str, Any]) -> Iterator[Part]:
    kind, count = resources.get("InstanceType"), number(resources.get("InstanceCount"), 1)
    if not isinstance(kind, str) or count is None:
        reason = "the type or number of its instances is an input of the job"
        yield Missing(name="job", group="compute", reason=reason)
        return
    yield Instances(types=(kind,), count=0, most=count, name="job", component=TRAINING, note=JOB_NOTE)
    gib = number(resources.get("VolumeSizeInGB"))
    if gib:
        name = "volume of the job"
        yield Item(item=STORAGE, name=name, group="storage", each=gib, count=0, most=count, note=JOB_NOTE)
