"""Whether the data of a job is where the plan says, asked before nodes are paid."""

from launcher.aws.objects import Objects
from launcher.aws.session import CredentialsError, Session, error_code
from launcher.model.errors import AwsError, ImpossibleError
from launcher.model.finding import Finding, error
from launcher.model.reach import reached_locations
from launcher.model.request import PlanRequest
from launcher.model.stages import Notify


def refuse_empty_data(request: PlanRequest, session: Session, notify: Notify) -> None:
    """Refuse a job whose `run.data` names a bucket that does not exist, or a prefix without an object.

    What these credentials may not list is said, and left to the nodes' own role.

    Raises:
        ImpossibleError: data is missing, with a finding for each place.
    """
    findings: list[Finding] = []
    for reach in reached_locations(request):
        if reach.writes:
            continue
        try:
            first = Objects.at(session, reach.uri).first()
        except CredentialsError:
            return
        except AwsError as problem:
            if error_code(problem) != "NoSuchBucket":
                notify(f"{reach.path}: {reach.uri} is not checked: {problem.message}")
                continue
            message, hint = f"{reach.uri}: there is no such bucket", "name a bucket that exists: aws s3 ls lists yours"
            findings.append(error("no-data", reach.path, message, hint))
            continue
        if first is None:
            folder = f"{reach.uri.rstrip('/')}/"
            hint = f"aws s3 ls {folder} shows what is there; aws s3 sync FOLDER {folder} uploads it"
            findings.append(error("no-data", reach.path, f"{reach.uri} holds no object", hint))
    if findings:
        raise ImpossibleError("the data of the job is not there", findings=findings)
