"""What makes one serving candidate impossible, whatever it costs; what cannot be deployed, planning finds."""

from collections.abc import Iterator

from launcher.model.finding import Finding, error
from launcher.model.fleet import Fleet
from launcher.model.workload import ServingWorkload


def refusals(serve: ServingWorkload, load: Fleet | None) -> Iterator[Finding]:
    """A load that needs more instances than there may be, ever or by the clock; nothing is against Bedrock."""
    most = serve.max_instances
    if load is not None and most is not None and load.instances.most > most:
        message = f"the busiest hour needs {load.instances.most} instances, max_instances is {most}"
        yield error("max-instances", "workload.serve.max_instances", message, f"raise it to {load.instances.most}")
    if load is not None and load.short is not None:
        hour, needed, allowed = load.short
        message = f"at {hour:02d}:00 the load needs {needed} instances, the schedule allows {allowed}"
        hint = f"raise the range to {needed}, to 0-0 where nobody is served, or ask for fewer requests in that hour"
        yield error("schedule-short", "workload.serve.schedule", message, hint)
