"""The plan's command: its arguments and variables arrive byte for byte, bare and in a container.

The batch script, the agent and the container's script are the real ones. What they start is a stand-in: srun, Docker
and enroot, which begin with an empty environment as the real ones do, and a trainer that writes down what it was given.
"""

import json
import os
import shutil
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher.agent.job import parse
from tests.plans import ROOT

BASH = shutil.which("bash")
SECRET = "arn:aws:secretsmanager:us-east-2:123456789012:secret:key-AbCdEf"
SHELLS_OWN = {
    "_",
    "BASHOPTS",
    "BASHPID",
    "BASH_ARGC",
    "EUID",
    "GROUPS",
    "OLDPWD",
    "PPID",
    "PWD",
    "SHELLOPTS",
    "SHLVL",
    "UID",
}

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
AWKWARD = st.sampled_from(
    [
        *("$(touch injected)", "`touch injected`", "'; touch injected; '", '"; touch injected; "', "&& touch injected"),
        *(
            "",
            " ",
            "--",
            "-x",
            "*",
            "~",
            "!!",
            "#",
            "%s",
            "a=b",
            "\\",
            "${HOME}",
            "$'\\n'",
            "a\nb\n",
            "\r",
            "é\x80\u2028",
        ),
    ]
)
WORDS = st.lists(TEXT | AWKWARD, max_size=4)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: name.upper() not in SHELLS_OWN and not name.upper().startswith(("BASH", "SLIPWAY", "SLURM", "OUT"))
) | st.sampled_from(["PYTHONPATH", "HOME", "LD_LIBRARY_PATH_2", "HTTP_PROXY", "LC_ALL", "XDG_DATA_HOME"])
VARIABLES = st.dictionaries(NAMES.filter(lambda name: name != "PATH"), TEXT | AWKWARD, max_size=4)

TRAINER = 'printf "%s\\0" "$@" >"$OUT/words"; env -0 >"$OUT/environment"; pwd >"$OUT/folder"'
PROGRAMS = {
    "trainer": TRAINER,
    "agent-python": f'''[[ "$1" != -c ]] || exec {sys.executable} "$@"
export PYTHONPATH={ROOT}; unset PYTHONHOME; exec {sys.executable} -m launcher.agent "${{@:2}}"''',
    "srun": 'shift 3; exec "$@"',
    "scontrol": 'case "$2" in hostnames) echo a1; echo a2;; node) echo "NodeName=a1 NodeAddr=127.0.0.1 X=y";; esac',
    "aws": 'printf "%s\\0" "$@" >>"$OUT/aws"; cat "$OUT/secret" 2>/dev/null || echo token',
    "docker": """
printf '%s\\0' "$@" >>"$OUT/docker"
if [[ "$1" == login ]]; then cat >"$OUT/login"; fi
if [[ "$1" == run ]]; then
    while [[ "$1" != team/* && "$1" != *.amazonaws.com/* ]]; do shift; done
    shift
    exec env -i PATH="$PATH" HOME=/inside FROM_IMAGE=1 bash "$@"
fi
""",
    "enroot": """
printf '%s\\0' "$@" >>"$OUT/enroot"
case "$1" in
    import) touch "$3" ;;
    create) [[ -f "$4" ]] ;;
    start)
        while [[ "$1" != slipway-* ]]; do shift; done
        shift
        cd /
        exec env -i PATH="$PATH" HOME=/inside FROM_IMAGE=1 "$@"
        ;;
esac
""",
}


@pytest.fixture
def render(bundle_of, plan_of):
    """The bundle of BASE with more keys laid over it."""
    return lambda **extra: bundle_of(plan_of(**extra))


@pytest.fixture
def node_folder(tmp_path):
    """A node with the programs above, and no others of their names."""
    for name in ("bin", "job/work", "out", "scratch"):
        (tmp_path / name).mkdir(parents=True)
    for name, body in PROGRAMS.items():
        path = tmp_path / "bin" / name
        path.write_text(f"#!/bin/bash\n{body}\n", encoding="utf-8")
        path.chmod(0o755)
    return tmp_path


