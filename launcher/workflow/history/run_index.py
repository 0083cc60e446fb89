"""The run index in the store of a job: who launched which run, so that other computers find it by its name.

One object a run: `.runs/NAME/RUN.json` below the store's folder, which the launch writes when the job is submitted and
again when it has ended. Reading it needs s3:ListBucket and s3:GetObject there, and with a region alone
cloudformation:DescribeStacks.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from launcher.agent import safe_json
from launcher.aws import stacks
from launcher.aws.clients import FALLBACK_REGION
from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.model.errors import AwsError, ImpossibleError, SlipwayError, UnreadableInputError
from launcher.model.monitoring import JOBS_PREFIX
from launcher.model.names import nearest_name
from launcher.model.record import record
from launcher.model.stages import Notify
from launcher.model.tags import CLUSTER_TAG
from launcher.records.recent_runs import FOUND, remember, root_of, state_folder
from launcher.records.run_copy import RunCopy, copy_of, read_copy, unpack
from launcher.records.run_folder import RunFolder
from launcher.records.submission import read_submission
from launcher.rendering.names import OUTPUTS, SERVING_STACK

FOLDER = ".runs"
"""Below the store's folder; no plan has such a name."""
NEWEST = 20
"""The runs of a name that are fetched."""
LARGEST = 16 << 20
"""Bytes of a copy; a larger object is none."""
_KEY = re.compile(rf"{re.escape(FOLDER)}/([a-z0-9-]{{1,40}})/([0-9]{{8}}T[0-9]{{6}}Z)-[a-z0-9]{{1,16}}\.json")
_STORE = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?")


@record
class RunLocation:
    """Where to look for runs: a store, or the stores of a region's stacks."""

    region: str | None
    store: str | None


def publish(name: str, folder: RunFolder, environment: Mapping[str, str], now: datetime, notify: Notify) -> None:
    """Write a run's records to its store; a run without a job on a cluster has none there.

    A store that cannot be written does not fail the run: a message says what does not work then.
    """
    submission = read_submission(folder)
    if submission is None or not submission.store_uri.startswith("s3://"):
        return
    try:
        region = submission.head_node.region or FALLBACK_REGION
        store = Objects.at(Session(environment=environment, region=region), submission.store_uri)
        text = json.dumps(copy_of(name, folder, now), ensure_ascii=False)
        store.put(_key(name, folder, submission.key), text.encode())
    except SlipwayError as problem:
        notify(f"the run is not in the store's index ({problem.message}): other computers do not find it by its name")


def _key(name: str, folder: RunFolder, submission_key: str) -> str:
    """A key of its own for each launch: two people may launch the same name in the same second."""
    return f"{FOLDER}/{name}/{folder.path.name}-{submission_key.rpartition('-')[2]}.json"


def fetch(name: str, place: RunLocation, environment: Mapping[str, str], notify: Notify) -> Path:
    """Fetch the runs of a name into the user's state folder, and return the folder that contains them.

    Raises:
        UnreadableInputError: the store's address is none, or no store has a run of this name.
        ImpossibleError: several stores have one, or the name is that of an endpoint.
        AwsError: a store or the stacks cannot be read.
    """
    found = [(store, copies) for store in _stores(place, environment) if (copies := _copies(store, name))]
    if not found:
        raise _endpoint(name, place, environment) or _no_such_run(name, place, environment)
    if len(found) > 1:
        places = "; ".join(f"--store {store.uri} (by {copies[-1].by})" for store, copies in found)
        raise ImpossibleError(f"{len(found)} stores have runs of {name}", hint=f"say which: {places}")
    store, copies = found[0]
    root = _root(store.uri, environment)
    folders = [unpack(copy, root) for copy in copies]
    home = root_of(name, environment)
    if home is None or home.is_relative_to(_found_folder(environment).resolve()):
        # So that the commands which this one names find the run too. A run that was launched here comes first.
        remember(name, folders[-1].path, environment)
    newest = copies[-1]
    people = sorted({copy.by for copy in copies})
    notify(f"  {name}: run {newest.run}, launched by {newest.by} on {newest.host} ({store.uri})")
    if len(people) > 1:
        notify(f"  runs of this name are by {', '.join(people)}: this is the newest")
    notify(f"  its rendered files are in {newest.folder} on {newest.host}, and not here")
    return root


