"""API calls of inference components, which moto lacks, and access to moto's endpoints and buckets for the model server.

Judged by: botocore 1.44.5 (sagemaker/2017-07-24 service-2.json), which the client that parses the answers uses;
creation is judged in endpoints.py.

Emulated: DescribeInferenceComponent, ListInferenceComponents by endpoint, DeleteInferenceComponent.
"""

from typing import Any

from moto.core.responses import ActionResult, EmptyResult
from moto.sagemaker.responses import SageMakerResponse

from launcher.model.emulator import EMULATED_ACCOUNT as ACCOUNT
from launcher.sandbox.aws.buckets import backend_of
from launcher.sandbox.aws.endpoints import component, components, hosted_endpoint
from launcher.sandbox.endpoint.model_server import Hosted

_HOME = "us-east-1"
"""The region through which buckets are read: a bucket can be found from every region."""


def _parameter(response: Any, name: str) -> Any:
    return response._get_param(name)  # noqa: SLF001  the way moto's own responses read


def describe_inference_component(response: Any) -> ActionResult:
    """Return one component."""
    name = _parameter(response, "InferenceComponentName")
    return ActionResult(component(response.current_account, response.region, name).response_object)


def list_inference_components(response: Any) -> ActionResult:
    """Return the components of a region, or of an endpoint."""
    endpoint = _parameter(response, "EndpointNameEquals")
    listed = components(response.current_account, response.region).values()
    shown = [entity for entity in listed if endpoint in (None, entity.request["EndpointName"])]
    return ActionResult({"InferenceComponents": [_summary(entity) for entity in shown]})


def _summary(component: Any) -> dict[str, Any]:
    names = {key: component.request[key] for key in ("EndpointName", "VariantName")}
    status = {"InferenceComponentStatus": component.shown["InferenceComponentStatus"]}
    moments = {"CreationTime": component.creation_time, "LastModifiedTime": component.creation_time}
    return {**component.summary(), **names, **status, **moments, "EndpointArn": component.request["EndpointName"]}


def delete_inference_component(response: Any) -> EmptyResult:
    """Delete one component."""
    name = _parameter(response, "InferenceComponentName")
    component(response.current_account, response.region, name)
    del components(response.current_account, response.region)[name]
    return EmptyResult()


def install() -> None:
    """Add the calls to moto's SageMaker."""
    for call in (describe_inference_component, list_inference_components, delete_inference_component):
        setattr(SageMakerResponse, call.__name__, call)


def find_endpoint(region: str, name: str) -> Hosted | None:
    """An endpoint of a region; None if it does not exist."""
    return hosted_endpoint(ACCOUNT, region, name)


def read_object(uri: str) -> bytes | None:
    """An object; None if it does not exist."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    store = backend_of(ACCOUNT, _HOME)
    stored = store.get_object(bucket, key) if bucket in store.buckets else None
    return None if stored is None else bytes(stored.value)


def write_object(uri: str, body: bytes) -> None:
    """Put an object."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    backend_of(ACCOUNT, _HOME).put_object(bucket, key, body)
