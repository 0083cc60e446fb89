"""The section `run` of the plan file: the command of a job and its requirements."""

from collections.abc import Mapping
from dataclasses import MISSING

from launcher.model.enums import Operator, StepNodes
from launcher.model.kinds import (
    FILLED,
    IMAGE,
    S3_URI,
    Auto,
    Choice,
    Flag,
    Integer,
    Many,
    NameOr,
    Nullable,
    Number,
    Section,
    Table,
    Text,
    setting,
)
from launcher.model.record import record

ABSOLUTE = r"(/[^/]+)+"
VARIABLE = Text(pattern=r"[A-Za-z_][A-Za-z0-9_]*", form="a variable name")
SECRET_ARN = Text(pattern=r"arn:.+", form="the ARN of a secret or parameter", hidden=True)
KEY_ARN = Text(pattern=r"arn:aws[a-z-]*:kms:.+", form="the ARN of a KMS key")


@record
class Volume:
    """A volume of an existing cluster, by its claim in the job's namespace."""

    claim: str = setting(
        MISSING,
        Text(pattern=r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", form="the name of a PersistentVolumeClaim"),
        "name of the PersistentVolumeClaim",
    )
    path: str = setting(MISSING, Text(pattern=ABSOLUTE, form="an absolute path"), "mount path in every pod")


@record
class DataSource:
    """A folder in S3 that the nodes download before the first step of a job."""

    uri: str = setting(MISSING, S3_URI, "location of the files in S3")
    path: str = setting(MISSING, Text(pattern=ABSOLUTE, form="an absolute path"), "folder for the files on the nodes")
    shard: bool = setting(False, Flag(), "each node downloads only its share of the files")
    gib: float | None = setting(None, Nullable(item=Number(above=0)), "size of the files in GiB, for the quote")
    kms_key_arn: str | None = setting(
        None, Nullable(item=KEY_ARN), "KMS key of the bucket; null: AWS's default encryption"
    )


@record
class Step:
    """A command before or after the job's own, run once per run on the job's nodes."""

    command: tuple[str, ...] = setting(
        MISSING, Many(item=Text(), command_line=True), "program and arguments; bash runs a string"
    )
    on: StepNodes = setting(StepNodes.FIRST, Choice(options=StepNodes), "nodes that run the step")
    hours: float | None = setting(None, Nullable(item=Number(above=0)), "duration in hours, for the quote")


@record
class Output:
    """What a job leaves behind, stored at its end."""

    path: str = setting(MISSING, FILLED, "file, folder or pattern")
    optional: bool = setting(False, Flag(), "whether the job may end without it; false: it has failed then")


@record
class RunSpec:
    """The command and its requirements."""

    command: tuple[str, ...] = setting(
        ("python", "train.py"), Many(item=Text(), command_line=True), "program and arguments; bash runs a string"
    )
    workdir: str = setting(".", FILLED, "folder uploaded with the job, relative to the plan file")
    image: str | None = setting(None, Nullable(item=IMAGE), "container image")
    container: str | None = setting(
        None,
        Auto(item=Text(pattern="enroot|docker|none", form="enroot, docker or none")),
        "container runtime: enroot, docker or none",
    )
    env: Mapping[str, str] = setting(
        dict,
        Table(item=Text(), keys=VARIABLE.pattern, form=VARIABLE.form),
        "environment variables, passed as they are written: no shell expands $NAME or ~",
    )
    secrets: Mapping[str, str] = setting(
        dict,
        Table(item=SECRET_ARN, keys=VARIABLE.pattern, form=VARIABLE.form),
        "environment variables, each with the ARN of a secret or parameter",
    )
    plain_env: tuple[str, ...] = setting(
        (),
        Many(item=VARIABLE),
        "variables of env that look like secrets, or as if a shell expanded them, and are meant as written",
    )
    setup: tuple[str, ...] = setting(
        (),
        Many(item=Text()),
        "shell lines before the command, in its shell, at every start; bash runs them without set -u",
    )
    before: tuple[Step, ...] = setting((), Many(item=Section(of=Step)), "steps before the command")
    after: tuple[Step, ...] = setting((), Many(item=Section(of=Step)), "steps after the command has completed")
    outputs: tuple[str | Output, ...] = setting(
        (),
        Many(item=NameOr(of=Output, form="a path or a mapping with path and optional")),
        "files, folders and patterns (*, **) to store at the end of the job, each a path, or a mapping",
    )
    outputs_gib: float | None = setting(
        None, Nullable(item=Number(above=0)), "size of the outputs in GiB, for the quote"
    )
    data: tuple[DataSource, ...] = setting(
        (), Many(item=Section(of=DataSource)), "folders in S3 that the nodes download before the command"
    )
    volumes: tuple[Volume, ...] = setting((), Many(item=Section(of=Volume)), "volumes in every pod (Kubernetes)")
    retries: int | None = setting(
        None,
        Auto(item=Integer(minimum=0)),
        "how often a failed job is requeued; auto: enough for a 90 % chance to finish",
    )
    time_limit_h: float | None = setting(
        None,
        Nullable(item=Number(above=0)),
        "hours until the job is stopped; Slurm counts each start, and resumes a job that stored a checkpoint",
    )
    operator: Operator | None = setting(
        None,
        Auto(item=Choice(options=Operator)),
        "operator that runs the pods on Kubernetes; auto: the one installed in the cluster",
    )

    @property
    def results(self) -> tuple[Output, ...]:
        """The outputs, each with whether it is optional."""
        return tuple(Output(path=output) if isinstance(output, str) else output for output in self.outputs)
