"""Slurm on a head node: submit once, poll, read output, cancel.

A unique key names each submission. The key is the job's name in Slurm, and the job folder stores the job's id. Thus a
caller can repeat a request and gets the same job: after a timeout, after a lost connection, after a crash of the
launcher. A job counts as submitted only after Slurm has returned an id.
"""

import base64
import binascii
import re
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from launcher.model.job import JobFacts, SchedulerAttempt, Submitted
from launcher.submit import slurm_output
from launcher.submit.callers import OF_NETWORKS
from launcher.submit.jobs import Chunk, CutOffError, NoPartitionError, SchedulerError, UnreachableError
from launcher.submit.nodes import SlurmNodes, running_on
from launcher.submit.shell import ScriptResult, Shell

TRIES = 5
"""The number of tries of a submission before Slipway reports its outcome as unknown."""
_FIRST_PAUSE_S, _SLOWER = 2.0, 2.0
_KEY = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")
_JOB = re.compile(r"\d{1,12}")
_NO_CONTROLLER, _REFUSED, _NOT_THERE, _UNSURE = 70, 71, 72, 75

_SUBMIT = """trap '' HUP PIPE
cd {folder} || exit 66
exec 9>.slipway-submission && flock -w 60 9 || exit {unsure}
if [ -s .slipway-job ]; then cat .slipway-job; exit 0; fi
# Has Slurm taken it without the answer coming back? The queue knows, or its accounting, or the job's own output.
found="$(squeue --noheader --states=all --name={key} --format=%i)" || exit {no_controller}
[ -n "$found" ] || found="$(sacct --noheader --allocations --parsable2 --name={key} --starttime=now-7days \
--format=JobIDRaw 2>/dev/null)" || found=""
[ -n "$found" ] || found="$(ls | sed -n 's/^slurm-\\([0-9][0-9]*\\)\\.out$/\\1/p')"
found="$(printf '%s\\n' "$found" | sed -n '/^[0-9][0-9]*$/p' | sort -n | head -n 1)"
if [ -z "$found" ] && [ {only_find} = 1 ]; then exit {not_there}; fi
if [ -z "$found" ]; then
    # sbatch passes all variables on to the job; of AWS, Slipway and networks, the node and the script have their own.
    for each in $(compgen -e); do
        case "$each" in
            AWS_*) [ "${{SLIPWAY_SANDBOX:-}}" = 1 ] || unset "$each" ;; # the sandbox sets its own
            SLIPWAY_SANDBOX | SLIPWAY_SANDBOX_PORT | SLIPWAY_LOCAL_RUNNER) ;;
            SLIPWAY_SCRATCH | SLIPWAY_PYTHON | SLIPWAY_AGENT_CACHE) ;;
            SLIPWAY_* | {of_networks}) unset "$each" ;;
        esac
    done
    printed="$(sbatch --parsable --job-name={key}{partition} {script} 2>.slipway-refusal)"
    code=$?
    if [ $code -ne 0 ]; then
        cat .slipway-refusal >&2
        # The controller may have taken it all the same.
        grep -qiE 'timed out|unable to contact|zero bytes|communication|connection' .slipway-refusal && exit {unsure}
        exit {refused}
    fi
    found="${{printed%%;*}}"
fi
printf '%s\\n' "$found" >.slipway-job.new && mv .slipway-job.new .slipway-job && cat .slipway-job
"""

_SHOW = """export SLURM_TIME_FORMAT={time_format}
printed="$(scontrol --oneliner show job {job} 2>&1)"
code=$?
if [ $code -eq 0 ] && printf '%s\\n' "$printed" | grep -qE '(^| )JobName={key}( |$)'; then
    echo queue
    printf '%s\\n' "$printed"
    exit 0
fi
if [ $code -ne 0 ] && ! printf '%s\\n' "$printed" | grep -qi 'invalid job id'; then
    printf '%s\\n' "$printed" >&2
    exit {no_controller}
fi
echo accounting
sacct --noheader --allocations --duplicates --parsable2 --jobs={job} --name={key} --format={columns} 2>/dev/null || true
"""

_ACCOUNTING = """export SLURM_TIME_FORMAT={time_format}
sacct --noheader --allocations --duplicates --parsable2 --jobs={job} --name={key} --format={columns} 2>/dev/null || true
"""

