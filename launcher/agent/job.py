"""job.json: the job that the agent runs. The launcher writes it with `JobSpec.to_json`, the agent reads it.

Standard library only and no import of the launcher's model: this module runs on the node.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from launcher.agent import safe_json
from launcher.agent.errors import JobSpecError
from launcher.agent.forecast import OF_TYPE, QUOTED
from launcher.agent.output_manifest import stored_name
from launcher.agent.shape import read

SCHEMA = "slipway.job/1"
MODES = ("agent", "dcp", "own", "none")
RESTARTS = ("auto", "fresh")
SIGNALS = ("auto", "SIGUSR1", "SIGTERM", "none")
WRITERS = ("every-node", "first-node")
READ_BACK = "SLIPWAY_READ_BACK"
"""With the value 1 in `env`: request the first checkpoint immediately and read it back, to measure the time."""

_URI = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9!_.*'()=/-]*)?")
_NAME = re.compile(r"[a-z0-9-]{1,40}")
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def _rare(default: Any) -> Any:
    """A field that job.json has only where it differs from its default."""
    return field(default=default, metadata={"rare": True})


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSpec:
    """The location and the policy of checkpoints."""

    # `s3://bucket/prefix`, with mode "own" also a path; None only with mode "none".
    uri: str | None = None
    # "agent": the agent uploads and restores finished folders; "dcp": the trainer writes PyTorch distributed
    # checkpoints directly to the store, the agent finds the newest complete one and retains the newest `keep`; "own":
    # the trainer stores them at `uri` itself, the agent only reports them; "none": no checkpoints.
    mode: str = "agent"
    # Number of complete checkpoints retained, >= 1; older ones are tagged `slipway=superseded`.
    keep: int = 3
    # Seconds for the ranks to save after a notice, until the command is ended, > 0.
    grace_seconds: float = 90.0
    # Seconds between checkpoints, passed to the trainer, > 0.
    interval_s: float = 600.0
    # Mean seconds between interruptions of the whole job, > 0: the interval starts at `interval_s` and then follows the
    # measured write time (Daly 2006). None: the interval stays constant.
    mtbf_s: float | None = _rare(None)
    # Limit of the upload rate in MB/s (10^6 bytes) while no notice is pending; None: no limit.
    max_mb_s: float | None = None
    # "every-node": a checkpoint is complete when the parts of all nodes that write any exist (`quorum`); "first-node":
    # only the first node writes checkpoints, the others restore them.
    writers: str = "every-node"
    # Seconds to upload the last checkpoint of a completed command before the job fails, > 0.
    final_upload_s: float = 600.0
    # A request to the store that brings no byte for this long is cancelled and retried, > 0.
    timeout_s: float = _rare(30.0)
    # "auto": the start fails if checkpoints exist and none is usable; "fresh": it then begins at step 0.
    restart: str = _rare("auto")
    # The signal that requests a save from the ranks on a notice, one of `SIGNALS`.
    signal: str = _rare("auto")
    # Layout of the framework (`checkpoint.layouts`), or "auto".
    layout: str = _rare("auto")
    # A regular expression with one group, the step, for a framework that no layout describes.
    pattern: str | None = _rare(None)
    # With `pattern`: `file` next to a checkpoint whose `text` names the newest one, with {step} or {name}.
    tracker: Mapping[str, str] | None = _rare(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSpec:
    """A command before or after the job's own: the argument vector, and whether the first node runs it or all do."""

    command: tuple[str, ...]
    on: str = "first"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSpec:
    """A folder in S3 that nodes fetch into `path`: only their share, if `shard`, or if they share its file system."""

    uri: str
    path: str
    shard: bool = False
    shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """One job. Paths may hold `${VARIABLES}` of the node's environment and are absolute after these are filled in."""

    # Id of the submitted run; a new submission gets a new one, a requeue keeps it.
    run: str
    # The plan's name; the folder under `scratch` is named after it.
    name: str
    # The argument vector; no shell.
    command: tuple[str, ...]
    # Folder in which the command starts.
    workdir: str
    # The checkpoint policy.
    checkpoint: CheckpointSpec
    # Folder on the node for checkpoints and restores.
    scratch: str
    # JSON-lines file to which the agent appends, on a file system that outlives the node.
    events: str
    # JSON-lines file to which the trainer appends.
    metrics: str
    # Variables for the command, in addition to the environment of the agent.
    env: Mapping[str, str] = field(default_factory=dict)
    # On a spot notice, and when the capacity ends, drain the node in Slurm: the job does not return to it.
    drain: bool = False
    # Watch the instance metadata service for a spot notice and for a rebalance recommendation.
    imds: bool = True
    # Seconds between two polls, > 0. AWS advises 5 s, the notice comes about 120 s ahead.
    imds_poll_s: float = 2.0
    # ISO time with a zone at which the capacity ends (a Capacity Block, a training plan); None: no end.
    ends_at: str | None = _rare(None)
    # Seconds before `ends_at` at which the job saves for the last time and exits, >= 0. EC2 starts to end the instances
    # of a Capacity Block 30 minutes before its end (EC2 User Guide, "Capacity Blocks for ML", read 2026-11-20),
    # HyperPod those of a training plan 60 minutes before (read 2026-11-20): a quarter of an hour is added.
    leave_before_s: float = _rare(2700.0)
    # Seconds after its start at which an attempt saves for the last time because of `run.time_limit_h`, > 0: Slurm
    # signals that time; without a scheduler the agent counts it. None: no limit, or only the scheduler knows it.
    save_after_s: float | None = _rare(None)
    # `s3://bucket/prefix` of this run alone, for nodes that share no folder (pods): their logs and their messages to
    # each other. None: the folder of the events holds both.
    journal: str | None = _rare(None)
    # In a pod, the seconds from SIGTERM to its end, > 0: SIGTERM is then an interruption, not a cancel.
    grace_s: float | None = _rare(None)
    # Minutes without a new step in the metrics after which the command is ended, > 0; None: never.
    hung_minutes: float | None = _rare(None)
    # `s3://bucket/key` of the object that the guard in the account writes when the budget is used up: the job saves and
    # ends for good. None: no such object.
    stop_uri: str | None = _rare(None)
    # The known values of the job's quote, dollars by name (`forecast.QUOTED`). None: no values.
    quoted: Mapping[str, float] | None = _rare(None)
    # `s3://bucket/prefix` that the guard polls for messages to users; None: it does not.
    message_uri: str | None = _rare(None)
    # Files, folders and patterns that are stored when the command has ended, with `${SLIPWAY_...}` filled in; relative
    # ones are below `workdir`.
    outputs: tuple[str, ...] = _rare(())
    # Those of them without which a run may end.
    optional_outputs: tuple[str, ...] = _rare(())
    # `s3://bucket/prefix` of the plan, for `outputs/RUN/` and for the marks of steps and data; needed with any of them.
    plan_uri: str | None = _rare(None)
    # Steps before the command, each done once per run.
    before: tuple[StepSpec, ...] = _rare(())
    # Steps after the command has completed.
    after: tuple[StepSpec, ...] = _rare(())
    # Folders in S3 that the nodes fetch before all other work.
    data: tuple[DataSpec, ...] = _rare(())
    # In a pod, the number of failed attempts that others may follow; None: the operator counts them.
    retries: int | None = _rare(None)

    def __post_init__(self) -> None:
        problems = [text for check in (_job_problems, _file_problems, _checkpoint_problems) for text in check(self)]
        if problems:
            raise JobSpecError(problems)

    def leaves_at(self) -> datetime | None:
        """When the job saves for the last time because its capacity ends; UTC. None: the capacity does not end."""
        return None if self.ends_at is None else _moment(self.ends_at) - timedelta(seconds=self.leave_before_s)

    def to_json(self) -> str:
        """The text of job.json: sorted keys, two spaces, a newline at the end.

        Rarely used keys are present only if they differ from their defaults.
        """
        document = {"schema": SCHEMA, **asdict(self)}
        _leave_out_defaults(document, self)
        _leave_out_defaults(document["checkpoint"], self.checkpoint)
        return json.dumps(document, indent=2, sort_keys=True) + "\n"


