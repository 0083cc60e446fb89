"""Finding the ranks of a command: real process trees of several launchers."""

import os
import signal
import subprocess
import sys
import time

import pytest

from launcher.agent.node.process_table import RANK_VARIABLES, Process, find_processes, send
from launcher.agent.node.ranks import ranks

CATCHES = "import os, signal, sys, time\nsignal.signal(signal.{}, lambda *_: None)\n"
WORK = "print(os.getpid(), flush=True)\ntime.sleep(60)\n"


@pytest.fixture
def process_tree(tmp_path):
    """Starts a command and waits until as many of its processes as it has ranks have said their number."""
    started = []

    def start(*command, count=1, environment=None):
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            start_new_session=True,
            env=os.environ | (environment or {}),
        )
        started.append(process)
        return process.pid, sorted(int(process.stdout.readline()) for _ in range(count))

    yield start
    for process in started:
        send(find_processes(process.pid, {}), signal.SIGKILL)
        process.wait()
        process.stdout.close()


def write(folder, name, text):
    (folder / name).write_text(text)
    return str(folder / name)


def ranks_below(root, marks=None):
    return ranks(find_processes(root, marks or {}), root)


def test_rank_of_a_script_has_the_program_and_the_caught_signals(process_tree, tmp_path):
    script = write(tmp_path, "train.py", CATCHES.format("SIGUSR1") + WORK)
    root, pids = process_tree(sys.executable, script)
    (rank,) = ranks_below(root)
    assert [rank.pid] == pids
    assert (rank.program, {signal.SIGUSR1, signal.SIGTERM} & rank.caught) == ("train.py", {signal.SIGUSR1})


def test_rank_below_a_shell_beside_a_monitor_is_found(process_tree, tmp_path):
    script = write(tmp_path, "train.py", CATCHES.format("SIGTERM") + WORK)
    root, pids = process_tree(
        "bash", "-c", f"trap true EXIT; sleep 50 & {sys.executable} {script} > >(tee log.txt); true"
    )
    assert [rank.pid for rank in ranks_below(root)] == pids


def test_working_shell_script_is_the_rank(process_tree):
    root, pids = process_tree("sh", "-c", "trap : USR1; echo $$; while :; do sleep 0.2; done")
    (rank,) = ranks_below(root)
    assert [rank.pid] == pids
    assert signal.SIGUSR1 in rank.caught


def test_data_workers_and_children_of_a_rank_are_no_ranks(process_tree, tmp_path):
    text = CATCHES.format("SIGUSR1") + (
        "import multiprocessing, subprocess\n"
        "if __name__ == '__main__':\n"
        "    for method in ('fork', 'spawn'):\n"
        "        multiprocessing.get_context(method).Process(target=time.sleep, args=(60,)).start()\n"
        "    subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "    print(os.getpid(), flush=True)\n"
        "    time.sleep(60)\n"
    )
    root, pids = process_tree(sys.executable, write(tmp_path, "train.py", text))
    assert [rank.pid for rank in ranks_below(root)] == pids


LAUNCHER = """
import os, subprocess, sys
for rank in range(int(sys.argv[1]), int(sys.argv[2])):
    environment = os.environ | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    subprocess.Popen(["bash", "-c", f"{sys.executable} train.py; true"], env=environment, start_new_session=True)
if sys.argv[1] == "1":
    print(os.getpid(), flush=True)
import time
time.sleep(60)
"""


def test_ranks_in_separate_sessions_are_found_below_any_launcher(process_tree, tmp_path):
    write(tmp_path, "train.py", CATCHES.format("SIGTERM") + WORK)
    # A pod of an operator has RANK in its own environment, which is the pod's number.
    root, pids = process_tree(
        sys.executable, write(tmp_path, "start.py", LAUNCHER), "0", "3", count=3, environment={"RANK": "1"}
    )
    assert [rank.pid for rank in ranks_below(root)] == pids
    assert all(signal.SIGTERM in rank.caught for rank in ranks_below(root))


def test_trainer_starting_the_other_ranks_is_the_first_rank(process_tree, tmp_path):
    """As Lightning does: lightning/fabric/strategies/launchers/subprocess_script.py, ranks 1 and up."""
    write(tmp_path, "train.py", CATCHES.format("SIGTERM") + WORK)
    main = write(tmp_path, "main.py", "import signal\nsignal.signal(signal.SIGTERM, lambda *_: None)\n" + LAUNCHER)
    root, pids = process_tree(sys.executable, main, "1", "3", count=3)
    assert root in pids
    assert [rank.pid for rank in ranks_below(root)] == pids


