"""The batch script: checked by bash, shellcheck and sbatch's rules, then run with stand-ins for Slurm and the agent."""

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime

import boto3
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher.agent.job import parse
from launcher.model.errors import ImpossibleError
from launcher.rendering.batch import JobSettings
from tests.checks import some
from tests.emulators.moto_server import moto_server

BASH, SLEEP = shutil.which("bash"), shutil.which("sleep")
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=40)
AWKWARD = st.sampled_from(
    ["$(touch injected)", "`touch injected`", "'; touch injected; '", 'a"b', "a\nb", "${HOME}", "\\", "#"]
)
SCONTROL = """
case "$2" in
    hostnames) printf '%s\\n' a1 a2 ;;
    node) echo "NodeName=$4 Arch=x86_64 NodeAddr=10.1.2.3 NodeHostName=$4 Version=24.05" ;;
esac
"""


def script_of(bundle):
    return bundle.file("job.sbatch").text


def directives(script):
    """The options that sbatch reads: its lines before the first command."""
    lines = script.splitlines()
    commands = next(index for index, line in enumerate(lines) if line and not line.startswith("#"))
    options = [line.removeprefix("#SBATCH --") for line in lines[:commands] if line.startswith("#SBATCH ")]
    return dict(word.partition("=")[::2] for word in options)


class TestEveryPlan:
    def test_batch_script_begins_with_the_bash_line_and_sbatch_directives(self, bundle):
        assert script_of(bundle).startswith("#!/bin/bash\n#SBATCH ")

    def test_batch_script_passes_bash_syntax_check_and_shellcheck(self, bundle, tmp_path, shellcheck):
        path = tmp_path / "job.sbatch"
        path.write_text(script_of(bundle), encoding="utf-8")
        subprocess.run([BASH, "-n", path], check=True)
        assert shellcheck(path) == ""

    def test_batch_script_has_the_sbatch_directives_of_the_plan(self, bundle, plan):
        options = directives(script_of(bundle))
        assert options["job-name"] == plan.name
        assert options["partition"] == plan.place.instance_type.replace(".", "-")
        assert options["nodes"] == str(plan.place.nodes)
        assert options["ntasks-per-node"] == "1"
        assert {"requeue", "exclusive"} <= options.keys()
        assert (options["open-mode"], options["output"]) == ("append", "slurm-%j.out")

    def test_batch_script_contains_no_absolute_path_of_a_machine(self, bundle):
        tokens = [
            word for line in script_of(bundle).splitlines()[1:] if not line.startswith("#") for word in line.split()
        ]
        assert {word for word in some(tokens) if word.startswith("/")} == set()

    def test_job_document_names_the_workdir_and_scratch_of_the_submission(self, bundle, plan):
        job = parse(bundle.file("job.json").text)
        assert (job.name, job.workdir, job.scratch) == (plan.name, "${SLURM_SUBMIT_DIR}/work", "${SLIPWAY_SCRATCH}")
        assert job.drain


