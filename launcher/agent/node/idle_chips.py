"""Chips of this node that no process has used in the first minutes of a command: they are paid, and named once.

A GPU is in use when memory of it is allocated: a CUDA context alone takes more than `CONTEXT_MIB`. This is seen from
inside and outside of containers, and whoever's the process is. A Neuron device is in use while its file is open; that
is seen only for processes of this user, so nothing is said unless one of the devices is seen in use.
"""

import contextlib
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

from launcher.agent.events import EventLog

CONTEXT_MIB = 128
QUERY_S = 20.0
_EVERY_S = 30.0
AFTER_S = 600.0
_ROW = re.compile(r"\s*(\d+)\s*,\s*(\d+)\s*")


class IdleChips:
    """Looks at the chips now and then, in a thread of its own: a driver may take its time to answer."""

    def __init__(
        self, log: EventLog, *, after_s: float = AFTER_S, devices: Path = Path("/dev"), every_s: float = _EVERY_S
    ) -> None:
        self._log = log
        self._after_s, self._every_s = after_s, every_s
        self._devices = devices
        self._over = threading.Event()

    def start(self) -> None:
        """Begin to look."""
        threading.Thread(target=self.watch, name="idle-chips", daemon=True).start()

    def stop(self) -> None:
        """End the watch: the command has ended."""
        self._over.set()

    def watch(self) -> None:
        """Report chips that no process has used for the whole time of the watch."""
        used: dict[int, bool] = {}
        checks = max(1, int(self._after_s / self._every_s))
        for _ in range(checks):
            if self._over.wait(self._every_s):
                return
            for chip, busy in chips_in_use(self._devices).items():
                used[chip] = used.get(chip, False) or busy
            if used and all(used.values()):
                return
        idle = sorted(chip for chip, busy in used.items() if not busy)
        if idle:
            minutes = self._after_s / 60
            reason = f"{_number_runs(idle)} of {len(used)} were used by no process in the first {minutes:g} minutes"
            self._log.append("chips-idle", chips=idle, of=len(used), reason=f"chips {reason}")


def chips_in_use(devices: Path) -> Mapping[int, bool]:
    """The chips of this node by their number, and whether a process uses them now; empty if that cannot be told."""
    neuron = {int(path.name[6:]): False for path in devices.glob("neuron*") if path.name[6:].isdecimal()}
    if not neuron:
        return _gpus()
    for number in _open_devices(devices):
        neuron[number] = True
    return neuron if any(neuron.values()) else {}


def gpu_rows(*fields: str) -> list[str]:
    """What nvidia-smi says of these fields, a line for each GPU without units; empty if it does not answer."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    command = [program, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=QUERY_S, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []


def _gpus() -> Mapping[int, bool]:
    rows = [_ROW.fullmatch(line) for line in gpu_rows("index", "memory.used")]
    if not all(rows):
        return {}  # a card that has failed answers with words
    return {int(row[1]): int(row[2]) > CONTEXT_MIB for row in rows if row is not None}


def _open_devices(devices: Path) -> set[int]:
    """The numbers of the Neuron devices that processes of this user have open."""
    device = re.compile(rf"{re.escape(str(devices))}/neuron(\d+)")
    found: set[int] = set()
    for folder in Path("/proc").glob("[0-9]*/fd"):
        # Another user's process, or one that ends meanwhile.
        with contextlib.suppress(OSError):
            for descriptor in os.listdir(folder):  # noqa: PTH208 - of thousands
                with contextlib.suppress(FileNotFoundError):
                    match = device.fullmatch(os.readlink(folder / descriptor))  # noqa: PTH115
                    found |= set() if match is None else {int(match[1])}
    return found


def _number_runs(chips: list[int]) -> str:
    """Numbers in words, runs of them by their ends.

    >>> _number_runs([1, 2, 3, 7]), _number_runs([0])
    ('1 to 3, 7', '0')
    """
    runs: list[list[int]] = []
    for chip in chips:
        if runs and chip == runs[-1][-1] + 1:
            runs[-1].append(chip)
        else:
            runs.append([chip])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)  # noqa: PLR2004
