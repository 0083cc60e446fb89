"""From a serving plan with a decided layout to its endpoint: containers, copies, capacity. Pure functions."""

from collections.abc import Mapping
from functools import cached_property

from launcher.catalog.load import Catalog
from launcher.model.endpoint import (
    Endpoint,
    EndpointMode,
    base_instances,
    endpoint_mode,
    endpoint_volume_gib,
    most_instances,
    rollout_of,
)
from launcher.model.enums import PurchaseOption, ServingPrecision, ServingTask
from launcher.model.instance_type import Accelerator, InstanceType
from launcher.model.plan import Plan
from launcher.model.record import record
from launcher.model.schedule import parse_schedule
from launcher.model.serving import ServedModel
from launcher.model.serving_image import ServingImage, ServingImages
from launcher.model.workload import ModelDimensions, ServingWorkload
from launcher.planning.serving.layout import weights_gb
from launcher.planning.serving.measured import parts
from launcher.planning.serving.model import model_of
from launcher.targets.registry import target_of

MAX_VOLUME_GIB = 512
"""SageMaker's limit on an instance's volume (API reference, ProductionVariant)."""
MODEL_FOLDER = "/opt/ml/model"
"""The folder in which SageMaker provides the model (developer guide, hosting code)."""
HOST_SHARE = 0.75
"""Share of the host's memory that copies reserve; the rest is the system's. Assumed: SageMaker publishes no figure."""
MIB_PER_GIB = 1024
OPEN_LICENSES = ("apache-2.0", "mit")
"""Licenses of models that anybody can download from the hub; other models need a token, which no endpoint can hide."""