def environment_of(node, **more):
    return {
        "PATH": f"{node / 'bin'}:/usr/bin:/bin",
        "HOME": "/outside",
        "OUT": str(node / "out"),
        "SLURM_SUBMIT_DIR": str(node / "job"),
        "SLURM_JOB_ID": "12",
        "SLURM_JOB_NODELIST": "a[1-2]",
        "SLIPWAY_SANDBOX": "1",
        "SLIPWAY_PYTHON": "agent-python",
        "SLIPWAY_SCRATCH": str(node / "scratch"),
        "AWS_EC2_METADATA_DISABLED": "true",
        **more,
    }


def start(node, bundle, nodes=1):
    """Run a bundle's batch script as Slurm does."""
    for path in (node / "out").iterdir():
        if path.name != "secret":
            path.unlink()
    (node / "job" / "job.json").write_text(bundle.file("job.json").text, encoding="utf-8")
    return subprocess.run(
        [BASH, "-s"],
        input=bundle.file("job.sbatch").text,
        env=environment_of(node, SLURM_JOB_NUM_NODES=str(nodes)),
        cwd=node,
        capture_output=True,
        text=True,
        check=False,
    )


def run_command(node, bundle):
    """Start the command of a bundle's job as the agent does, without the agent: quicker."""
    job = parse(bundle.file("job.json").text)
    answer = subprocess.run(
        job.command,
        env=environment_of(node, **job.env),
        cwd=node / "job" / "work",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr


def given_to_the_trainer(node):
    """Its words, its environment and its folder, as bytes."""
    arguments = (node / "out" / "words").read_bytes().split(b"\0")[:-1]
    entries = (node / "out" / "environment").read_bytes().split(b"\0")[:-1]
    return arguments, dict(entry.split(b"=", 1) for entry in entries)


def as_bytes(value):
    if isinstance(value, dict):
        return {name.encode(): text.encode() for name, text in value.items()}
    return [word.encode() for word in value]


def holds(environment, variables):
    return {name: environment.get(name) for name in variables} == variables


def nothing_was_injected(node):
    return not list(node.rglob("injected"))


IMAGES = {
    "bare": {},
    "docker": {"image": "team/trainer:1", "container": "docker"},
    "enroot": {"image": "team/trainer:1"},
}
IMAGE_KINDS = pytest.mark.parametrize("image", sorted(IMAGES))
quick = settings(
    max_examples=settings().max_examples * 15 // 100,  # a process each: 7, in make test-all 45
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


class TestTheCommandItself:
    @pytest.mark.long
    @IMAGE_KINDS
    @quick
    @given(words=WORDS, variables=VARIABLES)
    def test_command_words_and_variables_reach_the_trainer_unchanged(
        self, image, node_folder, render, words, variables
    ):
        run = {"command": ["trainer", *words], "env": variables, "plain_env": [*variables], **IMAGES[image]}
        run_command(node_folder, render(run=run))
        arguments, environment = given_to_the_trainer(node_folder)
        if words:
            assert arguments == as_bytes(words)
        assert holds(environment, as_bytes(variables))
        assert nothing_was_injected(node_folder)

    @IMAGE_KINDS
    def test_setup_lines_run_before_the_command_in_the_same_shell(self, image, node_folder, render):
        run = {"command": ["trainer", "a b"], "setup": ["cd ..", "export A='x y'", "false || true"], **IMAGES[image]}
        run_command(node_folder, render(run=run))
        arguments, environment = given_to_the_trainer(node_folder)
        assert (arguments, environment[b"A"]) == ([b"a b"], b"x y")
        assert (node_folder / "out" / "folder").read_text() == f"{node_folder / 'job'}\n"

    @IMAGE_KINDS
    def test_exit_code_of_the_command_is_passed_on(self, image, node_folder, render):
        job = parse(render(run={"command": ["bash", "-c", "exit 7"], **IMAGES[image]}).file("job.json").text)
        answer = subprocess.run(job.command, env=environment_of(node_folder), cwd=node_folder / "job/work", check=False)
        assert answer.returncode == 7


class TestCommandFromScriptToTrainer:
    @pytest.mark.long
    @pytest.mark.parametrize(
        "image,nodes",
        [
            *(("bare", 1), ("docker", 2), ("enroot", 2)),
            # What the number of nodes changes is before the command; the random test has one node with Docker.
            *(pytest.param(*case, marks=pytest.mark.slow) for case in (("bare", 2), ("docker", 1), ("enroot", 1))),
        ],
    )
    def test_words_variables_and_secrets_pass_from_batch_script_to_trainer_unchanged(
        self, image, nodes, node_folder, render
    ):
        trainer_arguments, variables = (
            ["a'b", "$(touch injected)", "c\nd", "é"],
            {"A": "`touch injected`", "PYTHONPATH": "x\ny"},
        )
        run = {
            "command": ["trainer", *trainer_arguments],
            "env": variables,
            "plain_env": [*variables],
            "secrets": {"TOKEN": SECRET},
            **IMAGES[image],
        }
        bundle = render(target={"nodes": nodes}, run=run, checkpoint={"mode": "none"})
        (node_folder / "out" / "secret").write_text(json.dumps("s3cr$t `touch injected` 'ü"), encoding="utf-8")
        answer = start(node_folder, bundle, nodes)
        assert answer.returncode == 0, answer.stderr
        arguments, environment = given_to_the_trainer(node_folder)
        assert arguments == as_bytes(trainer_arguments)
        assert holds(environment, as_bytes(variables))
        assert environment[b"TOKEN"].decode() == "s3cr$t `touch injected` 'ü"
        assert environment[b"PET_RDZV_ID"] == b"12.0"
        assert environment[b"SLIPWAY_RUN"] == b"20261120T120000Z"
        assert environment[b"AWS_REGION"] == b"us-east-2"
        assert (node_folder / "out" / "folder").read_text() == f"{node_folder / 'job/work'}\n"
        assert nothing_was_injected(node_folder)
        written = [
            path for path in node_folder.rglob("*") if path.is_file() and path.name not in {"secret", "environment"}
        ]
        assert [path for path in written if b"s3cr$t" in path.read_bytes()] == []

    @pytest.mark.long
    @settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
    @given(words=WORDS, variables=VARIABLES, secret=TEXT | AWKWARD)
    def test_random_words_variables_and_secrets_reach_the_trainer_unchanged(
        self, node_folder, render, words, variables, secret
    ):
        variables = {name: text for name, text in variables.items() if name not in {"TOKEN", "PYTHONPATH", "HOME"}}
        run = {"command": ["trainer", *words], "env": variables, "plain_env": [*variables], **IMAGES["docker"]}
        run["secrets"] = {"TOKEN": SECRET}
        bundle = render(target={"nodes": 1}, run=run, checkpoint={"mode": "none"})
        (node_folder / "out" / "secret").write_text(json.dumps(secret), encoding="utf-8")
        answer = start(node_folder, bundle)
        assert answer.returncode == 0, answer.stderr
        arguments, environment = given_to_the_trainer(node_folder)
        assert arguments == as_bytes(words) or not words
        assert holds(environment, as_bytes(variables))
        assert environment[b"TOKEN"] == secret.encode()
        assert nothing_was_injected(node_folder)


class TestContainers:
    def words_of(self, node, program):
        return (node / "out" / program).read_text().split("\0")[:-1]

    def test_docker_run_has_network_shared_memory_and_folder_options(self, node_folder, render):
        run_command(node_folder, render(run={"command": ["trainer"], **IMAGES["docker"]}))
        arguments = self.words_of(node_folder, "docker")
        assert arguments[:3] == ["rm", "--force", f"slipway-{os.getuid()}"]
        options = arguments[3 : arguments.index("team/trainer:1")]
        for pair in (("--network", "host"), ("--ipc", "host"), ("--ulimit", "memlock=-1"), ("--entrypoint", "bash")):
            assert options[options.index(pair[0]) + 1] == pair[1]
        assert {"--rm", "--interactive", "--init"} <= set(options)
        assert options[options.index("--user") + 1] == f"{os.getuid()}:{os.getgid()}"
        assert {f"{node_folder / name}:{node_folder / name}" for name in ("job", "scratch")} <= set(options)

    def test_container_keeps_image_variables_and_gets_none_of_the_node(self, node_folder, render):
        for runtime in ("docker", "enroot"):
            run_command(node_folder, render(run={"command": ["trainer"], **IMAGES[runtime]}))
            environment = given_to_the_trainer(node_folder)[1]
            assert (environment[b"HOME"], environment[b"FROM_IMAGE"]) == (b"/inside", b"1")
            assert not [name for name in environment if name.startswith(b"ENROOT_")]

    def test_enroot_imports_an_image_once_per_node(self, node_folder, render):
        bundle = render(run={"command": ["trainer"], **IMAGES["enroot"]})
        run_command(node_folder, bundle)
        run_command(node_folder, bundle)
        arguments = self.words_of(node_folder, "enroot")
        assert arguments.count("import") == 1
        assert arguments[arguments.index("import") + 3] == "docker://team/trainer:1"
        assert arguments.count("create") == arguments.count("start") == 2

    @pytest.mark.parametrize(
        "image, uri",
        [
            ("nvcr.io/nvidia/pytorch:25.10-py3", "docker://nvcr.io#nvidia/pytorch:25.10-py3"),
            ("localhost:5000/trainer:1", "docker://localhost:5000#trainer:1"),
            ("ubuntu:24.04", "docker://ubuntu:24.04"),
            ("team/trainer@sha256:0abc", "docker://team/trainer:sha256:0abc"),
        ],
    )
    def test_enroot_import_uri_separates_registry_and_image_by_a_hash_sign(self, node_folder, render, image, uri):
        run_command(node_folder, render(run={"command": ["trainer"], "image": image}))
        arguments = self.words_of(node_folder, "enroot")
        assert arguments[arguments.index("import") + 3] == uri

    def test_squashfs_image_is_created_without_a_registry(self, node_folder, render):
        image = node_folder / "trainer.sqsh"
        image.touch()
        run_command(node_folder, render(run={"command": ["trainer"], "image": str(image)}))
        arguments = self.words_of(node_folder, "enroot")
        assert "import" not in arguments
        assert arguments[arguments.index("create") + 3] == str(image)

    def test_ecr_password_is_fetched_at_run_time_and_not_stored(self, node_folder, render):
        image = "123456789012.dkr.ecr.us-west-2.amazonaws.com/team/trainer:1"
        run_command(node_folder, render(run={"command": ["trainer"], "image": image, "container": "docker"}))
        arguments = self.words_of(node_folder, "docker")
        assert arguments[:5] == ["login", "--username", "AWS", "--password-stdin", image.partition("/")[0]]
        assert (node_folder / "out" / "login").read_text() == "token\n"
        assert "us-west-2" in (node_folder / "out" / "aws").read_text()
        run_command(node_folder, render(run={"command": ["trainer"], "image": image}))
        (credentials,) = node_folder.rglob(".credentials")
        assert credentials.read_text() == (
            f"machine {image.partition('/')[0]} login AWS password $(aws ecr get-login-password --region us-west-2)\n"
        )

    def test_missing_container_runtime_ends_with_127_and_is_named(self, node_folder, render):
        (node_folder / "bin" / "enroot").unlink()
        bundle = render(run={"command": ["trainer"], **IMAGES["enroot"]}, checkpoint={"mode": "none"})
        answer = start(node_folder, bundle, 2)
        assert answer.returncode == 127
        assert "run.container: enroot is not on this node" in answer.stderr

    def test_container_script_passes_shellcheck(self, shellcheck):
        assert shellcheck(ROOT / "templates" / "slurm" / "container.sh") == ""