_READ = """cd {folder} || exit 66
chunk() {{
    if [ -f "$1" ]; then
        printf '%s ' "$(stat -c %s "$1")"
        tail -c "+$(($2 + 1))" "$1" | head -c {chunk} | base64 -w 0
        echo
    else
        echo -
    fi
}}
{chunks}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slurm:
    """The Slurm controller that a shell reaches."""

    shell: Shell
    sleep: Callable[[float], None] = time.sleep

    def partition(self, name: str, instance_type: str) -> str:
        """The partition for a job: the partition of that name, else a partition with nodes of that instance type.

        Raises:
            SchedulerError: Slurm does not answer.
        """
        answer = self._query("sinfo --noheader --format='%R %f'", "the partitions")
        match = slurm_output.partition_of(answer.out.strip(), name, instance_type)
        if match is None:
            available = ", ".join(sorted({line.partition(" ")[0] for line in answer.out.split("\n") if line.strip()}))
            raise NoPartitionError(
                f"{self.shell.name}: no partition {name} and no node with the feature {instance_type}, "
                f"available: {available or 'none'}",
                hint=f"create a partition {name}, or set on its nodes Feature={instance_type} in slurm.conf",
            )
        return match

    def submit(self, key: str, folder: str, script: str, *, partition: str | None = None) -> Submitted:
        """Submit a job once: if the outcome of a try is unknown, search for the job before the next try.

        `key` names only this submission; `folder` is absolute, on the head node; `partition` replaces the partition of
        the script.

        Raises:
            UnreachableError: every try failed without a definite outcome; Slurm may have accepted the job.
        """
        submitted = self._submission(key, folder, script, partition=partition, only_find=False)
        if submitted is None:
            raise SchedulerError(f"{self.shell.name}: Slurm neither accepted nor refused the job")
        return submitted

    def find(self, key: str, folder: str) -> Submitted | None:
        """The job that an earlier submission with this key created; None if none exists. Never creates a job.

        Raises:
            SchedulerError: the job's folder does not exist.
            UnreachableError: Slipway cannot determine whether the job exists.
        """
        return self._submission(key, folder, "none", partition=None, only_find=True)

    def _submission(
        self, key: str, folder: str, script: str, *, partition: str | None, only_find: bool
    ) -> Submitted | None:
        """Search for a job and, unless `only_find`, submit it; retry until the outcome is known."""
        command = _SUBMIT.format(
            folder=shlex.quote(folder),
            key=_check(_KEY, key, "a key"),
            script=shlex.quote(f"./{script}"),
            partition="" if partition is None else f" --partition={shlex.quote(partition)}",
            only_find=int(only_find),
            unsure=_UNSURE,
            no_controller=_NO_CONTROLLER,
            refused=_REFUSED,
            not_there=_NOT_THERE,
            of_networks=" | ".join(OF_NETWORKS),
        )
        pause, problem = _FIRST_PAUSE_S, UnreachableError("never asked")
        for attempt in range(TRIES):
            if attempt:
                self.sleep(pause)
                pause *= _SLOWER
            try:
                answer = self.shell.run(command)
            except UnreachableError as error:
                problem = error
                continue
            if answer.code in (_UNSURE, _NO_CONTROLLER):
                problem = UnreachableError(f"{self.shell.name}: Slurm does not answer: {_reason(answer)}")
                continue
            if answer.code == _NOT_THERE:
                return None
            if answer.code != 0:
                subject = "sbatch refuses the job" if answer.code == _REFUSED else f"the job folder {folder}"
                raise SchedulerError(f"{self.shell.name}: {subject}: {_reason(answer)}")
            return Submitted(job=slurm_output.parse_sbatch(answer.out), key=key, folder=folder)
        raise UnreachableError(
            f"{problem.message}; after {TRIES} tries it is unknown whether Slurm accepted the job", hint=problem.hint
        ) from problem

    def facts(self, job: Submitted) -> JobFacts | None:
        """The state of a job; None if Slurm no longer knows the job."""
        source, _, printed = self._query(_SHOW.format(**self._parameters(job)), f"job {job.job}").out.partition("\n")
        if source == "queue":
            return slurm_output.parse_scontrol(printed)
        accounting = slurm_output.parse_sacct(printed)
        return None if accounting is None else accounting[0]

    def attempts(self, job: Submitted) -> tuple[SchedulerAttempt, ...]:
        """The attempts that Slurm knows: all attempts with accounting, else only the last."""
        command = _ACCOUNTING.format(**self._parameters(job))
        accounting = slurm_output.parse_sacct(self._query(command, f"job {job.job}").out)
        if accounting is not None:
            return accounting[1]
        facts = self.facts(job)
        return () if facts is None or facts.attempt is None else (facts.attempt,)

    def log_name(self, job: Submitted) -> str:
        """The file name that the batch script's `--output` results in."""
        return log_name(job)

    def nodes(self, job: Submitted) -> SlurmNodes:
        """The nodes of a running job, reached by steps next to the job's own step."""
        names = running_on(self.facts(job), job.job)
        return SlurmNodes(head=self.shell, job=job.job, folder=job.folder, names=names)

    def release(self, job: Submitted) -> None:
        """Let a requeued job start one second from now; Slurm's default delay is two minutes.

        A refusal is no failure: the job may already have started.

        Raises:
            UnreachableError: no complete answer came.
        """
        self.shell.run(f"scontrol update jobid={self._parameters(job)['job']} StartTime=now+1")

    def cancel(self, job: Submitted, *, only_pending: bool = False) -> bool:
        """Cancel a job by id and name, because Slurm reuses ids. A job that has already ended remains unchanged.

        `only_pending` leaves a running job alone.

        Returns:
            True: Slurm does not report whether the job still existed.

        Raises:
            SchedulerError: Slurm does not answer, or refuses.
        """
        fields = self._parameters(job)
        state = "--state=PENDING " if only_pending else ""
        answer = self.shell.run(f"scancel {state}--name={fields['key']} {fields['job']}")
        if answer.code != 0 and "invalid job id" not in answer.err.lower():
            raise SchedulerError(f"{self.shell.name}: job {job.job} could not be cancelled: {_reason(answer)}")
        return True

    def read(self, job: Submitted, offsets: Mapping[str, int]) -> Mapping[str, Chunk | None]:
        """Read the files of a job folder from their offsets, as much as one answer carries.

        Args:
            job: the job.
            offsets: the offset to read from, by the file's name in the job folder.

        Returns:
            A chunk for each file; None for a missing file.
        """
        calls = "\n".join(f"chunk {shlex.quote(name)} {int(offset)}" for name, offset in offsets.items())
        share = max(1, self.shell.chunk_bytes // max(1, len(offsets)))
        script = _READ.format(folder=shlex.quote(job.folder), chunk=share, chunks=calls)
        lines = self._query(script, f"the folder of job {job.job}").out.splitlines()
        if len(lines) != len(offsets):
            raise UnreachableError(f"{self.shell.name}: {len(offsets)} files were requested, {len(lines)} came")
        return {name: _chunk(line) for name, line in zip(offsets, lines, strict=True)}

    def _parameters(self, job: Submitted) -> dict[str, str | int]:
        return {
            "job": _check(_JOB, job.job, "a job id"),
            "key": _check(_KEY, job.key, "a key"),
            "columns": ",".join(slurm_output.ACCOUNTED),
            "time_format": slurm_output.TIME_FORMAT,
            "no_controller": _NO_CONTROLLER,
        }

    def _query(self, script: str, subject: str) -> ScriptResult:
        """The answer of a script that only reads and must not fail.

        If the answer was cut off, Slipway repeats the request once: a HyperPod session can end silently (awslabs/
        awsome-distributed-ai@95b939c, hyperpod-mental-model.md).
        """
        try:
            answer = self.shell.run(script)
        except CutOffError:
            answer = self.shell.run(script)
        if answer.code == _NO_CONTROLLER:
            raise UnreachableError(f"{self.shell.name}: Slurm does not answer: {_reason(answer)}")
        if answer.code != 0:
            raise SchedulerError(f"{self.shell.name}: {subject}: {_reason(answer)}")
        return answer


def log_name(job: Submitted) -> str:
    """The file name that the batch script's `--output` results in."""
    return f"slurm-{job.job}.out"


def _check(form: re.Pattern[str], word: str, kind: str) -> str:
    if not form.fullmatch(word):
        raise SchedulerError(f"not {kind} of a submission: {word!r}")
    return word


def _reason(answer: ScriptResult) -> str:
    return " | ".join(answer.err.strip().splitlines()[-3:]) or f"exit {answer.code}"


def _chunk(line: str) -> Chunk | None:
    if line == "-":
        return None
    size, _, packed = line.partition(" ")
    try:
        return Chunk(data=base64.b64decode(packed, validate=True), size=int(size))
    except (binascii.Error, ValueError) as error:
        raise UnreachableError(f"received a damaged part of a file: {line[:60]!r}") from error