def test_ranks_in_a_container_are_found_by_the_job_variables(process_tree, tmp_path):
    """The client that runs as the command has no process below it: the daemon starts them."""
    script = write(tmp_path, "train.py", CATCHES.format("SIGUSR1") + WORK)
    marks = {"SLIPWAY_RUN": "r1", "SLIPWAY_CHECKPOINT_DIR": str(tmp_path)}
    client = f"import subprocess, time; subprocess.run(['setsid', '--fork', {sys.executable!r}, {script!r}])\n"
    write(tmp_path, "docker", client + "time.sleep(60)")
    root, pids = process_tree(sys.executable, str(tmp_path / "docker"), environment=marks)
    try:
        assert [rank.pid for rank in ranks_below(root, marks)] == pids
        assert ranks_below(root, marks | {"SLIPWAY_RUN": "r2"}) == ()
        assert ranks_below(root) == ()
    finally:
        os.kill(pids[0], signal.SIGKILL)


MONITOR = "bash -c 'while true; do date; sleep 5; done' >/dev/null"
WRAPPER = "import subprocess, sys\nsys.exit(subprocess.call([sys.executable, *sys.argv[1:]]))\n"
USR1, TERM = "signal.signal(signal.SIGUSR1, lambda *_: None)", "signal.signal(signal.SIGTERM, lambda *_: None)"


@pytest.mark.parametrize("number", ["SIGUSR1", "SIGTERM"])
@pytest.mark.parametrize(
    "line",
    [
        f"{MONITOR} & python train.py; kill %1",
        "python -m http.server 0 >/dev/null 2>&1 & python train.py; true",
        "python gpu_stats.py & python train.py; true",
        "python launch.py train.py",
        "python launch.py launch.py train.py",
        f"{MONITOR} & python launch.py train.py; true",
        "python launch.py train.py & python -c 'import time; time.sleep(60)'",
        "trap 'kill -9 0' EXIT; bash -c 'python train.py; true' & wait",
        "timeout 60 python train.py 2>&1 | tee log; true",
        "nice -n 1 env A=b bash -c 'make -s train'",
        "setsid --fork python launch.py train.py; sleep 60",
    ],
)
def test_ranks_trainer_beside_and_below_deaf_programs_is_the_only_one(process_tree, tmp_path, line, number):
    write(tmp_path, "train.py", CATCHES.format(number) + WORK)
    write(tmp_path, "gpu_stats.py", "import time\nwhile True:\n    time.sleep(1)\n")
    write(tmp_path, "launch.py", WRAPPER)
    write(tmp_path, "Makefile", "train:\n\tpython train.py; true\n")
    marks = {"SLIPWAY_RUN": f"{line} {number}"}
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"  # noqa: PTH120
    root, pids = process_tree("bash", "-c", line, environment=marks | {"PATH": path})
    try:
        assert [rank.pid for rank in ranks_below(root, marks)] == pids
    finally:
        send(find_processes(root, marks), signal.SIGKILL)


def test_wrapper_catching_sigterm_above_a_trainer_is_no_rank(process_tree, tmp_path):
    """As a sweep's agent: it catches SIGTERM for itself, and its run catches SIGUSR1."""
    write(tmp_path, "train.py", CATCHES.format("SIGUSR1") + WORK)
    agent = write(tmp_path, "agent.py", f"import signal\n{TERM}\n{WRAPPER}")
    root, pids = process_tree(sys.executable, agent, "train.py")
    assert [rank.pid for rank in ranks_below(root)] == pids


CATCHING = CATCHES.format("SIGTERM")
BUSY = f"{CATCHING}sum(range(20_000_000))\n"


@pytest.mark.parametrize("wrapper_signal", ["SIGTERM", "SIGUSR1"])
def test_trainer_below_a_waiting_wrapper_is_the_rank(process_tree, tmp_path, wrapper_signal):
    write(tmp_path, "train.py", BUSY + WORK)
    wrapper = write(tmp_path, "wrapper.py", CATCHES.format(wrapper_signal) + WRAPPER)
    root, pids = process_tree(sys.executable, wrapper, "train.py")
    assert [rank.pid for rank in ranks_below(root)] == pids != [root]


@pytest.mark.parametrize("trainer_signal", ["SIGTERM", "SIGUSR1"])
def test_trainer_above_a_server_is_the_rank(process_tree, tmp_path, trainer_signal):
    write(tmp_path, "server.py", CATCHING + WORK)
    trainer = write(tmp_path, "train.py", CATCHES.format(trainer_signal) + BUSY.removeprefix(CATCHING) + WRAPPER)
    root, _ = process_tree(sys.executable, trainer, "server.py")
    assert [rank.pid for rank in ranks_below(root)] == [root]


