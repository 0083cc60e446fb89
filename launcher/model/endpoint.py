"""A SageMaker endpoint with everything decided: what the stack makes of it, and what the checks hold it against."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from launcher.model.enums import Rollout


class EndpointMode(StrEnum):
    """How requests reach the containers.

    A variant has one container an instance. Components are copies that share instances, which may all go away.
    An asynchronous endpoint is a variant behind a queue, which may go away too.
    """

    VARIANT = "variant"
    COMPONENTS = "components"
    ASYNCHRONOUS = "asynchronous"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledRange:
    """A range of instances from a moment on: `when` as Application Auto Scaling takes it, `timezone` None is UTC."""

    when: str
    least: int
    most: int
    timezone: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One endpoint.

    `model_uri` is a folder in S3, None where the container fetches the model from the Hugging Face hub; `isolated` says
    that it reaches no network. `copies` of the model share an instance, each on `chips` chips with `memory_mb` of the
    host, and each takes `concurrency` requests at once. `least` and `most` are instances. `volume_gib` is None where
    the type has disks of its own.
    """

    name: str
    mode: EndpointMode
    instance_type: str
    image: str
    ami: str | None
    model_uri: str | None
    environment: Mapping[str, str]
    isolated: bool
    copies: int
    chips: int
    memory_mb: int
    concurrency: int
    least: int
    most: int
    volume_gib: int | None
    rollout: Rollout
    schedule: tuple[ScheduledRange, ...]

    @property
    def scales_to_zero(self) -> bool:
        """Whether there may be no instance."""
        return self.least == 0

    @property
    def unit(self) -> int:
        """What the autoscaler counts in an instance: its copies where they are components, else the instance."""
        return self.copies if self.mode is EndpointMode.COMPONENTS else 1


class EndpointAlarm(StrEnum):
    """The alarms of an endpoint beside those of every target (launcher.model.upkeep)."""

    ERRORS = "Errors"
    REFUSED = "Refused"
    LATENCY = "Latency"
    OVERHEAD = "Overhead"
    WAKE = "Wake"
    IDLE = "Idle"


def endpoint_alarms(mode: EndpointMode, *, scales_to_zero: bool) -> tuple[EndpointAlarm, ...]:
    """The alarms of an endpoint: one that may go away is woken by an alarm, one that stands is told of being idle.

    >>> [str(each) for each in endpoint_alarms(EndpointMode.VARIANT, scales_to_zero=False)]
    ['Errors', 'Refused', 'Latency', 'Overhead', 'Idle']
    """
    # Nobody waits for an answer of a queue, and its requests are taken in whether or not anything runs.
    answered = (EndpointAlarm.REFUSED, EndpointAlarm.LATENCY, EndpointAlarm.OVERHEAD)
    others = answered if mode is not EndpointMode.ASYNCHRONOUS else ()
    return (EndpointAlarm.ERRORS, *others, EndpointAlarm.WAKE if scales_to_zero else EndpointAlarm.IDLE)