class TestEnvironment:
    def test_nvidia_script_sets_the_efa_and_nccl_variables(self, bundle_of, plan_of):
        script = script_of(bundle_of(plan_of()))
        assert 'FI_EFA_USE_HUGE_PAGE="${FI_EFA_USE_HUGE_PAGE:-0}"' in script
        assert "^docker,lo,veth" in script
        for obsolete in (
            "RDMAV_FORK_SAFE",
            "FI_EFA_FORK_SAFE",
            "NCCL_PROTO",
            "FI_PROVIDER",
            "NCCL_MIN_CHANNELS",
            "NEURON",
        ):
            assert obsolete not in script

    def test_neuron_script_sets_the_efa_variables_and_none_of_nccl(self, bundle_of, plan_of):
        script = script_of(bundle_of(plan_of(target={"instance_type": "trn2.48xlarge"})))
        assert 'FI_PROVIDER="${FI_PROVIDER:-efa}"' in script
        assert "FI_EFA_USE_DEVICE_RDMA" in script
        for absent in ("NCCL", "FI_EFA_FORK_SAFE", "XLA_USE_BF16", "NEURON_COMPILE_CACHE_URL"):
            assert absent not in script

    def test_xla_script_keeps_compiled_programs_beside_the_checkpoints(self, bundle_of, plan_of):
        plan = plan_of(target={"instance_type": "trn1.32xlarge", "region": "us-west-2"})
        assert "compile_cache=s3://slipway-small-checkpoints/jobs/.compile-cache" in script_of(bundle_of(plan))

    @pytest.mark.parametrize("os_name, old", [("rhel8", True), ("ubuntu2404", False)])
    def test_fork_safety_is_set_for_an_old_kernel_only(self, bundle_of, plan_of, os_name, old):
        target = {"instance_type": "trn2.48xlarge", "os": os_name}
        assert ("FI_EFA_FORK_SAFE" in script_of(bundle_of(plan_of(target=target)))) is old

    @pytest.mark.parametrize("os_name, python", [("ubuntu2404", "python3"), ("alinux2023", "python3.11")])
    def test_interpreter_of_the_script_follows_the_operating_system(self, bundle_of, plan_of, os_name, python):
        script = script_of(bundle_of(plan_of(target={"os": os_name})))
        assert f'SLIPWAY_PYTHON="${{SLIPWAY_PYTHON:-{python}}}"' in script

    def test_time_limit_directives_are_present_only_for_a_plan_with_a_time_limit(self, bundle_of, plan_of):
        options = directives(script_of(bundle_of(plan_of(run={"time_limit_h": 30}, checkpoint={"grace_seconds": 60}))))
        assert (options["time"], options["signal"]) == ("1-06:00:00", "B:USR1@240")
        assert not {"time", "signal"} & directives(script_of(bundle_of(plan_of()))).keys()


CALLER = """
import argparse, http.client, json, sys
parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument('url')
parser.add_argument('service', choices=['secretsmanager'])
parser.add_argument('operation', choices=['get-secret-value'])
for name in ('region', 'secret-id', 'query', 'output'):
    parser.add_argument('--' + name, required=True)
parser.add_argument('--version-stage')
parser.add_argument('--version-id')
words = parser.parse_args()
assert (words.query, words.output) == ('SecretString', 'json')
which = dict(SecretId=words.secret_id, VersionStage=words.version_stage, VersionId=words.version_id)
scope = f'x/20261122/{words.region}/secretsmanager/aws4_request'
headers = {
    'Authorization': f'AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0',
    'Content-Type': 'application/x-amz-json-1.1',
    'X-Amz-Target': 'secretsmanager.GetSecretValue',
}
connection = http.client.HTTPConnection(words.url.removeprefix('http://'))
connection.request('POST', '/', json.dumps({name: text for name, text in which.items() if text}), headers)
answer = connection.getresponse()
text = answer.read().decode()
if answer.status != 200:
    sys.exit(text)
print(json.dumps(json.loads(text).get('SecretString')))
"""
"""The AWS CLI's call over HTTP: a start of boto3 is half a second of processor time."""


