"""Finding the ranks of a command: real process trees of several launchers."""

import os
import signal
import subprocess
import sys
import time

import pytest

from launcher.agent.node.shutdown import RANK_VARIABLES, Process, find_processes, ranks, send

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


def test_a_script_and_what_it_catches(process_tree, tmp_path):
    script = write(tmp_path, "train.py", CATCHES.format("SIGUSR1") + WORK)
    root, pids = process_tree(sys.executable, script)
    (rank,) = ranks_below(root)
    assert [rank.pid] == pids
    assert (rank.program, {signal.SIGUSR1, signal.SIGTERM} & rank.caught) == ("train.py", {signal.SIGUSR1})


def test_below_a_shell_beside_a_monitor(process_tree, tmp_path):
    script = write(tmp_path, "train.py", CATCHES.format("SIGTERM") + WORK)
    root, pids = process_tree(
        "bash", "-c", f"trap true EXIT; sleep 50 & {sys.executable} {script} > >(tee log.txt); true"
    )
    assert [rank.pid for rank in ranks_below(root)] == pids


def test_a_script_of_the_shell_that_does_the_work(process_tree):
    root, pids = process_tree("sh", "-c", "trap : USR1; echo $$; while :; do sleep 0.2; done")
    (rank,) = ranks_below(root)
    assert [rank.pid] == pids
    assert signal.SIGUSR1 in rank.caught


def test_data_workers_and_what_a_rank_starts_are_none(process_tree, tmp_path):
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


def test_ranks_in_sessions_of_their_own_below_any_launcher(process_tree, tmp_path):
    write(tmp_path, "train.py", CATCHES.format("SIGTERM") + WORK)
    # A pod of an operator has RANK in its own environment, which is the pod's number.
    root, pids = process_tree(
        sys.executable, write(tmp_path, "start.py", LAUNCHER), "0", "3", count=3, environment={"RANK": "1"}
    )
    assert [rank.pid for rank in ranks_below(root)] == pids
    assert all(signal.SIGTERM in rank.caught for rank in ranks_below(root))


def test_a_trainer_that_starts_the_other_ranks_is_the_first_one(process_tree, tmp_path):
    """As Lightning does: lightning/fabric/strategies/launchers/subprocess_script.py, ranks 1 and up."""
    write(tmp_path, "train.py", CATCHES.format("SIGTERM") + WORK)
    root, pids = process_tree(sys.executable, write(tmp_path, "main.py", LAUNCHER), "1", "3", count=3)
    assert root in pids
    assert [rank.pid for rank in ranks_below(root)] == pids


def test_in_a_container_they_are_found_by_the_variables_of_the_job(process_tree, tmp_path):
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


def process(pid, parent, *arguments, rank=None, local=None):
    given = {"RANK": rank, "LOCAL_RANK": local}
    return Process(
        pid=pid, parent=parent, started=0, arguments=arguments, rank=tuple(given.get(n) for n in RANK_VARIABLES)
    )


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
def test_what_launchers_make(processes, pids):
    assert [rank.pid for rank in ranks(processes, 1)] == pids


def test_one_that_has_ended_is_not_another_of_its_number(process_tree, tmp_path):
    root, _ = process_tree("sh", "-c", "echo $$; exec sleep 60")
    (rank,) = ranks_below(root)
    assert rank.lives()
    os.kill(root, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while rank.lives() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not rank.lives()
