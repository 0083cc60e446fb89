"""What the row of a target is made of: head node, guard, the roles that it uses, and whose key its volumes have."""

from enum import StrEnum

from launcher.model.record import record


class VolumeKey(StrEnum):
    """Who says which key encrypts the root volumes of a target's machines.

    NAMED: the stack, for `storage.kms_key_arn`. DEFAULT: nobody, so that it is EBS's default of the account and region.
    SERVICE: the service in whose account the machines run, by the key that the request names.
    """

    NAMED = "named"
    DEFAULT = "default"
    SERVICE = "service"


@record
class HeadNode:
    """The machine without accelerators that takes a cluster's jobs.

    `composite_alarms` join its `alarms`; all of them are set beside those of the guardrails, and so are its custom
    `metrics`. `dns_zones` are the private hosted zones in which nodes find it and each other.
    """

    name: str
    alarms: int = 0
    composite_alarms: int = 0
    metrics: int = 0
    dns_zones: int = 0


@record
class Guard:
    """What watches a target in the account.

    `module` is the file of templates/guard, `variable` what tells it the name of what it watches. `events` are the
    kinds of event that are announced whatever the plan buys; `spot_notices` says whether EC2's notices of
    interruptions reach the account. `stops` says what it does at the end of the time to live, `idle` what it takes
    for idleness (empty: it stops nothing for idleness), and `metrics_a_look`, `metrics_a_node` how many values it
    asks for at each look; `own_metrics` are those that it reports beside every guard's, and `asks_mb` is the memory
    of a function that it calls at each look to hear what there is to do (0: none). `alone` says that nothing but the
    guard stops idle nodes, and `trial_hours` what the service takes, billed, to try machines before they get jobs:
    middle and high, assumed where AWS publishes no time.
    """

    module: str
    variable: str
    events: tuple[str, ...]
    spot_notices: bool = False
    stops: str = "nodes stop"
    idle: str = ""
    metrics_a_look: int = 0
    metrics_a_node: int = 0
    own_metrics: int = 0
    asks_mb: int = 0
    alone: bool = False
    trial_hours: tuple[float, float] = (0.0, 0.0)


@record
class RoleUse:
    """A role that a plan can name in place of a stack's own.

    `key` is its key of `security.roles`, `service` who has to be trusted by it, `needs` the parts of
    permissions/roles.toml that it has to allow; `entered` says that people enter its machines, and `pulls` that they
    pull the image of the plan's job.
    """

    key: str
    service: str
    needs: tuple[str, ...]
    entered: bool = False
    pulls: bool = False