# Prints the shell's pid itself: before its exec it is a copy of the shell, with its handlers.
DEAF = "import os, time; print(os.getppid(), flush=True); time.sleep(60)"


def test_shell_with_a_sigusr1_trap_above_a_deaf_trainer_is_the_rank(process_tree):
    line = f"trap 'touch stop' USR1; {sys.executable} -c '{DEAF}' & wait"
    root, pids = process_tree("bash", "-c", line)
    assert [rank.pid for rank in ranks_below(root)] == pids == [root]


def test_ranks_shell_with_an_exit_trap_above_a_deaf_trainer_is_not_asked(process_tree):
    """For it, bash catches every signal that would end it."""
    line = f"trap 'rm -f x' EXIT; {sys.executable} -c '{DEAF}' & wait"
    root, _ = process_tree("bash", "-c", line)
    (rank,) = ranks_below(root)
    assert (rank.program, rank.caught & {signal.SIGUSR1, signal.SIGTERM}) == (os.path.basename(sys.executable), set())  # noqa: PTH119


def test_forked_workers_catching_sigusr1_are_the_ranks(process_tree, tmp_path):
    text = f"""import os, signal, time
for _ in range(2):
    if os.fork() == 0:
        {USR1}
        {WORK.splitlines()[0]}
        time.sleep(60)
time.sleep(60)
"""
    root, pids = process_tree(sys.executable, write(tmp_path, "train.py", text), count=2)
    assert [rank.pid for rank in ranks_below(root)] == pids


def test_forked_data_workers_catching_sigterm_are_no_ranks(process_tree, tmp_path):
    """As PyTorch's: their handler only says why they ended."""
    text = f"import os, signal, time\nif os.fork() == 0:\n    {TERM}\n    {WORK.splitlines()[0]}\ntime.sleep(60)\n"
    root, _ = process_tree(sys.executable, write(tmp_path, "train.py", text))
    (rank,) = ranks_below(root)
    assert (rank.pid, signal.SIGTERM in rank.caught) == (root, False)


def process(pid, parent, *arguments, rank=None, local=None, caught=(), chip=False):
    given = {"RANK": rank, "LOCAL_RANK": local}
    return Process(
        pid=pid,
        parent=parent,
        started=0,
        arguments=arguments,
        rank=tuple(given.get(n) for n in RANK_VARIABLES),
        caught=frozenset(caught),
        has_chip=chip,
    )


GO = range(1, 65)
BOTH = (signal.SIGUSR1, signal.SIGTERM)


