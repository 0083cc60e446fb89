"""The stacks of a run as CloudFormation has them: those its folder names, and those that its plan's own cluster has.

A deployment that ended early has written no outputs, and its stacks are billed all the same.
"""

from collections.abc import Iterable, Mapping

from launcher import plan_file
from launcher.aws import stacks
from launcher.aws.clients import Sessions
from launcher.model.errors import AwsError, SlipwayError
from launcher.model.request import PlanRequest
from launcher.records.run_folder import RunFolder
from launcher.workflow.deploy.verify import NETWORK_STACK, SERVING_STACK, STORE_STACK, TRAINING_STACK

_OF_A_CLUSTER = (NETWORK_STACK, STORE_STACK, TRAINING_STACK, SERVING_STACK)
_CLOUDFORMATION = "cloudformation"


def stack_states(folder: RunFolder, known: Iterable[str], environment: Mapping[str, str]) -> dict[str, str] | None:
    """The status of each stack of a run that exists.

    Args:
        folder: the run's.
        known: names that a deployment left in it.
        environment: may hold credentials.

    Returns:
        Statuses by name; None where nobody could ask: no readable plan, no region, no credentials, no answer.
    """
    try:
        request = plan_file.load(folder.path / "plan.json")
        if not request.target.region:
            return None
        names = {*known, *_own(request)}
        sessions = Sessions(environment)
    except SlipwayError:
        return None
    try:
        session = sessions.session(request.target.region[0], _CLOUDFORMATION)
        found = [stacks.find(session, name) for name in sorted(names)]
    except AwsError:
        return None
    finally:
        sessions.close()
    return {each.name: each.status for each in found if each is not None}


def _own(request: PlanRequest) -> list[str]:
    """What the stacks of a plan's own cluster are called; none where its jobs go to another's."""
    return [] if request.target.cluster is not None else [f"slipway-{request.name}-{part}" for part in _OF_A_CLUSTER]
