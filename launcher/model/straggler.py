"""A node that slows its job down, with what that costs and what replacing the node would."""

from decimal import Decimal

from launcher.model.record import record


@record
class Straggler:
    """A node that is slower than the other nodes of its job. `reason` has the agent's figures."""

    node: str
    percent: int
    # "work": its own seconds of a step, which its trainer reports; "chips": the clock and use of its slowest chip, a
    # bound.
    basis: str
    # Whether hours and dollars until the end are a bound: always for chips, and for work if the time of a step was not
    # known to the agent.
    at_most: bool
    reason: str
    # The hours and dollars until the end of the job in which all nodes wait for this one; None if not known.
    hours_until_end: float | None
    usd_until_end: Decimal | None
    # At most so many dollars for each hour that the job runs; None without a price.
    usd_per_hour: Decimal | None
    # The cost of all nodes while one is replaced: the restart and the work since the newest checkpoint.
    replace_hours: float
    replace_usd: Decimal | None