def fetch_all(place: RunLocation, environment: Mapping[str, str]) -> Mapping[str, Path]:
    """Fetch the runs of every name: the folder that contains the runs of each store, by the store's address.

    Raises:
        UnreadableInputError: no store has a run.
    """
    roots = {}
    for store in _stores(place, environment):
        names = _names(store)
        for name in names:
            for copy in _copies(store, name):
                unpack(copy, _root(store.uri, environment))
        if names:
            roots[store.uri] = _root(store.uri, environment)
    if not roots:
        raise UnreadableInputError(
            f"no run is in {_where(place)}", hint="the launch writes it when the job is submitted"
        )
    return roots


def _root(uri: str, environment: Mapping[str, str]) -> Path:
    return _found_folder(environment) / hashlib.sha256(uri.encode()).hexdigest()[:16]


def _found_folder(environment: Mapping[str, str]) -> Path:
    return state_folder(environment) / FOUND


def _stores(place: RunLocation, environment: Mapping[str, str]) -> Iterator[Objects]:
    """The stores of a place; of a region those that the outputs of Slipway's stacks name, each once."""
    session = Session(environment=environment, region=_region(place, environment))
    if place.store is not None:
        if _STORE.fullmatch(place.store) is None:
            raise UnreadableInputError(f"{place.store!r} is no store", hint="--store s3://BUCKET or s3://BUCKET/jobs")
        bucket = place.store.removeprefix("s3://").rstrip("/")
        yield Objects.at(session, f"s3://{bucket}" if "/" in bucket else f"s3://{bucket}/{JOBS_PREFIX}")
        return
    uris = dict[str, None]()
    for stack in stacks.tagged_stacks(session, CLUSTER_TAG):
        if uri := stack.outputs.get(OUTPUTS["store_uri"]):
            uris[uri] = None
        elif name := stack.outputs.get("BucketName"):
            uris.setdefault(f"s3://{name}/{JOBS_PREFIX}")
    for uri in uris:
        yield Objects.at(session, uri)


def _copies(store: Objects, name: str) -> list[RunCopy]:
    """The newest runs of a name in a store, the oldest first."""
    stored = [one for one in store.list_objects(below=f"{FOLDER}/{name}/") if _KEY.fullmatch(one.key)]
    keys = sorted(one.key for one in stored if one.bytes <= LARGEST)[-NEWEST:]
    copies = [read_copy(_load(store, key)) for key in keys]
    for key, copy in zip(keys, copies, strict=True):
        match = _KEY.fullmatch(key)
        if match is None or (copy.name, copy.run) != match.groups():
            raise UnreadableInputError(f"{store.uri}/{key} is the copy of another run")
    return copies


def _load(store: Objects, key: str) -> Any:
    try:
        return safe_json.loads(store.read(key))
    except ValueError as problem:
        raise UnreadableInputError(f"the stored run {store.uri}/{key} cannot be read: {problem}") from problem


def _names(store: Objects) -> list[str]:
    keys = (_KEY.fullmatch(one.key) for one in store.list_objects(below=f"{FOLDER}/"))
    return sorted({match[1] for match in keys if match is not None})


def _endpoint(name: str, place: RunLocation, environment: Mapping[str, str]) -> ImpossibleError | None:
    """The refusal of an endpoint, which has no job and no store: its stack is found by its region."""
    region = _region(place, environment)
    stack = f"slipway-{name}-{SERVING_STACK}"
    if place.store is not None or stacks.find(Session(environment=environment, region=region), stack) is None:
        return None
    return ImpossibleError(
        f"{name} is an endpoint in {region}, and only the folder of its deployment has its runs",
        hint=f"slipway endpoint test {name} --region {region} shows its state, slipway cost {name} --region {region}"
        f" its cost, and slipway down {name} --region {region} removes it",
    )


def _region(place: RunLocation, environment: Mapping[str, str]) -> str:
    return place.region or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or FALLBACK_REGION


def _no_such_run(name: str, place: RunLocation, environment: Mapping[str, str]) -> UnreadableInputError:
    try:
        names = sorted({known for store in _stores(place, environment) for known in _names(store)})
    except AwsError:
        names = []
    known = ", ".join(names) or "none"
    hint = f"{nearest_name(name, names)} runs there: {known}".strip()
    return UnreadableInputError(f"no run of {name} is in {_where(place)}", hint=hint)


def _where(place: RunLocation) -> str:
    return place.store or f"the stores of Slipway's stacks in {place.region}"
