"""The keeper of a sandbox: it waits until the server has ended, then ends remaining processes and removes the folder.

`python -m launcher.sandbox.keeper MARK PATH...` reads its standard input, a pipe whose other end only the server holds.
The pipe closes when the server ends, also by SIGKILL.
"""

import shutil
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

from launcher.model.emulator import MARK
from launcher.sandbox.processes import end, holding, marked_processes, with_descendants


def clean_up(mark: str, paths: list[Path]) -> None:
    """Wait for the end of standard input, end the sandbox's processes, and remove the paths."""
    sys.stdin.buffer.read()
    end(lambda: with_descendants(marked_processes(MARK, mark) | holding(daemon_logs(paths))))
    remove(paths)


def daemon_logs(paths: Iterable[Path]) -> set[Path]:
    """The logs of Slurm's daemons below the folders; a slurmstepd, which shows no mark, has its slurmd's open."""
    return {log.resolve() for path in paths for log in path.glob("*/log/*.log")}


def remove(paths: Iterable[Path]) -> None:
    """Remove folders and links; missing ones are ignored."""
    for path in paths:
        if path.is_symlink():
            path.unlink(missing_ok=True)
        else:
            shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    clean_up(sys.argv[1], [Path(word) for word in sys.argv[2:]])