@record(slots=False)
class ServingPlan:
    """A serving plan with the properties of its instance type and layout; each is computed once, on demand."""

    plan: Plan
    catalog: Catalog

    @cached_property
    def serve(self) -> ServingWorkload:
        """The workload.

        Raises:
            ValueError: the plan has no serving workload.
        """
        serve = self.plan.request.workload.serve
        if serve is None:
            message = f"{self.plan.name} has no workload.serve"
            raise ValueError(message)
        return serve

    @property
    def facts(self) -> InstanceType:
        """The instance type."""
        return self.catalog.instance_types[self.plan.place.instance_type]

    @property
    def is_managed(self) -> bool:
        """Whether the target is a SageMaker endpoint; otherwise the plan runs pods on Kubernetes."""
        return target_of(self.plan.place.target).is_managed

    @cached_property
    def chip(self) -> Accelerator:
        """The accelerator of the instance type."""
        return self.catalog.accelerators[self.facts.accelerator or ""]

    @property
    def neuron(self) -> bool:
        """Whether the chips are Inferentia or Trainium."""
        return self.chip.family == "neuron"

    @cached_property
    def model(self) -> ServedModel | None:
        """The model's dimensions; None for a model that only Bedrock has."""
        return model_of(self.serve, self.catalog)

    @property
    def weights_gb(self) -> float:
        """GB (1e9 bytes) of the model's weights at the plan's precision; 0 if unknown."""
        return weights_gb(self.model, self.serve.weight_format) if self.model is not None else 0.0

    @cached_property
    def copies(self) -> int:
        """Copies of the model on an instance; 0 if no copy fits."""
        return parts(self.facts, self.chip) // (self.serve.tensor_parallel or 1)

    @property
    def chips(self) -> int:
        """Chips of a copy: two NeuronCores are one chip, and a container gets no part of a chip.

        NumberOfAcceleratorDevicesRequired counts devices, and a Neuron device is a chip; not seen on AWS.
        """
        return -(-(self.serve.tensor_parallel or 1) // self.chip.cores)

    @cached_property
    def mode(self) -> EndpointMode:
        """The endpoint mode."""
        return endpoint_mode(self.serve, neuron=self.neuron, copies=self.copies)

    @cached_property
    def hub_id(self) -> str | None:
        """The name of the model on the Hugging Face hub; None if the model needs a token or is unknown."""
        model = self.serve.model
        spec = self.catalog.find_model(model) if isinstance(model, str) else None
        if spec is None or spec.license not in OPEN_LICENSES:
            return None
        return next((alias for alias in spec.aliases if "/" in alias), None)

    @property
    def model_uri(self) -> str | None:
        """The S3 folder of the container's model: the compiled model, which includes its weights, or the weights."""
        return self.serve.artifacts_uri or self.serve.model_uri

    @property
    def model_source(self) -> str | None:
        """The source from which a container loads: the model folder, or a name on the hub; None without either."""
        return MODEL_FOLDER if self.model_uri is not None else self.hub_id

    @property
    def is_isolated(self) -> bool:
        """Whether the containers have no network access; a container that compiles first checks the hub's cache."""
        return self.model_uri is not None and not (self.neuron and self.serve.artifacts_uri is None)

    @cached_property
    def volume_gib(self) -> int | None:
        """GiB of an instance's volume; None if the type has local disks."""
        return endpoint_volume_gib(self.facts, self.weights_gb)

    def environment(self, model: str, *, replicas: int) -> Mapping[str, str]:
        """The environment variables that the pinned images translate into server options.

        Sources: optimum-neuron docker/vllm/Dockerfile (SM_ON_X=v becomes --x v, an empty value a flag) and the Deep
        Learning Containers' vLLM configuration (SM_VLLM_X=v).

        Args:
            model: folder, or name on the hub.
            replicas: copies in one container; the Neuron image supports one.
        """
        return self._neuron(model) if self.neuron else self._gpu(model, replicas)

    def _neuron(self, model: str) -> dict[str, str]:
        serve = self.serve
        environment = {
            "SM_ON_MODEL": model,
            "SM_ON_SERVED_MODEL_NAME": self.plan.name,
            "SM_ON_TENSOR_PARALLEL_SIZE": str(serve.tensor_parallel),
            "SM_ON_BATCH_SIZE": str(serve.batch_size),
            "SM_ON_SEQUENCE_LENGTH": str(serve.sequence_length),
        }
        if serve.task is ServingTask.EMBEDDING:
            environment["SM_ON_TASK"] = "embed"
        if serve.artifacts_uri is None:
            environment["SM_ON_ALLOW_NON_CACHED_MODEL"] = ""
        return environment

    def _gpu(self, model: str, replicas: int) -> dict[str, str]:
        serve = self.serve
        environment = {
            "SM_VLLM_MODEL": model,
            "SM_VLLM_SERVED_MODEL_NAME": self.plan.name,
            "SM_VLLM_TENSOR_PARALLEL_SIZE": str(serve.tensor_parallel),
            "SM_VLLM_MAX_NUM_SEQS": str(serve.batch_size),
            "SM_VLLM_MAX_MODEL_LEN": str(serve.sequence_length),
        }
        if replicas > 1:
            environment["SM_VLLM_DATA_PARALLEL_SIZE"] = str(replicas)
        if serve.task is ServingTask.EMBEDDING:
            environment["SM_VLLM_RUNNER"] = "pooling"
        published = serve.model.published_format if isinstance(serve.model, ModelDimensions) else None
        if serve.weight_format is ServingPrecision.FP8 and published is None:
            # vLLM reads the format of published weights from their config.json, and refuses another one: "Quantization
            # method specified in the model config (...) does not match" (vllm-project/vllm, _verify_quantization).
            environment["SM_VLLM_QUANTIZATION"] = "fp8"
        if model.startswith("/"):
            environment["HF_HUB_OFFLINE"] = "1"
        return environment


@record(slots=False)
class ServingDeployment(ServingPlan):
    """A serving plan with the available images for its containers."""

    images: ServingImages

    @cached_property
    def engine_image(self) -> ServingImage | None:
        """The pinned image for the chip and task, independent of the plan's own image."""
        return self.images.engine(self.plan.place.target, self.chip.name, self.serve.task)

    @cached_property
    def image(self) -> str | None:
        """The image to pull: the plan's own, or the pinned one; None if the region has no pinned image."""
        if self.serve.image is not None:
            return self.serve.image
        pinned = self.engine_image
        return self.images.uri(pinned, self.plan.place.region) if pinned is not None else None

    @cached_property
    def endpoint(self) -> Endpoint:
        """The endpoint of a plan without errors from `launcher.planning.endpoint_checks.endpoint_findings`.

        Raises:
            ValueError: the plan has no image, no model to load, or no SageMaker target.
        """
        serve, image, model = self.serve, self.image, self.model_source
        if image is None or model is None or not self.is_managed:
            message = f"{self.plan.name} makes no endpoint"
            raise ValueError(message)
        ranges = (parse_schedule(period) for period in serve.schedule)
        bought = self.plan.request.purchase.training_plan
        planned = self.plan.place.option is PurchaseOption.TRAINING_PLAN
        return Endpoint(
            name=f"slipway-{self.plan.cluster_name}",
            variant=serve.variant or self.plan.place.instance_type.replace(".", "-"),
            mode=self.mode,
            instance_type=target_of(self.plan.place.target).billed_name(self.plan.place.instance_type),
            image=image,
            ami=self.engine_image.ami if self.engine_image is not None else None,
            model_uri=self.model_uri,
            environment=self.environment(model, replicas=1 if self.mode is EndpointMode.COMPONENTS else self.copies),
            isolated=self.is_isolated,
            copies=self.copies,
            chips=self.chips,
            memory_mb=int(self.facts.memory_gib * MIB_PER_GIB * HOST_SHARE / self.copies),
            concurrency=serve.batch_size or 1,
            least=base_instances(serve),
            most=most_instances(serve, self.plan.place.nodes),
            volume_gib=self.volume_gib,
            rollout=rollout_of(serve, self.mode),
            schedule=tuple(range_ for range_ in ranges if range_ is not None),
            subnet_ids=self.plan.request.network.subnet_ids,
            security_group_ids=self.plan.request.network.security_group_ids,
            training_plan_arn=bought.arn if planned and bought is not None else None,
        )
