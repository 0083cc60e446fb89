"""What a spike has made, removed when it is over: its stacks, and checkpoints that nobody goes on from."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from launcher import plan_file
from launcher.aws.session import Session
from launcher.catalog.load import Catalog
from launcher.model.errors import ImpossibleError, SlipwayError
from launcher.model.plan import Plan
from launcher.model.stages import Tell
from launcher.planning.pin import pinned_plan
from launcher.records.run_folder import RunFolder
from launcher.workflow.deploy.deployment import deploys
from launcher.workflow.deploy.down import Subject, survey, take_down
from launcher.workflow.doctor.left_running import NOTHING, left_running


def remove_made(
    runs: Iterable[RunFolder], begun: datetime, catalog: Catalog, environment: Mapping[str, str], tell: Tell
) -> tuple[str, ...]:
    """Remove the clusters of a spike's runs; what is left all the same, with what it costs and how to remove it.

    A cluster that was there before the spike began is left: somebody else's may have the same name.

    Args:
        runs: the run folders of one spike; several where its first candidates found no machines.
        begun: when the spike began.
        catalog: for prices.
        environment: the credentials.
        tell: takes progress.
    """
    plans = [pinned_plan(plan_file.load(each.path / "plan.json"), catalog) for each in runs]
    made = {(each.cluster_name, each.place.region): each for each in plans if deploys(each)}
    return tuple(line for plan in made.values() for line in _removed(plan, begun, catalog, environment, tell))


def _removed(
    plan: Plan, begun: datetime, catalog: Catalog, environment: Mapping[str, str], tell: Tell
) -> tuple[str, ...]:
    """Remove one cluster with its checkpoints; lines of what is left all the same, none where it is gone."""
    name, region = plan.cluster_name, plan.place.region
    session = Session(environment=environment, region=region)
    asked = Subject(cluster=name, region=region, network=plan.request.network.name)
    try:
        found = survey(asked, session, catalog, erase=True)
        if any(each.deployed_at is not None and each.deployed_at < begun for each in found.going):
            raise ImpossibleError("it was there before the spike began")
        removal = take_down(found, session, catalog, tell)
    except SlipwayError as problem:
        left = left_running(plan, session, catalog, datetime.now(UTC))
        return () if left.lines == (NOTHING,) else (f"{name} was not removed: {problem.message}", *left.lines)
    tell(f"removed what the spike made in {region}: {', '.join(name for name, _ in removal.stacks)}")
    for kept in removal.kept:
        tell(f"stays: {kept.kind.value} {kept.name}: {kept.reason}")
    return ()