@pytest.fixture
def run_batch(tmp_path):
    """Run a script as on a node, with stand-ins for Slurm, the agent's interpreter and aws."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "job").mkdir()

    def program(name, body):
        path = tmp_path / "bin" / name
        path.write_text(f"#!/bin/bash\n{body}\n", encoding="utf-8")
        path.chmod(0o755)

    def start(script, *, nodes=1, agent="exit 0", programs=None, **environ):
        program(
            "agent-python",
            f'[[ "$1" != -c ]] || exec {sys.executable} "$@"\n'
            f'printf "%s\\n" "$@" >"$SLURM_SUBMIT_DIR/agent-words"; env >"$SLURM_SUBMIT_DIR/agent-env"; {agent}',
        )
        program("sleep", f"exec {SLEEP} 0.02")  # the script looks every half second whether the agent has ended
        for name, body in (programs or {}).items():
            program(name, body)
        variables = {
            "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
            "SLURM_SUBMIT_DIR": str(tmp_path / "job"),
            "SLURM_JOB_ID": "7",
            "SLURM_JOB_NUM_NODES": str(nodes),
            "SLURM_JOB_NODELIST": "a[1-2]",
            "SLIPWAY_PYTHON": "agent-python",
            "SLIPWAY_SANDBOX": "1",
            **environ,
        }
        answer = subprocess.run(
            [BASH, "-s"], input=script, env=variables, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        answer.environment = (  # type: ignore[attr-defined]
            dict(line.partition("=")[::2] for line in (tmp_path / "job/agent-env").read_text().splitlines())
            if (tmp_path / "job/agent-env").exists()
            else None
        )
        return answer

    start.job = tmp_path / "job"  # type: ignore[attr-defined]
    return start


@pytest.fixture
def one_node(bundle_of, plan_of):
    return lambda **extra: script_of(bundle_of(plan_of(**{"target": {"nodes": 1}, **extra})))


class TestRun:
    def test_agent_is_started_from_the_job_folder_with_the_job_configuration(self, run_batch, one_node):
        assert run_batch(one_node()).returncode == 0
        arguments = (run_batch.job / "agent-words").read_text().splitlines()
        assert arguments == [f"{run_batch.job}/slipway-agent.pyz", "run", "--config", f"{run_batch.job}/job.json"]

    @pytest.mark.parametrize("code", [0, 1, 75, 143])
    def test_batch_script_exit_code_is_the_exit_code_of_the_agent(self, run_batch, one_node, code):
        assert run_batch(one_node(), agent=f"exit {code}").returncode == code

    def test_variables_set_on_the_node_are_kept(self, run_batch, one_node):
        answer = run_batch(one_node(), NCCL_DEBUG="WARN", SLIPWAY_SCRATCH="/elsewhere")
        assert answer.environment["NCCL_DEBUG"] == "WARN"
        assert answer.environment["SLIPWAY_SCRATCH"] == "/elsewhere"

    @pytest.mark.parametrize("others", [{}, {"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-1"}])
    def test_region_of_the_plan_overrides_the_region_of_the_environment(self, run_batch, one_node, others):
        environment = run_batch(one_node(), **others).environment
        assert environment["AWS_REGION"] == environment["AWS_DEFAULT_REGION"] == "us-east-2"

    def test_efa_check_in_the_sandbox_is_skipped_with_a_message(self, run_batch, one_node, bundle_of, plan_of):
        programs = {"srun": 'shift 3; exec "$@"', "scontrol": SCONTROL}
        answer = run_batch(script_of(bundle_of(plan_of())), nodes=2, programs=programs)
        assert "sandbox: no EFA here, the check for 32 interfaces is skipped" in answer.stdout
        assert "EFA here" not in run_batch(one_node()).stdout

    def test_several_nodes_start_the_agent_on_each_through_srun(self, run_batch, bundle_of, plan_of):
        programs = {"srun": 'echo "srun $1 $2 $3" >>"$SLURM_SUBMIT_DIR/srun"; shift 3; exec "$@"', "scontrol": SCONTROL}
        answer = run_batch(script_of(bundle_of(plan_of())), nodes=2, agent="exit 75", programs=programs)
        assert answer.returncode == 75
        assert (run_batch.job / "srun").read_text() == "srun --nodes=2 --ntasks-per-node=1 --kill-on-bad-exit=0\n"

    def test_cancelled_batch_shell_waits_for_the_agent(self, run_batch, one_node):
        assert run_batch(one_node(), agent='kill -TERM "$PPID"; sleep 0.2; exit 143').returncode == 143

    def test_time_limit_signal_of_the_batch_shell_reaches_the_agent(self, run_batch, one_node):
        agent = 'trap "exit 75" USR1; echo $$ >agent.pid; kill -USR1 "$PPID"; for _ in {1..100}; do sleep 0.1; done'
        assert run_batch(one_node(), agent=agent).returncode == 75

    def test_time_limit_signal_reaches_the_agent_and_not_srun(self, run_batch, bundle_of, plan_of):
        """srun would hand the signal on to the ranks (seen with Slurm 22.05.8)."""
        agent = 'trap "exit 75" USR1; echo $$ >agent.pid; kill -USR1 "$BATCH"; for _ in {1..100}; do sleep 0.1; done'
        programs = {"srun": 'shift 3; trap "exit 3" USR1; BATCH="$PPID" "$@" & wait "$!"', "scontrol": SCONTROL}
        assert run_batch(script_of(bundle_of(plan_of())), nodes=2, agent=agent, programs=programs).returncode == 75

    def test_agent_exit_code_during_the_time_limit_signal_is_kept(self, run_batch, one_node):
        assert (
            run_batch(one_node(), agent='trap "" USR1; echo $$ >agent.pid; kill -USR1 "$PPID"; exit 3').returncode == 3
        )

    def test_secret_reaches_the_command_and_no_file(self, run_batch, bundle_of, plan_of, one_node):
        arn = "arn:aws:secretsmanager:us-east-2:123456789012:secret:hf-AbCdEf"
        script = one_node(run={"secrets": {"HF_TOKEN": arn}})
        answer = run_batch(script, programs={"aws": 'printf "%s " "$@" >"$SLURM_SUBMIT_DIR/aws"; echo \'"hidden"\''})
        assert answer.environment["HF_TOKEN"] == "hidden"
        assert f"--secret-id {arn} " in (run_batch.job / "aws").read_text()
        refused = run_batch(script, programs={"aws": "exit 255"})
        assert (refused.returncode, f"slipway: run.secrets.HF_TOKEN: {arn} was not read" in refused.stderr) == (
            255,
            True,
        )

    @pytest.mark.parametrize(
        "suffix, secret, expected",
        [
            (":KEY::", '{"KEY": "one", "OTHER": "two"}', ("one", "")),
            (":KEY", '{"KEY": "a b\\n$c"}', ("a b\n$c", "")),
            (":N:AWSPREVIOUS:", '{"N": 7}', ("7", "--version-stage AWSPREVIOUS ")),
            ("::AWSPREVIOUS:", "plain", ("plain", "--version-stage AWSPREVIOUS ")),
            (":K::abc-1", '{"K": {"a": [1]}}', ('{"a": [1]}', "--version-id abc-1 ")),
            ("", '{"KEY": "one"}', ('{"KEY": "one"}', "")),
            (
                "",
                "-----BEGIN KEY-----\nab\n-----END KEY-----\n\n",
                ("-----BEGIN KEY-----\nab\n-----END KEY-----\n\n", ""),
            ),
            (":KEY::", '{"KEY": "line\\n"}', ("line\n", "")),
        ],
    )
    def test_part_of_a_secret_reaches_the_command(self, run_batch, one_node, suffix, secret, expected):
        value, options = expected
        arn = "arn:aws:secretsmanager:us-east-2:123456789012:secret:team/hf-AbCdEf"
        script = one_node(run={"secrets": {"HF_TOKEN": arn + suffix}})
        (run_batch.job / "secret").write_text(json.dumps(secret) + "\n", encoding="utf-8")
        aws = 'printf "%s " "$@" >"$SLURM_SUBMIT_DIR/aws"; cat "$SLURM_SUBMIT_DIR/secret"'
        agent = 'printf %s "$HF_TOKEN" >"$SLURM_SUBMIT_DIR/token"'
        answer = run_batch(script, programs={"aws": aws}, agent=agent)
        assert (answer.returncode, (run_batch.job / "token").read_text()) == (0, value)
        assert f"--secret-id {arn} {options}--query" in (run_batch.job / "aws").read_text()
        named = "HF_TOKEN is the whole JSON text of a secret with the keys ['KEY']" in answer.stderr
        assert named is (suffix == "" and secret.startswith("{"))

    @pytest.mark.parametrize(
        "secret, reason",
        [('{"A": "1", "B": "2"}', "no key KEY in the secret; it has ['A', 'B']"), ("plain", "has no key KEY")],
    )
    def test_secret_without_the_requested_key_ends_the_job_and_names_the_existing_keys(
        self, run_batch, one_node, secret, reason
    ):
        arn = "arn:aws:secretsmanager:us-east-2:123456789012:secret:hf-AbCdEf:KEY::"
        answer = run_batch(one_node(run={"secrets": {"T": arn}}), programs={"aws": f"echo '{json.dumps(secret)}'"})
        assert answer.returncode == 1
        assert reason in answer.stderr
        assert "plain" not in answer.stderr

    def test_parts_of_secrets_are_read_from_secrets_manager(self, run_batch, one_node, monkeypatch):
        """The answers are those of moto 5.2.5; its caller takes the options of AWS CLI 1.45 that the script uses."""
        keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
        for name, value in keys.items():
            monkeypatch.setenv(name, value)
        with moto_server() as url:
            client = boto3.client("secretsmanager", region_name="us-east-2", endpoint_url=url)
            old = json.dumps({"KEY": "old", "N": 7, "L": [1, None]})
            arn = client.create_secret(Name="team/batch", SecretString=old)["ARN"]
            version = client.put_secret_value(SecretId=arn, SecretString='{"KEY": "new\\n模 $x"}')["VersionId"]
            plain = client.create_secret(Name="none", SecretString="None")["ARN"]
            binary = client.create_secret(Name="batch-binary", SecretBinary=b"None")["ARN"]
            references = {
                "CURRENT": (f"{arn}:KEY::", "new\n模 $x"),
                "PREVIOUS": (f"{arn}:KEY:AWSPREVIOUS:", "old"),
                "NUMBER": (f"{arn}:N:AWSPREVIOUS:", "7"),
                "LIST": (f"{arn}:L:AWSPREVIOUS:", "[1, null]"),
                "VERSION": (f"{arn}:KEY::{version}", "new\n模 $x"),
                "WHOLE": (f"{arn}::AWSPREVIOUS:", old),
                "PLAIN": (plain, "None"),
            }
            aws = f'exec {sys.executable} -I -c "{CALLER}" "{url}" "$@"'
            lines = [f'printf %s "${name}" >"$SLURM_SUBMIT_DIR/is-{name}"' for name in references]
            script = one_node(run={"secrets": {name: text for name, (text, _) in references.items()}})
            answer = run_batch(script, programs={"aws": aws}, agent="; ".join(lines), **keys)
            assert answer.returncode == 0, answer.stderr
            for name, (_, expected) in references.items():
                assert (run_batch.job / f"is-{name}").read_text(encoding="utf-8") == expected
            for text, reason in {
                binary: "slipway: run.secrets.A: the secret is binary",
                f"{arn}:N::": "no key N in the secret; it has ['KEY']",
                f"{arn}:KEY:AWSPENDING:": "ResourceNotFoundException",
                f"{arn[:-6]}abcdef": "ResourceNotFoundException",
            }.items():
                answer = run_batch(one_node(run={"secrets": {"A": text}}), programs={"aws": aws}, **keys)
                assert (answer.returncode != 0, reason in answer.stderr) == (True, True), answer.stderr

    def test_ssm_parameter_is_accepted_as_a_secret(self, run_batch, one_node):
        script = one_node(run={"secrets": {"KEY": "arn:aws:ssm:us-east-2:123456789012:parameter/key"}})
        aws = '[[ "$1 $2" == "ssm get-parameter" ]] && printf "value\\n\\n"'  # the AWS CLI ends a text with a line end
        run_batch(script, programs={"aws": aws}, agent='printf %s "$KEY" >"$SLURM_SUBMIT_DIR/key"')
        assert (run_batch.job / "key").read_text() == "value\n"
        refused = run_batch(script, programs={"aws": "exit 254"})
        assert (refused.returncode, "slipway: run.secrets.KEY: arn:aws:ssm:" in refused.stderr) == (254, True)


class TestRetries:
    def test_failure_is_requeued_as_often_as_run_retries_allows(self, run_batch, one_node):
        script = one_node(run={"retries": 2})
        assert [run_batch(script, agent="exit 3").returncode for _ in range(3)] == [75, 75, 3]

    def test_failure_without_a_newer_checkpoint_is_not_requeued(self, run_batch, one_node):
        """Two failures without a newer checkpoint between them, whatever the number of retries."""
        script = one_node(run={"retries": 9})
        assert run_batch(script, agent="exit 3").returncode == 75
        last = run_batch(script, agent="echo 'no newer checkpoint' >not-tried-again; exit 3")
        assert (last.returncode, "failed with 3; no newer checkpoint" in last.stdout) == (3, True)

    def test_interruption_does_not_count_as_a_retry(self, run_batch, one_node):
        script = one_node(run={"retries": 1})
        assert [run_batch(script, agent=f"exit {code}").returncode for code in (75, 75, 3, 75, 3)] == [
            75,
            75,
            75,
            75,
            3,
        ]

    @pytest.mark.parametrize("code", [78, 79, 126, 127, 143])
    def test_permanent_exit_code_is_not_requeued(self, run_batch, one_node, code):
        assert run_batch(one_node(run={"retries": 1}), agent=f"exit {code}").returncode == code

    def test_failure_without_retries_is_final(self, run_batch, one_node):
        assert run_batch(one_node(), agent="exit 3").returncode == 3


class TestJob:
    def job_of(self, bundle_of, plan_of, **extra):
        return parse(bundle_of(plan_of(**extra)).file("job.json").text)

    def test_checkpoints_go_to_the_store_of_the_cluster_or_to_the_uri_of_the_plan(self, bundle_of, plan_of):
        assert self.job_of(bundle_of, plan_of).checkpoint.uri == "s3://slipway-small-checkpoints/jobs/small"
        named = self.job_of(bundle_of, plan_of, checkpoint={"uri": "s3://weights/runs/"})
        assert named.checkpoint.uri == "s3://weights/runs"

    def test_checkpoint_policy_of_the_job_is_the_policy_of_the_plan(self, bundle_of, plan_of):
        policy = {"keep": 5, "grace_seconds": 20, "max_mb_s": 100}
        checkpoint = self.job_of(bundle_of, plan_of, checkpoint=policy).checkpoint
        assert (
            checkpoint.mode,
            checkpoint.keep,
            checkpoint.grace_seconds,
            checkpoint.max_mb_s,
            checkpoint.interval_s,
        ) == ("agent", 5, 20, 100, 600)

    def test_job_without_checkpoints_has_no_checkpoint_uri(self, bundle_of, plan_of):
        checkpoint = self.job_of(bundle_of, plan_of, checkpoint={"mode": "none"}).checkpoint
        assert (checkpoint.mode, checkpoint.uri) == ("none", None)

    def test_dcp_checkpoint_mode_gives_the_trainer_the_s3_uri(self, bundle_of, plan_of):
        checkpoint = self.job_of(bundle_of, plan_of, checkpoint={"mode": "dcp"}).checkpoint
        assert (checkpoint.mode, checkpoint.uri) == ("dcp", "s3://slipway-small-checkpoints/jobs/small")

    def test_setup_lines_run_in_the_shell_of_the_command(self, bundle_of, plan_of, tmp_path):
        run = {"setup": ["export GREETING=hello", "cd /"], "command": ["printenv", "GREETING"]}
        job = self.job_of(bundle_of, plan_of, run=run)
        assert subprocess.run(job.command, capture_output=True, text=True, check=True).stdout == "hello\n"
        failing = self.job_of(bundle_of, plan_of, run={**run, "setup": ["false"]})
        assert subprocess.run(failing.command, check=False).returncode == 1

    def test_submission_settings_reach_the_job_document(self, bundle_of, plan_of):
        job = JobSettings(run="r2", checkpoint_interval_s=None, drain=False, imds_poll_s=0.2)
        spec = parse(bundle_of(plan_of(), job).file("job.json").text)
        assert (spec.run, spec.drain, spec.imds_poll_s) == ("r2", False, 0.2)

    def test_submission_with_an_mtbf_sets_the_checkpoint_interval_from_the_write_time(self, bundle_of, plan_of):
        job = JobSettings(run="r2", checkpoint_interval_s=300.0, mtbf_s=7200.0)
        checkpoint = parse(bundle_of(plan_of(), job).file("job.json").text).checkpoint
        assert (checkpoint.interval_s, checkpoint.mtbf_s) == (300.0, 7200.0)

    def test_hung_minutes_of_the_guardrails_reach_the_job(self, bundle_of, plan_of):
        assert self.job_of(bundle_of, plan_of, guardrails={"hung_minutes": 12}).hung_minutes == 12
        assert self.job_of(bundle_of, plan_of, guardrails={"hung_minutes": 0}).hung_minutes is None

    def test_capacity_block_end_is_given_to_the_job(self, bundle_of, plan_of):
        reservation = {"id": "cr-0123456789abcdef0", "ends_at": "2026-12-04T11:30:00Z"}
        spec = self.job_of(bundle_of, plan_of, purchase={"option": "capacity-block", "reservation": reservation})
        assert spec.leaves_at() == datetime(2026, 12, 4, 10, 45, tzinfo=UTC)

    def test_on_demand_reservation_end_is_not_given_to_the_job(self, bundle_of, plan_of):
        reservation = {"id": "cr-0123456789abcdef0", "ends_at": "2026-12-04T11:30:00Z"}
        spec = self.job_of(bundle_of, plan_of, purchase={"option": "on-demand", "reservation": reservation})
        assert spec.ends_at is None

    @pytest.mark.parametrize(
        "run, path",
        [
            ({"image": "--privileged"}, "run.image"),
            ({"image": "team/trainer:1", "container": "none"}, "run.container"),
            ({"container": "docker"}, "run.image"),
        ],
    )
    def test_impossible_container_settings_are_refused_with_the_plan_key(self, bundle_of, plan_of, run, path):
        with pytest.raises(ImpossibleError) as refusal:
            bundle_of(plan_of(run=run))
        assert [finding.path for finding in refusal.value.findings] == [path]

    def test_arn_of_another_service_as_a_secret_is_refused(self, bundle_of, plan_of):
        with pytest.raises(ImpossibleError) as refusal:
            bundle_of(plan_of(run={"secrets": {"A": "arn:aws:s3:::bucket"}}))
        assert [finding.path for finding in refusal.value.findings] == ["run.secrets.A"]


class TestInjection:
    @settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
    @given(command=st.lists(TEXT | AWKWARD, max_size=3), value=TEXT | AWKWARD)
    def test_command_words_reach_the_agent_without_a_shell(self, bundle_of, plan_of, command, value):
        command = ["program", *command]
        bundle = bundle_of(plan_of(run={"command": command, "env": {"VALUE": value}, "plain_env": ["VALUE"]}))
        job = parse(bundle.file("job.json").text)
        assert (list(job.command), job.env) == (command, {"VALUE": value})
        assert script_of(bundle) == script_of(bundle_of(plan_of()))

    @pytest.mark.long
    @settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
    @given(key=(TEXT | AWKWARD).filter(lambda text: text and not {"\n", ":"} & {*text} and "${" not in text))
    def test_key_of_a_secret_is_never_executed(self, run_batch, one_node, key):
        arn = "arn:aws:secretsmanager:us-east-2:123456789012:secret:a-AbCdEf"
        script = one_node(run={"secrets": {"TOKEN": f"{arn}:{key}::"}})
        (run_batch.job / "secret").write_text(json.dumps(json.dumps({key: "found", "other": "x"})), encoding="utf-8")
        answer = run_batch(script, programs={"aws": 'cat "$SLURM_SUBMIT_DIR/secret"'})
        assert (answer.returncode, answer.environment["TOKEN"]) == (0, "found")
        assert not (run_batch.job / "injected").exists()