@pytest.mark.parametrize(
    "processes,pids",
    [
        (  # a server that catches both beside a trainer that computes
            [
                process(1, 0, "bash", "run.sh"),
                process(2, 1, "python", "server.py", caught=BOTH),
                process(3, 1, "python", "train.py", caught=[signal.SIGTERM], chip=True),
                process(4, 3, "python", "train.py", caught=[signal.SIGTERM], chip=True),
            ],
            [3],
        ),
        (  # a trainer that catches nothing is no launcher of what it started
            [
                process(1, 0, "python", "train.py", chip=True),
                process(2, 1, "wandb-core", caught=GO),
                process(3, 1, "python", "-m", "dashboard", caught=BOTH),
            ],
            [1],
        ),
        (  # the handlers of an interpreter are not those of its program
            [
                process(1, 0, "npm run train", caught=BOTH),
                process(2, 1, "sh", "-c", "python train.py"),
                process(3, 2, "python", "train.py", caught=[signal.SIGTERM]),
            ],
            [3],
        ),
        (
            [
                process(1, 0, "bash", "run.sh"),
                process(2, 1, "/opt/node 24/bin/node", "dashboard.js", caught=BOTH),
                process(3, 1, "python", "train.py", caught=[signal.SIGTERM]),
            ],
            [3],
        ),
        (
            [
                process(1, 0, "java", "-jar", "flow.jar", caught=[signal.SIGTERM]),
                process(2, 1, "bash", "step.sh"),
                process(3, 2, "python", "train.py", caught=[signal.SIGTERM]),
            ],
            [3],
        ),
        ([process(1, 0, "bash", "run.sh"), process(2, 1, "node", "train.js", caught=BOTH)], [2]),
        ([process(1, 0, "ruby", "sweep.rb", caught=BOTH), process(2, 1, "python", "train.py")], [2]),
        (  # spawned ranks compute, and their parent stops them
            [
                process(1, 0, "python", "train.py", caught=[signal.SIGUSR1]),
                process(2, 1, "python", "-c", "from multiprocessing.spawn import spawn_main", chip=True),
                process(3, 1, "python", "-c", "from multiprocessing.spawn import spawn_main", chip=True),
            ],
            [1],
        ),
        (
            [
                process(1, 0, "python", "train.py"),
                process(2, 1, "python", "-c", "from multiprocessing.spawn import spawn_main", caught=BOTH, chip=True),
                process(3, 1, "python", "-c", "from multiprocessing.spawn import spawn_main", caught=BOTH, chip=True),
            ],
            [2, 3],
        ),
        (  # what a trainer starts inherits the rank that the trainer has set for itself
            [
                process(1, 0, "python", "train.py", caught=BOTH, chip=True),
                process(2, 1, "python", "-m", "torch._inductor.compile_worker", rank="0", local="0"),
                process(3, 1, "python", "serve.py", rank="0", local="0", caught=BOTH),
            ],
            [1],
        ),
        (  # only the first rank has a handler
            [
                process(1, 0, "torchrun", "train.py", caught=BOTH),
                process(2, 1, "python", "train.py", rank="0", local="0", caught=BOTH),
                process(3, 1, "python", "train.py", rank="1", local="1"),
            ],
            [2],
        ),
        (  # the launcher of ranks without handlers stops them itself, torchrun ends them
            [
                process(1, 0, "python", "start.py", caught=[signal.SIGUSR1]),
                process(2, 1, "python", "train.py", rank="0", local="0"),
            ],
            [1],
        ),
        (
            [
                process(1, 0, "torchrun", "train.py", caught=BOTH),
                process(2, 1, "python", "train.py", rank="0", local="0"),
            ],
            [2],
        ),
        (  # an exporter in Go beside a trainer that catches SIGTERM alone
            [
                process(1, 0, "bash", "run.sh"),
                process(2, 1, "node_exporter", caught=GO),
                process(3, 1, "python", "train.py", caught=[signal.SIGTERM]),
            ],
            [3],
        ),
        (  # a monitor on the node, the trainer in a container that the daemon started
            [
                process(1, 0, "bash", "run.sh"),
                process(2, 1, "bash", "monitor.sh"),
                process(3, 1, "docker", "run", "image", caught=GO),
                process(8, 7, "docker-init", "--", "bash"),
                process(9, 8, "python", "train.py", caught=BOTH),
            ],
            [9],
        ),
    ],
)
def test_ranks_are_found_by_program_and_signals(processes, pids):
    assert [rank.pid for rank in ranks(processes, 1)] == pids


@pytest.mark.parametrize(
    "processes,pids",
    [
        ([process(1, 0, "python", "/usr/bin/torchrun", "train.py")], []),
        ([process(1, 0, "python3.12", "-u", "-m", "torch.distributed.run", "train.py")], []),
        (
            [
                process(1, 0, "llamafactory-cli", "train", "x.yaml"),
                process(2, 1, "llamafactory-cli", "train", "x.yaml"),
            ],
            [1],
        ),
        ([process(1, 0, "llamafactory-cli", "train"), process(2, 1, "/usr/bin/python3", "torchrun", "x.py")], []),
        (
            [
                process(1, 0, "axolotl", "train"),
                process(2, 1, "python", "/venv/bin/accelerate", "launch"),
                process(3, 2, "python", "-m", "axolotl.cli.train"),
            ],
            [3],
        ),
        ([process(1, 0, "bash", "-c", "x"), process(2, 1, "python", "grpo.py"), process(3, 9, "raylet", "--x")], []),
        (
            [
                process(1, 0, "mpirun", "-n", "2"),
                process(2, 1, "bash", "-c", "torchrun", rank="0"),
                process(3, 2, "python", "torchrun", rank="0"),
                process(4, 3, "python", "train.py", rank="0", local="0"),
                process(5, 3, "python", "train.py", rank="1", local="1"),
            ],
            [4, 5],
        ),
    ],
    ids=["torchrun alone", "its module", "in process", "a launcher's", "through two", "Ray", "two launchers"],
)
def test_ranks_are_found_below_known_launchers(processes, pids):
    assert [rank.pid for rank in ranks(processes, 1)] == pids


def test_ended_rank_does_not_live(process_tree, tmp_path):
    root, _ = process_tree("sh", "-c", "echo $$; exec sleep 60")
    (rank,) = ranks_below(root)
    assert rank.lives()
    os.kill(root, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while rank.lives() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not rank.lives()
