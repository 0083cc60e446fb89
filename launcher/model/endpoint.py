"""A SageMaker endpoint with every decision, and the rules shared by its stack, its checks and its price."""

from collections.abc import Mapping
from enum import StrEnum

from launcher.model.enums import Rollout
from launcher.model.instance_type import InstanceType
from launcher.model.record import record
from launcher.model.schedule import ScheduledRange, parse_schedule
from launcher.model.sizing import IMAGE_GIB
from launcher.model.units import GB_PER_GIB
from launcher.model.workload import ServingWorkload

FILLED = 0.7
"""Share of an instance's concurrent requests that the autoscaler aims at: between the 0.6 and 0.8 of the
serving notes; the rest is for bursts, and for the minutes until a new instance starts."""
VOLUME_STEP_GIB = 10.0
FEW, HALF, QUARTER = 4, 50, 25
"""A deployment replaces a quarter of the running units, half of fewer than four; SageMaker allows 5 to 50 %."""
LARGEST_QUEUE = 1000
"""Maximum MaxConcurrentInvocationsPerInstance (API reference, AsyncInferenceClientConfig)."""
RETENTION_DAYS = 30
"""Days for which the endpoint's bucket retains requests and answers, which may be personal data."""


class EndpointMode(StrEnum):
    """How requests reach the containers.

    A variant has one container an instance. Components are copies that share instances and can scale to zero.
    An asynchronous endpoint is a variant behind a queue, and can also scale to zero.
    """

    VARIANT = "variant"
    COMPONENTS = "components"
    ASYNCHRONOUS = "asynchronous"


@record
class Endpoint:
    """One endpoint, decided."""

    name: str
    # The name of its only variant. By default it contains the instance type, so that a template with another type names
    # another scalable target too; an update keeps the names of variants (catalog/data/service_updates.csv).
    variant: str
    mode: EndpointMode
    instance_type: str
    image: str
    ami: str | None
    # A folder in S3; None if the container fetches the model from the Hugging Face hub.
    model_uri: str | None
    environment: Mapping[str, str]
    # Whether its containers have no network access.
    isolated: bool
    # Copies of the model that share an instance.
    copies: int
    # Chips of each copy.
    chips: int
    # Memory of the host for each copy.
    memory_mb: int
    # Requests that each copy processes in parallel.
    concurrency: int
    # The smallest number of instances.
    least: int
    # The largest number of instances.
    most: int
    # None if the type has local disks.
    volume_gib: int | None
    rollout: Rollout
    schedule: tuple[ScheduledRange, ...]
    # The subnets in which its containers have interfaces; empty: in SageMaker's own network.
    subnet_ids: tuple[str, ...] = ()
    security_group_ids: tuple[str, ...] = ()
    # The training plan in which alone its instances run; None: they are on demand.
    training_plan_arn: str | None = None

    @property
    def network(self) -> tuple[frozenset[str], frozenset[str]]:
        """The subnets and security groups of its containers; both empty in SageMaker's own network."""
        return frozenset(self.subnet_ids), frozenset(self.security_group_ids)

    @property
    def scales(self) -> bool:
        """Whether its range, or its schedule, changes the number of instances."""
        return self.most > self.least or bool(self.schedule)

    @property
    def scales_to_zero(self) -> bool:
        """Whether the endpoint may have no instance."""
        return self.least == 0

    @property
    def unit(self) -> int:
        """The units that the autoscaler counts per instance: its copies with components, else one."""
        return self.copies if self.mode is EndpointMode.COMPONENTS else 1


class EndpointAlarm(StrEnum):
    """The alarms of an endpoint in addition to those of every target (launcher.model.monitoring)."""

    ERRORS = "Errors"
    REFUSED = "Refused"
    LATENCY = "Latency"
    OVERHEAD = "Overhead"
    WAKE = "Wake"
    IDLE = "Idle"


