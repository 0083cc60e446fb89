"""What makes one serving candidate impossible, whatever it costs; what cannot be deployed, planning finds."""

from collections.abc import Iterator

from launcher.model.finding import Finding, error
from launcher.model.fleet import Fleet
from launcher.model.workload import ServingWorkload


def refusals(serve: ServingWorkload, load: Fleet | None) -> Iterator[Finding]:
    """A load that needs more instances than there may be; nothing stands against Bedrock."""
    most = serve.max_instances
    if load is not None and most is not None and load.instances.most > most:
        message = f"the busiest hour needs {load.instances.most} instances, max_instances is {most}"
        yield error("max-instances", "workload.serve.max_instances", message, f"raise it to {load.instances.most}")