def _leave_out_defaults(part: dict[str, Any], spec: "JobSpec | CheckpointSpec") -> None:
    """Remove rarely used keys that have their defaults."""
    for spec_field in fields(spec):
        if spec_field.metadata.get("rare") and getattr(spec, spec_field.name) == spec_field.default:
            del part[spec_field.name]


def load(path: Path) -> JobSpec:
    """Read job.json.

    Raises:
        JobSpecError: the file is unreadable, is not JSON, or is not a job.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise JobSpecError([f"{path}: cannot be read: {error}"]) from error
    return parse(text)


def parse(text: str) -> JobSpec:
    """The job that `text` describes.

    Raises:
        JobSpecError: the text is not a job: with the path of the first key that is missing, unknown or of another
            type, or else with every value that is not allowed.
    """
    try:
        document = safe_json.loads(text)
    except ValueError as error:
        raise JobSpecError([f"job.json: not JSON: {error}"]) from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise JobSpecError([f"schema: got {schema!r}; this agent reads {SCHEMA!r}"])
    try:
        return read(JobSpec, document, exact=True)
    except ValueError as error:
        raise JobSpecError([f"job.json: {error}"]) from error


def expand(text: str, environment: Mapping[str, str]) -> str:
    """`text` with every `${NAME}` replaced from the environment.

    Raises:
        JobSpecError: a variable is not set.

    >>> expand("/scratch/${USER}", {"USER": "ada"})
    '/scratch/ada'
    """
    unset = sorted({name for name in _VARIABLE.findall(text) if name not in environment})
    if unset:
        raise JobSpecError([f"{text!r} needs {', '.join(unset)}, which is not set on this node"])
    return _VARIABLE.sub(lambda match: environment[match.group(1)], text)


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))  # Python 3.10 does not know Z
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no zone")
    return moment.astimezone(timezone.utc)


def _job_problems(spec: JobSpec) -> list[str]:
    problems = []
    if not _RUN.fullmatch(spec.run):
        problems.append(f"run: got {spec.run!r}; letters, digits, '.', '_' and '-', at most 128")
    if not _NAME.fullmatch(spec.name):
        problems.append(f"name: got {spec.name!r}; lower-case letters, digits and '-', at most 40")
    if not spec.command or not spec.command[0]:
        problems.append("command: empty; it must be a list whose first word is the program")
    if any("\0" in word for word in (*spec.command, *spec.env.values())):
        problems.append("command or env: contains a NUL character, which the operating system does not allow")
    problems.extend(
        f"env.{name}: not a variable name; letters, digits and '_'"
        for name in spec.env
        if not _ENV_NAME.fullmatch(name)
    )
    problems.extend(
        f"{name}: got {value!r}; it must be absolute, or start with a ${{VARIABLE}} that is"
        for name in ("workdir", "scratch", "events", "metrics")
        if not (value := getattr(spec, name)).startswith(("/", "${"))
    )
    problems.extend(
        f"{name}: got {value}; it must be above 0"
        for name in ("imds_poll_s", "hung_minutes", "grace_s", "save_after_s")
        if (value := getattr(spec, name)) is not None and not value > 0
    )
    problems.extend(
        f"{name}: got {value!r}; it must be s3://bucket/{form}"
        for name, form in (
            ("journal", "prefix"),
            ("stop_uri", "key"),
            ("message_uri", "prefix"),
            ("plan_uri", "prefix"),
        )
        if (value := getattr(spec, name)) is not None and not _URI.fullmatch(value)
    )
    unknown = sorted(name for name in spec.quoted or {} if name not in QUOTED and not name.startswith(OF_TYPE))
    problems.extend(f"quoted.{name}: unknown key; allowed: {', '.join(QUOTED)}" for name in unknown)
    negative = (setting for setting in ("leave_before_s", "retries") if not (getattr(spec, setting) or 0) >= 0)
    problems.extend(f"{name}: got {getattr(spec, name)}; it must not be negative" for name in negative)
    try:
        spec.leaves_at()
    except (ValueError, OverflowError) as error:
        problems.append(f"ends_at: got {spec.ends_at!r}; it must be an ISO time with a zone ({error})")
    return problems


def _file_problems(spec: JobSpec) -> list[str]:
    problems = [
        f"{name}[{number}]: got {step.command!r} on {step.on!r}; it must be the words of a command, on first or all"
        for name, steps in (("before", spec.before), ("after", spec.after))
        for number, step in enumerate(steps)
        if not step.command or step.on not in ("first", "all")
    ]
    problems += [
        f"outputs: got {path!r}; it must be a path below the job's folder, or an absolute one"
        for path in spec.outputs
        if not stored_name(path)
    ]
    if (spec.outputs or spec.before or spec.after or spec.data) and spec.plan_uri is None:
        problems.append("plan_uri: missing; outputs, steps and data need s3://bucket/prefix")
    problems.extend(
        f"data[{number}]: got {source.uri!r} and {source.path!r}; it must be s3://bucket/prefix and an absolute path"
        for number, source in enumerate(spec.data)
        if not (_URI.fullmatch(source.uri) and source.path.startswith(("/", "${")))
    )
    return problems


def _checkpoint_problems(spec: JobSpec) -> list[str]:
    policy, problems = spec.checkpoint, []
    if policy.mode not in MODES:
        problems.append(f"checkpoint.mode: got {policy.mode!r}; allowed: {', '.join(MODES)}")
    if policy.restart not in RESTARTS:
        problems.append(f"checkpoint.restart: got {policy.restart!r}; allowed: {', '.join(RESTARTS)}")
    if policy.signal not in SIGNALS:
        problems.append(f"checkpoint.signal: got {policy.signal!r}; allowed: {', '.join(SIGNALS)}")
    if policy.writers not in WRITERS:
        problems.append(f"checkpoint.writers: got {policy.writers!r}; allowed: {', '.join(WRITERS)}")
    form = "s3://bucket/prefix" + (" or an absolute path" if policy.mode == "own" else "")
    if policy.uri is None and policy.mode != "none":
        problems.append(f"checkpoint.uri: missing; mode {policy.mode!r} needs {form}")
    is_path = policy.mode == "own" and (policy.uri or "").startswith(("/", "${"))
    if policy.uri is not None and not is_path and not _URI.fullmatch(policy.uri):
        problems.append(f"checkpoint.uri: got {policy.uri!r}; it must be {form}")
    if policy.keep < 1:
        problems.append(f"checkpoint.keep: got {policy.keep}; it must be at least 1")
    problems.extend(
        f"checkpoint.{name}: got {value}; it must be above 0"
        for name in ("grace_seconds", "interval_s", "mtbf_s", "max_mb_s", "final_upload_s", "timeout_s")
        if (value := getattr(policy, name)) is not None and not value > 0
    )
    return problems