def endpoint_alarms(
    mode: EndpointMode, *, scales_to_zero: bool, has_idle_alarm: bool = True
) -> tuple[EndpointAlarm, ...]:
    """The alarms of an endpoint: one alarm wakes an endpoint that scales to zero, another reports an idle one to users.

    >>> [str(each) for each in endpoint_alarms(EndpointMode.VARIANT, scales_to_zero=False)]
    ['Errors', 'Refused', 'Latency', 'Overhead', 'Idle']
    """
    # Clients of a queue do not wait, and its requests are accepted even if no instance runs.
    answered = (EndpointAlarm.REFUSED, EndpointAlarm.LATENCY, EndpointAlarm.OVERHEAD)
    others = answered if mode is not EndpointMode.ASYNCHRONOUS else ()
    last = (EndpointAlarm.WAKE,) if scales_to_zero else (EndpointAlarm.IDLE,) if has_idle_alarm else ()
    return (EndpointAlarm.ERRORS, *others, *last)


def endpoint_mode(serve: ServingWorkload, *, neuron: bool, copies: int) -> EndpointMode:
    """The mode of an endpoint: the Neuron image runs one copy in a container, so several copies are components."""
    if serve.asynchronous:
        return EndpointMode.ASYNCHRONOUS
    return EndpointMode.COMPONENTS if (neuron and copies > 1) or serve.min_instances == 0 else EndpointMode.VARIANT


def base_instances(serve: ServingWorkload) -> int:
    """Instances that always run: the minimum, at least one a zone, or 0 if the minimum is 0."""
    return max(serve.min_instances, serve.zones) if serve.min_instances else 0


def most_instances(serve: ServingWorkload, nodes: int) -> int:
    """The number of instances above which an endpoint never scales; `nodes` are those that its traffic needs."""
    return max(serve.max_instances or nodes, 1)


def least_instances(serve: ServingWorkload) -> int:
    """Instances below which an endpoint never scales, at any hour of its schedule.

    >>> least_instances(ServingWorkload(min_instances=3, schedule=("cron(0 19 ? * * *) 1-2",)))
    1
    """
    ranges = (parse_schedule(line) for line in serve.schedule)
    least = [change.least for change in ranges if change is not None]
    return min([base_instances(serve), *least])


def rollout_of(serve: ServingWorkload, mode: EndpointMode = EndpointMode.VARIANT) -> Rollout:
    """How a new version replaces the old one: rolling if two instances always run, else both versions run together.

    The minimum number of instances counts, because a deployment can happen at any hour. Components are always replaced
    in steps.

    >>> str(rollout_of(ServingWorkload(max_instances=4))), str(rollout_of(ServingWorkload(min_instances=2)))
    ('all-at-once', 'rolling')
    """
    if mode is EndpointMode.COMPONENTS:
        return Rollout.ROLLING
    if serve.deployment is not Rollout.AUTO:
        return serve.deployment
    return Rollout.ROLLING if base_instances(serve) > 1 else Rollout.ALL_AT_ONCE


def batch_percent(units: int) -> int:
    """The percentage of instances or copies that a deployment step replaces; `units` of them always run.

    >>> batch_percent(3), batch_percent(4)
    (50, 25)
    """
    return HALF if units < FEW else QUARTER


def keeps_requests(serve: ServingWorkload, mode: EndpointMode) -> bool:
    """Whether an endpoint has a bucket for its requests and answers."""
    return serve.data_capture or mode is EndpointMode.ASYNCHRONOUS


def volume_gib(weights_gb: float) -> int:
    """GiB of a volume for the image and two copies of the model, downloaded and loaded; `weights_gb` in 1e9 bytes.

    It does not grow with the copies of an inference component: SageMaker caches artifacts and images once in each
    instance (API reference, InferenceComponentDataCacheConfig), and no source says that each copy downloads its own.

    >>> volume_gib(16.1), volume_gib(141.1)
    (60, 300)
    """
    needed = IMAGE_GIB + 2 * weights_gb / GB_PER_GIB
    return int(-(-needed // VOLUME_STEP_GIB) * VOLUME_STEP_GIB)


def endpoint_volume_gib(facts: InstanceType, weights_gb: float) -> int | None:
    """GiB of an instance's volume; None if the type has local disks, for which SageMaker refuses a size."""
    return None if facts.nvme_gb else volume_gib(weights_gb)
