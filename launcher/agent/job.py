"""job.json: the job that the agent runs. The launcher writes it with `JobSpec.to_json`, the agent reads it.

Standard library only and no import of the launcher's model: this module runs on the node.
"""

import difflib
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from launcher.agent import safe_json
from launcher.agent.errors import JobSpecError
from launcher.agent.forecast import QUOTED
from launcher.agent.output_manifest import stored_name

SCHEMA = "slipway.job/1"
MODES = ("agent", "dcp", "own", "none")
RESTARTS = ("auto", "fresh")
SIGNALS = ("auto", "SIGUSR1", "SIGTERM", "none")
WRITERS = ("every-node", "first-node")
READ_BACK = "SLIPWAY_READ_BACK"
"""With the value 1 in `env`: request the first checkpoint immediately and read it back, to measure the time."""

_SELDOM = frozenset(
    {
        "after",
        "before",
        "data",
        "ends_at",
        "grace_s",
        "hung_minutes",
        "journal",
        "layout",
        "leave_before_s",
        "mtbf_s",
        "outputs",
        "plan_uri",
        "pattern",
        "quoted",
        "restart",
        "retries",
        "signal",
        "stop_uri",
        "timeout_s",
        "tracker",
        "word_uri",
    }
)
_STEP = frozenset({"command", "on"})
_URI = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9!_.*'()=/-]*)?")
_NAME = re.compile(r"[a-z0-9-]{1,40}")
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSpec:
    """The location and the policy of checkpoints.

    Attributes:
        uri: `s3://bucket/prefix`, with mode "own" also a path; None only with mode "none".
        mode: "agent": the agent uploads and restores finished folders; "dcp": the trainer writes PyTorch distributed
            checkpoints directly to the store, the agent finds the newest complete one and retains the newest `keep`;
            "own": the trainer stores them at `uri` itself, the agent only reports them; "none": no checkpoints.
        keep: Number of complete checkpoints retained, >= 1; older ones are tagged `slipway=superseded`.
        grace_seconds: Seconds for the ranks to save after a notice, until the command is ended, > 0.
        interval_s: Seconds between checkpoints, passed to the trainer, > 0.
        mtbf_s: Mean seconds between interruptions of the whole job, > 0: the interval starts at `interval_s` and then
            follows the measured write time (Daly 2006). None: the interval stays constant.
        max_mb_s: Limit of the upload rate in MB/s (10^6 bytes) while no notice is pending; None: no limit.
        writers: "every-node": a checkpoint is complete when the parts of all nodes that write any exist (`quorum`);
            "first-node": only the first node writes checkpoints, the others restore them.
        final_upload_s: Seconds to upload the last checkpoint of a completed command before the job fails, > 0.
        timeout_s: A request to the store that brings no byte for this long is cancelled and retried, > 0.
        layout: Layout of the framework (`checkpoint.layouts`), or "auto".
        pattern: A regular expression with one group, the step, for a framework that no layout describes.
        tracker: With `pattern`: `file` next to a checkpoint whose `text` names the newest one, with {step} or {name}.
        signal: The signal that requests a save from the ranks on a notice, one of `SIGNALS`.
        restart: "auto": the start fails if checkpoints exist and none is usable; "fresh": it then begins at step 0.
    """

    uri: str | None
    mode: str = "agent"
    keep: int = 3
    grace_seconds: float = 90.0
    interval_s: float = 600.0
    mtbf_s: float | None = None
    max_mb_s: float | None = None
    writers: str = "every-node"
    final_upload_s: float = 600.0
    timeout_s: float = 30.0
    restart: str = "auto"
    signal: str = "auto"
    layout: str = "auto"
    pattern: str | None = None
    tracker: Mapping[str, str] | None = None


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
    """One job. Paths may hold `${VARIABLES}` of the node's environment and are absolute after these are filled in.

    Attributes:
        run: Id of the submitted run; a new submission gets a new one, a requeue keeps it.
        name: The plan's name; the folder under `scratch` is named after it.
        command: The argument vector; no shell.
        workdir: Folder in which the command starts.
        env: Variables for the command, in addition to the environment of the agent.
        checkpoint: The checkpoint policy.
        scratch: Folder on the node for checkpoints and restores.
        events: JSON-lines file to which the agent appends, on a file system that outlives the node.
        metrics: JSON-lines file to which the trainer appends.
        drain: On a spot notice, and when the capacity ends, drain the node in Slurm: the job does not return to it.
        imds: Watch the instance metadata service for a spot notice and for a rebalance recommendation.
        imds_poll_s: Seconds between two polls, > 0. AWS advises 5 s, the notice comes about 120 s ahead.
        ends_at: ISO time with a zone at which the capacity ends (a Capacity Block, a training plan); None: no end.
        leave_before_s: Seconds before `ends_at` at which the job saves for the last time and exits, >= 0. EC2 starts
            to end the instances of a Capacity Block 30 minutes before its end (EC2 User Guide, "Capacity Blocks for
            ML", read 2026-11-20), HyperPod those of a training plan 60 minutes before (read 2026-11-20): a quarter of
            an hour is added.
        journal: `s3://bucket/prefix` of this run alone, for nodes that share no folder (pods): their logs and their
            messages to each other. None: the folder of the events holds both.
        grace_s: In a pod, the seconds from SIGTERM to its end, > 0: SIGTERM is then an interruption, not a cancel.
        hung_minutes: Minutes without a new step in the metrics after which the command is ended, > 0; None: never.
        stop_uri: `s3://bucket/key` of the object that the guard in the account writes when the budget is used up: the
            job saves and ends for good. None: no such object.
        quoted: The known values of the job's quote, dollars by name (`forecast.QUOTED`). None: no values.
        word_uri: `s3://bucket/prefix` that the guard polls for messages to users; None: it does not.
        outputs: Files and folders that are stored when the command has ended, with `${SLIPWAY_...}` filled in;
            relative ones are below `workdir`.
        plan_uri: `s3://bucket/prefix` of the plan, for `outputs/RUN/` and for the marks of steps and data; needed with
            any of them.
        before: Steps before the command, each done once per run.
        after: Steps after the command has completed.
        data: Folders in S3 that the nodes fetch before all other work.
        retries: In a pod, the number of failed attempts that others may follow; None: the operator counts them.
    """

    run: str
    name: str
    command: tuple[str, ...]
    workdir: str
    checkpoint: CheckpointSpec
    scratch: str
    events: str
    metrics: str
    env: Mapping[str, str] = field(default_factory=dict)
    drain: bool = False
    imds: bool = True
    imds_poll_s: float = 2.0
    ends_at: str | None = None
    leave_before_s: float = 2700.0
    journal: str | None = None
    grace_s: float | None = None
    hung_minutes: float | None = None
    stop_uri: str | None = None
    quoted: Mapping[str, float] | None = None
    word_uri: str | None = None
    outputs: tuple[str, ...] = ()
    plan_uri: str | None = None
    before: tuple[StepSpec, ...] = ()
    after: tuple[StepSpec, ...] = ()
    data: tuple[DataSpec, ...] = ()
    retries: int | None = None

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
        document |= {"command": list(self.command), "env": dict(self.env), "outputs": list(self.outputs)}
        for part, spec, instance in (
            (document, JobSpec, self),
            (document["checkpoint"], CheckpointSpec, self.checkpoint),
        ):
            unused = [
                field_.name
                for field_ in fields(spec)
                if field_.name in _SELDOM and getattr(instance, field_.name) == field_.default
            ]
            for name in unused:
                del part[name]
        return json.dumps(document, indent=2, sort_keys=True) + "\n"


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
        JobSpecError: with every problem found, each with the path of its key.
    """
    try:
        document = safe_json.loads(text)
    except ValueError as error:
        raise JobSpecError([f"job.json: not JSON: {error}"]) from error
    reader = _Reader(document, "")
    schema = reader.take("schema", str, required=True)
    if schema is not None and schema != SCHEMA:
        reader.problems.append(f"schema: got {schema!r}; this agent reads {SCHEMA!r}")
    checkpoint = _Reader(reader.take("checkpoint", dict, required=True) or {}, "checkpoint.", reader.problems)
    policy = {name: checkpoint.take(name, kind) for name, kind in _CHECKPOINT_KEYS.items()}
    values = {name: reader.take(name, kind, required=name in _REQUIRED) for name, kind in _JOB_KEYS.items()}
    checkpoint.refuse_the_rest()
    reader.refuse_the_rest()
    if reader.problems:
        raise JobSpecError(reader.problems)
    policy = {name: value for name, value in policy.items() if value is not None}
    values = {name: value for name, value in values.items() if value is not None}
    return JobSpec(**{**values, "checkpoint": CheckpointSpec(**{"uri": None, **policy})})


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


def _string_list(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise TypeError("a list of strings")
    return tuple(value)


def _steps(value: Any) -> tuple[StepSpec, ...]:
    if not isinstance(value, list) or not all(isinstance(step, dict) and step.keys() == _STEP for step in value):
        raise TypeError("a list of steps with command and on")
    steps = tuple(StepSpec(command=_string_list(step["command"]), on=str(step["on"])) for step in value)
    if any(not step.command or step.on not in ("first", "all") for step in steps):
        raise TypeError("a list of steps, each with the words of a command, on first or all")
    return steps


def _data(value: Any) -> tuple[DataSpec, ...]:
    names = {field_.name for field_ in fields(DataSpec)}
    kinds = {"uri": str, "path": str, "shard": bool, "shared": bool}
    if not isinstance(value, list) or not all(isinstance(source, dict) and source.keys() == names for source in value):
        raise TypeError(f"a list of mappings with the keys {', '.join(sorted(names))}")
    if not all(isinstance(source[name], kind) for source in value for name, kind in kinds.items()):
        raise TypeError("a list of mappings with texts, and true or false for shard and shared")
    return tuple(DataSpec(**source) for source in value)


def _strings(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(word, str) for word in value.values()):
        raise TypeError("a mapping of strings")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError("a number")
    return float(value)


def _figures(value: Any) -> dict[str, float]:
    if not isinstance(value, dict) or not value.keys() <= set(QUOTED):
        raise TypeError(f"a mapping of numbers with the keys {', '.join(QUOTED)}")
    return {name: _number(figure) for name, figure in value.items()}


_Kind = type | Callable[[Any], Any]
_KIND_NAMES = {str: "a string", int: "an integer", bool: "true or false", dict: "a mapping"}
_REQUIRED = frozenset({"run", "name", "command", "workdir", "scratch", "events", "metrics"})
_JOB_KEYS: dict[str, _Kind] = {
    "run": str,
    "name": str,
    "command": _string_list,
    "workdir": str,
    "scratch": str,
    "events": str,
    "metrics": str,
    "env": _strings,
    "drain": bool,
    "imds": bool,
    "imds_poll_s": _number,
    "ends_at": str,
    "leave_before_s": _number,
    "journal": str,
    "grace_s": _number,
    "hung_minutes": _number,
    "stop_uri": str,
    "quoted": _figures,
    "word_uri": str,
    "outputs": _string_list,
    "plan_uri": str,
    "before": _steps,
    "after": _steps,
    "data": _data,
    "retries": int,
}
_CHECKPOINT_KEYS: dict[str, _Kind] = {
    "uri": str,
    "mode": str,
    "keep": int,
    "grace_seconds": _number,
    "interval_s": _number,
    "mtbf_s": _number,
    "max_mb_s": _number,
    "writers": str,
    "final_upload_s": _number,
    "timeout_s": _number,
    "restart": str,
    "signal": str,
    "layout": str,
    "pattern": str,
    "tracker": _strings,
}


class _Reader:
    """Reads typed values from one mapping and collects its problems."""

    def __init__(self, document: Any, prefix: str, problems: list[str] | None = None) -> None:
        self.problems = [] if problems is None else problems
        self._prefix = prefix
        self._asked: list[str] = []
        if isinstance(document, dict):
            self._left = dict(document)
        else:
            self._left = {}
            self.problems.append(f"job.json: got {type(document).__name__}; it must be a mapping")

    def take(self, name: str, kind: _Kind, *, required: bool = False) -> Any:
        """The value; None if the key is absent, null or invalid."""
        self._asked.append(name)
        value = self._left.pop(name, None)
        if value is None:
            if required:
                self.problems.append(f"{self._prefix}{name}: missing")
            return None
        if isinstance(kind, type):
            if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
                return value
            expected = _KIND_NAMES[kind]
        else:
            try:
                return kind(value)
            except TypeError as error:
                expected = str(error)
        self.problems.append(f"{self._prefix}{name}: got {value!r}; it must be {expected}")
        return None

    def refuse_the_rest(self) -> None:
        """Report every unknown key, with the nearest known one."""
        for name in self._left:
            near = difflib.get_close_matches(name, self._asked, n=1)
            hint = f"; did you mean {near[0]!r}" if near else f"; allowed: {', '.join(sorted(self._asked))}"
            self.problems.append(f"{self._prefix}{name}: unknown key{hint}")


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
        for name in ("imds_poll_s", "hung_minutes", "grace_s")
        if (value := getattr(spec, name)) is not None and not value > 0
    )
    problems.extend(
        f"{name}: got {value!r}; it must be s3://bucket/{form}"
        for name, form in (
            ("journal", "prefix"),
            ("stop_uri", "key"),
            ("word_uri", "prefix"),
            ("plan_uri", "prefix"),
        )
        if (value := getattr(spec, name)) is not None and not _URI.fullmatch(value)
    )
    negative = (setting for setting in ("leave_before_s", "retries") if not (getattr(spec, setting) or 0) >= 0)
    problems.extend(f"{name}: got {getattr(spec, name)}; it must not be negative" for name in negative)
    try:
        spec.leaves_at()
    except (ValueError, OverflowError) as error:
        problems.append(f"ends_at: got {spec.ends_at!r}; it must be an ISO time with a zone ({error})")
    return problems


def _file_problems(spec: JobSpec) -> list[str]:
    problems = [
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
